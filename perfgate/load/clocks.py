"""How far another host's clock is ahead of this one: from exchanges of four timestamps. Pure; all times in seconds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


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
    """Return the estimate of the exchange with the smallest round trip.

    Each message takes no less than no time, and both together the round trip: the offset is off by half of that at
    most (RFC 5905, section 8), however unequal the two are. Raises ValueError without an exchange.
    """
    best = min(exchanges, key=lambda exchange: exchange.round_trip)
    return Estimate(
        at=(best.sent + best.heard) / 2,
        offset=((best.received - best.sent) + (best.replied - best.heard)) / 2,
        bound=max(0.0, best.round_trip / 2),
    )


def interpolated(before: Estimate, after: Estimate, at: float) -> Estimate:
    """Return the estimate for a moment between two others, for a clock that drifts evenly between them."""
    share = min(1.0, max(0.0, (at - before.at) / (after.at - before.at))) if after.at > before.at else 0.0
    return Estimate(
        at=at,
        offset=before.offset + share * (after.offset - before.offset),
        bound=before.bound + share * (after.bound - before.bound),
    )


def off_by(used: float, before: Estimate, after: Estimate) -> float:
    """Return by how much the offset that was `used` from `before` until `after` can have been wrong at most."""
    return max(abs(seen.offset - used) + seen.bound for seen in (before, after))
