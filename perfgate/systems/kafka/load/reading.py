"""A librdkafka consumer that reads in batches, as the load's readers use it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from perfgate.load.clients import Hear, LoadClientError, Rows, UnansweredError
from perfgate.load.schedule import now
from perfgate.systems.kafka.load import clib
from perfgate.systems.kafka.load.clib import TopicPartitionList, lib
from perfgate.systems.kafka.load.client import METADATA_TIMEOUT_MS, Client

BATCH = 4_096
SEEK_TIMEOUT_MS = 10_000


class Consumer(Client):
    """See :class:`perfgate.load.clients.ReadingClient`."""

    AT_END = clib.ERR_PARTITION_EOF
    redelivered = accepts = 0

    def __init__(
        self,
        settings: Mapping[str, str],
        topics: Sequence[str],
        assigned: Sequence[int] | None,
        counts: Callable[[], bool],
        *,
        stores: bool,
        commit_records: int,
        most: int,
    ) -> None:
        """`assigned`: partitions; None: those that its group gives. `counts`: whether the window is open.

        `stores`: records are done with, and may be committed, when the next are asked for, not when they are taken;
        `commit_records`: records between two commits (0: the client commits from time to time). `most`: records to take
        at a time. Raises LoadClientError with librdkafka's words when a setting is refused.
        """
        self._assigned, self._in_window = assigned, counts
        self._pointers = np.zeros(most, np.uint64)
        self.fetches = 0
        self.fetch_ms = 0.0
        self._stores, self._commit_records, self._rests = stores, commit_records, False
        self._done = dict[int, int]()
        """The position behind the last record taken of each partition, as long as it is not marked as done."""
        self._uncommitted = self._taken = 0
        own = {"enable.auto.offset.store": "false"} if stores else {}
        super().__init__(clib.CONSUMER, {**settings, **own}, topics)

    def connect(self, partitions: int, timeout_ms: int = METADATA_TIMEOUT_MS) -> None:
        super().connect(partitions, timeout_ms)
        if self._assigned is not None:
            with _listed(map(self._place, self._assigned)) as own:
                self._must(lib.rd_kafka_assign(self.handle, own), "assigning partitions")
            return
        with _listed((topic, clib.PARTITION_UNASSIGNED, clib.OFFSET_INVALID) for topic in self.topics) as topics:
            self._must(lib.rd_kafka_subscribe(self.handle, topics), "subscribing")

    def assignment(self) -> int:
        with self._assigned_now() as partitions:
            return int(partitions.contents.cnt)

    def take(self, hear: Hear) -> int:
        if self._done and not self._rests:
            self._settle()
        count = int(lib.rd_kafka_consume_batch_queue(self.queue, 0, self._pointers.ctypes.data, len(self._pointers)))
        if count <= 0:
            return 0
        heard, pointers = now(), self._pointers[:count]
        try:
            rows = self.read(pointers)
            hear(rows, heard)
            if self._stores:
                self._note(rows[rows["err"] == 0])
        finally:
            for _ in map(clib.free_message, pointers.tolist()):
                pass
        return count

    def rest(self, rests: bool) -> None:
        turn = lib.rd_kafka_pause_partitions if rests else lib.rd_kafka_resume_partitions
        self._rests = rests
        with self._assigned_now() as partitions:
            self._must(turn(self.handle, partitions), "resting" if rests else "reading on")

    def rewind(self, partition: int) -> None:
        with _listed([self._place(partition)]) as partitions:
            error = lib.rd_kafka_seek_partitions(self.handle, partitions, SEEK_TIMEOUT_MS)
            if error or partitions.contents.elems[0].err:
                reason = f"partition {partition} could not be read from its start again"
                raise UnansweredError(reason, self.NO_ANSWER)

    def close(self) -> None:
        if self._assigned is None:
            if self._done:
                self._settle()
            if self._uncommitted:
                lib.rd_kafka_commit(self.handle, None, 0)
            lib.rd_kafka_consumer_close(self.handle)

    def _place(self, partition: int, offset: int = clib.OFFSET_BEGINNING) -> tuple[bytes, int, int]:
        topic, number = self.place_of(partition)
        return self.topics[topic], number, offset

    def _note(self, rows: Rows) -> None:
        for partition in np.unique(rows["partition"]).tolist():
            self._done[partition] = int(rows["offset"][rows["partition"] == partition].max()) + 1
        self._taken += len(rows)

    def _settle(self) -> None:
        """Mark what was taken as done; a partition that was taken away meanwhile is another member's."""
        with _listed(map(self._place, self._done, self._done.values())) as done:
            lib.rd_kafka_offsets_store(self.handle, done)
        self._done.clear()
        if self._commit_records:
            self._uncommitted, self._taken = self._uncommitted + self._taken, 0
            if self._uncommitted >= self._commit_records:
                lib.rd_kafka_commit(self.handle, None, 1)
                self._uncommitted = 0

    @contextmanager
    def _assigned_now(self) -> Iterator[Any]:
        partitions = ctypes.POINTER(TopicPartitionList)()
        self._must(lib.rd_kafka_assignment(self.handle, ctypes.byref(partitions)), "reading the assignment")
        try:
            yield partitions
        finally:
            lib.rd_kafka_topic_partition_list_destroy(partitions)

    def _take_stats(self, statistics: dict[str, Any]) -> None:
        """Add the brokers' time for answers since the last statistics (their `rtt`; mostly fetches here)."""
        if not self._in_window():
            return
        for broker in statistics["brokers"].values():
            self.fetches += broker["rtt"]["cnt"]
            self.fetch_ms += broker["rtt"]["sum"] / 1e3

    def _must(self, code: int, doing: str) -> None:
        if code:
            raise LoadClientError(f"{doing}: {clib.error_text(code)}")


@contextmanager
def _listed(places: Iterable[tuple[bytes, int, int]]) -> Iterator[Any]:
    """Yield librdkafka's list of partitions, by topic, number and offset, for a call."""
    partitions = lib.rd_kafka_topic_partition_list_new(0)
    try:
        for topic, partition, offset in places:
            lib.rd_kafka_topic_partition_list_add(partitions, topic, partition).contents.offset = offset
        yield partitions
    finally:
        lib.rd_kafka_topic_partition_list_destroy(partitions)
