"""Keys and values of records: a header with producer, number and time, and a body prepared beforehand."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perfgate.model import KEY_BYTES, Keys, Payload, Sizes
from perfgate.model.declared import NEW_KEY_EVERY

HEADER = np.dtype([("run", "<u8"), ("producer", "<u4"), ("crc", "<u4"), ("sequence", "<u8"), ("time_ns", "<i8")])
"""The first 32 bytes of a record value. `crc` is the CRC-32 of the rest, `time_ns` on the run's monotonic clock."""
COMPACT = np.dtype(
    [("check", "<u2"), ("check_high", "u1"), ("producer", "<u2"), ("sequence", "<u4"), ("sequence_high", "u1")]
)
"""The first 10 bytes of a shorter value: 24 bits of a check over the run's tag and all else in the record, 16 bits of
producer, 40 of sequence (12 days at a million records/s). A foreign or damaged record passes for this run's once in 17
million."""
MOST_PRODUCERS, CHECK_MASK = 1 << 16, np.uint64((1 << 24) - 1)
LEAST_RECORD_BYTES = COMPACT.itemsize

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]
Due = Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64]], npt.NDArray[np.float64]]
"""Times at which records of these producers and sequences were due, in s on the run's monotonic clock."""
POOL_BYTES = 4 << 20
"""Where records are compressed, bodies repeat after this many bytes: more than the window of any codec that Kafka has
(zstd: 2 MiB). Otherwise after PLAIN_ROWS records: a pool that fits the CPU's cache is copied a third faster."""
PLAIN_ROWS = 256
MAX_ROWS, MIN_ROWS = 1 << 16, 4
MAX_LINES_BYTES = 64 << 20
KEY_POOL_BYTES = 1 << 20
SAMPLE_BYTES = 256 << 10
BATCH_BYTES = 16 << 10
RATIO_ERROR = 0.05
SHARE_STEPS = 12
PRINTABLE = np.frombuffer(bytes(range(32, 127)), np.uint8)
PHRASE = b"the quick brown fox jumps over the lazy dog and runs away from it, "


def run_tag(run_id: str) -> int:
    """The number of a run in its records' headers."""
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:8], "little")


def is_compact(payload: Payload, record_bytes: int) -> bool:
    """Whether records have no room for the full header."""
    return payload.kind != "lines" and record_bytes < HEADER.itemsize


def refuses_size(payload: Payload, record_bytes: int) -> str:
    """The reason why records of this size cannot be identified, or filled as declared; empty when they can."""
    if not is_compact(payload, record_bytes):
        return ""
    if record_bytes < LEAST_RECORD_BYTES:
        return f"record_bytes is {record_bytes}; a record needs at least {LEAST_RECORD_BYTES} for producer and number"
    if payload.kind == "text":
        return f"record_bytes is {record_bytes}; text of a stated ratio needs at least {HEADER.itemsize}"
    return ""


class FullHeaders:
    """Headers of 32 bytes of record values of the same stride in memory."""

    def __init__(self, data: Bytes, stride: int, bodies: Sequence[bytes], *, run: int, producer: int) -> None:
        self._headers = np.ndarray(len(bodies), HEADER, data.data, strides=(stride,))
        self._headers["run"], self._headers["producer"] = run, producer
        self._headers["crc"] = [zlib.crc32(body) for body in bodies]

    def stamp(self, row: int, sequences: Words, times_s: npt.NDArray[np.float64] | float) -> None:
        headers = self._headers[row : row + len(sequences)]
        headers["sequence"] = sequences
        headers["time_ns"] = np.multiply(times_s, 1e9)


