"""The claim of a threshold: the rounds of a metric keep its limit, in spite of all doubts. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from perfgate.judge.doubts import Doubts, settled
from perfgate.judge.phrases import KEPT_THOUGH_LATE
from perfgate.judge.rates import RATE_TAKEN, rate_doubts
from perfgate.judge.rounds import FEWEST_SOUND, only_sent_late, rounds_with, spoilt, values_of
from perfgate.judge.scenario_case import PlainCase, claim
from perfgate.judge.statistics import centre_of, clipped, many, spread
from perfgate.judge.warming import growth_doubt, unsteady_doubts, warming_doubts
from perfgate.model import NO_USAGE, Judgement, Measurement, MetricInfo, Scenario, Threshold, Verdict
from perfgate.model.compared import SENT_LATE
from perfgate.model.flaw import Doubt, explained

TOO_GOOD = 2
"""A gain of more than this many times the limit's distance needs an explanation before it counts."""
CPU = ("broker_cpu_us_per_record", "broker_cpu_cores.sum", "broker_cpu_cores.max")
COARSE = 0.7
"""A centre whose standard error is more than this share of the limit's distance decides nothing: three rounds that
spread 1.2 times as wide as the limit's distance, fifteen that spread 2.6 times as wide."""


def judge_threshold(values: Sequence[float], threshold: Threshold, *, published: bool = False) -> Judgement:
    """Judge the rounds' `values` of a metric by its threshold; a `published` threshold is of another machine.

    REGRESSED: see :func:`is_red`; where rounds get better by more than the limit's distance, only if the last round
    grown once more is beyond it too. PASS: the centre keeps the limit by at least its error, which is no larger than
    COARSE of the limit's distance, and the tolerance, and fewer than :func:`many` rounds lie beyond the limit.
    IMPROVED: it passes, and the whole interval lies as far off on the good side (where less is better: the baseline
    over the figure), but not TOO_GOOD times as far. All else, NaN too, is INCONCLUSIVE.
    """
    sign, centre = threshold.metric.sign, centre_of(values)
    middle, worst_end = centre.middle, centre.interval[0 if sign > 0 else 1]
    better_limit = threshold.baseline * (1 + threshold.reach) ** sign
    beyond = sum(sign * (value - threshold.limit) < 0 for value in values)
    gain = sign * (middle / threshold.baseline - 1)
    too_good = threshold.baseline * (1 + TOO_GOOD * threshold.reach) ** sign
    verdict, reason = Verdict.INCONCLUSIVE, ""
    # Conditions of a green verdict are written so that what is no number (NaN) does not fulfil them.
    if is_red(values, threshold):
        verdict = Verdict.REGRESSED
    elif not centre.error <= COARSE * threshold.reach * middle:
        reason = "the rounds spread too wide for the limit's distance"
    elif not centre.keeps(threshold.limit, sign):
        reason = "the limit lies within the error of the centre"
    elif not gain >= -threshold.tolerance:
        reason = (
            f"{-gain * 100:.1f} % worse than the baseline, more than the tolerance of {threshold.tolerance * 100:g} %, "
            f"but runs scatter so much that only {threshold.reach * 100:.0f} % is red: record more runs"
        )
    elif beyond >= many(len(values)):
        reason = f"{beyond} of {len(values)} rounds lie beyond the limit"
    elif sign * (middle - too_good) > 0 and not published:
        reason = (
            f"too good: {middle:.4g} is beyond {too_good:.4g}, which is {TOO_GOOD} x the {threshold.reach * 100:.0f} % "
            "that it may lose; find out why, and if it is meant record new thresholds"
        )
    elif sign * (worst_end - better_limit) > 0:
        verdict = Verdict.IMPROVED
    else:
        verdict = Verdict.PASS
    judged = Judgement(
        verdict=verdict,
        metric=threshold.metric.name,
        measured=middle,
        spread=spread(values),
        interval=centre.interval,
        limit=threshold.limit,
        baseline=threshold.baseline,
        tolerance=threshold.tolerance,
        reach=threshold.reach,
        reason=reason,
    )
    if verdict is not Verdict.REGRESSED:
        return judged
    growing = growth_doubt(values, threshold.metric, threshold.reach)
    return settled(judged, sign, values, [growing] * len(values), partial(is_red, threshold=threshold))


def is_red(values: Sequence[float], threshold: Threshold) -> bool:
    """Whether the centre is beyond the limit by more than its standard error, or its whole interval is."""
    sign, limit = threshold.metric.sign, threshold.limit
    # What lies far beyond counts as nearer: distance does not make it less certain.
    return centre_of(clipped(values, sign, limit, threshold.reach * threshold.baseline)).beyond(limit, sign)


