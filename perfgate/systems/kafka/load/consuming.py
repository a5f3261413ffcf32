"""Consumer clients: one that reads in batches, and the checks of every record that any of them is given."""

from __future__ import annotations

import ctypes
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perfgate.load.checks import Numbers, Positions, Sequences
from perfgate.load.clients import LoadClientError, UnansweredError
from perfgate.load.history import RECEIPT, Journal, receipts_path
from perfgate.load.payload import reading
from perfgate.load.schedule import Window, now
from perfgate.model.histogram import LatencyRecorder
from perfgate.systems.kafka.load import clib
from perfgate.systems.kafka.load.clib import TopicPartitionList, lib
from perfgate.systems.kafka.load.client import NO_ANSWER, Client, precise_timers

CRC_EVERY = 64
"""Of each such number of records one body's CRC is compared; the header of each is checked."""

New = Callable[[Numbers, Numbers, Numbers, Numbers], int]
"""Takes producer, partition, offset and sequence of records; returns how many of them come for the first time."""
BATCH = 4_096
PATIENCE_S = 0.05
GROUP_TIMEOUT_S = 30
SEEK_TIMEOUT_MS = 10_000


class Receipts:
    """Counts one client's records, and journals each where the spec asks for it."""

    def __init__(self, spec: dict[str, Any], number: int, window: Window, new: New) -> None:
        self._window, self._new = window, new
        self._run, self._producers = spec["run"], spec["producers"]
        self.ahead: float = spec.get("ahead_s", 0.0)
        """How far this host's clock is ahead of the run's, on which records bear their time."""
        history = spec.get("history")
        self._journal = Journal(str(receipts_path(Path(history), number))) if history else None
        self._until_crc = 0
        self.read = self.received = self.foreign = self.corrupt = 0
        self.received_in_window = self.received_bytes_in_window = 0
        self.latency = LatencyRecorder()

    def take(
        self,
        headers: npt.NDArray[np.void],
        partitions: Numbers,
        offsets: Numbers,
        lengths: Numbers,
        body: Callable[[int], bytes],
        heard: float,
    ) -> None:
        """Take in records that have a header at least, in the order in which they were read.

        `lengths` of whole values; `body` returns what follows the header of the record at an index.
        """
        own = (headers["run"] == self._run) & (headers["producer"] < self._producers)
        if self._journal:
            self._note(headers, partitions, offsets, own, heard)
        kept = np.flatnonzero(own)
        self.foreign += len(headers) - len(kept)
        if not len(kept):
            return
        self._check_bodies(headers, kept, body)
        if len(kept) < len(headers):
            headers, partitions = headers[kept], partitions[kept]
            offsets, lengths = offsets[kept], lengths[kept]
        producers, sequences = headers["producer"].astype(np.int64), headers["sequence"].astype(np.int64)
        new = self._new(producers, partitions, offsets, sequences)
        self.received += new
        if heard < self._window.opens:
            return
        if heard < self._window.closes:
            self.received_in_window += new
            self.received_bytes_in_window += int(lengths.sum()) * new // len(lengths)
        sent = headers["time_ns"] * 1e-9 + self.ahead
        counts = (sent >= self._window.opens) & (sent < self._window.closes)
        self.latency.record(heard - sent[counts])

    def result(self) -> dict[str, Any]:
        """Return the counts."""
        return {
            "read": self.read,
            "received": self.received,
            "foreign": self.foreign,
            "corrupt": self.corrupt,
            "negative_latencies": self.latency.negative,
            "received_in_window": self.received_in_window,
            "received_bytes_in_window": self.received_bytes_in_window,
        }

    def _note(
        self,
        headers: npt.NDArray[np.void],
        partitions: Numbers,
        offsets: Numbers,
        own: npt.NDArray[np.bool_],
        heard: float,
    ) -> None:
        rows = np.zeros(len(headers), RECEIPT)
        rows["at"] = heard
        rows["offset"], rows["partition"] = offsets, partitions
        rows["sequence"] = headers["sequence"].astype(np.int64)
        rows["producer"] = np.where(own, headers["producer"].astype(np.int64), -1)
        assert self._journal is not None
        self._journal.write(rows)

    def _check_bodies(self, headers: npt.NDArray[np.void], kept: Numbers, body: Callable[[int], bytes]) -> None:
        for index in kept[self._until_crc :: CRC_EVERY].tolist():
            self.corrupt += int(zlib.crc32(body(index)) != headers["crc"][index])
        self._until_crc = (self._until_crc - len(kept)) % CRC_EVERY


