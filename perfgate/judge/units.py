"""Units of a comparison: their logarithms, and the loss that remains without flawed rounds and doubts. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, fmean

import numpy as np

from perfgate.judge.claims.more_hosts import RATES, RECEIVED, SENT
from perfgate.judge.doubts import words
from perfgate.judge.paths import path_doubts
from perfgate.judge.phrases import joined
from perfgate.judge.rounds import had_less_beside
from perfgate.judge.scatter import BETWEEN, BETWEEN_OF_LATENCIES, FEWEST_PARTS, Known, Parts
from perfgate.judge.sequential import (
    CORRELATION,
    ERROR,
    FEWEST_BESIDE_KNOWN,
    FEWEST_UNITS,
    INTERVAL_ERROR,
    Estimate,
    Looks,
    Rule,
    boundaries,
    estimate,
    looks_until,
)
from perfgate.judge.statistics import share_of
from perfgate.judge.warming import compile_doubts
from perfgate.model import Comparison, MetricEffect, MetricInfo, Round
from perfgate.model.compared import SATURATED
from perfgate.model.flaw import Doubt, excused, explained


def unit_logs(comparison: Comparison, metric: str) -> tuple[float, ...]:
    """The logarithm of candidate over baseline of each whole unit; empty when a round lacks the metric."""
    return tuple(fmean(parts) for parts in part_logs(comparison, metric))


def part_logs(comparison: Comparison, metric: str) -> tuple[tuple[float, ...], ...]:
    """The same of each round of a whole unit, a tuple a unit."""
    size, count = comparison.rounds_per_unit, whole_units(comparison)
    before, after = ([r.metrics.get(metric, 0.0) for r in side.rounds[: size * count]] for side in comparison.sides)
    if not all(value > 0 for value in (*before, *after)):
        return ()
    logs = np.log(after) - np.log(before)
    return tuple(tuple(map(float, unit)) for unit in logs.reshape(count, size))


def whole_units(comparison: Comparison) -> int:
    return min(len(comparison.baseline.rounds), len(comparison.candidate.rounds)) // comparison.rounds_per_unit


def pairs_per_unit(comparison: Comparison) -> int:
    return len(comparison.orders[0].replace(" ", "")) // 2 if comparison.orders else comparison.rounds_per_unit


def fewest_units(comparison: Comparison, metrics: Sequence[str]) -> int:
    """The number of units that a decision by these metrics needs: fewer where more is known of the scatter of all."""
    known = metrics and all(scatter_is_known(comparison, name) for name in metrics)
    return FEWEST_BESIDE_KNOWN if known else FEWEST_UNITS


UNKNOWN_BETWEEN = ("broker_rss_mib.", "broker_disk_", "client_cpu_")
"""What clusters of the same kind differ by in these is not known, or was more: 0.079 of the client's CPU per record."""


def scatter_is_known(comparison: Comparison, metric: str) -> bool:
    """Whether more will be known of the scatter between units than they show themselves."""
    shown = comparison.rounds_per_unit >= FEWEST_PARTS and not metric.startswith(UNKNOWN_BETWEEN)
    return comparison.method == "pairs" and (comparison.recorded_of(metric) is not None or shown)


def known_scatter(comparison: Comparison, metric: str, parts: Sequence[tuple[float, ...]]) -> Known | None:
    """What is known of the scatter between pairs besides their own: recorded pairs, else what their `parts` show."""
    if not scatter_is_known(comparison, metric):
        return None
    if recorded := comparison.recorded_of(metric):
        return recorded
    between = BETWEEN_OF_LATENCIES if "latency_ms." in metric else BETWEEN
    return Parts(tuple(parts), between) if any(len(logs) > 1 for logs in parts) else None


