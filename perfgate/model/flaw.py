"""Flaws: reasons why a round, or some metrics, do not count; doubts: how much of a loss each explains."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

Whose = Literal["brokers", "load", "machine", "unknown"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """What a flaw explains of a loss: a factor (None: everything) and besides an offset in units of the metric.

    Of these `metrics` (beginnings of names; empty: of those of the flaw).
    """

    factor: Annotated[float, Ge(1)] | None = 1.0
    offset: Annotated[float, Ge(0)] = 0.0
    metrics: tuple[str, ...] = ()


NOTHING, EVERYTHING = (Part(),), (Part(factor=None),)


@dataclass(frozen=True, kw_only=True, slots=True)
class Doubt(Part):
    """One reason for doubt, and by what it may have made the `metrics` (empty: all) worse.

    `kind` groups what has the same cause: of several doubts of a kind the largest counts. `whose` doing it is. A factor
    of None explains everything: a load that was never made, by no fault of the brokers.
    """

    kind: str
    whose: Whose
    text: str

    def touches(self, metric: str) -> bool:
        return not self.metrics or any(metric == name or metric.startswith(f"{name}.") for name in self.metrics)


def explained(doubts: Iterable[Doubt], metric: str) -> tuple[float, float]:
    """Return the factor and the offset by which these doubts together may have made the metric worse.

    Independent causes multiply. The factor is infinite where any of them explains everything.
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


@dataclass(frozen=True, slots=True)
class Flaw:
    """One reason why a round does not count, or why its `metrics` do not (beginnings of names; empty: all of it).

    `whose` doing it is, as far as that is known. One that is worth another try (`again`) lies with the generator, be it
    that the brokers took its processors. `broken`: what brokers did not do although they are there for it, where that
    is a result; `late`: they, or what else is to blame, may only have been late, as on a machine that is busy with
    something else. `kind`: see :class:`perfgate.model.flaw.Doubt`.
    """

    text: str
    kind: str = "flaw"
    whose: Whose = "unknown"
    again: bool = False
    late: bool = False
    broken: bool = False
    metrics: tuple[str, ...] = ()
    explains: tuple[Part, ...] = EVERYTHING

    @property
    def explains_all(self) -> bool:
        """Whether it may have made any loss."""
        return any(part.factor is None and not part.metrics for part in self.explains)

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """The flaw as values for the judge: what it spoils, and how much of that it explains."""
        return tuple(
            Doubt(
                kind=self.kind,
                whose=self.whose,
                text=self.text,
                factor=part.factor,
                offset=part.offset,
                metrics=part.metrics or self.metrics,
            )
            for part in self.explains
        )


def from_doubts(doubts: Iterable[Doubt], *, whole: bool = True) -> tuple[Flaw, ...]:
    """Return the flaws that these doubts are of: of the `whole` round, or of the metrics that they touch alone."""
    by_cause: dict[tuple[str, Whose, str], list[Doubt]] = {}
    for doubt in doubts:
        by_cause.setdefault((doubt.kind, doubt.whose, doubt.text), []).append(doubt)
    return tuple(
        Flaw(
            text=text,
            kind=kind,
            whose=whose,
            metrics=() if whole else tuple(dict.fromkeys(name for part in parts for name in part.metrics)),
            explains=tuple(Part(factor=part.factor, offset=part.offset, metrics=part.metrics) for part in parts),
        )
        for (kind, whose, text), parts in by_cause.items()
    )
