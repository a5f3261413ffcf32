"""Consumers that work: where that is refused. Pure."""

from __future__ import annotations

from perfgate.model.declared import POLL_AT_ONCE, Consumers, Scenario
from perfgate.model.faults import FaultScenario

MOST_POLL_MS = 300_000.0
"""Kafka's default of max.poll.interval.ms."""


def cannot_work(scenario: Scenario) -> str:
    """Return why its consumers cannot work as declared; empty where they can, or do not."""
    consumers = scenario.consumers
    if consumers is None or not (consumers.work_ms or consumers.pauses or consumers.commit_records):
        return "" if consumers is None or not consumers.work_sigma else "consumers.work-sigma needs consumers.work-ms"
    if scenario.cluster.system != "kafka":
        return "consumers that work, pause and commit are Kafka's: a subscription of Pulsar acknowledges each message"
    if consumers.commit_records and consumers.membership != "group":
        return "consumers.commit-records needs consumers.membership=group: no others commit"
    if not consumers.work_ms:
        return "consumers.pauses needs consumers.work-ms: nothing takes long otherwise" if consumers.pauses else ""
    return _cannot_keep_schedule(scenario, consumers)


def _cannot_keep_schedule(scenario: Scenario, consumers: Consumers) -> str:
    if not scenario.load.fixed_rate:
        return f"consumers.work-ms needs a paced load, whose lag is known; this one is {scenario.load.kind}"
    if consumers.membership not in ("group", "assigned"):
        return f"consumers.work-ms needs consumers.membership=group or assigned, not {consumers.membership}"
    if isinstance(scenario, FaultScenario) and scenario.falls_behind_per_s:
        return "a round with a fault asks whether consumers catch up, and these fall behind by declaration"
    poll_ms = consumers.work_ms * (POLL_AT_ONCE if consumers.work_per == "record" else 1)
    most_ms = float(dict(consumers.config).get("max.poll.interval.ms", MOST_POLL_MS))
    if poll_ms >= most_ms and not consumers.pauses:
        return (
            f"{POLL_AT_ONCE} records may take {poll_ms / 1e3:,.0f} s, longer than max.poll.interval.ms allows "
            f"({most_ms / 1e3:,.0f} s): set consumers.pauses=true, or less work"
        )
    return ""
