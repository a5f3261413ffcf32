"""Turns of a comparison that outlasted their time, so that both sides were measured again: whose they were. Pure."""

from __future__ import annotations

import math

from perfgate.model import Comparison, Measurement
from perfgate.model.compared import OUTLASTED

CHANCE = 0.05
"""So rarely does one side have so many of all such turns where both have them equally often."""


def stands_still(comparison: Comparison) -> str:
    """Return that the candidate's turns outlasted their time clearly more often; empty where they did not.

    What is measured again is not among the figures, and brokers that stand still are what it may hide.
    """
    candidate, declared = _outlasted(comparison.candidate), _outlasted(comparison.baseline)
    if chance_of(candidate, declared) > CHANCE:
        return ""
    return (
        f"candidate: the records of {candidate} bursts were still under way when the other side was measured, as "
        f"declared of {declared}: its brokers may stand still, and those bursts were measured again"
    )


def measured_again(comparison: Comparison) -> str:
    """Return how many of the candidate's turns outlasted their time, where more did than as declared; else empty."""
    candidate, declared = _outlasted(comparison.candidate), _outlasted(comparison.baseline)
    if candidate <= declared:
        return ""
    return (
        f"candidate: the records of {candidate} bursts were still under way when the other side was measured, as "
        f"declared of {declared}; those bursts were measured again"
    )


def _outlasted(measurement: Measurement) -> int:
    return sum(any(OUTLASTED in reason for reason in r.invalid) for r in (*measurement.discarded, *measurement.rounds))


def chance_of(more: int, fewer: int) -> float:
    """Return how likely one side has so many of them all, or more, by the toss of a coin."""
    count = more + fewer
    return math.ldexp(sum(math.comb(count, heads) for heads in range(more, count + 1)), -count)
