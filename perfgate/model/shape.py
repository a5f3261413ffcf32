"""Shape of a load's rate over time: its points, its phases around the peak, and the text that declares it."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from perfgate.model.errors import ConfigurationError

Point = tuple[float, float]
"""A moment (s since the shape begins) and the rate (records/s) there."""
LONGEST_S = 900.0
"""The p99 is kept second by second: each second more is memory in every generator process."""
LEAST_RATE, MOST_RATE = 0.01, 1e9
WAVE_POINTS = 32
"""Straight lines between this many points of a cosine are off by less than 0.5 % of its height."""
MOST_POINTS = 10_000
BEFORE_SHARE = 0.25
"""Of a spike's period without its peak this share comes before it: the time after it has to show that p99 is back."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Rates between `points` lie on straight lines; two points at one moment are a jump. The first one is at 0 s."""

    kind: str
    points: tuple[Point, ...]

    @property
    def seconds(self) -> float:
        return self.points[-1][0]

    @property
    def rates(self) -> tuple[float, float]:
        """The lowest and the highest rate, in records/s."""
        rates = [rate for _, rate in self.points]
        return min(rates), max(rates)

    @cached_property
    def mean(self) -> float:
        """The mean rate, in records/s."""
        return area(self.points) / self.seconds

    @cached_property
    def phases(self) -> Mapping[str, tuple[float, float]]:
        """Begin and end (s) of the phases that it has: before the peak, in it, after it.

        The peak lasts from the first to the last moment at which the rate is at least midway between lowest and
        highest; a flat shape is all peak.
        """
        low, high = self.rates
        level = (low + high) / 2
        at = [moment for moment, rate in self.points if rate >= level]
        for (s, a), (e, b) in pairwise(self.points):
            if (a < level) != (b < level) and e > s:
                at.append(s + (e - s) * (level - a) / (b - a))
        edges = {"before": (0.0, min(at)), "peak": (min(at), max(at)), "after": (max(at), self.seconds)}
        return {name: (begin, end) for name, (begin, end) in edges.items() if end > begin}

    def at_mean(self, rate: float) -> Shape:
        """Return the shape with all rates changed in proportion, so that their mean is this."""
        return replace(self, points=tuple((moment, own * rate / self.mean) for moment, own in self.points))


def area(points: Sequence[Point]) -> float:
    """Return the number of records that are due between the first and the last of these points."""
    return math.fsum((e - s) * (a + b) / 2 for (s, a), (e, b) in pairwise(points))


def _spike(base: float, peak: float, seconds: float, period: float) -> list[Point]:
    if seconds >= period:
        raise ValueError(f"its peak of {seconds:g} s leaves nothing of its period of {period:g} s")
    begin = BEFORE_SHARE * (period - seconds)
    end = begin + seconds
    return [(0, base), (begin, base), (begin, peak), (end, peak), (end, base), (period, base)]


def _wave(base: float, peak: float, period: float) -> list[Point]:
    turns = [n / WAVE_POINTS for n in range(WAVE_POINTS + 1)]
    return [(turn * period, base + (peak - base) * (1 - math.cos(2 * math.pi * turn)) / 2) for turn in turns]


def _steps(rates: Sequence[float], seconds: float) -> list[Point]:
    return [(n * seconds + end, rate) for n, rate in enumerate(rates) for end in (0.0, seconds)]


NAMED: Mapping[str, tuple[tuple[str, ...], Callable[..., list[Point]]]] = {
    "constant": (("rate", "seconds"), lambda rate, seconds: [(0, rate), (seconds, rate)]),
    "ramp": (("from", "to", "seconds"), lambda begin, end, seconds: [(0, begin), (seconds, end)]),
    "spike": (("base", "peak", "seconds", "period"), _spike),
    "wave": (("base", "peak", "period"), _wave),
    "steps": (("rates", "seconds"), _steps),
}
"""The numbers that each kind takes, and its points."""
LEGAL = (
    "constant:rate=R,seconds=S; ramp:from=R,to=R,seconds=S; spike:base=R,peak=R,seconds=S,period=S; "
    "wave:base=R,peak=R,period=S; steps:rates=R/R/R,seconds=S (of each); points:0=R/S=R/S=R; "
    "csv:FILE or csv:FILE,seconds=S, of lines seconds,rate (R: records/s, S: seconds)"
)


def read_shape(path: str, value: object) -> Shape:
    """Return the shape that a text declares. Raises ConfigurationError with what is wrong, and what is legal."""
    kind, _, rest = str(value).partition(":")
    try:
        if kind == "csv":
            points = _of_file(rest)
        elif kind == "points":
            points = _points(point.split("=") for point in rest.split("/"))
        elif kind in NAMED:
            names, make = NAMED[kind]
            points = make(*numbers_of(names, rest))
        else:
            raise ValueError("is no shape of a rate")
        return Shape(kind=kind, points=_checked(points))
    except (ValueError, OSError, csv.Error) as error:
        raise ConfigurationError(f"{path} = {value!r}: {error}; legal: {LEGAL}") from error


def numbers_of(names: Sequence[str], text: str) -> list[float | list[float]]:
    """Return the numbers that a text like base=1,peak=5 gives these names; `rates` are several. Raises ValueError."""
    stated = [part.partition("=")[::2] for part in text.split(",")]
    if sorted(name for name, _ in stated) != sorted(names):
        raise ValueError(f"needs {', '.join(names)}, each once")
    given = dict(stated)
    return [[*map(float, given[n].split("/"))] if n == "rates" else float(given[n]) for n in names]


def _points(pairs: Iterable[Sequence[str]]) -> list[Point]:
    try:
        return [(float(moment), float(rate)) for moment, rate in pairs]
    except ValueError:
        raise ValueError("each of its points must be two numbers, seconds and records/s") from None


def _of_file(text: str) -> list[Point]:
    """Points of a file, compressed into `seconds` where these are stated; a heading is left out."""
    name, _, seconds = text.partition(",seconds=")
    with Path(name).open(newline="", encoding="utf-8-sig") as file:  # some editors put a mark of the encoding in front
        rows = [row for row in csv.reader(file) if row]
    if rows and not re.match(r"\s*[-+]?\.?\d", rows[0][0]):
        rows = rows[1:]
    points = _points(rows)
    first, length = (points[0][0], points[-1][0] - points[0][0]) if points else (0.0, 0.0)
    factor = float(seconds) / length if seconds and length > 0 else 1.0
    return [((moment - first) * factor, rate) for moment, rate in points]


def _checked(points: Sequence[Point]) -> tuple[Point, ...]:
    known = tuple((float(moment), float(rate)) for moment, rate in points)
    if not 2 <= len(known) <= MOST_POINTS:
        raise ValueError(f"it has {len(known):,} points and needs 2 to {MOST_POINTS:,}")
    if known[0][0] != 0 or any(not s <= e for (s, _), (e, _) in pairwise(known)):
        raise ValueError("its points must begin at 0 s and follow one another in time")
    if not 1 <= known[-1][0] <= LONGEST_S:
        raise ValueError(f"it lasts {known[-1][0]:g} s and must last from 1 to {LONGEST_S:g} s")
    if any(not LEAST_RATE <= rate <= MOST_RATE for _, rate in known):
        raise ValueError(f"its rates must be from {LEAST_RATE:g} to {MOST_RATE:g} records/s")
    return known
