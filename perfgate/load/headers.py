"""Headers of record values: 32 bytes with the time, or 10 in records that have no room for those."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from perfgate.model import Payload

HEADER = np.dtype([("run", "<u8"), ("producer", "<u4"), ("crc", "<u4"), ("sequence", "<u8"), ("time_ns", "<i8")])
"""The first 32 bytes of a record value. `crc` is the CRC-32 of the rest, `time_ns` on the run's monotonic clock."""
COMPACT = np.dtype(
    [("check", "<u2"), ("check_high", "u1"), ("producer", "<u2"), ("sequence", "<u4"), ("sequence_high", "u1")]
)
"""The first 10 bytes of a shorter one: 24 bits of a check over the run's tag and all else in the record, 16 bits of
producer, 40 of sequence (12 days at a million records/s). A record of another run, or a damaged one, passes for
ours once in 17 million."""
MOST_PRODUCERS, CHECK_MASK = 1 << 16, np.uint64((1 << 24) - 1)
LEAST_RECORD_BYTES = COMPACT.itemsize

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Due = Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64]], npt.NDArray[np.float64]]
"""Return when records of these producers and sequences were due, in s on the run's monotonic clock."""


def run_tag(run_id: str) -> int:
    """Return the number that stands for a run in its records' headers."""
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:8], "little")


def is_compact(payload: Payload, record_bytes: int) -> bool:
    """Return whether records have no room for the full header."""
    return payload.kind != "lines" and record_bytes < HEADER.itemsize


def refuses_size(payload: Payload, record_bytes: int) -> str:
    """Return why records of this size cannot be told apart, or filled as declared; empty when they can."""
    if not is_compact(payload, record_bytes):
        return ""
    if record_bytes < LEAST_RECORD_BYTES:
        return f"record_bytes is {record_bytes}; a record needs at least {LEAST_RECORD_BYTES} for producer and number"
    if payload.kind == "text":
        return f"record_bytes is {record_bytes}; text of a stated ratio needs at least {HEADER.itemsize}"
    return ""


class Stamped(Protocol):
    """The headers of record values that lie in memory row beside row."""

    def stamp(self, row: int, sequences: Words, times_s: npt.NDArray[np.float64] | float) -> None:
        """Number the rows from `row` on and give each its time, in seconds on the monotonic clock."""


class FullHeaders:
    """Headers of 32 bytes."""

    def __init__(self, data: Bytes, stride: int, bodies: Sequence[bytes], *, run: int, producer: int) -> None:
        self._headers = np.ndarray(len(bodies), HEADER, data.data, strides=(stride,))
        self._headers["run"], self._headers["producer"] = run, producer
        self._headers["crc"] = [zlib.crc32(body) for body in bodies]

    def stamp(self, row: int, sequences: Words, times_s: npt.NDArray[np.float64] | float) -> None:
        """See :class:`Stamped`."""
        headers = self._headers[row : row + len(sequences)]
        headers["sequence"] = sequences
        headers["time_ns"] = np.multiply(times_s, 1e9)


class CompactHeaders:
    """Headers of 10 bytes: the time is left out."""

    def __init__(self, data: Bytes, stride: int, bodies: Sequence[bytes], *, run: int, producer: int) -> None:
        """Raises ValueError when the producer's number has more than 16 bits."""
        if producer >= MOST_PRODUCERS:
            raise ValueError(f"producer {producer}: records of this size tell {MOST_PRODUCERS:,} producers apart")
        self._run, self._producer = run, producer
        self._headers = np.ndarray(len(bodies), COMPACT, data.data, strides=(stride,))
        self._headers["producer"] = producer
        self._bodies = _folded(np.frombuffer(b"".join(bodies), np.uint8).reshape(len(bodies), len(bodies[0])))

    def stamp(self, row: int, sequences: Words, times_s: npt.NDArray[np.float64] | float) -> None:
        """See :class:`Stamped`; the time has no place in them."""
        headers = self._headers[row : row + len(sequences)]
        headers["sequence"], headers["sequence_high"] = sequences & np.uint64(0xFFFFFFFF), sequences >> np.uint64(32)
        producers = np.full(len(sequences), self._producer, np.uint64)
        check = _check(self._run, producers, sequences, self._bodies[row : row + len(sequences)])
        headers["check"], headers["check_high"] = check & np.uint64(0xFFFF), check >> np.uint64(16)


