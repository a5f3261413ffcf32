"""Bursts and rounds that were measured again, by which side spoilt them: nobody is green by what they hide. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from perfgate.model import Comparison, Measurement, Round
from perfgate.model.compared import HEARD_LATE, OUTLASTED, SATURATED, SENT_LATE, STOOD_STILL

CHANCE = 0.05
"""So rarely does one side have so many of all that were spoilt where both have them equally often."""


@dataclass(frozen=True, slots=True)
class _Kind:
    flaws: tuple[str, ...]
    """The kinds of its flaws."""
    told: str
    """Of how many on the candidate's side, and how many as declared."""
    hides: str
    """What may lie behind it."""
    unit: str

    def count(self, measurement: Measurement) -> int:
        return sum(map(self._is_of, (*measurement.discarded, *measurement.rounds)))

    def _is_of(self, one: Round) -> bool:
        return any(flaw.kind in self.flaws for flaw in one.flaws)


KINDS = (
    _Kind(
        (OUTLASTED,),
        "the records of {} bursts were still under way when the other side was measured, as declared of {}",
        "its brokers may stand still",
        "bursts",
    ),
    _Kind(
        (SENT_LATE, SATURATED, STOOD_STILL, HEARD_LATE),
        "{} of its loads were sent late or not in full, as declared {}",
        "its brokers may take the processors that send",
        "loads",
    ),
)


def may_hide_worse(comparison: Comparison) -> str:
    """Return that the candidate's side spoilt clearly more of what was measured again; empty where it did not.

    What is measured again is not among the figures, and brokers that got worse are what it may hide.
    """
    for kind, candidate, declared in _counts(comparison):
        if chance_of(candidate, declared) <= CHANCE:
            told = kind.told.format(candidate, declared)
            return f"candidate: {told}: {kind.hides}, and those {kind.unit} were measured again"
    return ""


def measured_again(comparison: Comparison) -> str:
    """Return how much the candidate's side spoilt, where that is more than as declared; else empty."""
    for kind, candidate, declared in _counts(comparison):
        if candidate > declared:
            return f"candidate: {kind.told.format(candidate, declared)}; those {kind.unit} were measured again"
    return ""


def _counts(comparison: Comparison) -> Iterator[tuple[_Kind, int, int]]:
    for kind in KINDS:
        yield kind, kind.count(comparison.candidate), kind.count(comparison.baseline)


def chance_of(more: int, fewer: int) -> float:
    """Return how likely one side has so many of them all, or more, by the toss of a coin."""
    count = more + fewer
    return math.ldexp(sum(math.comb(count, heads) for heads in range(more, count + 1)), -count)
