"""Expected outages, by the brokers' own settings. Pure.

A broker that falls silent is fenced when its session ends: broker.session.timeout.ms after its last heartbeat, of
which there is one every broker.heartbeat.interval.ms; controllers find that out up to an eighth of the time-out later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from perfgate.model import FaultScenario, Measurement, record_lock_s

SESSION_MS, HEARTBEAT_MS = 9000.0, 2000.0
"""Kafka's defaults of broker.session.timeout.ms and broker.heartbeat.interval.ms."""
UNTOLD_S = 18.0
"""What is taken of real brokers that do not tell their session: Kafka's default of zookeeper.session.timeout.ms."""
GROUP_SESSION_MS = 45_000.0
"""Kafka's default of session.timeout.ms, group.consumer.session.timeout.ms and group.share.session.timeout.ms."""
SLACK = 1.125
DISCOVERY_S = 2.0
"""A client hears of new leaders by asking for metadata: after an error, and again after a back-off of up to 1 s."""
MOVED_S, UNMOVED_S = 3.0, 1.0
"""What moving leaders in good order costs at the most, and what is seen where none moves. Measured on 2 cores: 0.3 to
2.5 s (the longest on brokers that had just started), and 0.1 to 0.6 s."""
REQUESTS = 10
"""And so many requests as slow as one in a hundred was before the fault: one refused, metadata asked for again and
again, the record sent again. On a quiet machine these take 0.3 s; a slow one is no fault of the brokers."""
SLOW_S = 0.2
"""A p99 beyond that before the fault may be the brokers' own doing: what only that explains is not known to be well."""
FIND_S = 5.0
"""What consumers may need, once leaders or members are there, to find them."""
LEAST_SHARE = 0.5
"""Of the least that a fault costs: measured 1.1 to 2.9 times that (docs/failover.md)."""
START_S = 30.0
"""A killed broker that starts again recovers its logs and has to be unfenced."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """An outage between `low_s` and `high_s`, and why. Beyond `sure_s` (None: never) it may be too long already."""

    low_s: float
    high_s: float
    why: str
    sure_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """What an outage follows from, in s: when a broker that fell silent is fenced (`first` .. `last`, in words
    `fenced`), for how long the fault is held, and the p99 of the latency before it."""

    first: float
    last: float
    fenced: str
    hold: float
    usual: float


def _crashed(case: Case) -> Expectation:
    return Expectation(case.first, case.last + DISCOVERY_S, f"{case.fenced}, then clients look for the new leader")


def _still(case: Case) -> Expectation:
    # A request that is under way waits on its open connection until the broker answers again, or it times out; by then
    # another one leads.
    why = f"{case.fenced}; a request on an open connection waits up to the {case.hold:g} s"
    return Expectation(min(case.first, case.hold), max(case.hold, case.last) + FIND_S, why)


def _two_gone(case: Case) -> Expectation:
    why = f"two of three replicas are gone for {case.hold:g} s, then one starts"
    # With acks=1, or where no partition has both, service is back as soon as both are fenced.
    return Expectation(min(case.first, case.hold), case.hold + case.last + START_S, why)


def _at_most(base_s: float, why: str) -> Callable[[Case], Expectation]:
    def expected(case: Case) -> Expectation:
        most_s = max(base_s, case.first)
        slow_s, sure_s = (base_s + REQUESTS * usual for usual in (case.usual, min(case.usual, SLOW_S)))
        return Expectation(0.0, min(slow_s, most_s), why, sure_s if sure_s < min(slow_s, most_s) else None)

    return expected


_moved, _unmoved = _at_most(MOVED_S, "leaders move in good order"), _at_most(UNMOVED_S, "no leader moves")
EXPECTED: Mapping[str, Callable[[Case], Expectation]] = {
    "kill-leader": _crashed,
    "stop-leader": _moved,
    "pause-leader": _still,
    "cut-off": _still,
    "slow-follower": _unmoved,
    "kill-controller": _unmoved,
    "rolling-restart": _moved,
    "two-down": _two_gone,
    "return": _moved,
    "scale-out": _moved,
    "consumer-kill": _unmoved,
    "consumer-slow": _unmoved,
    "consumers-away": _unmoved,
    "time": _unmoved,
    "client-crash": _unmoved,
}
"""What a kind of fault costs those who send."""


def told_session_s(measurement: Measurement) -> float | None:
    """Return the session that real brokers told in the rounds; 0: not in all; None where the scenario has it."""
    told = [r.failover.session_s for r in measurement.rounds if r.failover and r.failover.session_s is not None]
    return max(told) if told and all(told) else 0.0 if told else None


def expected_outage(row: FaultScenario, usual_s: float = 0.0, told_s: float | None = None) -> Expectation:
    """Return what the settings predict for the longest time in which a partition takes no record.

    `usual_s`: the p99 of the latency before the fault; `told_s`: see :func:`told_session_s`.
    """
    settings = dict(row.cluster.config)
    session = float(settings.get("broker.session.timeout.ms", SESSION_MS)) / 1e3
    heartbeat = float(settings.get("broker.heartbeat.interval.ms", HEARTBEAT_MS)) / 1e3
    if told_s is not None:
        session = told_s or UNTOLD_S
        heartbeat = min(heartbeat, session / 3)
    first, last = session - heartbeat, session * SLACK
    fenced = f"fenced {first:g} to {last:g} s after its last sign of life"
    case = Case(first=first, last=last, fenced=fenced, hold=row.fault.hold_s, usual=usual_s)
    expected = EXPECTED[row.fault.kind](case)
    if told_s == 0:
        why = f"{expected.why} (the brokers do not tell their session: it may be {UNTOLD_S:g} s)"
        usual = expected_outage(row, usual_s)
        sure_s = usual.high_s if usual.sure_s is None else usual.sure_s
        return replace(expected, low_s=min(expected.low_s, usual.low_s), why=why, sure_s=sure_s)
    return expected


def had_no_effect(row: FaultScenario, expected: Expectation, outages_s: Sequence[float]) -> str:
    """Return that an outage was far shorter than the fault can cost, so that it was another one; else empty.

    Not of sends that nobody acknowledges (acks=0): those succeed while nobody takes them.
    """
    shortest, least_s = min(outages_s), LEAST_SHARE * expected.low_s
    if shortest >= least_s or dict(row.producer).get("acks") == "0":
        return ""
    in_order = "a broker that is shut down in good order is not killed; " if "kill" in row.fault.kind else ""
    return (
        f"the fault had no effect: {shortest:.1f} s without service, where {row.fault.kind} costs at least "
        f"{expected.low_s:.1f} s: {expected.why} ({in_order}a session may be shorter than it is taken to be here)"
    )


def expected_receiving(row: FaultScenario, usual_s: float = 0.0, told_s: float | None = None) -> Expectation:
    """Return the same for the longest time in which nothing of a partition is received."""
    if row.fault.kind in RECEIVING:
        return RECEIVING[row.fault.kind](row)
    return others_receiving(row, usual_s, told_s)


def others_receiving(row: FaultScenario, usual_s: float = 0.0, told_s: float | None = None) -> Expectation:
    """Return the same of consumers that no fault is done to themselves."""
    sending = expected_outage(row, usual_s, told_s)
    sure_s = sending.sure_s and sending.sure_s + FIND_S
    return Expectation(0.0, sending.high_s + FIND_S, f"{sending.why}; then consumers find it", sure_s)


def _shared_out(row: FaultScenario) -> Expectation:
    consumer, broker = dict(row.consumers.config) if row.consumers else {}, dict(row.cluster.config)
    if row.consumers and row.consumers.membership == "share":
        named = broker.get("group.share.session.timeout.ms", GROUP_SESSION_MS)
    else:
        named = consumer.get("session.timeout.ms", broker.get("group.consumer.session.timeout.ms", GROUP_SESSION_MS))
    session = float(named) / 1e3
    why = f"the dead member's session lasts {session:g} s, then its partitions are shared out"
    return Expectation(0.0, session + FIND_S, why)


def _away(row: FaultScenario) -> Expectation:
    hold = row.fault.hold_s
    return Expectation(hold, hold + FIND_S, f"they stay away for {hold:g} s, then read on from where they were")


def _slow(row: FaultScenario) -> Expectation:
    lock_s = record_lock_s(row)
    return Expectation(0.0, lock_s + FIND_S, f"the other members go on, and a slow one's locks last {lock_s:g} s")


RECEIVING: Mapping[str, Callable[[FaultScenario], Expectation]] = {
    "consumer-kill": _shared_out,
    "consumer-slow": _slow,
    "consumers-away": _away,
}
"""What it costs those who receive, where that does not follow from the former."""
