"""Lag of consumers over time: what was acknowledged and not worked off yet, by the generators' reports. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.model.load import Lag

EVERY_S = 0.5
"""Apart of the moments at which the lag is kept: processes report every 0.1 s, each at its own time."""
Behind = tuple[float, float]
"""A moment, in s on the monotonic clock, and the records that a group was behind, on average over groups."""


def lag_of(reports: Sequence[Behind], opens: float, closes: float, drained_s: float | None) -> Lag:
    """Return the lag in a window, of the reports before and in it; `drained_s`: of :class:`Lag`."""
    inside = [(at - opens, behind) for at, behind in reports if opens <= at <= closes]
    kept: list[Behind] = []
    for at, behind in inside:
        if not kept or at - kept[-1][0] >= EVERY_S:
            kept.append((at, behind))
    growth = _slope(kept)
    return Lag(
        most=max((behind for _, behind in inside), default=0.0),
        growth_per_s=growth,
        over_time=tuple(kept),
        drained_s=drained_s,
    )


def _slope(points: Sequence[Behind]) -> float:
    if len(points) < 2:
        return 0.0
    middle = sum(at for at, _ in points) / len(points)
    spread = sum((at - middle) ** 2 for at, _ in points)
    return sum((at - middle) * behind for at, behind in points) / spread
