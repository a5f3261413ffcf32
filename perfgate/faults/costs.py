"""Parts of several faults: taking a broker away, and the cost of leaders that move in good order, or not."""

from collections.abc import Callable

from perfgate.model.faults import STATIC, Case, Expectation, FaultScenario, Figures, Scene

MOVED_S, UNMOVED_S = 3.0, 1.0
"""Most that moving leaders in good order costs, and the most where none moves. Measured on 2 cores: 0.3 to 2.5 s (the
longest on brokers that had just started), and 0.1 to 0.6 s."""
REQUESTS = 10
"""Added: this many requests at the p99 before the fault, for one refused, metadata asked for again and again, the
record sent again. On a quiet machine these take 0.3 s; a slow machine is no fault of the brokers."""
SLOW_S = 0.2
"""A p99 beyond that before the fault may be the brokers' own doing: an outage explained by it alone is in doubt."""
FIND_S = 5.0
"""Time that consumers may need to find leaders or members once these are there."""


def crash(scene: Scene) -> None:
    """Kill the broker that leads the first partition, hold that, and bring it back."""
    broker = scene.leader()
    scene.do("kill", broker)
    scene.hold()
    scene.gone(broker)
    scene.bring_back(broker)


def shut_down(scene: Scene) -> None:
    """Have the broker that leads the first partition end in good order, hold that, and bring it back."""
    broker = scene.leader()
    scene.do("stop", broker)
    scene.hold()
    scene.faults.wait_until_ended(broker)
    scene.gone(broker)
    scene.bring_back(broker)


def _at_most(base_s: float, why: str) -> Callable[[Case], Expectation]:
    def expected(case: Case) -> Expectation:
        most_s = max(base_s, case.first)
        slow_s, sure_s = (base_s + REQUESTS * usual for usual in (case.usual, min(case.usual, SLOW_S)))
        return Expectation(0.0, min(slow_s, most_s), why, sure_s if sure_s < min(slow_s, most_s) else None)

    return expected


moved, unmoved = _at_most(MOVED_S, "leaders move in good order"), _at_most(UNMOVED_S, "no leader moves")


HEARTBEAT_MS, MEMBERS_HEARTBEAT_MS = 3_000.0, 5_000.0
"""Kafka's defaults of heartbeat.interval.ms and group.consumer.heartbeat.interval.ms."""
GROUP_SESSION_MS = 45_000.0
"""Kafka's default of session.timeout.ms, group.consumer.session.timeout.ms and group.share.session.timeout.ms."""
COOPERATIVE = "cooperative-sticky"
"""A member of this client with it that closes does not leave: its session has to end (librdkafka 2.16.0 without a
rebalance callback, seen by Kafka 4.3.1: "has failed" 45 s after the close; with one it left in 0.25 s)."""
MEMBER_S = 30.0
"""A member that joins is waited for until it receives its first record, and for no longer."""


def group_session_s(scenario: FaultScenario) -> float:
    """Time in s for which a member of the scenario's consumer group may be silent, or a static member away."""
    consumer, broker = dict(scenario.consumers.config) if scenario.consumers else {}, dict(scenario.cluster.config)
    if scenario.consumers and scenario.consumers.membership == "share":
        named = broker.get("group.share.session.timeout.ms", GROUP_SESSION_MS)
    else:
        named = consumer.get("session.timeout.ms", broker.get("group.consumer.session.timeout.ms", GROUP_SESSION_MS))
    return float(named) / 1e3


def shared_out(scenario: FaultScenario, changes: int, away_s: float = 0.0) -> Expectation:
    """Expected time for which a partition lies idle while its group's members change that often, in turn: each hears of
    it with a heartbeat, gives partitions up with one, and takes them with the next. `away_s`: of a static member, whose
    partitions wait."""
    config, broker = dict(scenario.consumers.config) if scenario.consumers else {}, dict(scenario.cluster.config)
    if config.get("group.protocol") == "consumer":
        named = broker.get("group.consumer.heartbeat.interval.ms", MEMBERS_HEARTBEAT_MS)
    else:
        named = config.get("heartbeat.interval.ms", HEARTBEAT_MS)
    beat = float(named) / 1e3
    waits = min(away_s, group_session_s(scenario)) if STATIC in config else 0.0
    if config.get("partition.assignment.strategy") == COOPERATIVE:  # seen with the load's client; cause unknown
        waits = group_session_s(scenario)
    why = f"members hear of each change with a heartbeat ({beat:g} s), give partitions up and take them with the next"
    why += f"; those of a static or cooperative member that closes wait for {waits:g} s" if waits else ""
    return Expectation(0.0, waits + 2 * changes * beat + FIND_S, why)


def rebalances(figures: Figures) -> str:
    """Message about the cost to readers of members that came and went."""
    longest, idle, whole = map(
        figures.value, ("receive_outage_s.max", "receive_outage_partition_seconds", "receive_outage_all_s")
    )
    if longest is None or idle is None or whole is None:
        return ""
    again = figures.value("redelivered_records") or 0.0
    return (
        f"partitions lay idle for {idle:.1f} s in all, one for {longest:.1f} s at the longest, all at once for "
        f"{whole:.1f} s; {again:,.0f} records given twice"
    )


def still(case: Case) -> Expectation:
    """Expected outage by a broker that answers nothing while its connections stay open: a request under way waits until
    it answers again, or times out once another leads."""
    why = f"{case.fenced}; a request on an open connection waits up to the {case.hold:g} s"
    return Expectation(min(case.first, case.hold), max(case.hold, case.last) + FIND_S, why)
