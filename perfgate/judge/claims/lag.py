"""The claim of consumers that work: those that can keep up by declaration work off all that was sent. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from perfgate.judge.doubts import settled
from perfgate.judge.scenario_case import PlainCase, claim
from perfgate.judge.warming import warming_doubts
from perfgate.model import METRICS, Judgement, Verdict
from perfgate.model.metrics import DRAIN, LAG


@claim(25)
def lag_is_drained(case: PlainCase, _: Sequence[Judgement]) -> list[Judgement]:
    """REGRESSED where it was not in most rounds, within twice the time that it should take; INCONCLUSIVE in fewer."""
    scenario = case.scenario
    rounds = [r for r in case.measurement.rounds if LAG in r.metrics]
    times = [r.metrics.get(DRAIN, math.inf) for r in rounds]
    never = times.count(math.inf)
    if scenario.consumers is None or scenario.falls_behind_per_s or not never:
        return []
    reason = (
        f"in {never} of {len(rounds)} rounds the consumers did not work off what was sent, though they can take "
        f"{scenario.consumers.takes_per_s:,.0f} records/s of {scenario.load.rate:,.0f}"
    )
    verdict = Verdict.REGRESSED if 2 * never > len(rounds) else Verdict.INCONCLUSIVE
    judged = Judgement(verdict=verdict, metric=DRAIN, reason=reason)
    doubts = case.doubts_by_round(rounds, *warming_doubts(case.measurement, METRICS[DRAIN]))
    return [settled(judged, -1, times, doubts, lambda left: math.isinf(statistics.median(left)))]
