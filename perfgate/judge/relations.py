"""The verdict over a relation: the ratio of two scenarios, or several over a range, against its bounds. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from perfgate.judge.relation_red import CAPPED, bounded, capped, doubt_words, ratios_of, red_ratios, sides, unpaired
from perfgate.judge.rules import invalid_reasons, unsettled, verdict_of
from perfgate.judge.spoilt import spoilt
from perfgate.judge.statistics import many, median_error, median_interval, spread
from perfgate.model import Judgement, Measurement, Outcome, PairRelation, RangeRelation, Relation, Verdict
from perfgate.model.judged import severity

FIGURES = {"broker_cpu": "CPU", "broker_rss": "memory", "broker_disk": "disk", "broker_network": "network"}
"""Which of a round's `untold` a metric of the brokers' usage belongs to."""


def judge_relation(relation: Relation, measurements: Mapping[str, Measurement]) -> Outcome:
    """Judge a relation on the measurements of its scenarios, by name."""
    if isinstance(relation, RangeRelation):
        return _judge_range(relation, measurements)
    assert isinstance(relation, PairRelation)
    return _judge_pair(relation, measurements)


def _judge_range(relation: RangeRelation, measurements: Mapping[str, Measurement]) -> Outcome:
    """Judge each step of a range as a pair; the worst decides, and a REGRESSED one whatever else is invalid.

    All steps together are red by chance no more often than one pair: each is one of so many looks.
    """
    steps = tuple(_judge_pair(step, measurements, looks=len(relation.steps)) for step in relation.steps)
    judgements = tuple(_judgement_of(step, relation.metric.name) for step in steps)
    verdict = verdict_of(judgements)
    reasons = tuple(
        f"{step.name}: {reason or _outside(pair, judgement)}"
        for pair, step, judgement in zip(relation.steps, steps, judgements, strict=True)
        if judgement.verdict is not Verdict.PASS
        for reason in step.reasons or ("",)
    )
    return Outcome(name=relation.name, verdict=verdict, judgements=judgements, reasons=reasons, steps=steps)


def _judgement_of(step: Outcome, metric: str) -> Judgement:
    """Return the judgement of a step, named; one that was not judged has its verdict and reason."""
    found = step.judgements[0] if step.judgements else Judgement(verdict=step.verdict, metric=metric)
    return replace(found, step=step.name, reason=found.reason or "; ".join(step.reasons))


def _outside(pair: PairRelation, judgement: Judgement) -> str:
    return f"{judgement.measured:.3g}, must be {pair.accepted}"


def deciding_step(relation: RangeRelation, outcome: Outcome) -> tuple[PairRelation, Outcome]:
    """Return the step of the worst verdict; of several the one nearest to its bounds, or farthest beyond them."""

    def rank(found: tuple[PairRelation, Outcome]) -> tuple[int, float]:
        pair, step = found
        ratio = step.judgements[0].measured if step.judgements else None
        room = math.log(min(ratio / pair.at_least, pair.at_most / ratio)) if ratio and ratio > 0 else -math.inf
        return severity(step.verdict), room

    return min(zip(relation.steps, outcome.steps, strict=True), key=rank)


def _judge_pair(relation: PairRelation, measurements: Mapping[str, Measurement], looks: int = 1) -> Outcome:
    """Hold the ratios of its two scenarios against the relation's minimum and maximum.

    Rounds are paired where both were measured on the same cluster; else one was measured minutes after the other, and
    the errors of both medians count (:func:`_unpaired`).

    REGRESSED: the median ratio lies beyond one of them by more than its own standard error, or its whole interval does,
    with what there is to doubt of either side taken off. PASS: it keeps both by at least that error, and fewer than
    :func:`many` rounds lie beyond. Else INCONCLUSIVE; INVALID when one of the two measurements is.

    As one of several `looks` it must lie further beyond to be REGRESSED (:func:`error_factor`); PASS asks for no less.
    """
    of, over = measurements[relation.of], measurements[relation.over]
    paired = of.scenario.cluster == over.scenario.cluster
    ratios = ratios_of(relation.metric.name, of, over, paired=paired)
    nothing = _no_ratio(relation, of, over, ratios, paired=paired)
    held = sides(relation, of, over, looks)
    red = red_ratios(relation, held)
    if nothing and not red:
        return nothing
    ratios = ratios if nothing is None else red
    centre, interval, error = statistics.median(ratios), median_interval(ratios), median_error(ratios)
    if not paired:
        interval, error = unpaired(relation.metric.name, over, centre, interval, error)
    least, most = relation.at_least, relation.at_most
    reason = "; ".join(f"{m.scenario.name}: {why}" for m in (of, over) if (why := unsettled(m)))
    if not reason and not least <= centre <= most:
        reason = bounded(relation.metric.name, of if centre < least else over)
    if red:
        verdict, doubted = Verdict.REGRESSED, doubt_words(relation, held, ratios)
        reason = f"red in spite of this: {doubted}" if doubted and (reason or nothing) else ""
    elif reason:
        verdict = Verdict.INCONCLUSIVE
    else:
        reason = _why_not_kept(relation, ratios, centre, error, looks)
        verdict = Verdict.INCONCLUSIVE if reason else Verdict.PASS
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


def _no_ratio(
    relation: PairRelation, of: Measurement, over: Measurement, ratios: Sequence[float], *, paired: bool
) -> Outcome | None:
    """Return the outcome where the two measurements have no ratio that could be judged; None where they have."""
    metric, both = relation.metric.name, (of, over)
    reasons = tuple(f"{m.scenario.name}: {reason.splitlines()[0]}" for m in both for reason in invalid_reasons(m))
    reasons = reasons or tuple(f"{m.scenario.name}: {metric}: {why}" for m in both if (why := spoilt(m, metric)))
    if reasons:
        return Outcome(name=relation.name, verdict=Verdict.INVALID, judgements=(), reasons=reasons)
    fewest, rounds = sorted((len(of.rounds), len(over.rounds)))
    undecided = Outcome(
        name=relation.name, verdict=Verdict.INCONCLUSIVE, judgements=(), reasons=(), rounds=tuple(ratios)
    )
    unavailable = next((r.usage_unavailable for m in both for r in m.rounds if r.usage_unavailable), "")
    if len(ratios) != rounds and unavailable:
        reason = f"{metric} is unavailable: {unavailable}"
        judgement = Judgement(verdict=Verdict.INCONCLUSIVE, metric=metric, reason=reason)
        return replace(undecided, judgements=(judgement,), reasons=(reason,))
    if zeros := sum(r.metrics.get(metric) == 0 for r in over.rounds):
        # 0 over 0 says nothing, and anything over 0 is no number that a maximum could be held against.
        reason = f"{metric} of {over.scenario.name} was 0 in {zeros} of {len(over.rounds)} rounds: no ratio"
        return replace(undecided, reasons=(reason,), rounds=())
    if paired and fewest != rounds and len(ratios) == fewest:
        name = min(both, key=lambda m: len(m.rounds)).scenario.name
        reason = f"{name} was measured in {fewest} of {rounds} rounds: it scattered too much"
        return replace(undecided, reasons=(reason,))
    if len(ratios) != (rounds if paired else len(of.rounds)):
        reasons = (f"{metric} was measured in {len(ratios)} of {rounds} rounds of both scenarios",)
        return Outcome(name=relation.name, verdict=Verdict.INVALID, judgements=(), reasons=reasons)
    return None


def _why_not_kept(relation: PairRelation, ratios: Sequence[float], centre: float, error: float, looks: int) -> str:
    """Return why ratios that are not red keep the bounds not clearly enough for PASS; empty where they do."""
    least, most = relation.at_least, relation.at_most
    if centre + error < least or centre - error > most:
        return f"{centre:.3g} lies beyond {least:g} .. {most:g}, but one of {looks} such ratios does by chance"
    if not least <= centre - error <= centre + error <= most:
        return f"the {'maximum' if centre + error > most else 'minimum'} lies within the error of the median"
    beyond = max(sum(ratio < least for ratio in ratios), sum(ratio > most for ratio in ratios))
    if beyond >= many(len(ratios)):
        return f"in {beyond} of {len(ratios)} rounds the ratio lies beyond it"
    return ""


def hidden_by_caps(relation: Relation, measurements: Mapping[str, Measurement]) -> dict[str, str]:
    """Return the ratios of a relation that their loads' own caps hide, by name, each with the reason.

    Two loads at their caps have the ratio of these, whatever the brokers would have taken. Where one alone is, the
    brokers may take more of it, and the ratio is a bound: it may show that the relation is broken, or that it is held,
    on one side; where it shows neither it says nothing.
    """
    pairs = (relation,) if isinstance(relation, PairRelation) else cast(RangeRelation, relation).steps
    found = {}
    for pair in pairs if relation.metric.name in CAPPED else ():
        of, over = measurements[pair.of], measurements[pair.over]
        ratios = ratios_of(relation.metric.name, of, over, paired=of.scenario.cluster == over.scenario.cluster)
        centre = statistics.median(ratios) if ratios else math.nan
        above = capped(over) and not centre < pair.at_least  # the true ratio is no more than that
        below = capped(of) and centre < pair.at_least  # and here no less
        if (capped(of) and capped(over)) or above or below:
            caps = " and ".join(f"{m.scenario.name} {m.scenario.load.rate:,.0f}" for m in (of, over) if capped(m))
            found[pair.name] = f"held by a cap of its own, not by the brokers: {caps} records/s"
    return found


def never_told(relation: Relation, measurements: Mapping[str, Measurement]) -> str:
    """Return why this target's brokers tell nothing of what the relation's metric is of; empty where they do."""
    name, rounds = relation.metric.name, [r for m in measurements.values() for r in m.rounds if r.metrics]
    prefix = next((prefix for prefix in FIGURES if name.startswith(prefix)), "")
    told = any(r.usage_unavailable or any(key.startswith(prefix) for key in r.metrics) for r in rounds)
    if not prefix or told:
        return ""
    return next((r.untold.get(FIGURES[prefix], f"nobody tells {name} here") for r in rounds), "")
