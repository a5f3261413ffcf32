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
MOVED_S, UNMOVED_S = 3.0, 1.0
"""What moving leaders in good order costs at the most, and what is seen where none moves. Measured on 2 cores: 0.3 to
2.5 s (the longest on brokers that had just started), and 0.1 to 0.6 s."""
REQUESTS = 10
"""And so many requests as slow as one in a hundred was before the fault: one refused, metadata asked for again and
again, the record sent again. On a quiet machine these take 0.3 s; a slow one is no fault of the brokers."""
FIND_S = 5.0
"""What consumers may need, once leaders or members are there, to find them."""
START_S = 30.0
"""A killed broker that starts again recovers its logs and has to be unfenced."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Expectation:
    """An outage between `low_s` and `high_s`, and why."""

    low_s: float
    high_s: float
    why: str


def expected_outage(row: Scenario, usual_s: float = 0.0) -> Expectation:
    """Return what the settings predict for the longest time in which a partition takes no record.

    `usual_s`: the p99 of the latency before the fault.
    """
    assert row.fault is not None
    settings, hold = dict(row.cluster.config), row.fault.hold_s
    session = float(settings.get("broker.session.timeout.ms", SESSION_MS)) / 1e3
    heartbeat = float(settings.get("broker.heartbeat.interval.ms", HEARTBEAT_MS)) / 1e3
    lost = session - heartbeat  # from here on it is the outage of a broker that fell silent
    fenced = f"fenced {session - heartbeat:g} to {session * SLACK:g} s after its last sign of life"
    match row.fault.kind:
        case "kill-leader":
            return Expectation(
                low_s=session - heartbeat,
                high_s=session * SLACK + DISCOVERY_S,
                why=f"{fenced}, then clients look for the new leader",
            )
        case "pause-leader" | "cut-off":
            # A request that is under way waits on its open connection until the broker answers again, or it times out;
            # by then another one leads.
            return Expectation(
                low_s=min(session - heartbeat, hold),
                high_s=max(hold, session * SLACK) + FIND_S,
                why=f"{fenced}; a request on an open connection waits up to the {hold:g} s",
            )
        case "two-down":
            return Expectation(
                low_s=hold,
                high_s=hold + session * SLACK + START_S,
                why=f"two of three replicas are gone for {hold:g} s, then one starts",
            )
        case "stop-leader" | "rolling-restart" | "return" | "scale-out":
            return Expectation(
                low_s=0.0, high_s=min(MOVED_S + REQUESTS * usual_s, lost), why="leaders move in good order"
            )
        case "kill-controller" | "consumer-kill" | "client-crash":
            return Expectation(low_s=0.0, high_s=min(UNMOVED_S + REQUESTS * usual_s, lost), why="no leader moves")


def expected_receiving(row: Scenario, usual_s: float = 0.0) -> Expectation:
    """Return the same for the longest time in which nothing of a partition is received."""
    assert row.fault is not None
    if row.fault.kind != "consumer-kill":
        sending = expected_outage(row, usual_s)
        return Expectation(low_s=0.0, high_s=sending.high_s + FIND_S, why=f"{sending.why}; then consumers find it")
    consumer = dict(row.consumers.config) if row.consumers else {}
    broker = dict(row.cluster.config)
    named = consumer.get("session.timeout.ms", broker.get("group.consumer.session.timeout.ms", GROUP_SESSION_MS))
    session = float(named) / 1e3
    why = f"the dead member's session lasts {session:g} s, then its partitions are shared out"
    return Expectation(low_s=0.0, high_s=session + FIND_S, why=why)
