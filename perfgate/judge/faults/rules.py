"""The verdict over a scenario with a fault: no loss that its settings rule out, an outage as short as promised."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from perfgate.faults.time import GROWN
from perfgate.judge.faults.controllers import took_over
from perfgate.judge.faults.expectation import (
    expected_outage,
    expected_receiving,
    had_no_effect,
    others_receiving,
    told_session_s,
)
from perfgate.judge.faults.failing import failed_sends
from perfgate.judge.faults.figures import (
    CATCH_UP,
    DRAINED,
    OTHERS,
    OUTAGE,
    RATE_RECOVERY,
    RECEIVING,
    RECOVERY,
    TIMES_UNTIL,
    counting,
    weighed,
)
from perfgate.judge.faults.growth import (
    grown,
    growth_unknown,
    lacking_growth,
    lacking_level,
    told_of,
    untold_growth,
)
from perfgate.judge.limits import reach_of
from perfgate.judge.rates import at_another_rate
from perfgate.judge.statistics import many
from perfgate.judge.thresholds import for_one_look
from perfgate.model import FaultScenario, Judgement, Measurement, Outcome, Scenario, Threshold, Verdict
from perfgate.model.faults import Expectation

Durability = Literal["nothing lost, duplicated or reordered", "nothing lost", "losses allowed"]
BEFORE = "latency_before_ms.p99"
RULED_OUT = {
    "nothing lost, duplicated or reordered": ("lost", "duplicated", "reordered", "divergent", "regressed", "phantom"),
    "nothing lost": ("lost", "phantom"),
    "losses allowed": ("phantom",),
}
UNPROMISED_S = 1.0
"""What a scenario may lose, or find twice, without a promise: what it sends in this time. A follower that is well asks
for more at once and waits 0.5 s at most (replica.fetch.wait.max.ms), so that no more than that can be acknowledged by a
leader alone; and no more is in the requests under way that are sent again. Measured for acks=1: 1 to 2 records."""
ACCEPTED = {
    "given_after_accepted_records": "were given to a member although one had accepted them",
    "unaccepted_records": "were accepted by no member of the share group, though they were acknowledged in time",
}
METRIC = {"lost": "lost_records", "duplicated": "duplicated_records", "reordered": "reordered_records"}


def durability_of(row: Scenario) -> Durability:
    """Return what the producer's settings promise for the loss of one broker."""
    producer = {name: value.lower() for name, value in row.producer}
    if producer.get("acks", "1") not in ("all", "-1"):
        return "losses allowed"
    idempotent = producer.get("enable.idempotence", "false") in ("true", "t", "1")
    return "nothing lost, duplicated or reordered" if idempotent else "nothing lost"