LARGEST_SCATTER = 0.5
"""Of a burst or a block, where nothing differs: more than the largest standard deviation among 39 comparisons by turns,
0.309 (benchmarks/results/compare_quality.jsonl). A median latency scattered by 0.579 once; the unit farthest off was
off by 1.71, where a single unit has to be by 2.7."""
LARGEST_OF_PAIRS = 0.31
"""The same of pairs of clusters, except latencies: among 21 comparisons 0.069 of a rate, 0.086 of CPU, and 0.206 of
single bursts, as of a pair that was cut off."""
WIDENING = math.sqrt((1 + CORRELATION) / (1 - CORRELATION))
"""For neighbours that are correlated: the square root of 3."""
WORST, OF_THE_ERROR = 4, 0.1
"""One of WORST units is left out, and the rest is tested at this share of the error, since the units that scatter least
were chosen. At all of it 1.3 in 1,000 more were red of nine units that are correlated by 0.5."""
END, FEWEST_WITH_ENDS = 5, 20
"""Of this many units of a latency, or more, one of END at either end is winsorized."""
FEWEST_OF_LATENCIES = 2
"""One burst, or round, in which brokers stood still for half a second has 100 times the p99: no change of it."""
HELD_BACK_BY = ("load", "brokers")
ROUNDED = 1 - 1e-9
"""A loss of exactly what a single unit needs is enough."""


def known_loss(
    units: SoundUnits,
    comparison: Comparison,
    margin: float,
    red: Callable[[Estimate], bool],
    *,
    final: bool,
    rule: Rule,
) -> SoundUnits | None:
    """The units, with the estimate to show, where they show a loss of more than `margin`, a logarithm.

    `red`: the sequential test of the estimate that enough units give. A single unit far off the others, to either side,
    makes it uncertain. So three more tests for a loss alone are made: :func:`far_beyond`, and at a tenth of its error
    the sequential test without the worst quarter, and of a latency's winsorized units (:func:`winsorized`).

    The first two move the mean towards no loss. Where nothing differs they add at most 2 false reds to 10,000 (10,000
    comparisons a line, judged at all looks, of 5, 9 and 20 units that scatter by 30 or 50 % and are correlated by 0.5;
    independent units scattering by 5 and 30 %, normal or by Student's t of 3 degrees of freedom: red in 0.03 % at
    most). 20 times slower, with a scatter of e, 4, 5 and 8 units are red in 99.88, 100 and 100 %, with heavy tails (the
    same t) in 99.3, 99.7 and 100 %; the sequential test alone finds 4, 7 and 51 %.
    """
    logs, metric = units.explained, units.metric
    if not logs:
        return None
    known = known_scatter(comparison, metric.name, units.parts)
    needed = FEWEST_BESIDE_KNOWN if known else FEWEST_UNITS
    planned, former = comparison.planned_units, comparison.former_plans

    def looks(count: int) -> Looks:
        return looks_until(count, max(count, planned), last=final, fewest=needed, former=former)

    losses = [-metric.sign * log for log in logs]
    # Of a pair of clusters a unit is the mean of several windows.
    windows = math.inf if comparison.method == "pairs" else len(logs) * comparison.rounds_per_unit
    of_latency = "latency_ms." in metric.name
    alone = of_latency and windows < FEWEST_OF_LATENCIES
    if not alone and far_beyond(losses, units.scatter, margin, looks(len(logs)), rule.share):
        return units
    without, strict = without_worst(logs, metric.sign), replace(rule, share=rule.share * OF_THE_ERROR)
    for tested, by in ((logs, rule), (without, strict)):
        if len(tested) >= needed:
            latest = estimate(tested, looks(len(tested)), by, known)
            if latest.suffices and red(latest):
                return units
    if known or not of_latency or len(logs) < FEWEST_WITH_ENDS:
        return None
    middle = winsorized(logs, looks(len(logs)), strict)
    return replace(units, middle=middle) if red(middle) else None