class ApartHeaders:
    """Headers of 32 bytes of record values of any lengths, contiguous in memory."""

    def __init__(self, data: Bytes, begins: Places, ends: Places, *, run: int, producer: int) -> None:
        self._data, self._begins = data, begins
        self._headers = np.zeros(len(begins), HEADER)
        self._headers["run"], self._headers["producer"] = run, producer
        whole = memoryview(data.data)
        spans = zip((begins + HEADER.itemsize).tolist(), ends.tolist(), strict=True)
        self._headers["crc"] = [zlib.crc32(whole[begin:end]) for begin, end in spans]

    def stamp(self, row: int, sequences: Words, times_s: npt.NDArray[np.float64] | float) -> None:
        rows = slice(row, row + len(sequences))
        headers = self._headers[rows]
        headers["sequence"] = sequences
        headers["time_ns"] = np.multiply(times_s, 1e9)
        places = self._begins[rows, None] + np.arange(HEADER.itemsize)
        self._data[places] = headers.view(np.uint8).reshape(len(headers), HEADER.itemsize)


def lengths_of(sizes: Sizes, run: int, producer: int) -> Places:
    """Lengths of the rows that a producer's records use in turn, in an order that `run` draws."""
    return np.random.default_rng([run, producer]).permutation(np.array(sizes.lengths, np.int64))


class CompactHeaders:
    """Headers of 10 bytes, without the time."""

    def __init__(self, data: Bytes, stride: int, bodies: Sequence[bytes], *, run: int, producer: int) -> None:
        """Raises ValueError when the producer's number has more than 16 bits."""
        if producer >= MOST_PRODUCERS:
            raise ValueError(f"producer {producer}: records of this size tell {MOST_PRODUCERS:,} producers apart")
        self._run, self._producer = run, producer
        self._headers = np.ndarray(len(bodies), COMPACT, data.data, strides=(stride,))
        self._headers["producer"] = producer
        self._bodies = _folded(np.frombuffer(b"".join(bodies), np.uint8).reshape(len(bodies), len(bodies[0])))

    def stamp(self, row: int, sequences: Words, times_s: npt.NDArray[np.float64] | float) -> None:
        headers = self._headers[row : row + len(sequences)]
        headers["sequence"], headers["sequence_high"] = sequences & np.uint64(0xFFFFFFFF), sequences >> np.uint64(32)
        producers = np.full(len(sequences), self._producer, np.uint64)
        check = _check(self._run, producers, sequences, self._bodies[row : row + len(sequences)])
        headers["check"], headers["check_high"] = check & np.uint64(0xFFFF), check >> np.uint64(16)