def judge_fault(row: FaultScenario, measurement: Measurement, thresholds: Sequence[Threshold]) -> Outcome:
    """Judge every round: records first, then the outage and what else has a threshold.

    A record lost against the promise is red in whichever round it happened. An outage is held against its stored
    threshold, and against the most that the brokers' settings predict where there is none, or where the noise between
    runs makes it wider than that; REGRESSED when the median of the rounds is beyond it, INCONCLUSIVE when single rounds
    are. What consumers wait and what time alone makes worse is held likewise. So is a rate that never was as before
    again; of the p99 that is told only, unless there is a threshold for the recovery: it hangs on what else the machine
    does. What was wrong with the load itself explains as much of it as its doubts say (:func:`weighed`).
    """
    measurement = replace(measurement, rounds=tuple(r for r in measurement.rounds if r.failover))
    usual_s, told_s = usual_latency_s(measurement), told_session_s(measurement)
    judgements = damage(row, measurement)
    held = {threshold.metric.name: for_one_look(threshold) for threshold in thresholds}
    expected = expected_outage(row, usual_s, told_s)
    predicted = {
        OUTAGE: expected,
        RECEIVING: expected_receiving(row, usual_s, told_s),
        OTHERS: others_receiving(row, usual_s, told_s),
    }
    judgements += [
        at_another_rate(_against(measurement, threshold, predicted.get(name)), threshold, row.load)
        for name, threshold in held.items()
    ]
    judgements += [
        _predicted(measurement, name, one)
        for name, one in predicted.items()
        if told_of(measurement, name) and _bounded(one.high_s, held.get(name))
    ]
    if no_effect := had_no_effect(row, expected, [r.metrics[OUTAGE] for r in measurement.rounds]):
        judgements.append(Judgement(verdict=Verdict.INVALID, metric=OUTAGE, reason=no_effect))
    if RECOVERY not in held and not row.fault.about.ends_load:
        judgements += _recovered(measurement)
    if durability_of(row) != "losses allowed":
        judgements += failed_sends(row, measurement, expected, UNPROMISED_S)
    judgements += _kept_up(row, measurement) + _accepted_once(row, measurement)
    judgements += took_over(row, measurement)
    judgements += [
        grown(measurement, name)
        for name, (doubtful, _) in GROWN.items()
        if told_of(measurement, name) and _bounded(doubtful, held.get(name))
    ]
    judgements += lacking_growth(row, measurement, held) + lacking_level(row, held)
    verdicts = [judgement.verdict for judgement in judgements]
    order = (Verdict.REGRESSED, Verdict.INVALID, Verdict.INCONCLUSIVE, Verdict.MISSING, Verdict.PASS)
    verdict = next(v for v in order if v in verdicts)
    notes = [f"{j.metric}: {j.reason}" for j in judgements if j.reason and not j.verdict.green]
    untold = untold_growth(row, measurement)
    notes += [f"{name} is not held: {why}" for name, why in untold.items() if name not in held]
    return Outcome(name=row.name, verdict=verdict, judgements=tuple(judgements), reasons=tuple(notes))


def _bounded(most: float, stored: Threshold | None) -> bool:
    """Return whether the bound that nobody has to store holds: nothing is stored, or noise alone made it wider."""
    return stored is None or stored.baseline <= most < stored.limit


def damage(row: FaultScenario, measurement: Measurement) -> list[Judgement]:
    """Return what happened to records against the promise of the scenario's settings, in any round with a history.

    Beside it: more lost or doubled than a scenario without a promise can explain, and leaders that were not in sync.
    """
    kinds = RULED_OUT[durability_of(row)]
    found = [_kept(measurement, kind) for kind in kinds]
    found += [_explained(measurement, kind) for kind in ("lost", "duplicated") if kind not in kinds]
    return [judgement for judgement in (*found, _unclean(row, measurement)) if judgement]


def usual_latency_s(measurement: Measurement) -> float:
    """Return the p99 of the latency before the fault (median of the rounds), in s; 0 where it is not known.

    Not of rounds in which the load itself was late: that is no latency of the brokers.
    """
    found = [r.metrics[BEFORE] for r in counting(measurement, BEFORE) if BEFORE in r.metrics and not r.spoilt(BEFORE)]
    return statistics.median(found) / 1e3 if found else 0.0


def _kept(measurement: Measurement, kind: str) -> Judgement | None:
    """Return the judgement of one kind of damage, when there is some."""
    counts = [r.failover.integrity[kind] for r in measurement.rounds if r.failover]
    if not any(counts):
        return None
    named = [words for r in measurement.rounds if r.failover for words in r.failover.findings.get(kind, ())]
    promise = durability_of(measurement.scenario)
    return Judgement(
        verdict=Verdict.REGRESSED,
        metric=METRIC.get(kind, "lost_records"),
        measured=float(max(counts)),
        limit=0.0,
        reason=f"{sum(counts):,} {kind}, though its settings promise {promise}: " + "; ".join(named[:20]),
    )