class Receiving:
    """Common part of the clients that read; see :class:`perfgate.systems.kafka.load.worker.LoadClient`."""

    def __init__(
        self, spec: dict[str, Any], receipts: Receipts, failed: Counter[str], errors: Mapping[str, str]
    ) -> None:
        """`failed`: errors by name, which the client counts; `errors`: the first words of each."""
        self._receipts, self._failed, self.errors = receipts, failed, errors
        self._start = 0.0
        self._headers = reading(spec, lambda: self._start - receipts.ahead)
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True

    def progress(self) -> dict[str, int]:
        tally = self._receipts
        failed = tally.foreign + tally.corrupt + self._failed.total()
        return {"attempted": tally.read, "done": tally.received, "failed": failed}

    def recorders(self) -> dict[str, LatencyRecorder]:
        return {"latency": self._receipts.latency}

    def result(self) -> dict[str, Any]:
        return {**self._receipts.result(), "failed": dict(self._failed), "errors": self.errors, **self._counts()}

    def _counts(self) -> dict[str, Any]:
        raise NotImplementedError


class Reader(Receiving):
    """Reads one client's share of a topic; foreign, damaged, repeated and reordered records are counted."""

    def __init__(self, spec: dict[str, Any], number: int, window: Window, resting: threading.Event) -> None:
        """While `resting` is set it asks the brokers for nothing. Raises LoadClientError when a setting is refused."""
        self._window, self._resting, self._rests = window, resting, False
        self._partitions: int = spec["partitions"]
        self._assigned: list[int] | None = spec["assigned"][number] if spec["assigned"] else None
        self._laps: bool = spec["laps"]
        self._sequences = Sequences(spec["producers"], self._partitions)
        # A member of a group takes partitions up where another left off: only the group as a whole misses none. The
        # markers of transactions are positions that no consumer is given.
        followed = self._assigned is not None and not spec["transactions"]
        self._positions = Positions(self._partitions) if followed else None
        self._pointers = np.zeros(BATCH, np.uint64)
        self._fetches = 0
        self._fetch_ms = 0.0
        self.client = Client(clib.CONSUMER, spec["client"], spec["topic"], on_stats=self._take_stats)
        receipts = Receipts(spec, number, window, self._sequences.check)
        super().__init__(spec, receipts, self.client.failed, self.client.errors)
        self._read_values = clib.reader(np.dtype(f"V{self._headers.bytes}"))

    def connect(self) -> None:
        """Take the partitions: those assigned, or those that the group gives. Raises LoadClientError."""
        self.client.connect(self._partitions)
        if self._assigned is not None:
            with _Partitions(self.client.topic, self._assigned, clib.OFFSET_BEGINNING) as partitions:
                self._must(lib.rd_kafka_assign(self.client.handle, partitions), "assigning partitions")
            return
        with _Partitions(self.client.topic, [clib.PARTITION_UNASSIGNED]) as topics:
            self._must(lib.rd_kafka_subscribe(self.client.handle, topics), "subscribing")
        deadline = now() + GROUP_TIMEOUT_S
        while not self.assignment():
            self._take_batch()
            self.client.wait(PATIENCE_S)
            if now() > deadline:
                cause = "; ".join(self.client.errors.values())
                reason = f"the group gave no partition within {GROUP_TIMEOUT_S} s {cause}".rstrip()
                raise UnansweredError(reason, NO_ANSWER)

    def assignment(self) -> int:
        """Number of partitions that this client has at present."""
        with self._assigned_now() as partitions:
            return int(partitions.contents.cnt)

    @contextmanager
    def _assigned_now(self) -> Iterator[Any]:
        partitions = ctypes.POINTER(TopicPartitionList)()
        self._must(lib.rd_kafka_assignment(self.client.handle, ctypes.byref(partitions)), "reading the assignment")
        try:
            yield partitions
        finally:
            lib.rd_kafka_topic_partition_list_destroy(partitions)

    def _rest_or_go_on(self) -> None:
        """Fetch no more while resting, from the present position; records fetched ahead are given back."""
        if self._rests == self._resting.is_set():
            return
        self._rests = not self._rests
        turn = lib.rd_kafka_pause_partitions if self._rests else lib.rd_kafka_resume_partitions
        with self._assigned_now() as partitions:
            self._must(turn(self.client.handle, partitions), "resting" if self._rests else "reading on")

    def run(self, start: float) -> None:
        precise_timers()
        self._start = start
        time.sleep(max(0.0, start - now()))
        while not self._stopped:
            self._rest_or_go_on()
            if not self._take_batch():
                self.client.wait(PATIENCE_S)
        if self._assigned is None:
            lib.rd_kafka_consumer_close(self.client.handle)  # leaves the group

    def _counts(self) -> dict[str, Any]:
        return {
            "duplicated": self._sequences.duplicated,
            "reordered": self._sequences.reordered,
            "redelivered": self._sequences.redelivered,
            "missed": self._positions.missed if self._positions else 0,
            "throttled_ms": self.client.throttled_ms,
            "fetches": self._fetches,
            "fetch_ms": self._fetch_ms,
        }

    def _take_batch(self) -> int:
        """Read what is there, without waiting; return the number of messages, errors included."""
        count = int(lib.rd_kafka_consume_batch_queue(self.client.queue, 0, self._pointers.ctypes.data, BATCH))
        if count <= 0:
            return 0
        heard = now()
        pointers = self._pointers[:count]
        messages = clib.read_messages(pointers)
        try:
            bad = messages["err"] != 0
            self._take_records(messages[~bad], heard)
            # After the records: those before the end of a partition belong to the lap that ends with it.
            self._take_errors(messages[bad])
        finally:
            for _ in map(clib.free_message, pointers.tolist()):
                pass
        return count

    def _take_records(self, messages: npt.NDArray[np.void], heard: float) -> None:
        tally = self._receipts
        tally.read += (before := len(messages))
        if self._positions:
            self._positions.check(messages["partition"].astype(np.int64), messages["offset"])
        messages = messages[self._headers.whole(messages["len"].astype(np.int64))]
        tally.foreign += before - len(messages)
        tally.take(
            self._headers.of(self._read_values(messages["payload"])),
            messages["partition"].astype(np.int64),
            messages["offset"],
            messages["len"].astype(np.int64),
            lambda index: self._body(messages[index]),
            heard,
        )

    def _body(self, message: npt.NDArray[np.void]) -> bytes:
        begin = int(message["payload"]) + self._headers.bytes
        return ctypes.string_at(begin, int(message["len"]) - self._headers.bytes)

    def _take_errors(self, messages: npt.NDArray[np.void]) -> None:
        for message in messages:
            code = int(message["err"])
            if code == clib.ERR_PARTITION_EOF:
                if self._laps:
                    self._rewind(int(message["partition"]), int(message["offset"]))
            else:
                self.client.count_failure(code, 1)

    def _rewind(self, partition: int, end: int) -> None:
        """Read a partition again from its start: a backlog has no end for a consumer that is measured."""
        self._sequences.rewind(partition)
        if self._positions:
            self._positions.rewind(partition, end)
        with _Partitions(self.client.topic, [partition], clib.OFFSET_BEGINNING) as partitions:
            error = lib.rd_kafka_seek_partitions(self.client.handle, partitions, SEEK_TIMEOUT_MS)
            if error or partitions.contents.elems[0].err:
                raise UnansweredError(f"partition {partition} could not be read from its start again", NO_ANSWER)

    def _take_stats(self, statistics: dict[str, Any]) -> None:
        """Add the brokers' time for answers since the last statistics (their `rtt`; mostly fetches here)."""
        if not self._window.holds(now()):
            return
        for broker in statistics["brokers"].values():
            self._fetches += broker["rtt"]["cnt"]
            self._fetch_ms += broker["rtt"]["sum"] / 1e3

    def _must(self, code: int, doing: str) -> None:
        if code:
            raise LoadClientError(f"{doing}: {clib.error_text(code)}")


class _Partitions:
    """librdkafka's list of partitions for one call."""

    def __init__(self, topic: bytes, partitions: list[int], offset: int | None = None) -> None:
        self._list = lib.rd_kafka_topic_partition_list_new(len(partitions))
        for partition in partitions:
            added = lib.rd_kafka_topic_partition_list_add(self._list, topic, partition)
            if offset is not None:
                added.contents.offset = offset

    def __enter__(self) -> Any:
        return self._list

    def __exit__(self, *_: object) -> None:
        lib.rd_kafka_topic_partition_list_destroy(self._list)
