"""Sizes of records as a distribution: what declares it, and the lengths of the rows of which records are made."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from statistics import NormalDist
from typing import Literal

from perfgate.model.errors import ConfigurationError
from perfgate.model.shape import numbers_of

LEAST_BYTES = 32
"""A shorter record has another header, which is checked as a whole of fixed length."""
MOST_BYTES = 16 << 20
MOST_MEAN_BYTES = 1 << 20
POOL_BYTES, LEAST_ROWS, MOST_ROWS = 4 << 20, 64, 1 << 16
SAMPLE = 4_096
MOST_VALUES = 1_000
"""Of a file with more lengths than that, quantiles."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Lengths of record values in bytes, header included.

    `values`: lengths with their weights. `uniform`: from `least` to `most`. `lognormal`: of this `median`, whose
    logarithm has the standard deviation `sigma`, cut off at `least` and `most`.
    """

    kind: Literal["values", "uniform", "lognormal"]
    values: tuple[tuple[int, float], ...] = ()
    least: int = LEAST_BYTES
    most: int = 0
    median: float = 0.0
    sigma: float = 0.0

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Lengths of the rows of which records are made, in order: each stands for an equal share of all records."""
        sample = sum(map(self._quantile, range(1, 2 * SAMPLE, 2), [2 * SAMPLE] * SAMPLE)) / SAMPLE
        rows = max(LEAST_ROWS, min(MOST_ROWS, int(POOL_BYTES / sample)))
        return tuple(self._quantile(2 * row + 1, 2 * rows) for row in range(rows))

    @property
    def mean(self) -> int:
        return round(sum(self.lengths) / len(self.lengths))

    @property
    def largest(self) -> int:
        return self.lengths[-1]

    @cached_property
    def _sums(self) -> tuple[float, ...]:
        return tuple(accumulate(weight for _, weight in self.values))

    def _quantile(self, part: int, of: int) -> int:
        if self.kind == "values":
            return self.values[bisect_left(self._sums, part / of * self._sums[-1])][0]
        if self.kind == "uniform":
            return self.least + int((self.most - self.least + 1) * part / of)
        drawn = self.median * math.exp(self.sigma * NormalDist().inv_cdf(part / of))
        return min(self.most, max(self.least, round(drawn)))


def _uniform(least: float, most: float) -> Sizes:
    _within(int(least), int(most))
    return Sizes(kind="uniform", least=int(least), most=int(most))


def _lognormal(median: float, sigma: float, most: float) -> Sizes:
    _within(LEAST_BYTES, int(most))
    if not (LEAST_BYTES <= median <= most and 0 < sigma <= 10):
        raise ValueError(f"its median must be from {LEAST_BYTES} to most, its sigma above 0 and up to 10")
    return Sizes(kind="lognormal", most=int(most), median=median, sigma=sigma)


NAMED: Mapping[str, tuple[tuple[str, ...], Callable[..., Sizes]]] = {
    "uniform": (("from", "to"), _uniform),
    "lognormal": (("median", "sigma", "most"), _lognormal),
}
"""The numbers that each kind takes, and its sizes."""
LEGAL = (
    "values:BYTES=WEIGHT/BYTES=WEIGHT; uniform:from=BYTES,to=BYTES; lognormal:median=BYTES,sigma=NUMBER,most=BYTES; "
    f"lines:FILE, whose lines are as long; {LEAST_BYTES} bytes to {MOST_BYTES >> 20} MiB"
)


def read_sizes(path: str, value: object) -> Sizes:
    """Return the sizes that a text declares. Raises ConfigurationError with what is wrong, and what is legal."""
    kind, _, rest = str(value).partition(":")
    try:
        if kind == "values":
            pairs = [part.split("=") for part in rest.split("/")]
            weights = {int(length): float(weight) for length, weight in pairs}
            if len(weights) < len(pairs):
                raise ValueError("a size is stated twice")
            sizes = _of_values(weights)
        elif kind == "lines":
            sizes = _of_lines(Path(rest))
        elif kind in NAMED:
            names, make = NAMED[kind]
            sizes = make(*numbers_of(names, rest))
        else:
            raise ValueError("are no sizes")
        if sizes.mean > MOST_MEAN_BYTES:
            raise ValueError(
                f"their mean is {sizes.mean:,} bytes: {LEAST_ROWS} rows of which records are made would not fit"
            )
    except (ValueError, OSError, OverflowError) as error:
        raise ConfigurationError(f"{path} = {value!r}: {error}; legal: {LEGAL}") from error
    return sizes


def _of_values(weights: Mapping[int, float]) -> Sizes:
    values = tuple(sorted(weights.items()))
    _within(values[0][0], values[-1][0])
    if not (all(weight > 0 for weight in weights.values()) and sum(weights.values()) < math.inf):
        raise ValueError("each weight must be a number above 0")
    return Sizes(kind="values", values=values, least=values[0][0], most=values[-1][0])


def _of_lines(path: Path) -> Sizes:
    """Sizes like the lines of a file that are not empty; shorter lines count as long as a header."""
    lengths = sorted(max(LEAST_BYTES, len(line)) for line in path.read_bytes().splitlines() if line)
    if not lengths:
        raise ValueError("the file has no line that is not empty")
    if len({*lengths}) > MOST_VALUES:
        lengths = [lengths[int((n + 0.5) * len(lengths) / MOST_VALUES)] for n in range(MOST_VALUES)]
    return _of_values(Counter(lengths))


def _within(least: int, most: int) -> None:
    if not LEAST_BYTES <= least <= most <= MOST_BYTES:
        raise ValueError(f"they are from {least:,} to {most:,} bytes")
