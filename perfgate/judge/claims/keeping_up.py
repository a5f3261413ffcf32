"""Claims of keeping up: brokers take a whole rate, and consumers that can work off all that is sent. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from perfgate.judge.doubts import settled
from perfgate.judge.rates import RATE_TAKEN, RATE_WHOLE
from perfgate.judge.scenario_case import PlainCase, claim
from perfgate.judge.warming import warming_doubts
from perfgate.model import METRICS, Judgement, Load, Round, Verdict
from perfgate.model.metrics import DRAIN, LAG


@claim(20)
def rate_is_taken(case: PlainCase, _: Sequence[Judgement]) -> list[Judgement]:
    """REGRESSED where it was not in most rounds; INCONCLUSIVE in fewer, but for stalls at windows' edges."""
    load, measured = case.scenario.load, case.measurement.rounds
    short = [r.not_sustained for r in measured if r.not_sustained]
    rounds = [r for r in measured if "records_per_s" in r.metrics]
    if not short or not rounds or (load.probes and not case.thresholds):
        return []
    if 2 * len(short) <= len(rounds) and _is_whole(load, rounds):
        return []
    rates = [r.metrics["records_per_s"] for r in rounds]
    judged = Judgement(
        verdict=Verdict.REGRESSED if 2 * len(short) > len(rounds) else Verdict.INCONCLUSIVE,
        metric="records_per_s",
        measured=statistics.median(rates),
        limit=load.rate,
        reason=f"{short[0]} ({len(short)} of {len(rounds)} rounds)",
    )
    doubts = case.doubts_by_round(rounds, *warming_doubts(case.measurement, METRICS["records_per_s"]))
    return [settled(judged, 1, rates, doubts, lambda values: statistics.median(values) < RATE_TAKEN * load.rate)]


def _is_whole(load: Load, rounds: Sequence[Round]) -> bool:
    """Whether all that is missing is the little that was not yet acknowledged as windows closed: latency shows that."""
    least = RATE_WHOLE * load.rate
    # Where the rate is whole, or the load has phases, the round was short of something else.
    of_rate = all(r.metrics["records_per_s"] < least for r in rounds if r.not_sustained)
    # What was caught up with in another round is not made up for: it was late.
    taken = statistics.fmean(min(r.metrics["records_per_s"], load.rate) for r in rounds)
    return load.shape is None and of_rate and taken >= least


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
