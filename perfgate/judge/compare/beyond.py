"""Tests for a loss alone, beside the sequential test: far beyond all scatter, or kept without the worst units. Pure.

The sequential test takes the scatter of the units as it finds it. So it needs a few of them, and one that is far worse
than the others makes the mean of all uncertain. Two tests stand beside it, for the bad side only:

Far beyond: with the losses of n units as logarithms, none counted as more than what one unit alone needs, and the
largest scatter s that was ever seen of a unit, z = (mean - margin) * sqrt(n) / (s * sqrt(3)). sqrt(3) is the widening
for neighbours that are correlated by 0.5. A loss is known where z exceeds the boundary of the look, that of a known
variance: the chance is 0.001 in all, as in the sequential test. One unit of a rate needs a factor of 5.5, two need 3.4
and four 2.4; of a latency 15, 7 and 4.

All but the worst: the sequential test of the units without the worst quarter of them, where enough are left.

Counting less of a unit, and leaving out the worst, moves the mean towards no loss. Where nothing differs (200,000 draws
of 1 to 20 units) "far beyond" is red in 0.00 % at a scatter of 30 %, normal or by Student's t of 3 degrees of freedom,
and in 0.01 % where neighbours are correlated by 0.5; units of a rate that scatter by 40 or 50 % and are correlated as
much as that make it 0.2 and 1.1 %. "All but the worst" adds less than 0.1 % to the sequential test (1,500 draws of each
of nine kinds of units). 20 times slower with a scatter of e (standard deviation of the logarithm: 1), 4 to 8 units are
red in 99.9 % (50,000 draws), which the sequential test alone finds in 2 to 52 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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

LARGEST_SCATTER = 0.31
"""Of a unit, where nothing differs: the largest standard deviation among 63 comparisons was 0.243 of a rate, 0.309 of
the brokers' CPU per record, 0.254 of the clients' (benchmarks/results/compare_quality.jsonl; bursts of batch-1k)."""
LARGEST_OF_LATENCIES = 0.5
"""The same of a latency: 0.305 of the p99; 0.579 of a median, of which the unit farthest off was off by 1.71, where one
alone has to be by 2.7."""
WIDENING = math.sqrt((1 + CORRELATION) / (1 - CORRELATION))
WORST = 4
"""One in so many units is left out."""
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

    if far_beyond([-metric.sign * log for log in logs], metric, margin, looks(len(logs)), rule.share):
        return True
    recorded = comparison.recorded_of(metric.name)
    for tested in {tuple(logs), without_worst(logs, metric.sign)}:
        if len(tested) >= needed and red(estimate(tested, looks(len(tested)), rule, recorded)):
            return True
    return False


def far_beyond(losses: Sequence[float], metric: MetricInfo, margin: float, looks: Looks, share: float = 1.0) -> bool:
    """Return whether these units' losses, logarithms, lie so far beyond the margin that no scatter made them so."""
    most = margin - NormalDist().inv_cdf(share * ERROR) * WIDENING * largest_scatter(metric)
    counted = [min(loss, most) for loss in losses]
    error = largest_scatter(metric) * WIDENING / math.sqrt(len(counted))
    return float(np.mean(counted)) - margin >= boundaries(looks, share * ERROR)[-1] * error * ROUNDED


def without_worst(logs: Sequence[float], sign: int) -> tuple[float, ...]:
    """Return the units, in their order, without the worst quarter of them. `sign`: 1 where more is better, else -1."""
    left_out = set(sorted(range(len(logs)), key=lambda index: sign * logs[index])[: len(logs) // WORST])
    return tuple(log for index, log in enumerate(logs) if index not in left_out)


def wide_interval(logs: Sequence[float], metric: MetricInfo) -> tuple[float, float]:
    """Return the 95 % interval of the mean of units that may be few: by the largest scatter seen, or their own."""
    own = float(np.std(logs, ddof=1)) if len(logs) > 1 else 0.0
    error = max(largest_scatter(metric), own) * WIDENING / math.sqrt(len(logs))
    reach, mean = -NormalDist().inv_cdf(INTERVAL_ERROR) * error, float(np.mean(logs))
    return mean - reach, mean + reach


def largest_scatter(metric: MetricInfo) -> float:
    """Return the largest standard deviation of a unit's logarithm that was seen where nothing differed."""
    return LARGEST_OF_LATENCIES if "latency_ms." in metric.name else LARGEST_SCATTER
