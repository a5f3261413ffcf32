"""Tests for a loss alone, beside the sequential test: far beyond all scatter, or kept without the worst units. Pure.

The sequential test takes the scatter of the units as it finds it. So it needs a few of them, and one that is far worse
than the others makes the mean of all uncertain. Two tests stand beside it, for the bad side only:

Far beyond: with the losses of n units as logarithms, none counted as more than what one unit alone needs, and the
largest scatter s of a unit where nothing differs, z = (mean - margin) * sqrt(n) / (s * sqrt(3)). sqrt(3) is the
widening for neighbours that are correlated by 0.5. A loss is known where z exceeds the boundary of the look, that of a
known variance: the chance is 0.001 in all, as in the sequential test. One unit needs a factor of 15, two need 7, four
4; of pairs of clusters, but for latencies, one needs 5.5, two 3.4, four 2.4.

All but the worst: the sequential test of the units without the worst quarter of them, where enough are left, at a tenth
of its error.

Counting less of a unit, and leaving out the worst, moves the mean towards no loss. Where nothing differs the two add at
most 2 false reds to 10,000 of the sequential test's own (10,000 comparisons a line, judged at all looks, of 5, 9 and 20
units that scatter by 30 or 50 % and are correlated by 0.5; independent units scattering by 5 and 30 %, normal or by
Student's t of 3 degrees of freedom, are red in 0.03 % at most). 20 times slower, with a scatter of e (standard
deviation of the logarithm: 1), 4, 5 and 8 units are red in 99.88, 100 and 100 %, with heavy tails (the same t) in 99.3,
99.7 and 100 %; the sequential test alone finds 4, 7 and 51 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from perfgate.judge.compare.sequential import (
    CORRELATION,
    ERROR,
    INTERVAL_ERROR,
    PLAIN,
    Estimate,
    Looks,
    Rule,
    boundaries,
    estimate,
    looks_until,
)
from perfgate.judge.compare.units import fewest_units
from perfgate.model import Comparison, MetricInfo

LARGEST_SCATTER = 0.5
"""Of a burst or a block, where nothing differs: more than the largest standard deviation among 39 comparisons by turns,
0.243 of a rate, 0.309 of the brokers' CPU per record, 0.254 of the clients', 0.305 of the p99
(benchmarks/results/compare_quality.jsonl). A median latency scattered by 0.579 once; the unit farthest off was off by
1.71, where one alone has to be by 2.7."""
LARGEST_OF_PAIRS = 0.31
"""The same of pairs of clusters, but for latencies: among 21 comparisons 0.069 of a rate, 0.086 of CPU, and of single
bursts, which are left of a pair that was cut off, 0.206."""
WIDENING = math.sqrt((1 + CORRELATION) / (1 - CORRELATION))
WORST, OF_THE_ERROR = 4, 0.1
"""One in so many units is left out, and what is left is tested at so much of the error: what scatters least was chosen.
At all of it 1.3 in 1,000 more were red of nine units that are correlated by 0.5."""
FEWEST_OF_LATENCIES = 2
"""One burst in which brokers stood still for half a second has 100 times the p99, and is no change of it."""
ROUNDED = 1 - 1e-9
"""A unit that counts as exactly what one needs is enough."""


def loss_known(
    logs: Sequence[float],
    metric: MetricInfo,
    margin: float,
    comparison: Comparison,
    red: Callable[[Estimate], bool],
    *,
    final: bool,
    rule: Rule = PLAIN,
) -> bool:
    """Return whether these units' logarithms (one or more) show a loss of more than `margin`, a logarithm.

    `red`: what the sequential test says of the estimate that enough units give.
    """
    needed = fewest_units(comparison, [metric.name])
    planned, former = comparison.planned_units, comparison.former_plans

    def looks(units: int) -> Looks:
        return looks_until(units, max(units, planned), last=final, fewest=needed, former=former)

    losses = [-metric.sign * log for log in logs]
    # Of whole rounds, and of a pair of clusters, a unit is the mean of several windows.
    alone = "latency_ms." in metric.name and comparison.method == "turns" and len(logs) < FEWEST_OF_LATENCIES
    if not alone and far_beyond(losses, largest_scatter(comparison, metric), margin, looks(len(logs)), rule.share):
        return True
    recorded = comparison.recorded_of(metric.name)
    without, strict = without_worst(logs, metric.sign), replace(rule, share=rule.share * OF_THE_ERROR)
    return any(
        len(tested) >= needed and red(estimate(tested, looks(len(tested)), by, recorded))
        for tested, by in ((logs, rule), (without, strict))
    )


def far_beyond(losses: Sequence[float], scatter: float, margin: float, looks: Looks, share: float = 1.0) -> bool:
    """Return whether these units' losses, logarithms, lie farther beyond the margin than such scatter makes them."""
    most = margin - NormalDist().inv_cdf(share * ERROR) * WIDENING * scatter
    counted = [min(loss, most) for loss in losses]
    error = scatter * WIDENING / math.sqrt(len(counted))
    return float(np.mean(counted)) - margin >= boundaries(looks, share * ERROR)[-1] * error * ROUNDED


def without_worst(logs: Sequence[float], sign: int) -> tuple[float, ...]:
    """Return the units, in their order, without the worst quarter of them. `sign`: 1 where more is better, else -1."""
    left_out = set(sorted(range(len(logs)), key=lambda index: sign * logs[index])[: len(logs) // WORST])
    return tuple(log for index, log in enumerate(logs) if index not in left_out)


def wide_interval(logs: Sequence[float], scatter: float) -> tuple[float, float]:
    """Return the 95 % interval of the mean of units that may be few: by this scatter, or their own."""
    own = float(np.std(logs, ddof=1)) if len(logs) > 1 else 0.0
    error = max(scatter, own) * WIDENING / math.sqrt(len(logs))
    reach, mean = -NormalDist().inv_cdf(INTERVAL_ERROR) * error, float(np.mean(logs))
    return mean - reach, mean + reach


def largest_scatter(comparison: Comparison, metric: MetricInfo) -> float:
    """Return the largest standard deviation of a unit's logarithm that is reckoned with where nothing differs."""
    of_pairs = comparison.method == "pairs" and "latency_ms." not in metric.name
    return LARGEST_OF_PAIRS if of_pairs else LARGEST_SCATTER
