"""Verdict on a scenario with a fault: no loss that its settings rule out, an outage as short as promised."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Literal

from perfgate.faults.time import GROWN
from perfgate.judge.claim import Ruling, notes_on, worst
from perfgate.judge.faults.expectation import (
    expected_outage,
    expected_receiving,
    had_no_effect,
    others_receiving,
    reported_session_s,
)
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
from perfgate.judge.limits import reach_of
from perfgate.judge.rates import at_another_rate
from perfgate.judge.statistics import many
from perfgate.judge.thresholds import for_one_look
from perfgate.model import FaultScenario, Judgement, Measurement, Round, Scenario, Threshold, Verdict
from perfgate.model.delivery import is_idempotent, is_promised
from perfgate.model.faults import RETRIES, Expectation
from perfgate.model.judged import severity

Durability = Literal["nothing lost, duplicated or reordered", "nothing lost", "losses allowed"]
BEFORE = "latency_before_ms.p99"
RULED_OUT = {
    "nothing lost, duplicated or reordered": ("lost", "duplicated", "reordered", "divergent", "regressed", "phantom"),
    "nothing lost": ("lost", "phantom"),
    "losses allowed": ("phantom",),
}
UNPROMISED_S = 1.0
"""Without a promise a scenario may lose, or duplicate, what it sends in this time: a healthy follower waits 0.5 s at
most before it asks for more (replica.fetch.wait.max.ms). Measured for acks=1: 1 to 2 records."""
ACCEPTED = {
    "given_after_accepted_records": "were given to a member although one had accepted them",
    "unaccepted_records": "were accepted by no member of the share group, though they were acknowledged in time",
}
METRIC = {"lost": "lost_records", "duplicated": "duplicated_records", "reordered": "reordered_records"}
DELIVERY_MS = 120_000.0
"""How long a producer retries a record where its settings do not say (delivery.timeout.ms)."""
LONG = 2.0
TIMEOUTS = ("delivery.timeout.ms", "message.timeout.ms")
CHANGES = "controller_changes"
"""A round has it when the controllers' own log was read."""
FEWEST_CONTROLLERS = 3
"""Of fewer controllers those that are left are no majority, and elect none."""
LEAST_AWAY_S = 10.0
"""A controller that is restarted sooner may be back before the others had the time to elect."""
GROWN_OF = {"cpu_per_record_growth": "CPU", "memory_growth": "memory"}
"""The brokers' figure whose growth is known; that of the p99 is of the records' own."""
THROUGHOUT = "latency_during_ms.p99"
"""The p99 of a long load from its beginning to its end: constant slowness does not grow."""
RATE = "records_per_s"
LINE_S = 30.0
"""Less time makes no line (FEWEST parts of LEAST_S in perfgate/measure/faults/growth.py)."""


def durability_of(scenario: Scenario) -> Durability:
    """The durability that the producer's settings promise for the loss of a broker."""
    if not is_promised(scenario):
        return "losses allowed"
    return "nothing lost, duplicated or reordered" if is_idempotent(scenario) else "nothing lost"


def judge_fault(scenario: FaultScenario, measurement: Measurement, thresholds: Sequence[Threshold]) -> Ruling:
    """Judge every round: records first, then the outage and what else has a threshold.

    A record lost against the promise is red in any round. An outage is judged by its stored threshold, and by the most
    that the brokers' settings predict where there is none or noise made it wider; REGRESSED when the median of the
    rounds is beyond it, INCONCLUSIVE when single rounds are. A p99 that did not recover, which depends on what else the
    machine does, is only reported, unless it has a threshold. Flaws of the load are weighed by :func:`weighed`.
    """
    measurement = replace(measurement, rounds=tuple(r for r in measurement.rounds if r.failover))
    expected = expected_outage(scenario, usual_latency_s(measurement), reported_session_s(measurement))
    stored = {threshold.metric.name: for_one_look(threshold) for threshold in thresholds}
    predicted = {
        OUTAGE: expected,
        RECEIVING: expected_receiving(scenario, expected),
        OTHERS: others_receiving(expected),
    }
    no_effect = had_no_effect(scenario, expected, [r.metrics[OUTAGE] for r in measurement.rounds])
    judgements = (
        *damage(scenario, measurement),
        *(
            at_another_rate(_against(measurement, threshold, predicted.get(name)), threshold, scenario.load)
            for name, threshold in stored.items()
        ),
        *(
            _predicted(measurement, name, expectation)
            for name, expectation in predicted.items()
            if has_figure(measurement, name) and _bounded(expectation.high_s, stored.get(name))
        ),
        *([Judgement(verdict=Verdict.INVALID, metric=OUTAGE, reason=no_effect)] if no_effect else []),
        *(_recovered(measurement) if RECOVERY not in stored and not scenario.fault.about.ends_load else []),
        *failed_sends(scenario, measurement, expected),
        *_kept_up(scenario, measurement, predicted[RECEIVING]),
        *_accepted_once(scenario, measurement),
        *took_over(scenario, measurement),
        *(
            grown(measurement, name)
            for name, (doubtful, _) in GROWN.items()
            if has_figure(measurement, name) and _bounded(doubtful, stored.get(name))
        ),
        *lacking_growth(scenario, measurement, stored),
        *lacking_level(scenario, stored),
    )
    notes = notes_on(judgement for judgement in judgements if not judgement.verdict.green)
    without_source = growth_without_source(scenario, measurement)
    notes += [f"{name} is not held: {why}" for name, why in without_source.items() if name not in stored]
    verdict = worst(judgement.verdict for judgement in judgements)
    return Ruling(verdict=verdict, judgements=judgements, reasons=tuple(notes))


