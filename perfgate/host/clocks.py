"""Clock offsets of other hosts, from exchanges of four timestamps. Pure; all times in seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

DRIFT = 500e-6
"""Seconds a second. By no more than this does the kernel change a clock's frequency (adjtimex(2), `freq`), and a
crystal is off by a fifth of it. What moves faster steps, or is being slewed so fast that its seconds are none."""
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
        """How long both messages were under way together."""
        return (self.heard - self.sent) - (self.replied - self.received)


@dataclass(frozen=True, slots=True)
class Estimate:
    """At moment `at` of this clock the other one is ahead by `offset`, give or take `bound`."""

    at: float
    offset: float
    bound: float


def estimate(exchanges: Iterable[Exchange]) -> Estimate:
    """The estimate of the exchange with the smallest round trip.

    Each message takes no less than no time, and both together the round trip: the offset is off by half of that at most
    (RFC 5905, section 8), however unequal the two are. Raises ValueError without an exchange.
    """
    best = min(exchanges, key=lambda exchange: exchange.round_trip)
    return Estimate(
        at=(best.sent + best.heard) / 2,
        offset=((best.received - best.sent) + (best.replied - best.heard)) / 2,
        bound=max(0.0, best.round_trip / 2),
    )


def interpolated(before: Estimate, after: Estimate, at: float) -> Estimate:
    """The estimate for a moment between two others, for a clock that drifts evenly between them."""
    share = min(1.0, max(0.0, (at - before.at) / (after.at - before.at))) if after.at > before.at else 0.0
    return Estimate(
        at=at,
        offset=before.offset + share * (after.offset - before.offset),
        bound=before.bound + share * (after.bound - before.bound),
    )


def off_by(used: float, before: Estimate, after: Estimate) -> float:
    """The most that the offset which was `used` from `before` until `after` can have been wrong by."""
    return max(abs(seen.offset - used) + seen.bound for seen in (before, after))


def stepped(seen: Sequence[Estimate]) -> float:
    """The step of the clock among these estimates, which follow one another; 0.0 without one, positive ahead.

    Each is compared with the first one and the one before it: a step is what neither the bounds of both nor DRIFT
    explain; of several the one that is explained least.
    """
    pairs = [pair for n in range(1, len(seen)) for pair in ((seen[0], seen[n]), (seen[n - 1], seen[n]))]
    unexplained = [(abs(b.offset - a.offset) - _explained(a, b), b.offset - a.offset) for a, b in pairs]
    most, step = max(unexplained, default=(0.0, 0.0))
    return step if most > 0 else 0.0


class Track:
    """One clock over a round: the estimate before it, and one every LOOK_EVERY_S since, from messages that pass."""

    def __init__(self, before: Estimate) -> None:
        self.before = before
        self._seen, self._newest = [before], list[Exchange]()

    def heard(self, exchange: Exchange) -> None:
        self._newest.append(exchange)
        if exchange.heard - self._newest[0].sent >= LOOK_EVERY_S:
            newest, self._newest = self._newest, []
            self._seen.append(estimate(newest))

    def stepped(self, after: Estimate) -> float:
        """The step of the clock until this last estimate; see :func:`stepped`."""
        newest = self._newest
        return stepped([*self._seen, *([estimate(newest)] if newest else []), after])


def _explained(a: Estimate, b: Estimate) -> float:
    return a.bound + b.bound + DRIFT * abs(b.at - a.at)
