"""One member of a share group (KIP-932): each record goes to any member, which accepts it with its next poll."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import KafkaException, Message, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from perfgate.load.checks import Distinct
from perfgate.load.clients import LoadClientError, UnansweredError
from perfgate.load.history import ACCEPT, Journal, accepts_path
from perfgate.load.schedule import Window, now
from perfgate.systems.kafka.client.iam import with_tokens
from perfgate.systems.kafka.load.client import NO_ANSWER, precise_timers
from perfgate.systems.kafka.load.consuming import GROUP_TIMEOUT_S, PATIENCE_S, Receipts, Receiving

ADMIN_TIMEOUT_S = 20
STATISTICS_MS = 200
FROM_THE_START = "share.auto.offset.reset"
REFUSED = ("allow.auto.create.topics",)
"""Settings of other consumers that a share consumer does not take yet."""
GROUP = "group.id"


class ShareReader(Receiving):
    """Reads the records that the brokers give it; see :class:`perfgate.systems.kafka.load.worker.LoadClient`."""

    def __init__(
        self,
        spec: dict[str, Any],
        number: int,
        window: Window,
        given: Distinct,
        dwell_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Asks to become a member at once: each learns of its partitions with its second heartbeat, 5 s later.

        So all members of a process wait together. `given`: records that they were given. `dwell_s`: how long this
        member takes over the records of a poll before it accepts them. Raises LoadClientError.
        """
        self._dwell_s = dwell_s
        history = spec.get("history")
        self._accepts = Journal(str(accepts_path(Path(history), number))) if history else None
        self._topic: str = spec["topic"]
        self._settings: dict[str, str] = {k: v for k, v in spec["client"].items() if k not in REFUSED}
        self._first_words: dict[str, str] = {}
        super().__init__(spec, Receipts(spec, number, window, given.check), Counter(), self._first_words)
        self._redelivered = self._answers = 0
        self._partitions = 0
        """Number that the group has given this member."""
        extra = {"statistics.interval.ms": str(STATISTICS_MS), "stats_cb": self._take_stats}
        try:
            self._consumer = ShareConsumer({**with_tokens(self._settings), **extra})
        except (KafkaException, ValueError) as error:
            raise LoadClientError(f"a share consumer refuses its settings: {error}") from None
        if self._accepts:
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
            self._consumer.subscribe([self._topic])
        except KafkaException as error:
            raise LoadClientError(f"joining the share group: {error}") from None

    def connect(self) -> None:
        """Wait until the group gives partitions: records sent before would wait for that. Raises LoadClientError."""
        deadline = now() + GROUP_TIMEOUT_S
        while not self._partitions:
            try:
                self._take(self._consumer.poll(PATIENCE_S))
            except KafkaException as error:
                self._note(error.args[0])
            if now() > deadline:
                cause = "; ".join(self.errors.values())
                reason = f"the share group gave no partition in {GROUP_TIMEOUT_S} s {cause}".rstrip()
                raise UnansweredError(reason, NO_ANSWER)

    def run(self, start: float) -> None:
        """Read until stopped; the last records are accepted as the member leaves."""
        precise_timers()
        self._start = start
        while not self._stopped:
            try:
                if self._take(self._consumer.poll(PATIENCE_S)):
                    self._dwell()
            except KafkaException as error:
                self._note(error.args[0])
        self._consumer.close()

    def _counts(self) -> dict[str, Any]:
        # In a share group records have no order, and positions go to any member.
        return {
            "duplicated": 0,
            "reordered": 0,
            "redelivered": self._redelivered,
            "missed": 0,
            "throttled_ms": 0,
            "fetches": 0,
            "fetch_ms": 0.0,
            "accepts": self._answers,
        }

    def _dwell(self) -> None:
        """Be slow: meanwhile the group gets heartbeats of this member, as of any that works."""
        began = now()
        while not self._stopped and (left := began + self._dwell_s() - now()) > 0:
            time.sleep(min(left, PATIENCE_S))

    def _note_accepts(self, offsets: Mapping[TopicPartition, Collection[int]], refused: KafkaException | None) -> None:
        """Journal the brokers' answers to the acceptance of these records."""
        rows = np.zeros(sum(map(len, offsets.values())), ACCEPT)
        rows["at"], rows["error"] = now(), refused.args[0].code() if refused else 0
        rows["partition"] = [partition.partition for partition, taken in offsets.items() for _ in taken]
        rows["offset"] = [offset for taken in offsets.values() for offset in taken]
        assert self._accepts is not None
        self._accepts.write(rows)
        self._answers += len(rows)

    def _take(self, messages: Iterable[Message[bytes, bytes]]) -> int:
        """Take the messages of a poll; return how many records that are."""
        heard, records = now(), []
        for message in messages:
            if (error := message.error()) is None:
                records.append(message)
            else:
                self._note(error)
        values = [message.value() or b"" for message in records]
        tally, size = self._receipts, self._headers.bytes
        tally.read += len(records)
        whole = np.flatnonzero(self._headers.whole(np.array([len(value) for value in values], np.int64))).tolist()
        tally.foreign += len(records) - len(whole)
        if not whole:
            return len(records)
        self._redelivered += sum((records[index].delivery_count() or 1) > 1 for index in whole)
        tally.take(
            self._headers.of(np.frombuffer(b"".join(values[index][:size] for index in whole), f"V{size}")),
            np.array([records[index].partition() for index in whole], np.int64),
            np.array([records[index].offset() for index in whole], np.int64),
            np.array([len(values[index]) for index in whole], np.int64),
            lambda at: values[whole[at]][size:],
            heard,
        )
        return len(records)

    def _take_stats(self, text: str) -> None:
        self._partitions = json.loads(text).get("cgrp", {}).get("assignment_size", 0)

    def _note(self, error: Any) -> None:
        self._failed[error.name()] += 1
        self._first_words.setdefault(error.name(), error.str())
