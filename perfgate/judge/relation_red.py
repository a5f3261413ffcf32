"""The test of red for a relation: a ratio beyond a bound with all that there is to doubt taken off. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.judge.more_hosts import host_doubts
from perfgate.judge.rates import at_its_cap, paired_ratios
from perfgate.judge.statistics import error_factor, median_error, median_interval
from perfgate.judge.unexplained import clipped, words
from perfgate.judge.warming import warming_doubts
from perfgate.model import Measurement, MetricInfo, PairRelation, Round
from perfgate.model.doubt import Doubt, excused

CAPPED = ("records_per_s", "mib_per_s")
"""The metrics that a load's own cap bounds."""
BEYOND = 0.25
"""A bound counts as this share of it from what is expected: a ratio beyond it by twice that is so without doubt."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sides:
    """The two measurements of a relation, and what there is to doubt of each besides its rounds' own flaws.

    `paired`: measured round by round on the same cluster. The ratio is one of several `looks`.
    """

    of: Measurement
    over: Measurement
    paired: bool
    of_doubts: tuple[Doubt, ...]
    over_doubts: tuple[Doubt, ...]
    looks: int = 1


def sides(relation: PairRelation, of: Measurement, over: Measurement, looks: int = 1) -> Sides:
    """Return the two sides of a relation with what there is to doubt of each."""
    return Sides(
        of=of,
        over=over,
        paired=of.scenario.cluster == over.scenario.cluster,
        of_doubts=_doubts(of, relation.metric),
        over_doubts=_doubts(over, relation.metric),
        looks=looks,
    )


def red_ratios(relation: PairRelation, held: Sides) -> tuple[float, ...]:
    """Return the ratios that show the relation to be broken, as measured; empty where none do.

    The doubts of a side may have made its own figure worse: they raise the ratio, or lower it, as far as they explain.
    A round that is explained wholly says nothing on that side of the bounds.
    """
    found = _excused(relation.metric, held)
    for bound, sign in ((relation.at_least, 1), (relation.at_most, -1)):
        pairs = [(measured, raised if sign > 0 else lowered) for measured, raised, lowered in found]
        usable = [(measured, value) for measured, value in pairs if 0 < value < math.inf or value == 0 < sign]
        if len(usable) > 1 and math.isfinite(bound) and _beyond(relation, held, [v for _, v in usable], bound, sign):
            return tuple(measured for measured, _ in usable)
    return ()


def doubt_words(relation: PairRelation, held: Sides, ratios: Sequence[float]) -> str:
    """Return what there is to doubt of the two sides, and what it explains; empty where there is nothing."""
    metric = relation.metric.name
    texts = []
    for side, beside in ((held.of, held.of_doubts), (held.over, held.over_doubts)):
        doubts = [*beside, *(flaw for r in side.rounds for flaw in r.doubts if flaw.touches(metric))]
        if doubts:
            middle = statistics.median(ratios)
            bound, sign = (relation.at_least, 1) if middle < relation.at_least else (relation.at_most, -1)
            texts.append(f"{side.scenario.name}: {words(doubts, metric, ratios, bound, sign)}")
    return "; ".join(texts)


def sound_values(measurement: Measurement, metric: str) -> list[float]:
    """Return the values of the rounds that have one of this metric other than 0."""
    return [r.metrics[metric] for r in measurement.rounds if r.metrics.get(metric) and not r.no_number(metric)]


def _beyond(relation: PairRelation, held: Sides, values: Sequence[float], bound: float, sign: int) -> bool:
    below = sound_values(held.over, relation.metric.name)
    if not held.paired and len(below) < 2:
        return False
    here = clipped(values, sign, bound, BEYOND * bound)
    centre, widest, error = statistics.median(here), median_interval(here, held.looks), median_error(here)
    if not held.paired:
        _, error = unpaired(relation.metric.name, held.over, centre, widest, error)
        widest, _ = unpaired(relation.metric.name, held.over, centre, widest, error, held.looks)
    error *= error_factor(min(len(values), len(below)), held.looks)
    best = widest[1] if sign > 0 else widest[0]
    return sign * (best - bound) < 0 or sign * (centre - bound) < -error


def _excused(metric: MetricInfo, held: Sides) -> list[tuple[float, float, float]]:
    """Return of each pair of rounds the ratio as measured, and the highest and lowest that it may truly be."""
    name, sign = metric.name, metric.sign
    usable = [r for r in held.over.rounds if r.metrics.get(name) and not r.no_number(name)]
    if any(r.metrics.get(name) == 0 for r in held.over.rounds):
        return []  # 0 over 0 says nothing, and anything over 0 is no number
    by_index = {r.index: (r.metrics[name], _excuse(r, metric, held.over_doubts)) for r in usable}
    if not held.paired and by_index:
        middle = tuple(statistics.median(values) for values in zip(*by_index.values(), strict=True))
        by_index = {r.index: (middle[0], middle[1]) for r in held.of.rounds}
    found = []
    for r in held.of.rounds:
        if name not in r.metrics or r.no_number(name) or r.index not in by_index:
            continue
        above, (below, below_best) = r.metrics[name], by_index[r.index]
        below_best = below_best or math.ulp(0.0)
        best = _excuse(r, metric, held.of_doubts)
        raised, lowered = (best / below, above / below_best) if sign > 0 else (above / below_best, best / below)
        # Without its cap a side has a higher rate, and waits longer: whatever the metric's good side is.
        raised = math.inf if bounded(name, held.of) else raised
        lowered = 0.0 if bounded(name, held.over) else lowered
        found.append((above / below, raised, lowered))
    return found


def _excuse(one: Round, metric: MetricInfo, beside: Sequence[Doubt]) -> float:
    return excused(one.metrics[metric.name], metric.sign, (*one.doubts, *beside), metric.name)


def _doubts(measurement: Measurement, metric: MetricInfo) -> tuple[Doubt, ...]:
    """Return what there is to doubt of one side besides its rounds' own flaws."""
    return (*warming_doubts(measurement, metric), *host_doubts(measurement))


