"""Rules of the verdict: pure functions of (measurement, thresholds), judged metric by metric."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence
from dataclasses import replace

from perfgate.judge.faults.rules import damage, judge_fault
from perfgate.judge.messages import WARMING
from perfgate.judge.more_hosts import more_hosts
from perfgate.judge.noise import disturbed
from perfgate.judge.rates import at_another_rate, at_its_cap
from perfgate.judge.statistics import centre_error, many, median_interval, spread
from perfgate.judge.warming import still_growing
from perfgate.model import (
    DECIDES_PACED,
    NO_USAGE,
    FaultScenario,
    Judgement,
    Measurement,
    Outcome,
    Profile,
    Scenario,
    Threshold,
    Verdict,
)
from perfgate.model.summary import centre

CPU = ("broker_cpu_us_per_record", "broker_cpu_cores.sum", "broker_cpu_cores.max")


DECIDES = {"paced": DECIDES_PACED, "ramp": "knee_records_per_s"}


READERS = {"paced": "end_to_end_latency_ms.p99", "capped": "received_records_per_s"}
"""What is held besides where consumers read along: producers may feel nothing of what these wait for."""


def required(scenario: Scenario) -> tuple[tuple[str, ...], ...]:
    """Return what must be held for a scenario: one metric of each group. A paced rate is declared.

    The service level of a ramp is relative to the latency of its first step, which is held for that. Where records are
    to time out it is how many do.
    """
    load = scenario.load
    if load.times_out:
        return (("records_per_s",), CPU)  # a share near 1 hides how much less was taken
    also = (("unloaded_latency_ms.p99",),) if load.kind == "ramp" else ()
    if scenario.consumers and load.kind in READERS:
        also = (*also, (READERS[load.kind],))
    return ((DECIDES.get(load.kind, "records_per_s"),), *also, CPU)


TOO_GOOD = 2
"""A gain of more than so many times the limit's distance is no gain of the brokers', until somebody says why."""


COARSE = 0.7
"""A centre whose standard error is more than this share of the limit's distance tells nothing: three rounds that spread
1.2 times as wide as the limit's distance, fifteen that spread 2.6 times as wide."""