def winsorized(logs: Sequence[float], looks: Looks, rule: Rule) -> Estimate:
    """The estimate of the units' winsorized mean: those at either end count as the next inwards.

    With g of n units changed at either end, its error is that of a mean of the changed units times
    (n - 1) / (n - 2 g - 1), by Student's t (Dixon and Tukey, Technometrics 10, 1968). Where nothing differs it is zero,
    as the mean is. Then 0.15 of 1,000 more are red of 20 or 30 independent units, 0.2 of units that are correlated by
    0.3, and 0.85 by 0.5 (benchmarks/unit_errors.py; fewer units: up to 2.3). Whole rounds were by -0.19 to 0.20.
    """
    count, ordered = len(logs), sorted(logs)
    end = count // END
    low, high = ordered[end], ordered[-1 - end]
    middle = estimate([min(max(log, low), high) for log in logs], looks, rule)
    wider = (count - 1) / (count - 2 * end - 1)
    reach = wider * (middle.interval[1] - middle.mean)
    return replace(middle, error=wider * middle.error, interval=(middle.mean - reach, middle.mean + reach))


def far_beyond(losses: Sequence[float], scatter: float, margin: float, looks: Looks, share: float) -> bool:
    """Whether these units' losses, logarithms, lie farther beyond the margin than such scatter makes them.

    With n losses, none counted as more than a single unit needs, and the largest scatter s of a unit where nothing
    differs, z = (mean - margin) * sqrt(n) / (s * WIDENING) must exceed the boundary of the look for a known variance:
    the chance is 0.001 in all, as in the sequential test. One unit needs a factor of 15, two need 7, four 4; of pairs
    of clusters, except latencies, one unit needs 5.5, two 3.4, four 2.4.
    """
    most = margin - NormalDist().inv_cdf(share * ERROR) * WIDENING * scatter
    counted = [min(loss, most) for loss in losses]
    error = scatter * WIDENING / math.sqrt(len(counted))
    return float(np.mean(counted)) - margin >= boundaries(looks, share * ERROR)[-1] * error * ROUNDED


