"""Guards of relations, in their order. Pure."""

from __future__ import annotations

from dataclasses import replace

from perfgate.judge.claim import Ruling, guard, ruled
from perfgate.judge.claims.relation import RatioCase, bounded
from perfgate.judge.rounds import flaws_by_arm
from perfgate.judge.scenario_case import invalid_reasons, unsettled
from perfgate.model import Judgement, Verdict


@guard(-60, RatioCase)
def a_side_was_not_valid(case: RatioCase, _: Ruling) -> Ruling | None:
    """INVALID where one of the two measurements is, or the metric of one is flawed and that may decide."""
    reasons = [f"{m.scenario.name}: {reason.splitlines()[0]}" for m in case.both for reason in invalid_reasons(m)]
    if not reasons and not case.kept_however_late:
        reasons = [*flaws_by_arm(((m.scenario.name, m) for m in case.both), [case.metric])]
    return ruled(Verdict.INVALID, *reasons) if reasons else None


@guard(-40, RatioCase)
def metric_is_unavailable(case: RatioCase, _: Ruling) -> Ruling | None:
    """A source that lacked the metric in some rounds."""
    why = next((r.usage_unavailable for m in case.both for r in m.rounds if r.usage_unavailable), "")
    if not why or len(case.ratios) == case.most_rounds:
        return None
    reason = f"{case.metric} is unavailable: {why}"
    judgement = Judgement(verdict=Verdict.INCONCLUSIVE, metric=case.metric, reason=reason)
    return Ruling(verdict=Verdict.INCONCLUSIVE, judgements=(judgement,), reasons=(reason,))


@guard(-30, RatioCase)
def ratio_is_over_nothing(case: RatioCase, _: Ruling) -> Ruling | None:
    """A ratio over 0."""
    if not case.zeros:
        return None
    rounds = len(case.over.rounds)
    reason = f"{case.metric} of {case.over.scenario.name} was 0 in {case.zeros} of {rounds} rounds: no ratio"
    return ruled(Verdict.INCONCLUSIVE, reason)


@guard(-20, RatioCase)
def a_side_ended_early(case: RatioCase, _: Ruling) -> Ruling | None:
    """A scenario that was not measured to its end because its rounds scattered too much."""
    fewest = min(len(m.rounds) for m in case.both)
    if not case.paired or fewest >= case.most_rounds or len(case.ratios) != fewest:
        return None
    name = min(case.both, key=lambda m: len(m.rounds)).scenario.name
    reason = f"{name} was measured in {fewest} of {case.most_rounds} rounds: it scattered too much"
    return ruled(Verdict.INCONCLUSIVE, reason)


@guard(-10, RatioCase)
def metric_is_missing(case: RatioCase, _: Ruling) -> Ruling | None:
    """A metric that rounds lack."""
    if len(case.ratios) == (case.most_rounds if case.paired else len(case.of.rounds)):
        return None
    reason = f"{case.metric} was measured in {len(case.ratios)} of {case.most_rounds} rounds of both scenarios"
    return ruled(Verdict.INVALID, reason)


@guard(10, RatioCase)
def a_side_is_not_settled(case: RatioCase, ruling: Ruling) -> Ruling | None:
    """Cold brokers, generators that may be the limit, or a load that its own cap limits."""
    reason = "; ".join(f"{m.scenario.name}: {why}" for m in case.both if (why := unsettled(m)))
    middle = ruling.judgements[0].measured
    least, most = case.relation.at_least, case.relation.at_most
    if not reason and middle is not None and not least <= middle <= most:
        reason = bounded(case.metric, case.of if middle < least else case.over)
    if not reason:
        return None
    judged = replace(ruling.judgements[0], verdict=Verdict.INCONCLUSIVE, reason=reason)
    return replace(ruling, verdict=Verdict.INCONCLUSIVE, judgements=(judged,), reasons=(reason,))