def _bounded(most: float, stored: Threshold | None) -> bool:
    """Whether the bound that need not be stored holds."""
    return stored is None or stored.baseline <= most < stored.limit


def has_figure(measurement: Measurement, metric: str) -> bool:
    return any(metric in r.metrics for r in measurement.rounds)


def _mostly(rounds: int, of: int) -> Verdict:
    """REGRESSED where it is so in most rounds, else INCONCLUSIVE."""
    return Verdict.REGRESSED if 2 * rounds > of else Verdict.INCONCLUSIVE


def _most(measurement: Measurement, metric: str) -> float:
    return max((r.metrics.get(metric, 0.0) for r in measurement.rounds), default=0.0)


def _red(metric: str, measured: float, reason: str, limit: float = 0.0) -> Judgement:
    return Judgement(verdict=Verdict.REGRESSED, metric=metric, measured=measured, limit=limit, reason=reason)


def damage(scenario: FaultScenario, measurement: Measurement) -> list[Judgement]:
    """Records lost, doubled or reordered beyond what the settings allow, and leaders that were not in sync."""
    kinds = RULED_OUT[durability_of(scenario)]
    judgements = [_kept(measurement, kind) for kind in kinds]
    judgements += [_explained(measurement, kind) for kind in ("lost", "duplicated") if kind not in kinds]
    return list(filter(None, (*judgements, _unclean(scenario, measurement))))


def usual_latency_s(measurement: Measurement) -> float:
    """The p99 before the fault (median of the rounds without a late load), in s; 0: not known."""
    p99_ms = [r.metrics[BEFORE] for r in counting(measurement, BEFORE) if BEFORE in r.metrics and not r.spoilt(BEFORE)]
    return statistics.median(p99_ms) / 1e3 if p99_ms else 0.0


def _kept(measurement: Measurement, kind: str) -> Judgement | None:
    counts = [r.failover.integrity[kind] for r in measurement.rounds if r.failover]
    if not any(counts):
        return None
    named = [words for r in measurement.rounds if r.failover for words in r.failover.findings.get(kind, ())]
    promise = durability_of(measurement.scenario)
    reason = f"{sum(counts):,} {kind}, though its settings promise {promise}: " + "; ".join(named[:20])
    return _red(METRIC.get(kind, "lost_records"), float(max(counts)), reason)


def _explained(measurement: Measurement, kind: str) -> Judgement | None:
    """The judgement of damage that the settings allow, when there is more than they explain."""
    most = max((r.failover.integrity[kind] for r in measurement.rounds if r.failover), default=0)
    limit = UNPROMISED_S * measurement.scenario.load.rate
    if most <= limit:
        return None
    reason = (
        f"{most:,} {kind} in one round: its settings do not rule that out, but it is more than it sends in "
        f"{UNPROMISED_S:g} s, so that replicas had not copied it although they counted as in sync"
    )
    return _red(METRIC[kind], float(most), reason, limit)


