"""State of a topic and its cluster over time: asked of brokers every 100 ms, and from the controllers' own log."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any, Literal

from confluent_kafka import KafkaException

from perfgate.model import Settings
from perfgate.model.target import ASK_EVERY_S, LoggedChange, State
from perfgate.systems.kafka.client.topics import admin_client
from perfgate.systems.watching import AskingWatch

ANSWER_WITHIN_S = 1.0
"""A broker that stands still answers nothing; the next question goes to another broker, over another connection."""
IMPATIENT = tuple(
    (name, f"{1e3 * ANSWER_WITHIN_S:.0f}") for name in ("socket.timeout.ms", "socket.connection.setup.timeout.ms")
)
RECORD = re.compile(r"^\|.*?\bCreateTime: (\d+).*?\bpayload: (\{.*\})\s*$")
NEW_LEADER = re.compile(r"^\|.*?\bCreateTime: (\d+).*?\bLeaderChange: (\{.*\})\s*$")
RECOVERING = 1
"""leaderRecoveryState of a leader that was elected although it was not in sync (an unclean election)."""


class MetadataWatch(AskingWatch):
    def __init__(self, bootstrap: str, security: Settings, topic: str) -> None:
        super().__init__(topic, every_s=ASK_EVERY_S)
        self._admin = admin_client(bootstrap, (*security, *IMPATIENT))

    def _asked(self) -> State | None:
        try:
            metadata = self._admin.list_topics(self.topic, timeout=ANSWER_WITHIN_S)
        except KafkaException:
            return None
        partitions = [partition for _, partition in sorted(metadata.topics[self.topic].partitions.items())]
        if not partitions:
            return None
        return State(
            at=time.monotonic(),
            leaders=tuple(partition.leader for partition in partitions),
            in_sync=tuple(tuple(sorted(partition.isrs)) for partition in partitions),
            replicas=tuple(tuple(partition.replicas) for partition in partitions),
            brokers=tuple(sorted(metadata.brokers)),
        )


def changes(dump: str, topic: str, clock_s: float) -> list[LoggedChange]:
    """Return the changes that concern the topic, in order, from the output of Kafka's dump tool.

    `clock_s`: the monotonic clock less the time since 1970.
    """
    ids = {data["topicId"] for _, kind, data in _records(dump) if kind == "TOPIC_RECORD" and data["name"] == topic}
    logged = [
        LoggedChange(int(line[1]) / 1e3 + clock_s, "controller", json.loads(line[2])["leaderId"])
        for text in dump.splitlines()
        if (line := NEW_LEADER.match(text))
    ]
    for at, kind, data in _records(dump):
        match kind:
            case "BROKER_REGISTRATION_CHANGE_RECORD" if data.get("fenced"):
                what: Literal["fenced", "back"] = "fenced" if data["fenced"] > 0 else "back"
                logged.append(LoggedChange(at + clock_s, what, data["brokerId"]))
            case "FENCE_BROKER_RECORD":
                logged.append(LoggedChange(at + clock_s, "fenced", data["id"]))
            case "UNFENCE_BROKER_RECORD":
                logged.append(LoggedChange(at + clock_s, "back", data["id"]))
            case "PARTITION_RECORD" | "PARTITION_CHANGE_RECORD" if (
                data["topicId"] in ids and data.get("leader", -2) > -2
            ):
                unclean = data.get("leaderRecoveryState") == RECOVERING
                logged.append(LoggedChange(at + clock_s, "leader", data["partitionId"], data["leader"], unclean))
    return sorted(logged, key=lambda change: change.at)


def _records(dump: str) -> Iterator[tuple[float, str, dict[str, Any]]]:
    for text in dump.splitlines():
        if line := RECORD.match(text):
            payload = json.loads(line[2])
            yield int(line[1]) / 1e3, payload["type"], payload["data"]
