"""The verdict over a relation: the ratio of two scenarios against its minimum and maximum. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping

from perfgate.judge.rules import at_its_cap, invalid_reasons, many, spoilt, warming
from perfgate.judge.statistics import median_error, median_interval, spread
from perfgate.model import Judgement, Measurement, Outcome, Relation, Verdict


def judge_relation(relation: Relation, measurements: Mapping[str, Measurement]) -> Outcome:
    """Hold the ratios of its two scenarios against the relation's minimum and maximum.

    Rounds are paired where both were measured on the same cluster; else one was measured minutes after the other, and
    the errors of both medians count (:func:`_unpaired`).

    REGRESSED: the median ratio lies beyond one of them by more than its own standard error, or its whole interval does.
    PASS: it keeps both by at least that, and fewer than :func:`many` rounds lie beyond. Else INCONCLUSIVE; INVALID
    when one of the two measurements is.
    """
    of, over = measurements[relation.of], measurements[relation.over]
    reasons = tuple(f"{m.scenario.name}: {reason.splitlines()[0]}" for m in (of, over) for reason in invalid_reasons(m))
    reasons = reasons or tuple(
        f"{m.scenario.name}: {relation.metric.name}: {why}"
        for m in (of, over)
        if (why := spoilt(m, relation.metric.name))
    )
    paired = of.scenario.cluster == over.scenario.cluster
    ratios = () if reasons else (paired_ratios if paired else unpaired_ratios)(relation.metric.name, of, over)
    rounds = max(len(of.rounds), len(over.rounds))
    unavailable = next((r.usage_unavailable for m in (of, over) for r in m.rounds if r.usage_unavailable), "")
    if not reasons and len(ratios) != rounds and unavailable:
        reason = f"{relation.metric.name} is unavailable: {unavailable}"
        judgement = Judgement(verdict=Verdict.INCONCLUSIVE, metric=relation.metric.name, reason=reason)
        return Outcome(
            name=relation.name, verdict=Verdict.INCONCLUSIVE, judgements=(judgement,), reasons=(reason,), rounds=ratios
        )
    if (
        not reasons
        and paired
        and len(of.rounds) != len(over.rounds)
        and len(ratios) == min(len(of.rounds), len(over.rounds))
    ):
        fewer = min(of, over, key=lambda m: len(m.rounds))
        reason = f"{fewer.scenario.name} was measured in {len(fewer.rounds)} of {rounds} rounds: it scattered too much"
        return Outcome(
            name=relation.name, verdict=Verdict.INCONCLUSIVE, judgements=(), reasons=(reason,), rounds=ratios
        )
    if not reasons and len(ratios) != (rounds if paired else len(of.rounds)):
        reasons = (f"{relation.metric.name} was measured in {len(ratios)} of {rounds} rounds of both scenarios",)
    if reasons:
        return Outcome(name=relation.name, verdict=Verdict.INVALID, judgements=(), reasons=reasons)
    centre, interval, error = statistics.median(ratios), median_interval(ratios), median_error(ratios)
    if not paired:
        interval, error = _unpaired(relation.metric.name, over, centre, interval, error)
    least, most = relation.at_least, relation.at_most
    too_small, too_large = sum(ratio < least for ratio in ratios), sum(ratio > most for ratio in ratios)
    reason = "; ".join(f"{m.scenario.name}: {warming(m)}" for m in (of, over) if m.warming)
    reason = reason or (_bounded(relation.metric.name, of) if centre < least else "")
    if reason:
        verdict = Verdict.INCONCLUSIVE
    elif interval[1] < least or interval[0] > most or centre + error < least or centre - error > most:
        verdict = Verdict.REGRESSED
    elif not least <= centre - error <= centre + error <= most:
        verdict = Verdict.INCONCLUSIVE
        reason = f"the {'maximum' if centre + error > most else 'minimum'} lies within the error of the median"
    elif max(too_small, too_large) >= many(len(ratios)):
        verdict = Verdict.INCONCLUSIVE
        reason = f"in {max(too_small, too_large)} of {len(ratios)} rounds the ratio lies beyond it"
    else:
        verdict = Verdict.PASS
    judgement = Judgement(
        verdict=verdict,
        metric=relation.metric.name,
        measured=centre,
        spread=spread(ratios),
        interval=interval,
        limit=most if centre > most else least,
        reason=reason,
    )
    notes = (reason,) if reason else ()
    return Outcome(
        name=relation.name, verdict=verdict, judgements=(judgement,), reasons=notes, rounds=ratios, paired=paired
    )


def _bounded(metric: str, of: Measurement) -> str:
    """Return that its cap keeps a load's rate from being as high as the relation asks for; empty when it does not."""
    load = of.scenario.load
    if metric != "records_per_s" or load.kind != "capped" or not at_its_cap(of):
        return ""
    return f"{of.scenario.name} reached its cap of {load.rate:,.0f} records/s"


def unpaired_ratios(metric: str, of: Measurement, over: Measurement) -> tuple[float, ...]:
    """Return each round of the one scenario over the median of the other, whose rounds all have to be there."""
    below = [r.metrics[metric] for r in over.rounds if r.metrics.get(metric)]
    if len(below) < len(over.rounds):
        return ()
    return tuple(r.metrics[metric] / statistics.median(below) for r in of.rounds if metric in r.metrics)


def _unpaired(
    metric: str, over: Measurement, centre: float, interval: tuple[float, float], error: float
) -> tuple[tuple[float, float], float]:
    """Return the interval and the standard error of a ratio of medians, with the error of the lower one taken in."""
    below = [r.metrics[metric] for r in over.rounds]
    middle, (low, high) = statistics.median(below), median_interval(below)
    widened = (interval[0] * middle / high, interval[1] * middle / low)
    return widened, math.hypot(error, centre * median_error(below) / middle)


def paired_ratios(metric: str, of: Measurement, over: Measurement) -> tuple[float, ...]:
    """Return the ratio of the two scenarios in every round that both measured."""
    below = {r.index: r.metrics[metric] for r in over.rounds if r.metrics.get(metric)}
    return tuple(r.metrics[metric] / below[r.index] for r in of.rounds if metric in r.metrics and r.index in below)