def weighed(case: PlainCase, threshold: Threshold) -> Judgement:
    """Judge the rounds of a metric by its threshold, with all doubts about them.

    What is flawed or missing in some rounds is not judged, unless the rounds that have it are red without what their
    flaws explain, or a latency is green with all that late sends added.
    """
    measurement, metric, red = case.measurement, threshold.metric, partial(is_red, threshold=threshold)
    rounds = rounds_with(measurement.rounds, metric.name)
    values = values_of(rounds, metric.name)
    lacking = _lacking(measurement, metric.name, len(values))
    if lacking and len(values) < FEWEST_SOUND:
        return lacking
    judged = judge_threshold(values, threshold, published=case.published)
    is_loss = judged.verdict is Verdict.REGRESSED
    rate = (doubt for doubt in rate_doubts(threshold, measurement.scenario.load) if is_loss or doubt.factor == 1)
    common = (*case.doubts, *warming_doubts(measurement, metric), *rate)
    if is_loss:
        others = (*common, *(doubt for of_round in case.machine.values() for doubt in of_round))
        common = (*common, *unsteady_doubts(measurement, metric), *_queue_doubts(measurement, metric, others))
    doubts: Doubts = case.doubts_by_round(rounds, *common)
    # What late sends added is in the figures: green with it is green.
    if kept_though_late := judged.verdict.green and only_sent_late(measurement, metric.name):
        doubts = [[doubt for doubt in of_round if doubt.kind != SENT_LATE] for of_round in doubts]
    final = settled(judged, metric.sign, values, doubts, red)
    if lacking and kept_though_late and final.verdict.green:
        return replace(final, reason=f"{KEPT_THOUGH_LATE}: {lacking.reason}")
    return lacking if lacking and final.verdict is not Verdict.REGRESSED else final


def _queue_doubts(measurement: Measurement, metric: MetricInfo, others: Sequence[Doubt]) -> tuple[Doubt, ...]:
    """Doubts about the wait of a paced load whose missing rate others explain: they explain its queue too.

    Where brokers are slower by a factor f than the load, a record that is due after t waits t * (f - 1).
    """
    short = [r for r in rounds_with(measurement.rounds, "records_per_s") if r.not_sustained]
    factor, _ = explained(others, "records_per_s")
    if "latency_ms." not in metric.name or not short or not 1 < factor < math.inf:
        return ()
    taken = statistics.median(r.metrics["records_per_s"] for r in short) * factor
    if taken < RATE_TAKEN * measurement.scenario.load.rate:
        return ()
    wait_s = (factor - 1) * max(r.warmup_s + r.window_s for r in short)
    text = f"the rate that is missing is explained, and so is a queue of {wait_s:.1f} s"
    return (Doubt(kind="queue", whose="unknown", text=text, offset=1e3 * wait_s),)


def _lacking(measurement: Measurement, metric: str, measured: int) -> Judgement | None:
    """The judgement of a metric that some rounds lack, or have flawed; None where all have it."""
    if reason := spoilt(measurement, metric):
        return Judgement(verdict=Verdict.INVALID, metric=metric, reason=reason)
    if measured == len(measurement.rounds):
        return None
    if unavailable := next((r.usage_unavailable for r in measurement.rounds if r.usage_unavailable), ""):
        return Judgement(verdict=Verdict.INCONCLUSIVE, metric=metric, reason=f"unavailable: {unavailable}")
    reason = f"measured in {measured} of {len(measurement.rounds)} rounds only"
    return Judgement(verdict=Verdict.INVALID, metric=metric, reason=reason)


@claim(10)
def thresholds(case: PlainCase, _: Sequence[Judgement]) -> list[Judgement]:
    return [weighed(case, threshold) for threshold in case.thresholds]


@claim(30)
def has_thresholds(case: PlainCase, judged: Sequence[Judgement]) -> list[Judgement]:
    """Every required metric has a threshold; a table of published figures need not."""
    if case.published and case.thresholds:
        return []
    known = {judgement.metric for judgement in judged}
    blind = all(r.untold.get("CPU") == NO_USAGE for r in case.measurement.rounds)  # so no run could be a baseline of it
    return [
        Judgement(verdict=Verdict.MISSING, metric=group[0], reason="no threshold")
        for group in required(case.scenario)
        if not known.intersection(group) and not (group is CPU and blind)
    ]


def required(scenario: Scenario) -> tuple[tuple[str, ...], ...]:
    """The metrics that must be judged for a scenario: one of each group."""
    return (*((name,) for name in scenario.judged), CPU)
