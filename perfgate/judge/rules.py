"""Rules of the verdict: pure functions of (measurement, thresholds), judged metric by metric."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from perfgate.judge.faults.rules import damage, judge_fault
from perfgate.judge.messages import WARMING
from perfgate.judge.more_hosts import host_doubts, more_hosts
from perfgate.judge.noise import late_by_machine, machine_doubts_by_round
from perfgate.judge.rates import at_its_cap, centre_rate
from perfgate.judge.repeated import starved_by_brokers
from perfgate.judge.spoilt import FEWEST_SOUND, sound_part, spoilt_beside
from perfgate.judge.threshold_rule import RATE_TAKEN, hold
from perfgate.judge.unexplained import Doubts, settled
from perfgate.judge.warming import warming_doubts
from perfgate.model import (
    DECIDES_PACED,
    METRICS,
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
from perfgate.model.doubt import Doubt
from perfgate.model.judged import severity

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


def verdict_of(judgements: Sequence[Judgement]) -> Verdict:
    """Return the verdict of a load that was valid as a whole: a spoilt metric does not hide that another regressed."""
    return min((judgement.verdict for judgement in judgements), key=severity)


def judge_scenario(measurement: Measurement, profile: Profile | None) -> Outcome:
    """Judge every metric of a scenario that the profile holds, and say what it lacks."""
    return replace(_judged(measurement, profile), more_hosts=more_hosts(measurement))


def _judged(measurement: Measurement, profile: Profile | None) -> Outcome:
    row, name = measurement.scenario, measurement.scenario.name
    machine = machine_doubts_by_round(measurement, profile.canary if profile else None)
    reasons = invalid_reasons(measurement)
    lost = damage(row, measurement) if isinstance(row, FaultScenario) else []
    if lost and reasons:  # a round that does not count takes no lost record of another one back
        notes = [f"{j.metric}: {j.reason}" for j in lost]
        return Outcome(name=name, verdict=Verdict.REGRESSED, judgements=tuple(lost), reasons=(*notes, *reasons))
    loaded = (*measurement.rounds, *measurement.one_host_fewer)
    if broken := [f"round {r.index}: {reason}" for r in loaded for reason in r.broken]:
        only_late = all(flaw.late for r in loaded for flaw in r.flaws if flaw.broken)
        excuse = only_late and late_by_machine(measurement, [r.index for r in loaded if r.broken])
        if not excuse:
            return Outcome(name=name, verdict=Verdict.BROKEN, judgements=(), reasons=tuple(broken))
        reasons = (*dict.fromkeys((*broken, *reasons)), excuse)
        measurement = replace(measurement, rounds=tuple(r for r in measurement.rounds if not r.broken))
    thresholds = profile.thresholds.get(name, ()) if profile else ()
    if reasons:
        red = _red_in_spite(measurement, thresholds, machine)
        notes = [f"{j.metric}: {j.reason}" for j in red if j.reason]
        verdict = Verdict.REGRESSED if red else Verdict.INVALID
        return Outcome(name=name, verdict=verdict, judgements=tuple(red), reasons=(*notes, *reasons))
    if measurement.scenario.refusal:  # every round's brokers refused it, as they must
        return Outcome(name=name, verdict=Verdict.PASS, judgements=())
    published = profile is not None and profile.reference
    if isinstance(row, FaultScenario):
        return judge_fault(row, measurement, thresholds)
    judgements = [
        hold(measurement, threshold, published=published, machine=machine, beside=_lower_cap(measurement, thresholds))
        for threshold in thresholds
    ]
    judgements += _sustained(measurement, machine, held=bool(thresholds))
    held = {judgement.metric for judgement in judgements}
    blind = all(r.untold.get("CPU") == NO_USAGE for r in measurement.rounds)  # so no run could be a baseline of it
    judgements += [
        Judgement(verdict=Verdict.MISSING, metric=group[0], reason="no threshold")
        for group in required(measurement.scenario)
        if not held.intersection(group) and not (group is CPU and blind)
        if not (published and thresholds)  # a table holds what it holds
    ]
    notes = [f"{j.metric}: {j.reason}" for j in judgements if j.reason]
    notes += [f"{metrics} is not valid: {reason}" for metrics, reason in spoilt_beside(measurement, held).items()]
    verdict = verdict_of(judgements)
    if (why := unsettled(measurement)) and verdict.green | (verdict is Verdict.MISSING):
        # Without a threshold too: figures of cold brokers, or of generators, are no figures to go by.
        verdict, notes = Verdict.INCONCLUSIVE, [*notes, why]
    return Outcome(name=name, verdict=verdict, judgements=tuple(judgements), reasons=tuple(notes))


def _red_in_spite(
    measurement: Measurement, thresholds: Sequence[Threshold], machine: Mapping[int, Sequence[Doubt]]
) -> list[Judgement]:
    """Return what is REGRESSED although rounds do not count, or count in part: by what their flaws do not explain."""
    if isinstance(measurement.scenario, FaultScenario):  # what a fault costs is held round by round: one tells
        if not any(r.failover for r in measurement.rounds):
            return []
        outcome = judge_fault(measurement.scenario, measurement, thresholds)
        return [judgement for judgement in outcome.judgements if judgement.verdict is Verdict.REGRESSED]
    if len(measurement.rounds) < FEWEST_SOUND:
        return []
    sound = sound_part(measurement)
    beside = (*host_doubts(measurement), *_lower_cap(sound or measurement, thresholds))
    found = [hold(measurement, threshold, machine=machine, beside=beside) for threshold in thresholds]
    found += _sustained(measurement, machine, held=bool(thresholds))
    return [judgement for judgement in found if judgement.verdict is Verdict.REGRESSED]


def warming(measurement: Measurement) -> str:
    """Return that the brokers were still warming up while the rounds were measured; empty when they were not."""
    return f"{WARMING}: {measurement.warming}" if measurement.warming else ""


def _lower_cap(measurement: Measurement, thresholds: Sequence[Threshold]) -> tuple[Doubt, ...]:
    """Return that the load came to a cap below the stored limit of its rate, so that the figures are of another load.

    What a record costs the brokers differs with the load, too: by no more than the loads do. A target file's limits
    lower caps.
    """
    load = measurement.scenario.load
    limit = max((t.limit for t in thresholds if t.metric.name == "records_per_s"), default=0.0)
    if load.kind != "capped" or not limit > load.rate or not at_its_cap(measurement):
        return ()
    text = f"reached its cap of {load.rate:,.0f} records/s; the stored limit of {limit:,.0f} is of a higher one"
    baseline = max(t.baseline for t in thresholds if t.metric.name == "records_per_s")
    return (Doubt(kind="cap", whose="load", text=text, factor=baseline / min(load.rate, centre_rate(measurement))),)


def unsettled(measurement: Measurement) -> str:
    """Return why nothing green may be said of it.

    Brokers still warmed up, generators may be the limit, or a rate that probes was taken in some rounds only.
    """
    found = more_hosts(measurement)
    hosts = found.words if found and found.finding == "unknown" else ""
    reasons = (warming(measurement), starved_by_brokers(measurement), hosts, _at_the_edge(measurement))
    return "; ".join(filter(None, reasons))


def _at_the_edge(measurement: Measurement) -> str:
    """Return that brokers took a rate that is declared to probe in some rounds and not in others."""
    short = sum(bool(r.not_sustained) for r in measurement.rounds)
    if not measurement.scenario.load.probes or not 0 < short < len(measurement.rounds):
        return ""
    return f"the brokers did not take the whole rate in {short} of {len(measurement.rounds)} rounds"


def _sustained(measurement: Measurement, machine: Mapping[int, Sequence[Doubt]], *, held: bool) -> list[Judgement]:
    """Return a judgement when the brokers did not take a paced load, whatever the thresholds: red in most rounds.

    A load that is declared to probe must only be taken where a threshold is `held` against it.
    """
    if measurement.scenario.load.probes and not held:
        return []
    short = [r.not_sustained for r in measurement.rounds if r.not_sustained]
    if not short:
        return []
    rounds = [r for r in measurement.rounds if "records_per_s" in r.metrics]
    verdict = Verdict.REGRESSED if 2 * len(short) > len(rounds) else Verdict.INCONCLUSIVE
    reason = f"{short[0]} ({len(short)} of {len(rounds)} rounds)"
    rates = [r.metrics["records_per_s"] for r in rounds]
    if not rates:
        return []
    measured, rate = statistics.median(rates), measurement.scenario.load.rate
    judged = Judgement(verdict=verdict, metric="records_per_s", measured=measured, limit=rate, reason=reason)
    doubts: Doubts = [
        (*r.doubts, *machine.get(r.index, ()), *warming_doubts(measurement, METRICS["records_per_s"])) for r in rounds
    ]
    return [settled(judged, 1, rates, doubts, lambda values: statistics.median(values) < RATE_TAKEN * rate)]


def no_longer_taken(outcome: Outcome, measurement: Measurement, former: Sequence[float]) -> Outcome:
    """Return the outcome, INCONCLUSIVE where brokers took a probing rate in no round that they took in a former run.

    `former`: the rates of runs like this one, in records/s. Without a threshold such a rate may lie beyond the machine;
    one that was taken before does not.
    """
    rate, most = measurement.scenario.load.rate, max(former, default=0.0)
    if outcome.verdict is not Verdict.MISSING or not measurement.scenario.load.probes or most < RATE_TAKEN * rate:
        return outcome
    if not measurement.rounds or not all(r.not_sustained for r in measurement.rounds):
        return outcome
    reason = f"{measurement.rounds[0].not_sustained}; a former run like this one took {most:,.0f} records/s"
    return replace(outcome, verdict=Verdict.INCONCLUSIVE, reasons=(reason, *outcome.reasons))


def tells_nothing(measurement: Measurement) -> str:
    """Return why this machine cannot show what relations state of the scenario; empty when it can.

    Its brokers took a rate that is declared to probe in no round, or took a rate of which records are to time out so
    well that none did.
    """
    load = measurement.scenario.load
    if load.probes and measurement.rounds and all(r.not_sustained for r in measurement.rounds):
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
