"""A consumer client: reads as its load says, and has each record checked and counted."""

from __future__ import annotations

import ctypes
import math
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perfgate.load.checks import Distinct, Numbers, Positions, Sequences
from perfgate.load.clients import Moments, ReadingClient, Rows, UnansweredError, reader
from perfgate.load.history import RECEIPT, Journal, receipts_path
from perfgate.load.payload import lengths_of, reading
from perfgate.load.schedule import Window, moments_of, now, precise_timers
from perfgate.model import Sizes
from perfgate.model.histogram import LatencyRecorder

CRC_EVERY = 64
"""Each record's header is checked, and of every CRC_EVERY-th record the body's CRC, too."""

New = Callable[[Numbers, Numbers, Numbers, Numbers], int]
"""Takes producer, partition, offset and sequence of records; returns how many of them are new."""
PATIENCE_S = 0.05
GROUP_TIMEOUT_S = 30
POLLS_WITHIN_S = 1.0
"""A consumer that pauses does so for work that lasts longer, and goes on polling meanwhile."""


class Receipts:
    """Counts a client's records, and journals each where the spec asks for it."""

    def __init__(self, spec: Mapping[str, Any], number: int, window: Window, new: New) -> None:
        self._window, self._new = window, new
        self._run, self._producers = spec["run"], spec["producers"]
        self.ahead: float = spec.get("ahead_s", 0.0)
        """Time by which this host's clock is ahead of the run's, which records are stamped by, in s."""
        history = spec.get("history")
        self._journal = Journal(str(receipts_path(Path(history), number))) if history else None
        self._until_crc = 0
        self._sizes = Sizes(**spec["sizes"]) if spec.get("sizes") else None
        self._lengths: dict[int, Numbers] = {}
        """Lengths of each producer's rows, where records differ in length."""
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
        heard: Moments,
    ) -> None:
        """Count records with whole headers, in the order read; `body` gives the bytes after the header, by index."""
        own = (headers["run"] == self._run) & (headers["producer"] < self._producers)
        if self._journal:
            rows = np.zeros(len(headers), RECEIPT)
            rows["at"], rows["offset"], rows["partition"] = heard, offsets, partitions
            rows["sequence"] = headers["sequence"].astype(np.int64)
            rows["producer"] = np.where(own, headers["producer"].astype(np.int64), -1)
            self._journal.write(rows)
        kept = np.flatnonzero(own)
        self.foreign += len(headers) - len(kept)
        if not len(kept):
            return
        self._check_bodies(headers, kept, body)
        if len(kept) < len(headers):
            headers, partitions = headers[kept], partitions[kept]
            offsets, lengths = offsets[kept], lengths[kept]
        producers, sequences = headers["producer"].astype(np.int64), headers["sequence"].astype(np.int64)
        if self._sizes:
            self._check_lengths(self._sizes, producers, sequences, lengths)
        new = self._new(producers, partitions, offsets, sequences)
        self.received += new
        if isinstance(heard, float) and heard < self._window.opens:
            return
        heard = moments_of(heard, kept)
        inside = lengths[self._window.index_of(heard)]
        self.received_in_window += new * len(inside) // len(lengths)
        self.received_bytes_in_window += int(inside.sum()) * new // len(lengths)
        sent = headers["time_ns"] * 1e-9 + self.ahead
        counts = (sent >= self._window.opens) & (sent < self._window.closes)
        self.latency.record(moments_of(heard, counts) - sent[counts])

    def result(self) -> dict[str, Any]:
        return {
            "read": self.read,
            "received": self.received,
            "foreign": self.foreign,
            "corrupt": self.corrupt,
            "negative_latencies": self.latency.negative,
            "received_in_window": self.received_in_window,
            "received_bytes_in_window": self.received_bytes_in_window,
        }

    def close(self) -> None:
        if self._journal:
            self._journal.close()

    def _check_lengths(self, sizes: Sizes, producers: Numbers, sequences: Numbers, lengths: Numbers) -> None:
        """Count records whose length is not that of their sequence number: lengths are those of the rows in turn."""
        for producer in np.unique(producers).tolist():
            if producer not in self._lengths:
                self._lengths[producer] = lengths_of(sizes, self._run, producer)
            rows, here = self._lengths[producer], producers == producer
            self.corrupt += int(np.count_nonzero(rows[sequences[here] % len(rows)] != lengths[here]))

    def _check_bodies(self, headers: npt.NDArray[np.void], kept: Numbers, body: Callable[[int], bytes]) -> None:
        for index in kept[self._until_crc :: CRC_EVERY].tolist():
            self.corrupt += int(zlib.crc32(body(index)) != headers["crc"][index])
        self._until_crc = (self._until_crc - len(kept)) % CRC_EVERY


