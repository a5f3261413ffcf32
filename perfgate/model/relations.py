"""Relations: bounds on ratios of a metric between two scenarios, or over all scenarios of a factor's range."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, Self

from perfgate.model.metrics import MetricInfo

FINE_MARGINS, ROUGH_LEAST = (1.0, 1.3), 0.9
"""A ratio with a least value in FINE_MARGINS needs a quiet machine; on a noisy machine ROUGH_LEAST must hold."""
FEWEST_OF_A_RANGE = 3

Validity = Literal["any", "own-hosts"]
"""Where a relation holds: on any machine, or where each broker and client has its own host."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Relation:
    """A statement about several scenarios' values of a metric, where it is `valid`.

    `shared_cores` replaces it where brokers and clients share the cores. `brokers`: it holds for clusters of this size
    only.
    """

    name: str
    family: str
    claim: str
    metric: MetricInfo
    at_least: float | None
    source: str
    valid: Validity = "any"
    brokers: int | None = None
    shared_cores: Self | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The scenarios that it relates."""
        raise NotImplementedError

    @property
    def accepted(self) -> str:
        """What must hold, in words."""
        raise NotImplementedError

    def here(self, *, shares_cores: bool) -> Self:
        """Return the relation that holds where brokers and clients share the cores, or do not."""
        return self.shared_cores if shares_cores and self.shared_cores else self

    def direction_alone(self) -> Self:
        """Return the relation, a fine margin widened so that the ratio only must not point the other way."""
        fine = self.at_least is not None and FINE_MARGINS[0] <= self.at_least < FINE_MARGINS[1]
        return replace(self, at_least=ROUGH_LEAST) if fine else self

    def cannot(self, *, shares_cores: bool, brokers: int | None = None) -> str | None:
        """Return the reason why the relation cannot be judged there, if any; `brokers`: how many, if known."""
        if shares_cores and self.valid == "own-hosts":
            return "valid where brokers have hosts of their own; here they share the cores with the clients"
        if self.brokers and brokers and brokers != self.brokers:
            return f"stated of {self.brokers} brokers; this cluster has {brokers}"
        return None

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class PairRelation(Relation):
    """A ratio `of` / `over` from `at_least` to `at_most`."""

    of: str
    over: str
    at_least: float
    at_most: float

    @property
    def names(self) -> tuple[str, ...]:
        return self.of, self.over

    def holds(self, ratio: float) -> bool:
        return self.at_least <= ratio <= self.at_most

    @property
    def accepted(self) -> str:
        """What the ratio must be, in words: 1.5 .. 10."""
        return f"{self.at_least:.3g} .. {self.at_most:.4g}"


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class RangeRelation(Relation):
    """The shape of a metric over scenarios in the order of their factor: it rises or falls over some, then is flat.

    `leg`: the scenarios over which it `goes` up or down, the turning point last; without a direction only the scenario
    that `flat` ones are compared with. Bounds are ratios in that direction, the larger value over the smaller: each to
    that before from `step_at_least` (below 1: a little the other way) to `at_most`; the turning point to the first
    from `at_least`, if stated, to `at_most`. `flat` ones lie within 1 + `flat_within` times the turning point, up or
    down. `hidden`: names of steps that are not judged, since the measurement cannot show them.
    """

    goes: Literal["rises", "falls"] | None
    leg: tuple[str, ...]
    flat: tuple[str, ...]
    step_at_least: float
    at_most: float
    flat_within: float
    hidden: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        return self.leg + self.flat

    @property
    def accepted(self) -> str:
        """The shape in words: rises, in all 1.3 .. 6, each step 0.8 .. 6; then flat, 0.67 .. 1.5."""
        strictly = self.at_least is not None and self.at_least > 1
        way = self.goes if strictly else {"rises": "does not fall", "falls": "does not rise", None: ""}[self.goes]
        whole = "" if self.at_least is None else f" in all {self.at_least:g} .. {self.at_most:g},"
        parts = [f"{way},{whole} each step {self.step_at_least:g} .. {self.at_most:g}"] if self.goes else []
        if self.flat:
            beyond = f"flat, {1 / (1 + self.flat_within):.2g} .. {1 + self.flat_within:.3g}"
            parts.append(f"then {beyond}" if parts else beyond)
        return "; ".join(parts)

    @property
    def steps(self) -> tuple[PairRelation, ...]:
        """The ratios of the shape as pairs, without `hidden` ones."""
        ratios = [self._towards(after, before, self.step_at_least) for before, after in pairwise(self.leg)]
        if self.at_least is not None and len(self.leg) > 1:
            whole = self._towards(self.leg[-1], self.leg[0], self.at_least)
            ratios = [*ratios, whole] if len(ratios) > 1 else [whole]  # a single step is the whole
        width = 1 + self.flat_within
        flat = (self._pair(name, self.leg[-1], 1 / width, width) for name in self.flat)
        return tuple(step for step in (*ratios, *flat) if step.name not in self.hidden)

    def _towards(self, after: str, before: str, at_least: float) -> PairRelation:
        of, over = (after, before) if self.goes == "rises" else (before, after)
        return self._pair(of, over, at_least, self.at_most)

    def _pair(self, of: str, over: str, at_least: float, at_most: float) -> PairRelation:
        return PairRelation(
            name=f"{of} / {over}",
            family=self.family,
            claim=self.claim,
            metric=self.metric,
            of=of,
            over=over,
            at_least=at_least,
            at_most=at_most,
            source=self.source,
            valid=self.valid,
        )

    def lacks(self, measured: Collection[str]) -> str | None:
        """Return the reason why these scenarios cannot show the shape; None where they can."""
        known = [name for name in self.names if name in measured]
        if len(known) < FEWEST_OF_A_RANGE:
            return f"{len(known)} of its {len(self.names)} scenarios are measured here; a range needs three"
        if self.goes and len(set(known) & set(self.leg)) < 2:
            return f"needs two of {', '.join(self.leg)}, over which it {self.goes}"
        ends = {self.leg[0], self.leg[-1]} if self.at_least is not None else set()
        turn = {self.leg[-1]} if set(known) & set(self.flat) else set()
        if absent := [name for name in self.names if name in ends | turn and name not in measured]:
            return f"needs {' and '.join(absent)}, which the others are held against"
        return None

    def among(self, measured: Collection[str]) -> Self:
        """Return the range over its measured scenarios; nothing may be lacking (:meth:`lacks`)."""
        leg, flat = (tuple(name for name in part if name in measured) for part in (self.leg, self.flat))
        return replace(self, leg=leg, flat=flat)
