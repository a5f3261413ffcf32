"""Doubts: reasons why a figure may be worse than the brokers made it, each with how much worse that can be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

Whose = Literal["brokers", "load", "machine", "unknown"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Doubt:
    """One reason for doubt, and what of a loss it explains.

    `kind` groups what has the same cause: of several doubts of a kind the largest counts. `whose` doing it is. It may
    have made the `metrics` (beginnings of their names; empty: all) worse by a `factor`, and besides by `offset`, in the
    metric's unit. A factor of None explains everything: a load that was never made, by no fault of the brokers.
    """

    kind: str
    whose: Whose
    text: str
    factor: Annotated[float, Ge(1)] | None = 1.0
    offset: Annotated[float, Ge(0)] = 0.0
    metrics: tuple[str, ...] = ()

    def touches(self, metric: str) -> bool:
        """Return whether it casts doubt on this metric."""
        return not self.metrics or any(metric == one or metric.startswith(f"{one}.") for one in self.metrics)


def explained(doubts: Iterable[Doubt], metric: str) -> tuple[float, float]:
    """Return the factor and the offset by which these doubts together may have made the metric worse.

    Independent causes multiply. The factor is infinite where one of them explains everything.
    """
    factors: dict[str, float] = {}
    offsets: dict[str, float] = {}
    for doubt in doubts:
        if doubt.touches(metric):
            factor = math.inf if doubt.factor is None else doubt.factor
            factors[doubt.kind] = max(factors.get(doubt.kind, 1.0), factor)
            offsets[doubt.kind] = max(offsets.get(doubt.kind, 0.0), doubt.offset)
    return math.prod(factors.values()), sum(offsets.values())


def excused(value: float, sign: int, doubts: Sequence[Doubt], metric: str) -> float:
    """Return the best that the brokers' own figure can have been; infinitely good where all of it is explained.

    `sign`: 1 for a metric that is better when higher, -1 for the others.
    """
    factor, offset = explained(doubts, metric)
    if sign > 0:
        return (value + offset) * factor if factor < math.inf else math.inf
    return max(0.0, value - offset) / factor
