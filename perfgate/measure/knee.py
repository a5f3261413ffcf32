"""The search for the knee: the highest rate that meets the service level, by steps, then bisection. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from perfgate.model import StepPart

LEAST_SHARE = 0.01
"""Of the most that may be offered: the first step, at which no record waits for another."""
GROWTH = 2.0
RESOLUTION = 1.05
"""The knee lies between a rate that met the service level and one that did not, so many times as high."""
AROUND = 1.25
"""The first step of a later round lies so many times below the knee of the round before."""
BELOW = 0.9
"""The share of the knee at which the service level must be met as well."""

Meets = Callable[[float, StepPart], bool]
"""Whether the service level is met at a rate, in records/s."""


def find_knee(meets: Meets, most: float, about: float | None = None) -> float | None:
    """Return the highest rate up to `most` that meets the service level, in records/s; None when the first does not.

    Rates double until one is missed (or, `about` a knee that is known, move by less), then the gap is bisected to
    RESOLUTION. The rate that is left is measured once more, and BELOW of it; where one of the two is missed the same
    is tried a RESOLUTION lower, then two, four and so on, down to the first rate, and last between the rate at which
    both hold and the one before: where noise makes steps miss, the knee would lie a third too low. `most` means: at
    least that.
    """
    least = most * LEAST_SHARE
    if not meets(least, "unloaded"):
        return None
    low, high = _bracket(meets, least, most, about)
    while high > low * RESOLUTION:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if meets(middle, "bisection") else (low, middle)

    def holds(rate: float) -> bool:
        return meets(rate, "confirmation") and meets(BELOW * rate, "below")

    missed = low
    for steps in itertools.count():
        if low <= least or holds(low):
            break
        missed, low = low, max(least, low / RESOLUTION ** (2**steps))
    while missed > low * RESOLUTION**2:
        middle = math.sqrt(low * missed)
        low, missed = (middle, missed) if holds(middle) else (low, middle)
    return low


def _bracket(meets: Meets, least: float, most: float, about: float | None) -> tuple[float, float]:
    """Return a rate that met the service level and one that did not, or twice `most`."""
    factor = AROUND**2 if about else GROWTH
    rate = min(most, max(about / AROUND, least) if about else least * GROWTH)
    if meets(rate, "step"):
        while rate < most:
            low, rate = rate, min(most, rate * factor)
            if not meets(rate, "step"):
                return low, rate
        return most, most
    while True:
        high, rate = rate, max(least, rate / factor)
        if rate == least or meets(rate, "step"):
            return rate, high