def _explained(measurement: Measurement, kind: str) -> Judgement | None:
    """Return the judgement of damage that the settings allow, when there is more than they explain."""
    most = max((r.failover.integrity[kind] for r in measurement.rounds if r.failover), default=0)
    limit = UNPROMISED_S * measurement.scenario.load.rate
    if most <= limit:
        return None
    return Judgement(
        verdict=Verdict.REGRESSED,
        metric=METRIC[kind],
        measured=float(most),
        limit=limit,
        reason=f"{most:,} {kind} in one round: its settings do not rule that out, but it is more than it sends in "
        f"{UNPROMISED_S:g} s, so that replicas had not copied it although they counted as in sync",
    )


def _unclean(row: FaultScenario, measurement: Measurement) -> Judgement | None:
    """Return the judgement of leaders elected that were not in sync, unless the scenario's settings allow them.

    Where two brokers are down at a time Kafka may know no better one (KIP-966: the last leader that was known).
    """
    name, setting = "unclean_elections", "unclean.leader.election.enable"
    if row.fault.about.brokers_down > 1:
        return None
    if "true" in (dict(row.cluster.config).get(setting), dict(row.topic.config).get(setting)):
        return None
    most = max((r.metrics.get(name, 0.0) for r in measurement.rounds), default=0.0)
    if not most:
        return None
    reason = f"in one round {most:.0f} leaders were elected that were not in sync, which {setting}=false rules out"
    return Judgement(verdict=Verdict.REGRESSED, metric=name, measured=most, limit=0.0, reason=reason)


def _against(measurement: Measurement, threshold: Threshold, expected: Expectation | None) -> Judgement:
    """Hold the median of the rounds that count against the threshold; too many rounds beyond it are in doubt.

    Of outages one is, where what the settings predict does not explain it either: each of them is what a fault cost.
    A time that never ended is beyond every limit; one such round of several is in doubt, for that happens by chance.
    """
    name, sign, limit = threshold.metric.name, threshold.metric.sign, threshold.limit
    predicted_s, rounds = expected.high_s if expected else 0.0, len(counting(measurement, name))
    bar = max(limit, predicted_s) if name == OUTAGE else limit

    def rule(values: Sequence[float]) -> Judgement:
        never, beyond = values.count(math.inf), sum(sign * (value - bar) < 0 for value in values)
        centre = statistics.median(values) if values else math.nan
        by_chance = name in TIMES_UNTIL and len(values) > 1 and sum(value > limit for value in values) < 2
        verdict, reason = Verdict.PASS, f"{never} of {rounds} rounds never got there" if never else ""
        if sign * (centre - limit) < 0 and not by_chance:
            noise = _by_chance(threshold, centre, predicted_s)
            verdict, reason = (Verdict.INCONCLUSIVE, noise) if noise else (Verdict.REGRESSED, reason)
        elif len(values) < rounds:
            verdict, reason = Verdict.INCONCLUSIVE, f"measured in {len(values)} of {rounds} rounds only"
            reason = growth_unknown(measurement, name) if name in GROWN else reason
        elif never:
            verdict = Verdict.INCONCLUSIVE
        elif beyond >= (1 if name == OUTAGE else many(len(values))) or (by_chance and not sign * (centre - limit) >= 0):
            verdict = Verdict.INCONCLUSIVE
            reason = f"{beyond} of {len(values)} rounds beyond {bar:g} {threshold.metric.unit}"
        return Judgement(
            verdict=verdict,
            metric=name,
            reason=reason,
            measured=centre if math.isfinite(centre) else None,
            limit=limit,
            baseline=threshold.baseline,
            tolerance=threshold.tolerance,
            reach=threshold.reach,
        )

    return weighed(measurement, name, rule)


def _by_chance(threshold: Threshold, centre: float, predicted_s: float) -> str:
    """Return that noise between runs, or what the settings predict, explains a figure beyond its limit; else empty.

    That is where the limit lies as far off as one may, and the noise asks for more: no noise takes more than that of
    what is better when higher.
    """
    reach = reach_of(threshold.tolerance, threshold.spread, threshold.runs, looks=1)
    explained = centre <= threshold.baseline * (1 + reach) or 0 < centre <= predicted_s
    if reach <= threshold.reach or threshold.metric.sign > 0 or not explained:
        return ""
    return f"beyond its limit, but runs scatter by {threshold.spread * 100:.0f} %, so that it may be by chance"


