"""Guards of a gate: of a scenario's own rounds, then of relations between scenarios, each in their order. Pure."""

from __future__ import annotations

from dataclasses import replace

from perfgate.judge.claim import Ruling, guard, notes_on, ruled
from perfgate.judge.claims.relation import RatioCase, bounded
from perfgate.judge.faults.rules import damage
from perfgate.judge.rounds import flaws_by_arm
from perfgate.judge.scenario_case import FaultCase, PlainCase, ScenarioCase, invalid_reasons, unsettled
from perfgate.model import Judgement, Verdict


@guard(-90, FaultCase)
def records_were_lost(case: FaultCase, _: Ruling) -> Ruling | None:
    """A round that does not count takes back no lost record of another round."""
    reasons = invalid_reasons(case.whole)
    if not reasons or not (lost := damage(case.fault, case.whole)):
        return None
    return Ruling(verdict=Verdict.REGRESSED, judgements=tuple(lost), reasons=(*notes_on(lost), *reasons))


@guard(-80, ScenarioCase)
def brokers_failed(case: ScenarioCase, _: Ruling) -> Ruling | None:
    """Failures of the brokers' own, unless the machine made them late."""
    return ruled(Verdict.BROKEN, *case.broken) if case.broken and not case.excuse else None


@guard(-60, ScenarioCase)
def load_was_not_valid(case: ScenarioCase, _: Ruling) -> Ruling | None:
    """Rounds that do not count."""
    return ruled(Verdict.INVALID, *case.reasons) if case.reasons else None


@guard(-50, ScenarioCase)
def brokers_refused_it(case: ScenarioCase, _: Ruling) -> Ruling | None:
    """A scenario that every round's brokers refused, as they must."""
    return ruled(Verdict.PASS) if case.scenario.refusal else None


@guard(10, PlainCase)
def figures_are_not_settled(case: PlainCase, ruling: Ruling) -> Ruling | None:
    """Figures limited by cold brokers or by generators decide nothing, without a threshold either."""
    if not (ruling.verdict.green or ruling.verdict is Verdict.MISSING) or not (why := unsettled(case.measurement)):
        return None
    return replace(ruling.noting(why), verdict=Verdict.INCONCLUSIVE)


@guard(-60, RatioCase)
def a_side_was_not_valid(case: RatioCase, _: Ruling) -> Ruling | None:
    """INVALID where either measurement is, or the metric of either is flawed and that may decide."""
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
    if len(case.ratios) == case.most_rounds:
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
