"""Figures of rounds with a fault: those that count, and what doubts about the load leave of a red figure. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from perfgate.judge.doubts import without_explained
from perfgate.judge.phrases import joined
from perfgate.model import METRICS, NEGLIGIBLE_GAP_S, Judgement, Measurement, Round, Verdict
from perfgate.model.faults import LATE
from perfgate.model.flaw import Doubt, explained

OTHERS = "others_receive_outage_s.max"
OUTAGE, RECEIVING, RECOVERY, RATE_RECOVERY = "outage_s.max", "receive_outage_s.max", "recovery_s", "rate_recovery_s"
GAPS = (OUTAGE, RECEIVING, OTHERS)
CATCH_UP, DRAINED = "catch_up_s", "lag_drained_s"
TIMES_UNTIL = (RECOVERY, RATE_RECOVERY, CATCH_UP, DRAINED, "full_isr_s", "preferred_leaders_s")
"""Times until something is as before: a round without such a time never got there."""
RESOLUTION, LATE_SENDS = "outage_resolution_s", "late_sends_s"
LONGEST_PAUSE_S = 2.0
"""Longer gaps before a fault are stalls of the brokers: a busy machine pauses a load for 0.5 s, rarely 1.5."""
PAUSE_FACTOR = 5.0
"""The longest gap without a fault exceeds its p99 several times over: an outage below this many p99 may be a gap."""

Rule = Callable[[Sequence[float]], Judgement]
"""Judges the figures of the rounds that count; infinity is a time that never ended."""


def counting(measurement: Measurement, metric: str) -> tuple[Round, ...]:
    """The rounds whose flaws do not explain everything of this metric."""
    return tuple(r for r in measurement.rounds if explained(flaws_of(r, metric), metric)[0] < math.inf)


def flaws_of(r: Round, metric: str) -> tuple[Doubt, ...]:
    flaws = tuple(doubt for doubt in r.doubts if doubt.touches(metric))
    if r.no_number(metric):
        flaws = (*flaws, Doubt(kind="no number", whose="unknown", text=r.spoilt(metric), factor=None))
    return flaws


def figures(measurement: Measurement, metric: str) -> list[tuple[float, tuple[Doubt, ...]]]:
    """The figures of the rounds that count and have it, or never got there, each with all doubts about it."""
    never = math.inf if metric in TIMES_UNTIL else None
    return [
        (value, (*flaws_of(r, metric), *_of_the_load(r, metric, value)))
        for r in counting(measurement, metric)
        if (value := r.metrics.get(metric, never)) is not None
    ]


def weighed(measurement: Measurement, metric: str, rule: Rule) -> Judgement:
    """The judgement by the rule of the rounds that count, as far as doubts leave it.

    REGRESSED stays where the rule says so without what doubts explain; else flaws of any round make it INVALID. A load
    that paused casts doubt on an outage that keeps its limit by less.
    """
    by_round = figures(measurement, metric)
    values, doubts = [value for value, _ in by_round], [of_round for _, of_round in by_round]
    judged = rule(values)
    flaws = [flaw for r in measurement.rounds for flaw in flaws_of(r, metric)]
    if judged.verdict is Verdict.REGRESSED:
        left = without_explained(values, METRICS[metric].sign, metric, doubts)
        why = _words([doubt for of_round in doubts for doubt in of_round], metric, judged)
        if rule(left).verdict is Verdict.REGRESSED:
            return replace(judged, reason=joined(judged.reason, why and f"red in spite of: {why}"))
        verdict = Verdict.INVALID if flaws else Verdict.INCONCLUSIVE
        return replace(judged, verdict=verdict, reason=joined(why, judged.reason))
    if flaws:
        reason = "; ".join(dict.fromkeys(flaw.text for flaw in flaws))
        return replace(judged, verdict=Verdict.INVALID, reason=reason)
    pauses_s = resolution_s(measurement) if metric in GAPS else 0.0
    measured, limit = judged.measured, judged.limit
    close = measured is not None and limit is not None and measured + pauses_s > limit
    if pauses_s and close and judged.verdict is Verdict.PASS:
        reason = joined(f"{_paused(pauses_s)}; the limit lies within that", judged.reason)
        return replace(judged, verdict=Verdict.INCONCLUSIVE, reason=reason)
    return judged


def resolution_s(measurement: Measurement) -> float:
    """The resolution of an outage, in s: the p99 of the load's own gaps, if not negligible."""
    longest = max((r.metrics.get(RESOLUTION, 0.0) for r in measurement.rounds), default=0.0)
    return longest if longest > NEGLIGIBLE_GAP_S else 0.0


def _of_the_load(r: Round, metric: str, value: float) -> tuple[Doubt, ...]:
    """Doubts by how much pauses of the load, or late sends, lengthened an outage."""
    if metric not in GAPS:
        return ()
    doubts = []
    if (pauses_s := min(r.metrics.get(RESOLUTION, 0.0), LONGEST_PAUSE_S)) > NEGLIGIBLE_GAP_S:
        offset_s = value if value < PAUSE_FACTOR * pauses_s else pauses_s
        doubts.append(Doubt(kind=LATE, whose="load", text=_paused(pauses_s), offset=offset_s))
    if (late_s := r.metrics.get(LATE_SENDS, 0.0)) > 0:
        text = f"sends were late themselves since the fault: without that it is {max(0.0, value - late_s):.2f} s"
        doubts.append(Doubt(kind=LATE, whose="load", text=text, offset=late_s))
    return tuple(doubts)


def _paused(seconds: float) -> str:
    return f"the load itself paused for {seconds:.2f} s (p99) before the fault"


def _words(doubts: Sequence[Doubt], metric: str, judged: Judgement) -> str:
    if not doubts:
        return ""
    texts = "; ".join(dict.fromkeys(doubt.text for doubt in doubts))
    factor, offset = explained(doubts, metric)
    if judged.measured is None or math.isinf(factor):
        return texts
    unit = METRICS[metric].unit
    parts = [f"{offset:.3g} {unit}" if offset or factor == 1 else "", f"a factor of {factor:.3g}" if factor > 1 else ""]
    return f"{texts}, which explains {' and '.join(filter(None, parts))} of the {judged.measured:.3g} {unit} measured"