def _predicted(measurement: Measurement, metric: str, expected: Expectation) -> Judgement:
    def rule(values: Sequence[float]) -> Judgement:
        high_s, reason = expected.high_s, f"expected at most {expected.high_s:.1f} s: {expected.why}"
        beyond, verdict = sum(value > high_s for value in values), Verdict.PASS
        centre = statistics.median(values) if values else None
        if centre is None:
            verdict = Verdict.INCONCLUSIVE
        elif centre > high_s:
            verdict = Verdict.REGRESSED
        elif beyond:
            verdict, reason = Verdict.INCONCLUSIVE, f"{beyond} of {len(values)} rounds beyond it; {reason}"
        elif expected.sure_s is not None and max(values) > expected.sure_s:
            verdict, reason = Verdict.INCONCLUSIVE, f"more than {expected.sure_s:.1f} s; {reason}"
        return Judgement(verdict=verdict, metric=metric, measured=centre, limit=high_s, reason=reason)

    return weighed(measurement, metric, rule)


def _recovered(measurement: Measurement) -> list[Judgement]:
    """Return a judgement when rounds ended before rate and p99 were as before."""
    rounds = counting(measurement, RATE_RECOVERY)
    if never := sum(RATE_RECOVERY not in r.metrics for r in rounds):
        verdict = Verdict.REGRESSED if 2 * never > len(rounds) else Verdict.INCONCLUSIVE
        reason = f"in {never} of {len(rounds)} rounds the rate was not as before when the load ended"
        return [Judgement(verdict=verdict, metric=RATE_RECOVERY, reason=reason)]
    if slow := sum(RECOVERY not in r.metrics for r in rounds):
        reason = f"in {slow} of {len(rounds)} rounds the p99 was not as before when the load ended"
        return [Judgement(verdict=Verdict.PASS, metric=RECOVERY, reason=reason)]
    return []


def _accepted_once(row: FaultScenario, measurement: Measurement) -> list[Judgement]:
    """Return a judgement when a record was given once more after its acceptance, or when nobody accepted it.

    Where brokers go on serving and no member dies: a dead one may have accepted more than it could say.
    """
    found = []
    for metric, what in ACCEPTED.items() if row.fault.about.redelivers else ():
        if most := max((r.metrics.get(metric, 0.0) for r in measurement.rounds), default=0.0):
            reason = f"in one round {most:,.0f} records {what}"
            judged = Judgement(verdict=Verdict.REGRESSED, metric=metric, measured=most, limit=0.0, reason=reason)
            found.append(judged)
    return found


def _kept_up(row: FaultScenario, measurement: Measurement) -> list[Judgement]:
    """Return a judgement when consumers were still behind when the load ended: in doubt where it ended too early."""
    metric = CATCH_UP if row.fault.about.leaves_unread else DRAINED
    read = [r for r in counting(measurement, metric) if RECEIVING in r.metrics]
    never = sum(metric not in r.metrics for r in read)
    if not never:
        return []
    lasted = min(max(end for _, end in r.failover.phases.values()) for r in read if r.failover)
    expected = expected_receiving(row, usual_latency_s(measurement), told_session_s(measurement))
    long_enough = lasted > expected.high_s
    verdict = Verdict.REGRESSED if 2 * never > len(read) and long_enough else Verdict.INCONCLUSIVE
    reason = f"in {never} of {len(read)} rounds the consumers had not caught up when the load ended"
    reason += "" if long_enough else f", {lasted:.0f} s after the fault, and {expected.why}"
    return [Judgement(verdict=verdict, metric=metric, reason=reason)]
