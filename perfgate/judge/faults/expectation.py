"""Expected outages, by the brokers' own settings. Pure.

A silent broker is fenced when its session ends: broker.session.timeout.ms after its last heartbeat, which it sends
every broker.heartbeat.interval.ms; controllers notice up to an eighth of the time-out later. A Pulsar broker's
session is metadataStoreSessionTimeoutMillis, with a sign of life at ZooKeeper every third of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfgate.faults.costs import FIND_S
from perfgate.model import FaultScenario, Measurement
from perfgate.model.faults import Case, Expectation

SESSION_MS, HEARTBEAT_MS = 9000.0, 2000.0
"""Kafka's defaults of broker.session.timeout.ms and broker.heartbeat.interval.ms."""
UNREPORTED_S = 18.0
"""Least session assumed of real brokers that do not report theirs: Kafka's default of zookeeper.session.timeout.ms."""
PULSAR_SESSION_MS = 30_000.0
"""Pulsar's default of metadataStoreSessionTimeoutMillis."""
SLACK = 1.125
LEAST_SHARE = 0.5
"""Of the least that a fault costs: measured 1.1 to 2.9 times that (docs/evidence/failover.md)."""


def reported_session_s(measurement: Measurement) -> float | None:
    """The session that real brokers reported; 0: not in all rounds; None where the scenario has it."""
    reported = [r.failover.session_s for r in measurement.rounds if r.failover and r.failover.session_s is not None]
    return max(reported) if reported and all(reported) else 0.0 if reported else None


def expected_outage(scenario: FaultScenario, usual_s: float = 0.0, reported_s: float | None = None) -> Expectation:
    """The longest time without an accepted record. `usual_s`: p99 before; `reported_s`: :func:`reported_session_s`."""
    session, heartbeat = _session_s(scenario)
    if reported_s is not None:
        session = reported_s or max(session, UNREPORTED_S)
        heartbeat = min(heartbeat, session / 3)
    first, last = session - heartbeat, session * SLACK
    fenced = f"fenced {first:g} to {last:g} s after its last sign of life"
    case = Case(first=first, last=last, fenced=fenced, hold=scenario.fault.hold_s, usual=usual_s)
    expected = scenario.fault.about.sending(case)
    if reported_s == 0:
        why = f"{expected.why} (the brokers do not tell their session: it may be {session:g} s)"
        usual = expected_outage(scenario, usual_s)
        sure_s = usual.high_s if usual.sure_s is None else usual.sure_s
        return replace(expected, low_s=min(expected.low_s, usual.low_s), why=why, sure_s=sure_s)
    return expected


def _session_s(scenario: FaultScenario) -> tuple[float, float]:
    """A broker's session by the scenario's settings, and the time between its signs of life, in s."""
    settings = dict(scenario.cluster.config)
    if scenario.cluster.system == "pulsar":
        session = float(settings.get("metadataStoreSessionTimeoutMillis", PULSAR_SESSION_MS)) / 1e3
        return session, session / 3
    session = float(settings.get("broker.session.timeout.ms", SESSION_MS)) / 1e3
    return session, float(settings.get("broker.heartbeat.interval.ms", HEARTBEAT_MS)) / 1e3


def had_no_effect(scenario: FaultScenario, expected: Expectation, outages_s: Sequence[float]) -> str:
    """That an outage was far shorter than the fault can cost; else empty, as of acks=0, which needs no broker."""
    shortest, least_s = min(outages_s), LEAST_SHARE * expected.low_s
    if shortest >= least_s or dict(scenario.producer).get("acks") == "0":
        return ""
    perhaps = f"{scenario.fault.about.no_effect}a session may be shorter than it is taken to be here"
    return (
        f"the fault had no effect: {shortest:.1f} s without service, where {scenario.fault.kind} costs at least "
        f"{expected.low_s:.1f} s: {expected.why} ({perhaps})"
    )


def expected_receiving(scenario: FaultScenario, sending: Expectation) -> Expectation:
    """The longest time in which nothing of a partition is received; `sending`: its :func:`expected_outage`."""
    receiving = scenario.fault.about.receiving
    return receiving(scenario) if receiving else others_receiving(sending)


def others_receiving(sending: Expectation) -> Expectation:
    """The same of the groups of consumers that the fault is not done to."""
    sure_s = sending.sure_s and sending.sure_s + FIND_S
    return Expectation(0.0, sending.high_s + FIND_S, f"{sending.why}; then consumers find it", sure_s)