class FullReading:
    """Reads headers of 32 bytes; bodies follow them."""

    bytes = HEADER.itemsize
    """Number of bytes that it reads of each value."""

    def whole(self, lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Mask of the values whose length can be this run's."""
        return np.asarray(lengths >= self.bytes)

    def of(self, values: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """The first `bytes` of each value, whole ones, as HEADER."""
        return values.view(HEADER)


class CompactReading:
    """Reads whole records of 10 to 31 bytes, and checks each in full, with its body.

    A record that fails gets another run's tag: foreign and damaged records look alike. `due` supplies the time, which
    the header lacks; the CRC is that of an empty body, since the body has been checked.
    """

    def __init__(self, run: int, record_bytes: int, due: Due) -> None:
        self._run, self.bytes, self._due = run, record_bytes, due

    def whole(self, lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        return np.asarray(lengths == self.bytes)

    def of(self, values: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        rows = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), self.bytes)
        given = np.ascontiguousarray(rows[:, : COMPACT.itemsize]).view(COMPACT)[:, 0]
        sequences = given["sequence"].astype(np.uint64) | given["sequence_high"].astype(np.uint64) << np.uint64(32)
        producers = given["producer"].astype(np.uint64)
        check = given["check"].astype(np.uint64) | given["check_high"].astype(np.uint64) << np.uint64(16)
        right = check == _check(self._run, producers, sequences, _folded(rows[:, COMPACT.itemsize :]))
        headers = np.zeros(len(values), HEADER)
        headers["run"] = np.where(right, np.uint64(self._run), np.uint64(self._run ^ 1))
        headers["producer"], headers["sequence"] = producers, sequences
        headers["time_ns"] = self._due(producers.astype(np.int64), sequences.astype(np.int64)) * 1e9
        return headers


Headers = FullReading | CompactReading


def _folded(bodies: Bytes) -> Words:
    """A word for each row of bytes; a change of any byte changes it."""
    width = -(-bodies.shape[1] // 8) * 8
    padded = np.zeros((len(bodies), width), np.uint8)
    padded[:, : bodies.shape[1]] = bodies
    word = np.zeros(len(bodies), np.uint64)
    for column in padded.view("<u8").T:
        word = _mixed(word ^ column)
    return word


def _check(run: int, producers: Words, sequences: Words, bodies: Words) -> Words:
    ids = producers << np.uint64(40) | sequences
    return np.asarray(_mixed(_mixed(ids ^ np.uint64(run)) ^ bodies) & CHECK_MASK)


def _mixed(words: Words) -> Words:
    """The finaliser of SplitMix64 of each word (Steele, Lea and Flood, 2014): each bit moves every other."""
    words = (words + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return words ^ words >> np.uint64(31)


def reading(spec: Mapping[str, Any], start: Callable[[], float]) -> Headers:
    """The decoder of a consumer's values. `start`: the load's begin, in s on the run's monotonic clock."""
    if not (record_bytes := spec["compact_bytes"]):
        return FullReading()
    rate, of = spec["paced_rate"], spec["producers"]

    def due(producers: npt.NDArray[np.int64], sequences: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Each record's time in the schedule; without a schedule 0, which is before any window."""
        return start() + (sequences * of + producers) / rate if rate else np.zeros(len(sequences))

    return CompactReading(spec["run"], record_bytes, due)


class Values:
    """Record values in contiguous memory, sent again and again with new headers."""

    def __init__(
        self,
        payload: Payload,
        *,
        run: int,
        producer: int,
        record_bytes: int,
        seed: int,
        compressed: bool,
        sizes: Sizes | None = None,
    ) -> None:
        """Raises ValueError when a record cannot hold its header, or the payload cannot be as declared."""
        self.every_row = sizes is not None
        """Whether a record's length follows from its number: record n uses row n, modulo the number of rows."""
        if sizes is not None:
            lengths = lengths_of(sizes, run, producer)
            self.lengths: npt.NDArray[np.uint64] = lengths.astype(np.uint64)
            ends = np.cumsum(lengths)
            self.offsets: npt.NDArray[np.uint64] = (ends - lengths).astype(np.uint64)
            self.data: Bytes = _rows_of(payload, lengths, np.random.default_rng([seed, producer]))
            self._headers: FullHeaders | CompactHeaders | ApartHeaders = ApartHeaders(
                self.data, ends - lengths, ends, run=run, producer=producer
            )
            return
        bodies = _bodies(payload, record_bytes, np.random.default_rng([seed, producer]), compressed)
        compact = is_compact(payload, record_bytes)
        header = LEAST_RECORD_BYTES if compact else HEADER.itemsize
        self.lengths = np.array([header + len(body) for body in bodies], np.uint64)
        stride = int(self.lengths.max())
        self.data = np.zeros(stride * len(bodies), np.uint8)
        self.offsets = np.arange(len(bodies), dtype=np.uint64) * np.uint64(stride)
        for row, body in enumerate(bodies):
            begin = row * stride + header
            self.data[begin : begin + len(body)] = np.frombuffer(body, np.uint8)
        kind: type[CompactHeaders | FullHeaders] = CompactHeaders if compact else FullHeaders
        self._headers = kind(self.data, stride, bodies, run=run, producer=producer)

    def __len__(self) -> int:
        return len(self.offsets)

    def stamp(self, row: int, sequences: npt.NDArray[np.uint64], times_s: npt.NDArray[np.float64] | float) -> None:
        """Number the rows from `row` on; rows with a full header get their time, in s on the monotonic clock."""
        self._headers.stamp(row, sequences, times_s)


class KeyPool:
    """Record keys of KEY_BYTES bytes, prepared beforehand; each record's is drawn when it is sent."""

    def __init__(self, keys: Keys, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._kind, self._share, self._drawn = keys.kind, keys.share, 0
        if keys.kind == "random":  # any 16 bytes of a random megabyte
            self.data: Bytes = self._random.integers(0, 256, KEY_POOL_BYTES, np.uint8)
            self._step, self._choices = 1, KEY_POOL_BYTES - KEY_BYTES
        else:
            self.data = np.frombuffer(b"".join(b"key-%012d" % n for n in range(keys.count)), np.uint8)
            self._step, self._choices = KEY_BYTES, keys.count
        if keys.skewed:  # of an exponent of 0 each is as often
            sums = np.cumsum(np.arange(1, keys.count + 1, dtype=np.float64) ** -keys.exponent)
            self._up_to = sums / sums[-1]

    def draw(self, count: int) -> npt.NDArray[np.uint64]:
        """Offsets in `data` of `count` keys."""
        chosen: npt.NDArray[Any]
        if self._kind in ("zipf", "newest"):
            chosen = np.searchsorted(self._up_to, self._random.random(count), side="right")
            if self._kind == "newest":
                newest = (self._drawn + np.arange(count)) // NEW_KEY_EVERY
                self._drawn += count
                chosen = (newest - chosen) % self._choices
        elif self._kind == "hot":
            others = self._random.integers(1, self._choices, count)
            chosen = np.where(self._random.random(count) < self._share, 0, others)
        else:
            return self._random.integers(0, self._choices, count, np.uint64) * np.uint64(self._step)
        return chosen.astype(np.uint64) * np.uint64(self._step)


def _bodies(payload: Payload, record_bytes: int, random: np.random.Generator, compressed: bool) -> list[bytes]:
    if payload.kind == "lines":
        return _lines(Path(payload.path))
    if refused := refuses_size(payload, record_bytes):
        raise ValueError(refused)
    body_bytes = record_bytes - (LEAST_RECORD_BYTES if is_compact(payload, record_bytes) else HEADER.itemsize)
    rows = min(MAX_ROWS if compressed else PLAIN_ROWS, max(MIN_ROWS, POOL_BYTES // record_bytes))
    if payload.kind == "text":
        return _text(rows, body_bytes, payload.ratio, random)
    data = random.bytes(rows * body_bytes)
    return [data[row * body_bytes : (row + 1) * body_bytes] for row in range(rows)]


def _lines(path: Path) -> list[bytes]:
    """The file's lines that are not empty; of a large file an evenly spread selection."""
    try:
        lines = [line for line in path.read_bytes().splitlines() if line]
    except OSError as error:
        raise ValueError(f"payload file {path}: {error.strerror}") from error
    if not lines:
        raise ValueError(f"payload file {path} has no line that is not empty")
    longest = HEADER.itemsize + max(map(len, lines))
    room = max(1, min(MAX_ROWS, MAX_LINES_BYTES // longest))
    step = -(-len(lines) // room)
    return lines[::step]


def nearest_text_ratio(record_bytes: int, ratio: float, sizes: Sizes | None = None) -> float:
    """The ratio by gzip of the text nearest to `ratio` that records can have; 1 where there is none."""
    if sizes is not None:
        return _nearest_share(lengths_of(sizes, 0, 0), ratio, np.random.default_rng(0))[1]
    body_bytes = record_bytes - HEADER.itemsize
    if body_bytes < 1:
        return 1.0
    rows = max(MIN_ROWS, SAMPLE_BYTES // record_bytes)
    return gzip_ratio(_nearest_text(rows, body_bytes, ratio, np.random.default_rng(0)))


def _text(rows: int, body_bytes: int, ratio: float, random: np.random.Generator) -> list[bytes]:
    """Rows that gzip compresses by `ratio`: a share of printable noise, the rest a repeated phrase."""
    nearest = _nearest_text(rows, body_bytes, ratio, random)
    reached = gzip_ratio(nearest)
    if abs(reached - ratio) > RATIO_ERROR * ratio:
        least, most = (gzip_ratio(_nearest_text(rows, body_bytes, end, random)) for end in (0.0, math.inf))
        raise ValueError(
            f"text of {body_bytes} bytes a record cannot have a compression ratio of {ratio:g}; "
            f"legal: {least:.2f} to {most:.2f}"
        )
    return [row.tobytes() for row in nearest]


def _rows_of(payload: Payload, lengths: Places, random: np.random.Generator) -> Bytes:
    """Contiguous records of these lengths, their headers empty. Raises ValueError: see :func:`_text`."""
    if payload.kind == "random":
        return random.integers(0, 256, int(lengths.sum()), np.uint8)
    share, reached = _nearest_share(lengths, payload.ratio, random)
    if abs(reached - payload.ratio) > RATIO_ERROR * payload.ratio:
        least, most = (_nearest_share(lengths, end, random)[1] for end in (0.0, math.inf))
        raise ValueError(
            f"text in records of {lengths.min():,} to {lengths.max():,} bytes cannot have a compression ratio of "
            f"{payload.ratio:g}; legal: {least:.2f} to {most:.2f}"
        )
    return _text_of(lengths, share, random)


def _nearest_share(lengths: Places, ratio: float, random: np.random.Generator) -> tuple[float, float]:
    """The share of noise at which gzip compresses a sample of rows by about `ratio`, and the ratio reached."""
    sample = lengths[: np.searchsorted(np.cumsum(lengths), SAMPLE_BYTES) + 1]

    def reached(share: float) -> float:
        return _packed(_text_of(sample, share, random)[:SAMPLE_BYTES].tobytes())

    low, high = 0.0, 1.0
    for _ in range(SHARE_STEPS):
        share = (low + high) / 2
        low, high = (share, high) if reached(share) > ratio else (low, share)
    return min(((share, reached(share)) for share in (low, high)), key=lambda pair: abs(pair[1] - ratio))


def _text_of(lengths: Places, share: float, random: np.random.Generator) -> Bytes:
    """Rows whose bodies begin with this share of printable noise, and go on with a repeated phrase."""
    data = np.resize(np.frombuffer(PHRASE, np.uint8), int(lengths.sum()))
    noise = PRINTABLE[random.integers(0, len(PRINTABLE), len(data))]
    for begin, length in zip((np.cumsum(lengths) - lengths).tolist(), lengths.tolist(), strict=True):
        body = begin + HEADER.itemsize
        noisy = body + round(share * (length - HEADER.itemsize))
        data[begin:body] = 0
        data[begin + 12 : begin + 16] = noise[begin + 12 : begin + 16]  # looks like a checksum
        data[body:noisy] = noise[body:noisy]
    return data


def _packed(raw: bytes) -> float:
    """The compression ratio of these records by gzip, in batches of 16 KiB."""
    return len(raw) / sum(len(zlib.compress(raw[at : at + BATCH_BYTES])) for at in range(0, len(raw), BATCH_BYTES))


def _nearest_text(rows: int, body_bytes: int, ratio: float, random: np.random.Generator) -> Bytes:
    noise = PRINTABLE[random.integers(0, len(PRINTABLE), rows * body_bytes)].reshape(rows, body_bytes)
    phrase = np.resize(np.frombuffer(PHRASE, np.uint8), body_bytes)
    low, high = 0, body_bytes
    while high - low > 1:
        noisy = (low + high) // 2
        low, high = (noisy, high) if gzip_ratio(_with_noise(noise, phrase, noisy)) > ratio else (low, noisy)
    return min(
        (_with_noise(noise, phrase, noisy) for noisy in (low, high)), key=lambda rows: abs(gzip_ratio(rows) - ratio)
    )


def _with_noise(noise: Bytes, phrase: Bytes, noisy: int) -> Bytes:
    mixed = np.tile(phrase, (len(noise), 1))
    mixed[:, :noisy] = noise[:, :noisy]
    return mixed


def gzip_ratio(bodies: Bytes) -> float:
    """The compression ratio of these rows, with their headers, by gzip, in batches of 16 KiB."""
    rows = bodies[: max(1, SAMPLE_BYTES // (bodies.shape[1] + HEADER.itemsize))]
    headers = np.zeros(len(rows), HEADER)
    headers["crc"] = np.arange(len(rows)) * 2_654_435_761 % (1 << 32)  # any numbers that look like checksums
    headers["sequence"] = np.arange(len(rows))
    return _packed(np.hstack([headers.view(np.uint8).reshape(len(rows), -1), rows]).tobytes())
