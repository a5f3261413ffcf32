"""The claim of a paced load: the brokers take all of its rate. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from perfgate.judge.doubts import Doubts, settled
from perfgate.judge.rates import RATE_TAKEN
from perfgate.judge.scenario_case import PlainCase, claim
from perfgate.judge.warming import warming_doubts
from perfgate.model import METRICS, Judgement, Verdict


@claim(20)
def rate_is_taken(case: PlainCase, _: Sequence[Judgement]) -> list[Judgement]:
    """REGRESSED where brokers did not take it in most rounds; INCONCLUSIVE in fewer.

    A probing load must only be taken where the scenario has a threshold.
    """
    load, measured = case.scenario.load, case.measurement.rounds
    short = [r.not_sustained for r in measured if r.not_sustained]
    rounds = [r for r in measured if "records_per_s" in r.metrics]
    if not short or not rounds or (load.probes and not case.thresholds):
        return []
    rates = [r.metrics["records_per_s"] for r in rounds]
    judged = Judgement(
        verdict=Verdict.REGRESSED if 2 * len(short) > len(rounds) else Verdict.INCONCLUSIVE,
        metric="records_per_s",
        measured=statistics.median(rates),
        limit=load.rate,
        reason=f"{short[0]} ({len(short)} of {len(rounds)} rounds)",
    )
    warming = warming_doubts(case.measurement, METRICS["records_per_s"])
    doubts: Doubts = [(*r.doubts, *case.machine.get(r.index, ()), *warming) for r in rounds]
    return [settled(judged, 1, rates, doubts, lambda values: statistics.median(values) < RATE_TAKEN * load.rate)]
