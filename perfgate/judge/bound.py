"""A centre of rounds against a bound: whether it is known to lie beyond, for thresholds, relations and hosts. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.judge.statistics import centre_error, many, median_error, median_interval
from perfgate.model.summary import centre

FAR = 2
"""A value beyond its limit counts as at most this many times as far from the limit as that is from the baseline. What
lies farther off is beyond without doubt, and its scatter there must not make the centre of all uncertain."""


@dataclass(frozen=True, slots=True)
class Centre:
    """The centre of some rounds with its standard error, and an interval of 95 % that assumes no distribution."""

    middle: float
    error: float
    interval: tuple[float, float]

    def beyond(self, bound: float, sign: int) -> bool:
        """Return whether it is beyond a bound by more than its error, or its interval as a whole.

        `sign`: 1 for a minimum, -1 for a maximum.
        """
        best = self.interval[1] if sign > 0 else self.interval[0]
        return sign * (best - bound) < 0 or sign * (self.middle - bound) < -self.error

    def keeps(self, bound: float, sign: int) -> bool:
        """Return whether it keeps a bound by at least its error; what is no number (NaN) keeps none."""
        return sign * (self.middle - bound) >= self.error


def centre_of(values: Sequence[float]) -> Centre:
    """Return the Hodges-Lehmann centre of the rounds of one metric."""
    return Centre(centre(values), centre_error(values), median_interval(values))


def median_of(values: Sequence[float], looks: int = 1) -> Centre:
    """Return the median of ratios, as one of several looks."""
    return Centre(statistics.median(values), median_error(values), median_interval(values, looks))


def too_many_beyond(values: Sequence[float], bound: float, sign: int) -> bool:
    """Return whether so many values lie beyond that a centre within the bound is no ground for green."""
    return sum(not sign * (value - bound) >= 0 for value in values) >= many(len(values))


def clipped(values: Sequence[float], sign: int, limit: float, distance: float) -> list[float]:
    """Return the values for a test of red: those far beyond the limit come back to FAR times its `distance` from it.

    `sign`: 1 for what is better when higher, else -1; `distance`: of the limit from what is expected, in their unit.
    """
    farthest = limit - sign * FAR * distance
    # What is no number stays one: no test of red or green passes it.
    return [
        value if math.isnan(value) else max(value, farthest) if sign > 0 else min(value, farthest) for value in values
    ]