def _unclean(scenario: FaultScenario, measurement: Measurement) -> Judgement | None:
    """Elected leaders not in sync, unless settings allow them or two brokers are down (KIP-966)."""
    name, setting = "unclean_elections", "unclean.leader.election.enable"
    allowed = "true" in (dict(scenario.cluster.config).get(setting), dict(scenario.topic.config).get(setting))
    most = _most(measurement, name)
    if not most or allowed or scenario.fault.about.brokers_down > 1:
        return None
    reason = f"in one round {most:.0f} leaders were elected that were not in sync, which {setting}=false rules out"
    return _red(name, most, reason)


def _against(measurement: Measurement, threshold: Threshold, expected: Expectation | None) -> Judgement:
    """Judge the median of the rounds that count; too many beyond the limit, or one unexplained outage, are in doubt."""
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
    """That the settings, or noise that asks for more than the largest margin, explain a long time."""
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
    rounds = counting(measurement, RATE_RECOVERY)
    if never := sum(RATE_RECOVERY not in r.metrics for r in rounds):
        reason = f"in {never} of {len(rounds)} rounds the rate was not as before when the load ended"
        return [Judgement(verdict=_mostly(never, len(rounds)), metric=RATE_RECOVERY, reason=reason)]
    if slow := sum(RECOVERY not in r.metrics for r in rounds):
        reason = f"in {slow} of {len(rounds)} rounds the p99 was not as before when the load ended"
        return [Judgement(verdict=Verdict.PASS, metric=RECOVERY, reason=reason)]
    return []


def failed_sends(scenario: FaultScenario, measurement: Measurement, expected: Expectation) -> list[Judgement]:
    """A judgement when sends failed since the fault although the scenario's settings promise to lose none.

    REGRESSED where in most rounds more failed than are sent in UNPROMISED_S, with another error than a time-out, or by
    time-outs if sends were tried LONG times as long as service should take to be back; else INCONCLUSIVE.
    """
    if durability_of(scenario) == "losses allowed":
        return []
    producer = dict(scenario.producer)
    tried_s = float(next((producer[name] for name in TIMEOUTS if name in producer), DELIVERY_MS)) / 1e3 or math.inf
    counts = [r.failover.integrity for r in measurement.rounds if r.failover]
    failed = [by_kind.get("failed", 0) for by_kind in counts]
    all_failed = [by_kind.get("failed", 0) + by_kind.get("timed_out", 0) for by_kind in counts]
    if not any(all_failed) or tried_s <= expected.high_s or any(name in producer for name in RETRIES):
        return []
    limit = UNPROMISED_S * scenario.load.rate
    counted = all_failed if tried_s > LONG * expected.high_s else failed
    verdict = _mostly(sum(n > limit for n in counted), len(measurement.rounds))
    reason = (
        f"in {sum(map(bool, all_failed))} of {len(measurement.rounds)} rounds sends failed since the fault, up to "
        f"{max(all_failed):,}, {max(failed):,} of them with another error than a time-out, though they are tried again "
        f"for {tried_s:g} s and service should be back after {expected.high_s:.1f} s"
    )
    return [Judgement(verdict=verdict, metric="unknown_records", reason=reason)]


def _kept_up(scenario: FaultScenario, measurement: Measurement, expected: Expectation) -> list[Judgement]:
    """A judgement when consumers were still behind, or again, when the load ended: in doubt where it ended early."""
    judged = []
    for metric in (CATCH_UP, DRAINED) if scenario.fault.about.leaves_unread else (DRAINED,):
        read = [r for r in counting(measurement, metric) if RECEIVING in r.metrics]
        if not (never := sum(metric not in r.metrics for r in read)):
            continue
        lasted = min(max(end for _, end in r.failover.phases.values()) for r in read if r.failover)
        long_enough = lasted > expected.high_s
        verdict = _mostly(never, len(read)) if long_enough else Verdict.INCONCLUSIVE
        reason = f"in {never} of {len(read)} rounds the consumers had not caught up when the load ended"
        reason += "" if long_enough else f", {lasted:.0f} s after the fault, and {expected.why}"
        judged.append(Judgement(verdict=verdict, metric=metric, reason=reason))
    return sorted(judged, key=lambda judgement: severity(judgement.verdict))[:1]


def _accepted_once(scenario: FaultScenario, measurement: Measurement) -> list[Judgement]:
    """Records given again after acceptance, or accepted by none."""
    if not scenario.fault.about.redelivers:
        return []
    return [
        _red(metric, most, f"in one round {most:,.0f} records {words}")
        for metric, words in ACCEPTED.items()
        if (most := _most(measurement, metric))
    ]