class Reader:
    """Reads a client's share of a topic, checked and counted. See :class:`perfgate.load.worker.LoadClient`."""

    def __init__(
        self,
        spec: Mapping[str, Any],
        number: int,
        window: Window,
        client: ReadingClient,
        resting: threading.Event,
        *,
        given: Distinct | None = None,
        joins: threading.Event | None = None,
        work: Work | None = None,
        hurry: threading.Event | None = None,
        dwell_s: Callable[[], float] = lambda: 0.0,
        group_timeout_s: float = GROUP_TIMEOUT_S,
    ) -> None:
        """While `resting` is set it fetches nothing.

        `given`: records that any client of this process has received, where each goes to any of them. `joins`: set when
        it is to join its group; None: at once. `work` on records, until `hurry` is set; `dwell_s` more for those of a
        batch. `group_timeout_s`: for the partitions of its group.
        """
        self._group_timeout_s = group_timeout_s
        self.client, self._resting, self._rests, self._dwell_s = client, resting, False, dwell_s
        self._joins, self._work, self._hurry = joins, work, hurry or threading.Event()
        self._worked = 0
        """Records received that it has worked on."""
        self._partitions: int = spec["partitions"]
        self._waits: bool = spec["assigned"] is None
        self._laps: bool = spec["laps"]
        self._shares = given is not None
        self._sequences = Sequences(spec["producers"], self._partitions)
        # A member of a group goes on where another left off: only the group as a whole misses none.
        self._positions = Positions(self._partitions) if spec["followed"] else None
        self._receipts = Receipts(spec, number, window, given.check if given else self._sequences.check)
        self._start = 0.0
        self._headers = reading(spec, lambda: self._start - self._receipts.ahead)
        self._read_values = reader(np.dtype(f"V{self._headers.bytes}"))
        self._stopped = False

    @property
    def errors(self) -> Mapping[str, str]:
        return self.client.errors

    def connect(self) -> None:
        """Get the partitions, unless it joins later, in `run`. Raises LoadClientError."""
        if self._joins:
            return
        self.client.connect(self._partitions)
        deadline = now() + self._group_timeout_s
        while self._waits and not self.client.assignment():
            self._take()
            self.client.wait(PATIENCE_S)
            if now() > deadline:
                cause = "; ".join(self.errors.values())
                reason = f"the group gave no partition within {self._group_timeout_s} s {cause}".rstrip()
                raise UnansweredError(reason, self.client.NO_ANSWER)

    def run(self, start: float) -> None:
        precise_timers()
        self._start = start
        time.sleep(max(0.0, start - now()))
        if self._joins:
            while not (joins := self._joins.wait(PATIENCE_S)) and not self._stopped:
                pass
            if joins:
                self.client.connect(self._partitions)
        while not self._stopped:
            if self._rests != self._resting.is_set():
                self._rests = not self._rests
                self.client.rest(self._rests)
            if taken := self._take():
                self._dwell(taken)
            else:
                self.client.wait(PATIENCE_S)
        self.client.close()
        self._receipts.close()

    def stop(self) -> None:
        self._stopped = True

    def progress(self) -> dict[str, int]:
        tally = self._receipts
        failed = tally.foreign + tally.corrupt + self.client.failed.total()
        return {
            "attempted": max(tally.read, failed),
            "done": self._worked if self._work else tally.received,
            "failed": failed,
        }

    def recorders(self) -> dict[str, LatencyRecorder]:
        return {"latency": self._receipts.latency}

    def result(self) -> dict[str, Any]:
        client = self.client
        return {
            **self._receipts.result(),
            "failed": dict(client.failed),
            "errors": client.errors,
            "duplicated": self._sequences.duplicated,
            "reordered": self._sequences.reordered,
            "redelivered": client.redelivered if self._shares else self._sequences.redelivered,
            "missed": self._positions.missed if self._positions else 0,
            "throttled_ms": client.throttled_ms,
            "fetches": client.fetches,
            "fetch_ms": client.fetch_ms,
            "accepts": client.accepts,
        }

    def _dwell(self, taken: int) -> None:
        """Be slow, or work on the records: meanwhile this member sends heartbeats like any other."""
        received, began = self._receipts.received, now()
        work_s = self._work.takes_s(taken) if self._work else 0.0
        pauses = self._work is not None and self._work.pauses and work_s > POLLS_WITHIN_S
        if pauses:
            self.client.rest(True)
        while not self._stopped and (left := began + max(self._dwell_s(), self._left(work_s)) - now()) > 0:
            if pauses:
                self._take()
            time.sleep(min(left, PATIENCE_S))
        if pauses:
            self.client.rest(False)
        self._worked = received

    def _left(self, work_s: float) -> float:
        return 0.0 if self._hurry.is_set() else work_s

    def _take(self) -> int:
        return self.client.take(self._hear)

    def _hear(self, rows: Rows, heard: Moments) -> None:
        bad = rows["err"] != 0
        if not bad.any():  # as nearly always; copies of all rows cost CPU
            self._take_records(rows, heard)
            return
        self._take_records(rows[~bad], moments_of(heard, ~bad))
        # After the records: those before the end of a partition belong to the lap that ends with it.
        for row in rows[bad]:
            if int(row["err"]) != self.client.AT_END:
                self.client.count_failure(int(row["err"]), 1)
            elif self._laps:
                self._rewind(int(row["partition"]), int(row["offset"]))

    def _take_records(self, rows: Rows, heard: Moments) -> None:
        tally, before = self._receipts, len(rows)
        if self._positions:
            self._positions.check(rows["partition"].astype(np.int64), rows["offset"])
        whole = self._headers.whole(rows["len"].astype(np.int64))
        if not whole.all():
            rows, heard = rows[whole], moments_of(heard, whole)
        tally.foreign += before - len(rows)
        tally.take(
            self._headers.of(self._read_values(rows["payload"])),
            rows["partition"].astype(np.int64),
            rows["offset"],
            rows["len"].astype(np.int64),
            lambda index: self._body(rows[index]),
            heard,
        )
        tally.read += before  # last: a run that hears that all was read ends this process, and needs its journal whole

    def _body(self, row: Any) -> bytes:
        begin = int(row["payload"]) + self._headers.bytes
        return ctypes.string_at(begin, int(row["len"]) - self._headers.bytes)

    def _rewind(self, partition: int, end: int) -> None:
        """Read a partition again from its start: a backlog has no end for a consumer that is measured."""
        self._sequences.rewind(partition)
        if self._positions:
            self._positions.rewind(partition, end)
        self.client.rewind(partition)


class Work:
    """The work on records, of a spec's "work": `ms` on average, constant without `sigma` (of its logarithm)."""

    def __init__(self, spec: Mapping[str, Any], number: int) -> None:
        self._mean_s, self._sigma = spec["ms"] / 1e3, spec["sigma"]
        self._by_record: bool = spec["per"] == "record"
        self.pauses: bool = spec["pauses"]
        self._random = np.random.default_rng([spec["seed"], number])

    def takes_s(self, records: int) -> float:
        pieces = records if self._by_record else min(1, records)
        if not self._sigma:
            return float(pieces * self._mean_s)
        return float(self._random.lognormal(math.log(self._mean_s) - self._sigma**2 / 2, self._sigma, pieces).sum())
