"""How long an outage should last by the brokers' own settings. Pure.

A broker that falls silent is fenced when its session ends: broker.session.timeout.ms after its last heartbeat, of
which there is one every broker.heartbeat.interval.ms; controllers find that out up to an eighth of the time-out later.
"""

from __future__ import annotations

from dataclasses import dataclass

from perfgate.model import Scenario

SESSION_MS, HEARTBEAT_MS = 9000.0, 2000.0
"""Kafka's defaults of broker.session.timeout.ms and broker.heartbeat.interval.ms."""
GROUP_SESSION_MS = 45_000.0
"""Kafka's default of session.timeout.ms, and of group.consumer.session.timeout.ms."""
SLACK = 1.125
DISCOVERY_S = 2.0
"""A client hears of new leaders by asking for metadata: after an error, and again after a back-off of up to 1 s."""
HAND_OVER_S = 5.0
"""What moving leaders in good order may cost: a request refused, metadata asked for, the request sent again. Measured:
0.3 to 2.5 s, the longest on brokers that had just started (2 cores); out of order it costs a session, 7 s and more."""
START_S = 30.0
"""A killed broker that starts again recovers its logs and has to be unfenced."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Expectation:
    """An outage between `low_s` and `high_s`, and why."""

    low_s: float
    high_s: float
    why: str


def expected_outage(row: Scenario) -> Expectation:
    """Return what the settings predict for the longest time in which a partition takes no record."""
    assert row.fault is not None
    settings, hold = dict(row.cluster.config), row.fault.hold_s
    session = float(settings.get("broker.session.timeout.ms", SESSION_MS)) / 1e3
    heartbeat = float(settings.get("broker.heartbeat.interval.ms", HEARTBEAT_MS)) / 1e3
    fenced = f"fenced {session - heartbeat:g} to {session * SLACK:g} s after its last sign of life"
    match row.fault.kind:
        case "kill-leader":
            return Expectation(low_s=session - heartbeat, high_s=session * SLACK + DISCOVERY_S,
                               why=f"{fenced}, then clients look for the new leader")  # fmt: skip
        case "pause-leader" | "cut-off":
            # A request that is under way waits on its open connection until the broker answers again, or it times out;
            # by then another one leads.
            return Expectation(low_s=min(session - heartbeat, hold), high_s=max(hold, session * SLACK) + HAND_OVER_S,
                               why=f"{fenced}; a request on an open connection waits up to the {hold:g} s")  # fmt: skip
        case "two-down":
            return Expectation(low_s=hold, high_s=hold + session * SLACK + START_S,
                               why=f"two of three replicas are gone for {hold:g} s, then one starts")  # fmt: skip
        case "stop-leader" | "rolling-restart" | "return" | "scale-out":
            return Expectation(low_s=0.0, high_s=HAND_OVER_S, why="leaders move in good order")
        case "kill-controller" | "consumer-kill" | "client-crash":
            return Expectation(low_s=0.0, high_s=HAND_OVER_S, why="no leader moves")


def expected_receiving(row: Scenario) -> Expectation:
    """Return the same for the longest time in which nothing of a partition is received."""
    assert row.fault is not None
    if row.fault.kind != "consumer-kill":
        sending = expected_outage(row)
        return Expectation(low_s=0.0, high_s=sending.high_s + HAND_OVER_S, why=f"{sending.why}; then consumers find it")
    consumer = dict(row.consumers.config) if row.consumers else {}
    broker = dict(row.cluster.config)
    named = consumer.get("session.timeout.ms", broker.get("group.consumer.session.timeout.ms", GROUP_SESSION_MS))
    session = float(named) / 1e3
    why = f"the dead member's session lasts {session:g} s, then its partitions are shared out"
    return Expectation(low_s=0.0, high_s=session + HAND_OVER_S, why=why)
