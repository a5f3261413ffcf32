"""Guards of a scenario's own rounds, in their order. Pure."""

from __future__ import annotations

from dataclasses import replace

from perfgate.judge.claim import Ruling, guard, notes_on, ruled
from perfgate.judge.faults.rules import damage
from perfgate.judge.scenario_case import FaultCase, PlainCase, ScenarioCase, invalid_reasons, unsettled
from perfgate.model import Verdict


@guard(-90, FaultCase)
def records_were_lost(case: FaultCase, _: Ruling) -> Ruling | None:
    """A round that does not count takes back no lost record of another one."""
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
