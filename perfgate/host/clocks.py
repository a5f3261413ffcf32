"""Clock offsets of other hosts, from exchanges of four timestamps. Pure; all times in seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

DRIFT = 500e-6
"""Seconds a second. The kernel changes a clock's frequency by at most this (adjtimex(2), `freq`), and a crystal is off
by a fifth of it. A clock that moves faster has stepped, or is being slewed too fast to measure by."""
LOOK_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer: `sent` and `heard` on this clock, `received` and `replied` on the other host's."""

    sent: float
    received: float
    replied: float
    heard: float

    @property
    def round_trip(self) -> float:
        """Time that both messages were under way together."""
        return (self.heard - self.sent) - (self.replied - self.received)


@dataclass(frozen=True, slots=True)
class Estimate:
    """At moment `at` of this clock, the other clock is ahead by `offset`, give or take `bound`."""

    at: float
    offset: float
    bound: float


def estimate(exchanges: Iterable[Exchange]) -> Estimate:
    """The estimate of the exchange with the smallest round trip.

    The two messages take the round trip together, however unequally: the offset is off by at most half of it (RFC 5905,
    section 8). Raises ValueError without an exchange.
    """
    best = min(exchanges, key=lambda exchange: exchange.round_trip)
    return Estimate(
        at=(best.sent + best.heard) / 2,
        offset=((best.received - best.sent) + (best.replied - best.heard)) / 2,
        bound=max(0.0, best.round_trip / 2),
    )


def interpolated(before: Estimate, after: Estimate, at: float) -> Estimate:
    """The estimate for a moment between two estimates, for a clock that drifts evenly between them."""
    share = min(1.0, max(0.0, (at - before.at) / (after.at - before.at))) if after.at > before.at else 0.0
    return Estimate(
        at=at,
        offset=before.offset + share * (after.offset - before.offset),
        bound=before.bound + share * (after.bound - before.bound),
    )


def off_by(used: float, before: Estimate, after: Estimate) -> float:
    """The largest possible error of the offset that was `used` from `before` until `after`."""
    return max(abs(end.offset - used) + end.bound for end in (before, after))


def stepped(estimates: Sequence[Estimate]) -> float:
    """The clock's step among these estimates, in order of time; positive ahead, 0.0 where there is none.

    It is the change since the first or the previous one that both bounds and DRIFT explain least.
    """
    pairs = [pair for before, after in pairwise(estimates) for pair in ((estimates[0], after), (before, after))]
    unexplained = [(abs(b.offset - a.offset) - _explained(a, b), b.offset - a.offset) for a, b in pairs]
    most, step = max(unexplained, default=(0.0, 0.0))
    return step if most > 0 else 0.0


class Track:
    """A clock over a round: the estimate before it, and another every LOOK_EVERY_S since, from messages that pass."""

    def __init__(self, before: Estimate) -> None:
        self.before = before
        self._estimates, self._newest = [before], list[Exchange]()

    def heard(self, exchange: Exchange) -> None:
        self._newest.append(exchange)
        if exchange.heard - self._newest[0].sent >= LOOK_EVERY_S:
            newest, self._newest = self._newest, []
            self._estimates.append(estimate(newest))

    def stepped(self, after: Estimate) -> float:
        """The step of the clock until this last estimate; see :func:`stepped`."""
        newest = self._newest
        return stepped([*self._estimates, *([estimate(newest)] if newest else []), after])


def _explained(a: Estimate, b: Estimate) -> float:
    return a.bound + b.bound + DRIFT * abs(b.at - a.at)