def capped(measurement: Measurement) -> bool:
    """Return whether its own cap held a capped load."""
    return measurement.scenario.load.kind == "capped" and at_its_cap(measurement)


def bounded(metric: str, of: Measurement) -> str:
    """Return that its cap keeps a load's rate, or wait, from what the relation asks for; empty when it does not."""
    if not capped(of) or not (metric in CAPPED or metric.startswith("latency_ms.")):
        return ""
    return f"{of.scenario.name} reached its cap of {of.scenario.load.rate:,.0f} records/s"


def ratios_of(metric: str, of: Measurement, over: Measurement, *, paired: bool) -> tuple[float, ...]:
    """Return the ratios of the two sides, round by round where they are paired."""
    return paired_ratios(metric, of.rounds, over.rounds) if paired else unpaired_ratios(metric, of, over)


def unpaired_ratios(metric: str, of: Measurement, over: Measurement) -> tuple[float, ...]:
    """Return each round of the one scenario over the median of the other, whose rounds all have to be there."""
    below = [r.metrics[metric] for r in over.rounds if r.metrics.get(metric)]
    if not below or len(below) < len(over.rounds):
        return ()
    return tuple(r.metrics[metric] / statistics.median(below) for r in of.rounds if metric in r.metrics)


def unpaired(
    metric: str, over: Measurement, centre: float, interval: tuple[float, float], error: float, looks: int = 1
) -> tuple[tuple[float, float], float]:
    """Return the interval and the standard error of a ratio of medians, with the error of the lower one taken in."""
    below = sound_values(over, metric)
    middle, (low, high) = statistics.median(below), median_interval(below, looks)
    widened = (interval[0] * middle / high, interval[1] * middle / low if low > 0 else math.inf)
    return widened, math.hypot(error, centre * median_error(below) / middle)