class Headers(Protocol):
    """How values that were read become headers; `bytes`: so many of each are looked at."""

    bytes: int

    def whole(self, lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which values, by their length, can be this run's."""

    def of(self, values: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """Return the first `bytes` of each value, whole ones, as HEADER."""


class FullReading:
    """Reads headers of 32 bytes; bodies follow them."""

    bytes = HEADER.itemsize

    def whole(self, lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """See :class:`Headers`: a tombstone or a record too short for a header is nobody's that this load knows."""
        return np.asarray(lengths >= self.bytes)

    def of(self, values: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """See :class:`Headers`."""
        return values.view(HEADER)


class CompactReading:
    """Reads whole records of 10 to 31 bytes, and checks each in full, the body with it.

    One that fails gets another run's tag: foreign and damaged are not told apart. What `due` returns stands in for
    the time that it does not have.
    """

    def __init__(self, run: int, record_bytes: int, due: Due) -> None:
        self._run, self.bytes, self._due = run, record_bytes, due

    def whole(self, lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """See :class:`Headers`."""
        return np.asarray(lengths == self.bytes)

    def of(self, values: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """See :class:`Headers`; the CRC is that of nothing, since the body has been checked."""
        rows = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), self.bytes)
        given = np.ascontiguousarray(rows[:, : COMPACT.itemsize]).view(COMPACT)[:, 0]
        sequences = given["sequence"].astype(np.uint64) | given["sequence_high"].astype(np.uint64) << np.uint64(32)
        producers = given["producer"].astype(np.uint64)
        check = given["check"].astype(np.uint64) | given["check_high"].astype(np.uint64) << np.uint64(16)
        right = check == _check(self._run, producers, sequences, _folded(rows[:, COMPACT.itemsize :]))
        found = np.zeros(len(values), HEADER)
        found["run"] = np.where(right, np.uint64(self._run), np.uint64(self._run ^ 1))
        found["producer"], found["sequence"] = producers, sequences
        found["time_ns"] = self._due(producers.astype(np.int64), sequences.astype(np.int64)) * 1e9
        return found


def _folded(bodies: Bytes) -> Words:
    """Return one word for each row of bytes; a change of any byte changes it."""
    width = -(-bodies.shape[1] // 8) * 8
    padded = np.zeros((len(bodies), width), np.uint8)
    padded[:, : bodies.shape[1]] = bodies
    word = np.zeros(len(bodies), np.uint64)
    for column in padded.view("<u8").T:
        word = _mixed(word ^ column)
    return word


def _check(run: int, producers: Words, sequences: Words, bodies: Words) -> Words:
    who = producers << np.uint64(40) | sequences
    return np.asarray(_mixed(_mixed(who ^ np.uint64(run)) ^ bodies) & CHECK_MASK)


def _mixed(words: Words) -> Words:
    """Return the finaliser of SplitMix64 of each word (Steele, Lea and Flood, 2014): each bit moves every other."""
    words = (words + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return words ^ words >> np.uint64(31)


def reading(spec: Mapping[str, Any], start: Callable[[], float]) -> Headers:
    """Return how a consumer reads the values of its load.

    `spec`: what it was told. `start`: when the load began, in s on the run's monotonic clock.
    """
    if not (record_bytes := spec["compact_bytes"]):
        return FullReading()
    rate, of = spec["paced_rate"], spec["producers"]

    def due(producers: npt.NDArray[np.int64], sequences: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return each record's place in the schedule; without one they were due long ago, before any window."""
        return start() + (sequences * of + producers) / rate if rate else np.zeros(len(sequences))

    return CompactReading(spec["run"], record_bytes, due)