def without_worst(logs: Sequence[float], sign: int) -> tuple[float, ...]:
    """The units, in their order, without the worst quarter. `sign`: 1 where more is better, else -1."""
    left_out = set(sorted(range(len(logs)), key=lambda index: sign * logs[index])[: len(logs) // WORST])
    return tuple(log for index, log in enumerate(logs) if index not in left_out)


def metric_effect(metric: MetricInfo, estimate: Estimate) -> MetricEffect:
    low, high = estimate.interval
    if estimate.error:
        from scipy import stats  # takes 0.7 s, and only a comparison needs it

        p_value = 2 * float(stats.t.sf(abs(estimate.mean) / estimate.error, estimate.freedom))
    else:
        p_value = 0.0 if estimate.mean else 1.0
    return MetricEffect(
        metric=metric,
        estimate=share_of(estimate.mean),
        interval=(share_of(low), share_of(high)),
        p_value=p_value,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class SoundUnits:
    """The usable units of a comparison for a metric, of the `among` that were begun.

    `logs`: candidate over baseline of each, `parts`: of each of its rounds; `explained`: without what its doubts
    explain. `doubts`: each once. `scatter`: the largest standard deviation to expect where nothing differs.
    """

    metric: MetricInfo
    logs: tuple[float, ...]
    parts: tuple[tuple[float, ...], ...]
    explained: tuple[float, ...]
    doubts: tuple[Doubt, ...]
    among: int
    scatter: float
    middle: Estimate | None = None
    """That of the winsorized units, where it alone shows the loss."""

    def __bool__(self) -> bool:
        return bool(self.logs)

    @property
    def effect(self) -> MetricEffect:
        """The mean effect as measured, with an interval that does not rest on how few units scatter."""
        if self.middle:
            return metric_effect(self.metric, self.middle)
        mean, own = fmean(self.logs), float(np.std(self.logs, ddof=1)) if len(self.logs) > 1 else 0.0
        error, widest = (s * WIDENING / math.sqrt(len(self.logs)) for s in (self.scatter, max(self.scatter, own)))
        centre, reach = float(np.mean(self.logs)), -NormalDist().inv_cdf(INTERVAL_ERROR) * widest
        return MetricEffect(
            metric=self.metric,
            estimate=math.expm1(mean),
            interval=(math.expm1(centre - reach), math.expm1(centre + reach)),
            p_value=2 * NormalDist().cdf(-abs(mean) / error),
        )

    @property
    def counted(self) -> str:
        ends = ", the outermost fifths counted as the next ones inwards" if self.middle else ""
        return f"{len(self.logs)} of {self.among} unit(s){ends}"

    @property
    def explains(self) -> str:
        """How much of the loss the doubts explain, in words; empty where that is nothing."""
        if explained(self.doubts, self.metric.name) == (1, 0):
            return ""
        return words(self.doubts, self.metric.name, [math.exp(fmean(self.logs))], 1.0, self.metric.sign)

    def in_spite_of(self, reasons: Sequence[str]) -> str:
        """That it is red in spite of these reasons and of all that is explained; empty where there is none."""
        doubted = joined(*dict.fromkeys((*reasons, self.explains)))
        return f"red in spite of this: {doubted}" if doubted else ""

    def loss_in_spite_of(self, reasons: Sequence[str]) -> str:
        """The loss, with the doubts in spite of which it is red."""
        loss = f"{self.effect.estimate * 100:+.1f} % {self.metric.name} in {self.counted}, more than scatter explains"
        return joined(loss, self.in_spite_of(reasons))


def sound_units(comparison: Comparison, metric: MetricInfo) -> SoundUnits:
    """The usable units for this metric: the means of rounds that are usable on both sides."""
    beside = (*path_doubts(comparison, metric), *compile_doubts(comparison))
    of_pairs = comparison.method == "pairs" and "latency_ms." not in metric.name
    size = comparison.rounds_per_unit
    pairs = list(zip(comparison.baseline.rounds, comparison.candidate.rounds, strict=False))
    every, left, doubts = list[tuple[float, ...]](), list[float](), dict[Doubt, None]()
    for first in range(0, len(pairs), size):
        parts = list[tuple[float, float]]()
        for before, after in pairs[first : first + size]:
            flaws = (*after.doubts, *beside)
            if part := _logs(before, after, metric, flaws):
                parts.append(part)
                doubts.update(dict.fromkeys(doubt for doubt in flaws if doubt.touches(metric.name)))
        if parts:
            every.append(tuple(measured for measured, _ in parts))
            left.append(fmean(rest for _, rest in parts))
    return SoundUnits(
        metric=metric,
        logs=tuple(map(fmean, every)),
        parts=tuple(every),
        explained=tuple(left),
        doubts=tuple(doubts),
        among=-(-max(len(m.rounds) for m in comparison.sides) // size),
        scatter=LARGEST_OF_PAIRS if of_pairs else LARGEST_SCATTER,
    )


def _logs(before: Round, after: Round, metric: MetricInfo, doubts: Sequence[Doubt]) -> tuple[float, float] | None:
    """Log ratio of candidate over baseline of two rounds, and what of it is unexplained; None if unusable."""
    name = metric.name
    if any(name not in r.metrics or r.no_number(name) for r in (before, after)) or had_less_beside(before):
        return None
    # A rate of zero, which has no logarithm, counts as one record in the window.
    least = 1 / after.window_s if name in (SENT, RECEIVED) and after.window_s > 0 else 0.0
    expected, value = before.metrics[name], max(after.metrics[name], least)
    # The baseline's rate would be higher without what held it back.
    spoiling = [d for d in before.doubts if name not in RATES or d.kind != SATURATED or d.whose not in HELD_BACK_BY]
    if not (expected > 0 and value > 0) or explained(spoiling, name)[0] == math.inf:
        return None
    rest = excused(value, metric.sign, doubts, name)
    if not 0 < rest < math.inf:
        return None
    return math.log(value / expected), math.log(rest / expected)