def took_over(scenario: FaultScenario, measurement: Measurement) -> list[Judgement]:
    """A judgement when no other controller became active before the killed one, away for 15 s, was restarted.

    Measured on 2 busy cores: 3.2 s. In doubt without the controllers' log: nothing else shows it.
    """
    controllers = scenario.cluster.controllers or scenario.cluster.brokers
    away_long = scenario.fault.hold_s >= LEAST_AWAY_S
    if not (scenario.fault.about.elects_controller and controllers >= FEWEST_CONTROLLERS and away_long):
        return []
    rounds = [r for r in measurement.rounds if r.failover]
    logged = [r for r in rounds if CHANGES in r.metrics]
    never, unknown = sum(not _elected_in_time(r) for r in logged), len(rounds) - len(logged)
    if never:
        reason = f"in {never} of {len(logged)} rounds no new controller was elected while the active one was away"
        return [Judgement(verdict=_mostly(never, len(logged)), metric=CHANGES, reason=reason)]
    if unknown:
        reason = f"in {unknown} of {len(rounds)} rounds the controllers' log does not tell which one became active"
        return [Judgement(verdict=Verdict.INCONCLUSIVE, metric=CHANGES, reason=reason)]
    return []


def _elected_in_time(r: Round) -> bool:
    assert r.failover
    back = next((at for at, words in r.failover.marks if words.startswith("start ")), math.inf)
    return r.failover.split.get("controller_s", math.inf) < back


def growth_without_source(scenario: FaultScenario, measurement: Measurement) -> dict[str, str]:
    """The growth figures of a long load that never have a source, and why."""
    if not scenario.fault.about.harmless:
        return {}
    reasons = {}
    for name, figure in GROWN_OF.items():
        lacking = [(r.untold.get(figure, ""), r.usage_unavailable) for r in measurement.rounds]
        never = [why for why, this_time in lacking if why and why != this_time]
        if len(never) == len(measurement.rounds) and not has_figure(measurement, name):
            reasons[name] = never[0]
    return reasons


def lacking_growth(scenario: FaultScenario, measurement: Measurement, stored: Collection[str]) -> list[Judgement]:
    """A judgement of each figure whose growth should be known of a long load, and is not."""
    if not scenario.fault.about.harmless or scenario.fault.hold_s < LINE_S:
        return []
    without_source = growth_without_source(scenario, measurement)
    return [
        Judgement(verdict=Verdict.INCONCLUSIVE, metric=name, reason=growth_unknown(measurement, name))
        for name in GROWN
        if name not in stored and not has_figure(measurement, name) and name not in without_source
    ]


def lacking_level(scenario: FaultScenario, stored: Collection[str]) -> list[Judgement]:
    """A judgement where neither a latency nor the rate of a long load is stored."""
    if not scenario.fault.about.harmless or any(name == RATE or name.startswith("latency_") for name in stored):
        return []
    reason = "no threshold: whether it was slow throughout is not known"
    return [Judgement(verdict=Verdict.MISSING, metric=THROUGHOUT, reason=reason)]


def growth_unknown(measurement: Measurement, metric: str) -> str:
    lacking = [r.untold.get(GROWN_OF.get(metric, "")) for r in measurement.rounds if metric not in r.metrics]
    why = next(filter(None, lacking), "was not told of every part of the time")
    return f"{why}: whether it grew is not known"


def grown(measurement: Measurement, metric: str) -> Judgement:
    """Whether time alone made a figure worse, by more than a machine may drift."""
    doubtful, limit = GROWN[metric]

    def rule(values: Sequence[float]) -> Judgement:
        if not values:
            return Judgement(verdict=Verdict.INCONCLUSIVE, metric=metric, reason=growth_unknown(measurement, metric))
        centre = statistics.median(values)
        verdict = Verdict.REGRESSED if centre > limit else Verdict.INCONCLUSIVE if centre > doubtful else Verdict.PASS
        reason = f"x {centre:.2f} from the start of the load to its end; up to {doubtful:g} may be the machine's drift"
        if verdict is Verdict.PASS and len(values) < len(counting(measurement, metric)):
            verdict, reason = Verdict.INCONCLUSIVE, growth_unknown(measurement, metric)
        return Judgement(verdict=verdict, metric=metric, measured=centre, limit=limit, reason=reason)

    return weighed(measurement, metric, rule)
