"""Latency histograms: microseconds, three significant digits, merged by adding (percentiles are never averaged)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import mul

import numpy as np
import numpy.typing as npt
from hdrh.histogram import HdrHistogram

from perfgate.model import LATENCY_QUANTILES

LOWEST_US = 1
HIGHEST_US = 3_600_000_000
SIGNIFICANT_DIGITS = 3
# HdrHistogram's layout for three digits: 2,048 sub-buckets of width 1, then 1,024 of width 2, of width 4, ...
SUB_BUCKET_BITS = 11
COARSE_BITS = 5
"""The same layout with 16 buckets for each doubling: none is wider than 1/16 of its lowest value."""
BUFFER = 8_192
"""Values collected before they are counted: 0.4 ms of work at a time, so that no schedule is held up."""

Seconds = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


def empty() -> HdrHistogram:
    """Return an empty histogram from 1 us to 1 h."""
    return HdrHistogram(LOWEST_US, HIGHEST_US, SIGNIFICANT_DIGITS)


def bucket_of(micros: Whole, sub_bucket_bits: int = SUB_BUCKET_BITS) -> Whole:
    """Return the index of each value's bucket in HdrHistogram's layout."""
    bits = np.frexp(micros.astype(np.float64))[1]  # the number of bits of a whole number
    shift = np.maximum(bits - sub_bucket_bits, 0)
    buckets: Whole = (shift << (sub_bucket_bits - 1)) + (micros >> shift)
    return buckets


def lowest_of(buckets: Whole, sub_bucket_bits: int = SUB_BUCKET_BITS) -> Whole:
    """Return the lowest value of each bucket: the inverse of :func:`bucket_of`."""
    shift = np.maximum((buckets >> (sub_bucket_bits - 1)) - 1, 0)
    lowest: Whole = (buckets - (shift << (sub_bucket_bits - 1))) << shift
    return lowest


BUCKETS = int(empty().counts_len)
COARSE_BUCKETS = int(bucket_of(np.array([HIGHEST_US]), COARSE_BITS)[0]) + 1
MOST_PARTITIONS = 100
"""Up to this many partitions latencies are kept apart: more would cost the generator too much."""
REDUCED = 4_096
"""Sums of histograms that are cached: latency and end-to-end latency of 2,000 scenarios."""


def of_counts(counts: Whole) -> HdrHistogram:
    histogram = empty()
    np.frombuffer(histogram.counts, np.int64)[:] = counts
    used = np.flatnonzero(counts)
    if len(used):
        histogram.set_internal_tacking_values(int(used[0]), int(used[-1]), int(counts.sum()))
    return histogram


class LatencyRecorder:
    """Collects latencies in seconds, by arrays: HdrHistogram's own method takes 1 to 2 us for each.

    Those of up to `most` partitions are also counted apart, in coarse buckets.
    """

    def __init__(self, partitions: int = 0, most: int = MOST_PARTITIONS) -> None:
        self._counts = np.zeros(BUCKETS, np.int64)
        self._apart = np.zeros((partitions if partitions <= most else 0) * COARSE_BUCKETS, np.int64)
        self._pending, self._partition = np.zeros(BUFFER), np.zeros(BUFFER, np.int64)
        self._filled = 0
        self._negative = 0

    def record(self, seconds: Seconds, partition: npt.NDArray[np.int32] | int = 0) -> None:
        """Note latencies, each with its `partition`; values below a microsecond count as a microsecond."""
        whose = np.broadcast_to(partition, len(seconds))
        while len(seconds):
            room = slice(self._filled, min(self._filled + len(seconds), BUFFER))
            taken = room.stop - room.start
            self._pending[room], self._partition[room] = seconds[:taken], whose[:taken]
            self._filled += taken
            seconds, whose = seconds[taken:], whose[taken:]
            if self._filled == BUFFER:
                self._flush()

    @property
    def negative(self) -> int:
        """How many values so far were below zero; they count as a microsecond."""
        self._flush()
        return self._negative

    def counts(self) -> Whole:
        self._flush()
        return self._counts.copy()

    def histogram(self) -> HdrHistogram:
        return of_counts(self.counts())

    def by_partition(self) -> list[int]:
        """Return the counts of the coarse buckets, partition after partition; see `figures_of`."""
        self._flush()
        return list(map(int, self._apart))

    def _flush(self) -> None:
        if not self._filled:
            return
        seconds, partition = self._pending[: self._filled], self._partition[: self._filled]
        self._filled = 0
        self._negative += int(np.count_nonzero(seconds < 0))
        micros = np.clip(np.rint(seconds * 1e6), LOWEST_US, HIGHEST_US).astype(np.int64)
        self._counts += np.bincount(bucket_of(micros), minlength=BUCKETS)
        if len(self._apart):
            apart = partition * COARSE_BUCKETS + bucket_of(micros, COARSE_BITS)
            self._apart += np.bincount(apart, minlength=len(self._apart))


def figures_of(by_partition: Sequence[int]) -> list[tuple[int, float]]:
    """Return of each partition the number of values, and their p99 in ms: up to 1/16 too high."""
    figures = []
    for counts in np.array(by_partition, np.int64).reshape(-1, COARSE_BUCKETS):
        up_to = np.cumsum(counts)
        total = int(up_to[-1])
        bucket = np.searchsorted(up_to, max(int(0.99 * total + 0.5), 1))
        highest = int(lowest_of(np.array([bucket + 1]), COARSE_BITS)[0]) - 1
        figures.append((total, highest / 1e3 if total else 0.0))
    return figures


def encode(histogram: HdrHistogram) -> str:
    """Return `histogram` as text that :func:`merged` reads."""
    return str(histogram.encode().decode("ascii"))


def decoded(text: str) -> Whole:
    """Return the counts of an encoded histogram. Raises ValueError for another layout than :func:`empty`."""
    histogram = HdrHistogram.decode(text.encode("ascii"))
    layout = (histogram.lowest_trackable_value, histogram.highest_trackable_value, histogram.significant_figures)
    if layout != (LOWEST_US, HIGHEST_US, SIGNIFICANT_DIGITS):
        raise ValueError(f"a histogram from {layout[0]} to {layout[1]} with {layout[2]} digits is none of this suite's")
    return np.frombuffer(histogram.counts, np.int64)


def summed(encoded: Iterable[str]) -> Whole:
    """Return the counts of encoded histograms added up; empty texts count as no values."""
    total = np.zeros(BUCKETS, np.int64)
    for text in encoded:
        if text:
            total += decoded(text)
    return total


def merged(encoded: Iterable[str]) -> HdrHistogram:
    """Return the sum of encoded histograms; empty texts count as no values."""
    return of_counts(summed(encoded))


def latency_metrics(encoded: Iterable[str], prefix: str = "latency_ms") -> dict[str, float]:
    """Return `<prefix>.p50` to `.p9999`, `.max` and `.avg` (ms) of the summed histograms; empty without a value."""
    return {f"{prefix}.{name}": value for name, value in _reduced(tuple(encoded)).items()}


# Judge and reports ask for the same rounds, some of them once for each metric.
@lru_cache(maxsize=REDUCED)
def _reduced(encoded: tuple[str, ...]) -> Mapping[str, float]:
    """Return the figures that HdrHistogram's own methods give, in ms: in 2 ms instead of 66 ms for seven rounds."""
    counts = summed(encoded)
    buckets = np.flatnonzero(counts)
    if not len(buckets):
        return {}
    lowest, highest = lowest_of(buckets), lowest_of(buckets + 1) - 1
    up_to = np.cumsum(counts[buckets])
    total = int(up_to[-1])
    ranks = [max(int(quantile * total / 100 + 0.5), 1) for quantile in LATENCY_QUANTILES.values()]
    at_ranks = highest[np.searchsorted(up_to, ranks)].tolist()
    values = dict(zip(LATENCY_QUANTILES, (micros / 1e3 for micros in at_ranks), strict=True))
    middles = lowest + (highest - lowest + 1) // 2
    # Whole numbers of Python, which do not overflow; rounded twice, as HdrHistogram does.
    mean = float(sum(map(mul, counts[buckets].tolist(), middles.tolist()))) / total
    return {**values, "max": int(highest[-1]) / 1e3, "avg": mean / 1e3}
