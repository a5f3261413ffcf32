"""Values and keys of records: a header that says who sent them when, and a body that is made beforehand."""

from __future__ import annotations

import math
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from perfgate.load.headers import (
    HEADER,
    LEAST_RECORD_BYTES,
    Bytes,
    CompactHeaders,
    FullHeaders,
    Stamped,
    is_compact,
    refuses_size,
)
from perfgate.model import KEY_BYTES, Keys, Payload

POOL_BYTES = 4 << 20
"""Where records are compressed, bodies repeat after that many bytes: more than the window of any codec that Kafka has
(zstd: 2 MiB). Otherwise after PLAIN_ROWS records: a pool that fits the CPU's cache is copied a third faster."""
PLAIN_ROWS = 256
MAX_ROWS, MIN_ROWS = 1 << 16, 4
MAX_LINES_BYTES = 64 << 20
KEY_POOL_BYTES = 1 << 20
SAMPLE_BYTES = 256 << 10
BATCH_BYTES = 16 << 10
RATIO_ERROR = 0.05
PRINTABLE = np.frombuffer(bytes(range(32, 127)), np.uint8)
PHRASE = b"the quick brown fox jumps over the lazy dog and runs away from it, "


class Values:
    """Record values in one piece of memory, row beside row, ready to be sent again and again with new headers."""

    def __init__(
        self, payload: Payload, *, run: int, producer: int, record_bytes: int, seed: int, compressed: bool
    ) -> None:
        """Raises ValueError when a record cannot hold its header, or the payload cannot be made as declared."""
        bodies = _bodies(payload, record_bytes, np.random.default_rng([seed, producer]), compressed)
        compact = is_compact(payload, record_bytes)
        header = LEAST_RECORD_BYTES if compact else HEADER.itemsize
        self.lengths: npt.NDArray[np.uint64] = np.array([header + len(body) for body in bodies], np.uint64)
        stride = int(self.lengths.max())
        self.data: Bytes = np.zeros(stride * len(bodies), np.uint8)
        self.offsets: npt.NDArray[np.uint64] = np.arange(len(bodies), dtype=np.uint64) * np.uint64(stride)
        for row, body in enumerate(bodies):
            begin = row * stride + header
            self.data[begin : begin + len(body)] = np.frombuffer(body, np.uint8)
        kind = CompactHeaders if compact else FullHeaders
        self._headers: Stamped = kind(self.data, stride, bodies, run=run, producer=producer)

    def __len__(self) -> int:
        return len(self.offsets)

    def stamp(self, row: int, sequences: npt.NDArray[np.uint64], times_s: npt.NDArray[np.float64] | float) -> None:
        """Number the rows from `row` on; those with room for it get their time, in seconds on the monotonic clock."""
        self._headers.stamp(row, sequences, times_s)


class KeyPool:
    """Record keys of KEY_BYTES bytes, made beforehand; which one a record gets is drawn when it is sent."""

    def __init__(self, keys: Keys, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        if keys.kind == "set":
            self.data: Bytes = np.frombuffer(b"".join(b"key-%012d" % n for n in range(keys.count)), np.uint8)
            self._step, self._choices = KEY_BYTES, keys.count
        else:  # any 16 bytes of a random megabyte
            self.data = self._random.integers(0, 256, KEY_POOL_BYTES, np.uint8)
            self._step, self._choices = 1, KEY_POOL_BYTES - KEY_BYTES

    def draw(self, count: int) -> npt.NDArray[np.uint64]:
        """Return the offsets in `data` of `count` keys."""
        return self._random.integers(0, self._choices, count, np.uint64) * np.uint64(self._step)


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
    """Return the file's lines that are not empty; of a large file a selection, spread evenly over it."""
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


def nearest_text_ratio(record_bytes: int, ratio: float) -> float:
    """Return how many times smaller gzip makes the text nearest to `ratio` that records can be; 1 where none is."""
    body_bytes = record_bytes - HEADER.itemsize
    if body_bytes < 1:
        return 1.0
    rows = max(MIN_ROWS, SAMPLE_BYTES // record_bytes)
    return gzip_ratio(_nearest_text(rows, body_bytes, ratio, np.random.default_rng(0)))


def _text(rows: int, body_bytes: int, ratio: float, random: np.random.Generator) -> list[bytes]:
    """Return rows that gzip makes `ratio` times smaller: a share of printable noise, the rest one phrase."""
    nearest = _nearest_text(rows, body_bytes, ratio, random)
    reached = gzip_ratio(nearest)
    if abs(reached - ratio) > RATIO_ERROR * ratio:
        least, most = (gzip_ratio(_nearest_text(rows, body_bytes, end, random)) for end in (0.0, math.inf))
        raise ValueError(
            f"text of {body_bytes} bytes a record cannot have a compression ratio of {ratio:g}; "
            f"legal: {least:.2f} to {most:.2f}"
        )
    return [row.tobytes() for row in nearest]


def _nearest_text(rows: int, body_bytes: int, ratio: float, random: np.random.Generator) -> Bytes:
    noise = PRINTABLE[random.integers(0, len(PRINTABLE), rows * body_bytes)].reshape(rows, body_bytes)
    phrase = np.resize(np.frombuffer(PHRASE, np.uint8), body_bytes)
    low, high = 0, body_bytes
    while high - low > 1:
        noisy = (low + high) // 2
        low, high = (noisy, high) if gzip_ratio(_mixed(noise, phrase, noisy)) > ratio else (low, noisy)
    return min((_mixed(noise, phrase, noisy) for noisy in (low, high)), key=lambda rows: abs(gzip_ratio(rows) - ratio))


def _mixed(noise: Bytes, phrase: Bytes, noisy: int) -> Bytes:
    mixed = np.tile(phrase, (len(noise), 1))
    mixed[:, :noisy] = noise[:, :noisy]
    return mixed


def gzip_ratio(bodies: Bytes) -> float:
    """Return how many times smaller gzip makes these rows, with their headers, in batches of 16 KiB."""
    rows = bodies[: max(1, SAMPLE_BYTES // (bodies.shape[1] + HEADER.itemsize))]
    headers = np.zeros(len(rows), HEADER)
    headers["crc"] = np.arange(len(rows)) * 2_654_435_761 % (1 << 32)  # any numbers that look like checksums
    headers["sequence"] = np.arange(len(rows))
    raw = np.hstack([headers.view(np.uint8).reshape(len(rows), -1), rows]).tobytes()
    batches = [raw[i : i + BATCH_BYTES] for i in range(0, len(raw), BATCH_BYTES)]
    return len(raw) / sum(len(zlib.compress(batch)) for batch in batches)
