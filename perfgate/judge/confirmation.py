"""Confirmation runs: red scenarios are measured again on a fresh cluster, and both runs are judged together. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from perfgate.judge.claims.relation import judge_relation
from perfgate.judge.scenario_case import judge_scenario, shows_nothing
from perfgate.judge.statistics import FAR
from perfgate.judge.thresholds import for_one_look
from perfgate.model import Measurement, Outcome, Profile, RangeRelation, Relation, Verdict

SECOND_LOOK = "a confirmation run on a fresh cluster"
FAR_OFF = 2.0
"""A first run that is worse than expected by less than this factor needs a second, however little runs scatter."""


def to_measure_again(
    measured: Mapping[str, Measurement],
    profile: Profile | None,
    relations: Sequence[Relation],
    baselines: Mapping[tuple[str, str], Measurement] | None = None,
) -> set[str]:
    """The red scenarios, and those of each red relation, which `baselines` may replace by name; none with a fault."""
    red = {name for name, m in measured.items() if judge_scenario(m, profile).verdict is Verdict.REGRESSED}
    for relation in relations:
        names = [name for name in relation.names if name in measured]
        judged_on = {name: (baselines or {}).get((relation.family, name), measured[name]) for name in names}
        if isinstance(relation, RangeRelation):
            usable = [name for name, measurement in judged_on.items() if not shows_nothing(measurement)]
            if relation.lacks(usable):
                continue
            relation = relation.among(usable)
        elif len(judged_on) < len(relation.names):
            continue
        if judge_relation(relation, judged_on).verdict is Verdict.REGRESSED:
            red.update(relation.names)
    return {name for name in red if measured[name].scenario.confirmable}


def relation_again(
    relation: Relation, first: Outcome, measured: Mapping[str, Measurement], *, alone: bool
) -> tuple[Relation, Outcome]:
    """The outcome of a red relation and its confirmation run, and the relation, or shorter range, that it is of."""
    second = judge_relation_again(relation, measured)
    outcome = second_look(first, second, alone=alone)
    return (_shown(relation, measured) if outcome.steps is second.steps else relation), outcome


def judge_relation_again(relation: Relation, measured: Mapping[str, Measurement]) -> Outcome:
    """Judge a red relation on its confirmation run."""
    shown = _shown(relation, measured)
    out = {name: reason for name in shown.names if (reason := shows_nothing(measured[name]))}
    hidden = isinstance(shown, RangeRelation) and not shown.steps
    if out or hidden:
        reasons = [f"{name}: {reason}" for name, reason in out.items()] or ["caps of the loads hide every step"]
        return Outcome(name=relation.name, verdict=Verdict.INCONCLUSIVE, judgements=(), reasons=tuple(reasons))
    return judge_relation(shown, measured)


def _shown(relation: Relation, measured: Mapping[str, Measurement]) -> Relation:
    """The relation; a range without scenarios that show nothing here, where the others can show its shape."""
    usable = [name for name in relation.names if not shows_nothing(measured[name])]
    if isinstance(relation, RangeRelation) and not relation.lacks(usable):
        return relation.among(usable)
    return relation


def stands_alone(outcome: Outcome, profile: Profile | None) -> bool:
    """Whether only a sound confirmation run takes red back: it is FAR_OFF, and off by FAR margins of a single run."""
    limits = {t.metric.name: t for t in (profile.thresholds.get(outcome.name, ()) if profile else ())}
    for judgement in outcome.judgements:
        if judgement.verdict is not Verdict.REGRESSED or judgement.measured is None:
            continue
        threshold = limits.get(judgement.metric)
        expected = threshold.baseline if threshold else judgement.limit
        reach = for_one_look(threshold).reach if threshold else 0.0
        if not expected or judgement.measured <= 0:
            return bool(expected) and judgement.measured == 0  # a rate of nothing
        off = abs(math.log(judgement.measured / expected))
        if off >= math.log(max(FAR_OFF, 1 + FAR * reach)):
            return True
    return False


def second_look(first: Outcome, second: Outcome, not_counted: Sequence[str] = (), *, alone: bool = False) -> Outcome:
    """The outcome of a red scenario and its confirmation run: red only when both are, by the same metric.

    INCONCLUSIVE: the second run is invalid; it is not red and its interval lies apart from the first (brokers start now
    slow, now quick); or it is not red and rounds of the first did not count (`not_counted`). `alone`: only a sound
    green run takes red back.
    """
    both = _of_both(first, second, not_counted)
    if not alone or both.verdict.red or both.verdict.green or second.verdict.green:
        return both
    note = f"{SECOND_LOOK} does not take it back: it is worse than noise between runs explains"
    reasons = (*first.reasons, *(reason for reason in both.reasons if reason not in first.reasons), note)
    return replace(first, reasons=reasons, first_look=first)


def _of_both(first: Outcome, second: Outcome, not_counted: Sequence[str]) -> Outcome:
    shown, verdict = second, Verdict.INCONCLUSIVE
    if not_counted and not second.verdict.red:
        shown = first
        note = f"{SECOND_LOOK} does not confirm the first, of which rounds did not count: {'; '.join(not_counted)}"
    elif second.verdict is Verdict.INVALID:
        shown = first
        note = "the confirmation run on a fresh cluster was not valid: " + "; ".join(second.reasons)
    elif first.steps and not second.steps:
        shown = first
        note = f"{SECOND_LOOK} shows nothing of it: {'; '.join(second.reasons)}"
    elif (second.verdict.green or second.verdict is Verdict.MISSING) and (apart := _apart(first, second)):
        note = f"{SECOND_LOOK} contradicts the first, which was red: {apart}; brokers come up in more than one state"
    elif first.verdict is second.verdict is Verdict.REGRESSED and _by_chance(first, second):
        note = f"{SECOND_LOOK} is red too, but by {', '.join(sorted(m for m, _ in _red(second)))}: neither is confirmed"
    else:
        verdict = second.verdict
        note = f"{SECOND_LOOK} {'confirms' if verdict.red else 'does not confirm'} the first, which was red"
    return replace(shown, verdict=verdict, reasons=(*shown.reasons, note), first_look=first)


def _by_chance(first: Outcome, second: Outcome) -> bool:
    """Whether no metric is red in both runs."""
    red = [judgement for judgement in second.judgements if judgement.verdict is Verdict.REGRESSED]
    if any(judgement.reason and judgement.baseline is None and not judgement.step for judgement in red):
        return False  # a rate that the brokers did not take
    return bool(_red(first)) and not _red(first) & _red(second)


def _red(outcome: Outcome) -> set[tuple[str, str]]:
    """The metrics and steps that are REGRESSED: by chance others are the next time."""
    return {(judged.metric, judged.step) for judged in outcome.judgements if judged.verdict is Verdict.REGRESSED}


def _apart(first: Outcome, second: Outcome) -> str:
    """A metric that was red in the first run and whose second interval lies wholly apart; else empty."""
    by_metric = {(judgement.metric, judgement.step): judgement for judgement in second.judgements}
    for judgement in first.judgements:
        again = by_metric.get((judgement.metric, judgement.step))
        if judgement.verdict is not Verdict.REGRESSED or not (judgement.interval and again and again.interval):
            continue
        if judgement.interval[1] < again.interval[0] or again.interval[1] < judgement.interval[0]:
            (low, high), (new_low, new_high) = judgement.interval, again.interval
            return f"{judgement.metric} {low:,.4g} .. {high:,.4g} then, {new_low:,.4g} .. {new_high:,.4g} now"
    return ""
