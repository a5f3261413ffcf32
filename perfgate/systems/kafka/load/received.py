"""What one consumer client was given: what is foreign or damaged is counted, not believed."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perfgate.load.checks import Numbers
from perfgate.load.history import RECEIPT, Journal, receipts_path
from perfgate.load.window import Window
from perfgate.model.histogram import LatencyRecorder

CRC_EVERY = 64
"""Of every so many records the CRC of the body is computed and compared; the header of each is checked."""

New = Callable[[Numbers, Numbers, Numbers, Numbers], int]
"""Takes producer, partition, offset and sequence of records; returns how many of them are given for the first time."""


class Receipts:
    """Counts one client's records, and writes each down where the spec asks for it."""

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