SEVERITY = (
    Verdict.BROKEN,
    Verdict.INVALID,
    Verdict.REGRESSED,
    Verdict.INCONCLUSIVE,
    Verdict.MISSING,
    Verdict.IMPROVED,
    Verdict.PASS,
)


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict that decides when there are several."""
    return min(verdicts, key=SEVERITY.index)


def verdict_of(judgements: Sequence[Judgement]) -> Verdict:
    """Return the verdict of a load that was valid as a whole: a spoilt metric does not hide that another regressed."""
    verdicts = [judgement.verdict for judgement in judgements]
    return Verdict.REGRESSED if Verdict.REGRESSED in verdicts else worst(verdicts)


def sound_part(measurement: Measurement) -> Measurement | None:
    """Return the measurement without its invalid rounds, when enough are left to show that the scenario is slow.

    At least half of them, and two: a round that does not count takes no slowness of the others back. None when all
    count, or too few do.
    """
    sound = tuple(r for r in measurement.rounds if not r.invalid)
    if len(sound) == len(measurement.rounds) or len(sound) < max(2, len(measurement.rounds) / 2):
        return None
    return replace(measurement, rounds=sound)


def spoilt(measurement: Measurement, metric: str) -> str:
    """Return why this metric must not be judged although the rounds are valid; empty when it may."""
    found = [(r.index, reason) for r in measurement.rounds if (reason := r.spoilt(metric))]
    if not found:
        return ""
    index, reason = found[0]
    return f"round {index}: {reason} ({len(found)} of {len(measurement.rounds)} rounds)"


def spoilt_metrics(measurement: Measurement) -> dict[str, str]:
    """Return all metrics that must not be judged although the rounds are valid, with the reason."""
    names = dict.fromkeys(name for r in measurement.rounds for name in r.invalid_metrics)
    return {name: spoilt(measurement, name) for name in names}


def judge_threshold(values: Sequence[float], threshold: Threshold, *, published: bool = False) -> Judgement:
    """Hold the rounds' `values` of one metric against its threshold; one `published` is of another machine.

    REGRESSED: their centre lies beyond the limit by more than its own standard error, or the interval of their median
    does as a whole, and the rounds do not get better by more than the limit's distance (then the brokers still warm
    up). PASS: the centre keeps the limit by at least that error, which is no larger than COARSE of the limit's
    distance, keeps the tolerance too where noise between runs put the limit further off, and fewer than :func:`many`
    rounds lie beyond the limit. IMPROVED: it passes, and the whole interval lies as far off on the good side; but not
    TOO_GOOD times as far, unless another machine was measured. Of what is better when less that is the baseline over
    the figure, so that there is as much room on that side. All else, what is no number too, is INCONCLUSIVE.
    """
    sign = threshold.metric.sign
    middle, width, interval = centre(values), spread(values), median_interval(values)
    worst_end, best_end = interval if sign > 0 else interval[::-1]
    margin, error = sign * (middle - threshold.limit), centre_error(values)
    better_limit = threshold.baseline * (1 + threshold.reach) ** sign
    beyond = sum(sign * (value - threshold.limit) < 0 for value in values)
    gain = sign * (middle / threshold.baseline - 1)
    too_good = threshold.baseline * (1 + TOO_GOOD * threshold.reach) ** sign
    reason = ""
    # Conditions of a green verdict are written so that what is no number (NaN) does not fulfil them.
    if sign * (best_end - threshold.limit) < 0 or margin < -error:
        verdict = Verdict.REGRESSED
        if growth := still_growing(values, threshold.metric.better, threshold.reach):
            verdict = Verdict.INCONCLUSIVE
            reason = f"{WARMING}: it got {growth * 100:.0f} % better from the first round to the last"
    elif not error <= COARSE * threshold.reach * middle:
        verdict, reason = Verdict.INCONCLUSIVE, "the rounds spread too wide for the limit's distance"
    elif not margin >= error:
        verdict, reason = Verdict.INCONCLUSIVE, "the limit lies within the error of the centre"
    elif not gain >= -threshold.tolerance:
        verdict = Verdict.INCONCLUSIVE
        reason = (
            f"{-gain * 100:.1f} % worse than the baseline, more than the tolerance of {threshold.tolerance * 100:g} %, "
            f"but runs scatter so much that only {threshold.reach * 100:.0f} % is red: record more runs"
        )
    elif beyond >= many(len(values)):
        verdict, reason = Verdict.INCONCLUSIVE, f"{beyond} of {len(values)} rounds lie beyond the limit"
    elif sign * (middle - too_good) > 0 and not published:
        verdict = Verdict.INCONCLUSIVE
        reason = (
            f"too good: {middle:.4g} is beyond {too_good:.4g}, which is {TOO_GOOD} x the {threshold.reach * 100:.0f} % "
            "that it may lose; find out why, and if it is meant record new thresholds"
        )
    elif sign * (worst_end - better_limit) > 0:
        verdict = Verdict.IMPROVED
    else:
        verdict = Verdict.PASS
    return Judgement(
        verdict=verdict,
        metric=threshold.metric.name,
        measured=middle,
        spread=width,
        interval=interval,
        limit=threshold.limit,
        baseline=threshold.baseline,
        tolerance=threshold.tolerance,
        reach=threshold.reach,
        reason=reason,
    )


def judge_scenario(measurement: Measurement, profile: Profile | None) -> Outcome:
    """Judge every metric of a scenario that the profile holds, and say what it lacks."""
    return replace(_judged(measurement, profile), more_hosts=more_hosts(measurement))


def _judged(measurement: Measurement, profile: Profile | None) -> Outcome:
    row, name = measurement.scenario, measurement.scenario.name
    noise = disturbed(measurement.canary, profile.canary if profile else None)
    reasons = invalid_reasons(measurement)
    lost = damage(row, measurement) if isinstance(row, FaultScenario) else []
    if lost and reasons:  # a round that does not count takes no lost record of another one back
        notes = [f"{j.metric}: {j.reason}" for j in lost]
        return Outcome(name=name, verdict=Verdict.REGRESSED, judgements=tuple(lost), reasons=(*notes, *reasons))
    loaded = (*measurement.rounds, *measurement.one_host_fewer)
    if broken := [f"round {r.index}: {reason}" for r in loaded for reason in r.broken]:
        only_late = all(set(r.broken) <= set(r.perhaps_late) for r in loaded)
        if only_late and (excuse := disturbed(measurement.canary, None)):
            return Outcome(name=name, verdict=Verdict.INVALID, judgements=(), reasons=(*broken, excuse))
        return Outcome(name=name, verdict=Verdict.BROKEN, judgements=(), reasons=tuple(broken))
    if reasons and (sound := sound_part(measurement)):
        outcome = judge_scenario(sound, profile)
        if outcome.verdict.red:
            return replace(outcome, reasons=(*outcome.reasons, *reasons))
    if noise and not lost and not any(r.invalid for r in measurement.rounds) and len(measurement.rounds) < 2:
        reasons = tuple(filter(None, (noise, warming(measurement))))
        return Outcome(name=name, verdict=Verdict.INCONCLUSIVE, judgements=(), reasons=reasons)
    if reasons:
        return Outcome(name=name, verdict=Verdict.INVALID, judgements=(), reasons=reasons)
    if measurement.scenario.refusal:  # every round's brokers refused it, as they must
        return Outcome(name=name, verdict=Verdict.PASS, judgements=())
    thresholds = profile.thresholds.get(name, ()) if profile else ()
    published = profile is not None and profile.reference
    if isinstance(row, FaultScenario):
        return judge_fault(row, measurement, thresholds)
    judgements = []
    for threshold in thresholds:
        values = [r.metrics[threshold.metric.name] for r in measurement.rounds if threshold.metric.name in r.metrics]
        unavailable = next((r.usage_unavailable for r in measurement.rounds if r.usage_unavailable), "")
        if reason := spoilt(measurement, threshold.metric.name):
            judgements.append(Judgement(verdict=Verdict.INVALID, metric=threshold.metric.name, reason=reason))
        elif len(values) == len(measurement.rounds):
            found = judge_threshold(values, threshold, published=published)
            judgements.append(at_another_rate(found, threshold, row.load))
        elif unavailable:
            reason = f"unavailable: {unavailable}"
            judgements.append(Judgement(verdict=Verdict.INCONCLUSIVE, metric=threshold.metric.name, reason=reason))
        else:
            reason = f"measured in {len(values)} of {len(measurement.rounds)} rounds only"
            judgements.append(Judgement(verdict=Verdict.INVALID, metric=threshold.metric.name, reason=reason))
    judgements += _sustained(measurement, held=bool(thresholds))
    if unsure := "; ".join(filter(None, (noise, warming(measurement), _lower_cap(measurement, thresholds)))):
        judgements = [
            j if j.verdict is Verdict.INVALID else replace(j, verdict=Verdict.INCONCLUSIVE, reason=unsure)
            for j in judgements
        ]
    cut_off = sum(not r.steady and not r.not_sustained for r in measurement.rounds)
    if 2 * cut_off > len(measurement.rounds):
        reason = f"{WARMING}: in {cut_off} of {len(measurement.rounds)} rounds the rate was not steady at the start"
        judgements = [
            replace(j, verdict=Verdict.INCONCLUSIVE, reason=reason) if j.verdict is Verdict.REGRESSED else j
            for j in judgements
        ]
    held = {judgement.metric for judgement in judgements}
    blind = all(r.untold.get("CPU") == NO_USAGE for r in measurement.rounds)  # so no run could be a baseline of it
    judgements += [
        Judgement(verdict=Verdict.MISSING, metric=group[0], reason="no threshold")
        for group in required(measurement.scenario)
        if not held.intersection(group) and not (group is CPU and blind)
        if not (published and thresholds)  # a table holds what it holds
    ]
    notes = [f"{j.metric}: {j.reason}" for j in judgements if j.reason]
    notes += [f"{metrics} is not valid: {reason}" for metrics, reason in _spoilt_beside(measurement, held).items()]
    verdict = verdict_of(judgements)
    if (why := unsettled(measurement)) and verdict.green | (verdict is Verdict.MISSING):
        # Without a threshold too: figures of cold brokers, or of generators, are no figures to go by.
        verdict, notes = Verdict.INCONCLUSIVE, [*notes, why]
    return Outcome(name=name, verdict=verdict, judgements=tuple(judgements), reasons=tuple(notes))


def _spoilt_beside(measurement: Measurement, held: Collection[str]) -> dict[str, str]:
    """Return the spoilt metrics that nothing is held against, with the reason: a note, no verdict."""
    judged = {name.partition(".")[0] for name in held}
    return {name: reason for name, reason in spoilt_metrics(measurement).items() if name not in judged}


def warming(measurement: Measurement) -> str:
    """Return that the brokers were still warming up while the rounds were measured; empty when they were not."""
    return f"{WARMING}: {measurement.warming}" if measurement.warming else ""


def _lower_cap(measurement: Measurement, thresholds: Sequence[Threshold]) -> str:
    """Return that the load came to a cap below the stored limit of its rate, so that the figures are of another load.

    What a record costs the brokers differs with the load, too. A target file's limits lower caps.
    """
    load = measurement.scenario.load
    limit = max((t.limit for t in thresholds if t.metric.name == "records_per_s"), default=0.0)
    if load.kind != "capped" or not limit > load.rate or not at_its_cap(measurement):
        return ""
    return f"reached its cap of {load.rate:,.0f} records/s; the stored limit of {limit:,.0f} is of a higher one"


def unsettled(measurement: Measurement) -> str:
    """Return why nothing green may be said of it: brokers that still warmed up, generators that may be the limit."""
    found = more_hosts(measurement)
    return "; ".join(filter(None, (warming(measurement), found.words if found and found.finding == "unknown" else "")))


def _sustained(measurement: Measurement, *, held: bool) -> list[Judgement]:
    """Return a judgement when the brokers did not take a paced load, whatever the thresholds: red in most rounds.

    A load that is declared to probe must only be taken where a threshold is `held` against it.
    """
    if measurement.scenario.load.probes and not held:
        return []
    short = [r.not_sustained for r in measurement.rounds if r.not_sustained]
    if not short:
        return []
    verdict = Verdict.REGRESSED if 2 * len(short) > len(measurement.rounds) else Verdict.INCONCLUSIVE
    reason = f"{short[0]} ({len(short)} of {len(measurement.rounds)} rounds)"
    measured = statistics.median(r.metrics["records_per_s"] for r in measurement.rounds)
    rate = measurement.scenario.load.rate
    return [Judgement(verdict=verdict, metric="records_per_s", measured=measured, limit=rate, reason=reason)]


def tells_nothing(measurement: Measurement) -> str:
    """Return why this machine cannot show what relations state of the scenario; empty when it can.

    Its brokers did not take, in some round, a rate that is declared to probe, or took a rate of which records are to
    time out so well that none did.
    """
    load = measurement.scenario.load
    if load.probes and any(r.not_sustained for r in measurement.rounds):
        return "offers more than the brokers take here"
    shares = [r.metrics.get("timed_out_share") for r in measurement.rounds]
    if load.times_out and shares and not any(share is None or share > 0 for share in shares):
        return "no record timed out here: the brokers take the whole rate"
    return ""


def invalid_reasons(measurement: Measurement) -> tuple[str, ...]:
    """Return why the measurement must not be judged; empty when it may."""
    if not measurement.rounds:
        return ("no round was measured",)
    reasons = [f"round {r.index}: {reason}" for r in measurement.rounds for reason in r.invalid]
    if isinstance(measurement.scenario, FaultScenario):
        return tuple(reasons)  # what a fault costs is held round by round: one tells
    if not reasons and len(measurement.rounds) < 2:
        reasons = ["one round was measured; a spread needs two"]
    if (found := more_hosts(measurement)) and found.finding == "saturated":
        reasons.append(found.words)
    return tuple(reasons)
