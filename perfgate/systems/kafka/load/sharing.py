"""One member of a share group (KIP-932): each record goes to any member, which accepts it with its next poll."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
import numpy as np
from confluent_kafka import KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from perfgate.load.clients import Hear, LoadClientError
from perfgate.load.consuming import PATIENCE_S
from perfgate.load.history import ACCEPT, Journal, accepts_path
from perfgate.load.schedule import now
from perfgate.systems.kafka.client.iam import with_tokens
from perfgate.systems.kafka.load.client import NO_ANSWER

ADMIN_TIMEOUT_S = 20
STATISTICS_MS = 200
FROM_THE_START = "share.auto.offset.reset"
REFUSED = ("allow.auto.create.topics",)
"""Settings of other consumers that a share consumer does not take yet."""
GROUP = "group.id"
ROW = np.dtype([("err", "<i4"), ("partition", "<i4"), ("payload", "<u8"), ("len", "<u8"), ("offset", "<i8")])


class Polled:
    """What polls of a share group give, as rows; half of :class:`perfgate.load.clients.ReadingClient`."""

    def __init__(self, topics: Sequence[str], partitions: int) -> None:
        """`partitions`: of all topics, as many of each."""
        each = partitions // len(topics)
        self._first: dict[Any, Any] = {topic: number * each for number, topic in enumerate(topics)}
        """Number of each topic's first partition over all topics; by the library's stubs a record may have no topic."""
        self.errors: dict[str, str] = {}
        self.failed: Counter[str] = Counter()
        self.redelivered = 0

    def pass_on(self, messages: Iterable[Message[bytes, bytes]], hear: Hear) -> int:
        """Have the records among the messages heard, and count the errors; return the number of records."""
        heard = now()
        records: list[Message[bytes, bytes]] = []  # a type of the stubs: the library's takes no parameters
        for message in messages:
            if message.error() is None:
                records.append(message)
            else:
                self._note(message.error())
        if not records:
            return 0
        self.redelivered += sum((record.delivery_count() or 1) > 1 for record in records)
        values = [record.value() or b"" for record in records]
        data = np.frombuffer(b"".join([*values, b"end"]), np.uint8)
        rows = np.zeros(len(records), ROW)
        rows["len"] = [len(value) for value in values]
        rows["payload"] = np.uint64(data.ctypes.data) + np.cumsum(rows["len"]) - rows["len"]
        rows["partition"] = [self._first[record.topic()] + record.partition() for record in records]
        rows["offset"] = [record.offset() for record in records]
        hear(rows, heard)
        return len(records)

    def count_failure(self, code: int, records: int) -> None:
        self.failed[str(code)] += records

    def _note(self, error: Any) -> None:
        self.failed[error.name()] += 1
        self.errors.setdefault(error.name(), error.str())


class ShareMember(Polled):
    """See :class:`perfgate.load.clients.ReadingClient`. Nothing can wake it: it waits where it takes."""

    NO_ANSWER, AT_END = NO_ANSWER, 0
    throttled_ms = fetches = 0
    fetch_ms = 0.0

    def __init__(self, spec: Mapping[str, Any], number: int) -> None:
        """Asks to join at once, so that all members wait together (5 s). Raises LoadClientError."""
        super().__init__(spec["topics"], spec["partitions"])
        history = spec.get("history")
        self._journal = Journal(str(accepts_path(Path(history), number))) if history else None
        self._topics: list[str] = spec["topics"]
        self._settings: dict[str, str] = {k: v for k, v in spec["client"].items() if k not in REFUSED}
        self.accepts = 0
        self._partitions = 0
        """Number that the group has given this member."""
        extra = {"statistics.interval.ms": str(STATISTICS_MS), "stats_cb": self._take_stats}
        try:
            self._consumer = confluent_kafka.ShareConsumer({**with_tokens(self._settings), **extra})
        except (KafkaException, ValueError) as error:
            raise LoadClientError(f"a share consumer refuses its settings: {error}") from None
        if self._journal:
            self._consumer.set_acknowledgement_commit_callback(self._note_accepts)
        self._join()

    def _join(self) -> None:
        """Have the group begin with the topic's first record, and ask to become a member."""
        entry = ConfigEntry(FROM_THE_START, "earliest", incremental_operation=AlterConfigOpType.SET)
        group = ConfigResource(ResourceType.GROUP, self._settings[GROUP], incremental_configs=[entry])
        admin = AdminClient(with_tokens({name: value for name, value in self._settings.items() if name != GROUP}))
        try:
            for done in admin.incremental_alter_configs([group], request_timeout=ADMIN_TIMEOUT_S).values():
                done.result()
            self._consumer.subscribe(self._topics)
        except KafkaException as error:
            raise LoadClientError(f"joining the share group: {error}") from None

    def connect(self, partitions: int) -> None:
        """Do nothing: it has asked already."""

    def assignment(self) -> int:
        return self._partitions

    def wait(self, seconds: float) -> None:
        """Do nothing: `take` has waited."""

    def take(self, hear: Hear) -> int:
        """Take the records of a poll, which accepts those of the previous poll."""
        try:
            messages = self._consumer.poll(PATIENCE_S)
        except KafkaException as error:
            self._note(error.args[0])
            return 0
        return self.pass_on(messages, hear)

    def rest(self, rests: bool) -> None:
        raise LoadClientError("a share consumer cannot rest")

    def rewind(self, partition: int) -> None:
        raise LoadClientError("a share group gives each record once")

    def close(self) -> None:
        """Leave; the last records are accepted with that."""
        self._consumer.close()

    def _note_accepts(self, offsets: Mapping[TopicPartition, Collection[int]], refused: KafkaException | None) -> None:
        """Journal the brokers' answers to the acceptance of these records."""
        rows = np.zeros(sum(map(len, offsets.values())), ACCEPT)
        rows["at"], rows["error"] = now(), refused.args[0].code() if refused else 0
        numbers = {place: self._first[place.topic] + place.partition for place in offsets}
        rows["partition"] = [numbers[place] for place, taken in offsets.items() for _ in taken]
        rows["offset"] = [offset for taken in offsets.values() for offset in taken]
        assert self._journal is not None
        self._journal.write(rows)
        self.accepts += len(rows)

    def _take_stats(self, text: str) -> None:
        self._partitions = json.loads(text).get("cgrp", {}).get("assignment_size", 0)
