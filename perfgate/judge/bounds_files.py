"""Strict parser for relations.toml and ratios.toml: bounds of ratios between scenarios, and to a reference."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, MinLen

from perfgate.judge.thresholds import LARGEST_REACH, RATIOS_FILE, Text, as_table, known_metric, largest_reach
from perfgate.model import PairRelation, RangeRelation, Ratio, Relation, Validity
from perfgate.model.errors import ConfigurationError
from perfgate.model.structured import Positive, shallow, strict, structured, toml_of


@strict
class _Pair:
    """A relation of two scenarios as its table, or that of its [<family>.<name>.shared_cores], states it."""

    claim: Text
    """What must hold, in words."""
    metric: Text
    """The metric whose ratio it is."""
    of: Text
    """A scenario: the ratio is that of its figure over the other's."""
    over: Text
    """The other scenario."""
    at_least: Positive
    """The least ratio that passes."""
    at_most: Positive
    """The largest ratio that passes: beyond it a figure is too good to be believed."""
    source: Text
    """Who says so."""
    valid: Validity
    """`any`, or `own-hosts`: where each broker and client has a host of its own."""

    def __post_init__(self) -> None:
        if self.of == self.over:
            raise ConfigurationError(f"of and over are one scenario, {self.of}: its ratio to itself is always 1")
        if self.at_most <= self.at_least:
            raise ConfigurationError(f"at_most = {self.at_most:g} must be above at_least = {self.at_least:g}")


@strict
class _Range:
    """A relation over a range, whose `over` is the scenarios in their order: see :class:`RangeRelation`."""

    claim: Text
    metric: Text
    over: Annotated[tuple[Text, ...], MinLen(3), "must be a list of three scenarios or more, in their order"]
    """Three scenarios or more, in their order."""
    rises_to: Text | None = None
    """The scenario up to which the metric rises, or"""
    falls_to: Text | None = None
    """falls; what comes after it is flat."""
    at_least: Positive | None = None
    """The least ratio of that scenario to the first."""
    step_at_least: Positive | None = None
    """The least ratio of each scenario to the one before."""
    at_most: Positive | None = None
    """The largest ratio of each step."""
    flat_within: Positive | None = None
    """The factor within which the flat part stays."""
    source: Text
    valid: Validity
    brokers: Annotated[int, Ge(1)] | None = None
    """It holds for clusters of this size alone."""

    def __post_init__(self) -> None:
        if len(set(self.over)) < len(self.over):
            raise ConfigurationError(f"over = {list(self.over)} names a scenario twice")
        if self.rises_to and self.falls_to:
            raise ConfigurationError("has rises_to and falls_to: leave one out")
        bounds = {"at_least": self.at_least, "step_at_least": self.step_at_least, "at_most": self.at_most}
        if self.turn is None:
            if self.flat_within is None:
                raise ConfigurationError("has no shape; legal: rises_to or falls_to, flat_within, or both")
            if stated := [key for key, value in bounds.items() if value is not None]:
                raise ConfigurationError(f"{stated[0]} bounds a rise or fall: it needs rises_to or falls_to")
            return
        if self.turn not in self.over[1:]:
            legal = ", ".join(self.over[1:])
            raise ConfigurationError(f"{'rises' if self.rises_to else 'falls'}_to = {self.turn!r}; legal: {legal}")
        if (self.flat_within is None) is (self.turn != self.over[-1]):
            wrong = "lacks the key 'flat_within': what" if self.flat_within is None else "has flat_within, but nothing"
            raise ConfigurationError(f"{wrong} comes after {self.turn}")
        if self.step_at_least is None or self.at_most is None:
            raise ConfigurationError(f"lacks the key {'step_at_least' if self.step_at_least is None else 'at_most'!r}")
        if self.at_most <= max(self.step_at_least, 1):
            raise ConfigurationError(f"at_most = {self.at_most:g} must be above 1 and step_at_least")
        if self.at_least is not None and not self.step_at_least <= self.at_least < self.at_most:
            raise ConfigurationError(f"at_least = {self.at_least:g} must lie from step_at_least to below at_most")

    @property
    def turn(self) -> str | None:
        """The scenario up to which the metric rises or falls."""
        return self.rises_to or self.falls_to


def load_relations(path: Path) -> tuple[Relation, ...]:
    """The relations in `path`, tables [<family>.<name>]. Raises ConfigurationError naming table and key."""
    relations: dict[str, Relation] = {}
    for family, body in toml_of(path, str(path)).items():
        for short, entry in as_table(path, family, body).items():
            relation = _relation(path, f"{family}.{short}", entry)
            if relation.name in relations:  # [a-b.c] and [a.b-c]
                raise ConfigurationError(f"{path}: [{family}.{short}] is a second relation {relation.name}")
            relations[relation.name] = relation
    return tuple(relations.values())


def _relation(path: Path, table: str, values: object) -> Relation:
    """A relation; its table [<family>.<name>.shared_cores] states what differs there."""
    where, own = f"{path}: [{table}]", as_table(path, table, values)
    instead, shared_cores = own.pop("shared_cores", None), None
    kind: type[_Range | _Pair] = _Range if isinstance(own.get("over"), list) else _Pair
    stated = structured(kind, own, where)
    if instead is not None:
        changes = as_table(path, f"{table}.shared_cores", instead)
        legal = [field.name for field in fields(kind) if field.name != "valid"]
        for key in changes:
            if key not in legal:
                raise ConfigurationError(
                    f"{path}: [{table}.shared_cores] has unknown key {key!r}; legal: {', '.join(legal)}"
                )
        shared_cores = _relation(path, f"{table}.shared_cores", {**own, **changes, "valid": "any"})
    family, short = table.split(".")[:2]
    metric = known_metric(where, stated.metric)
    bounds: dict[str, Any] = {
        **shallow(stated),
        "name": f"{family}-{short}",
        "family": family,
        "metric": metric,
        "shared_cores": shared_cores,
    }
    if isinstance(stated, _Pair):
        return PairRelation(**bounds)
    rises, falls, over = bounds.pop("rises_to"), bounds.pop("falls_to"), bounds.pop("over")
    turn = over.index(stated.turn) + 1 if stated.turn else 1
    for key in ("step_at_least", "at_most", "flat_within"):
        bounds[key] = bounds[key] or 0.0  # of a part that the shape has not
    goes: Literal["rises", "falls"] | None = "rises" if rises else "falls" if falls else None
    return RangeRelation(**bounds, goes=goes, leg=over[:turn], flat=over[turn:])


DEFAULT = "default"


@strict
class _Bound:
    at_least: Positive | None = None
    at_most: Positive | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratios:
    path: Path
    default: tuple[Ratio, ...]
    own: dict[str, tuple[Ratio, ...]]

    def of(self, scenario: str) -> tuple[Ratio, ...]:
        """The ratios of the scenario: its own table goes before [default], metric by metric."""
        return tuple({ratio.metric.name: ratio for ratio in (*self.default, *self.own.get(scenario, ()))}.values())

    def check(self, known: Collection[str]) -> None:
        """Raise ConfigurationError when a table is of no scenario that there is."""
        for name in self.own:
            if name not in known:
                raise ConfigurationError(f"{self.path}: [{name}] is no scenario (nor is it [{DEFAULT}])")


def load_ratios(folder: Path) -> Ratios:
    """The ratios in `folder`. Raises ConfigurationError naming file, table and key."""
    path = folder / RATIOS_FILE
    tables = {name: _ratios(path, name, as_table(path, name, body)) for name, body in toml_of(path, str(path)).items()}
    default = tables.pop(DEFAULT, ())
    if not (default or tables):
        raise ConfigurationError(f"{path} states no ratio, so that nothing would be judged")
    return Ratios(path=path, default=default, own=tables)


def _ratios(path: Path, table: str, values: dict[str, object]) -> tuple[Ratio, ...]:
    ratios = []
    for name, body in values.items():
        where = f"{path}: [{table}] {name}"
        metric, bound = known_metric(where, name), structured(_Bound, as_table(path, f"{table}.{name}", body), where)
        key, value, other = "at_least", bound.at_least, bound.at_most
        if metric.better == "lower":
            key, value, other = "at_most", other, value
        if value is None or other is not None:
            raise ConfigurationError(f"{where} is better when it is {metric.better}: state {key}, and only that")
        reach = largest_reach(metric.name)
        legal = (1 - min(reach, LARGEST_REACH), 1.0) if key == "at_least" else (1.0, 1 + reach)
        if not legal[0] <= value <= legal[1]:
            more = (value > 1) == (key == "at_least")
            what = "asks for more than the reference reaches" if more else "is as good as no limit"
            raise ConfigurationError(
                f"{where}: {key} = {value:g} {what}; legal: {legal[0]:g} .. {legal[1]:g} times the reference's"
            )
        ratios.append(Ratio(metric=metric, limit=value, own=table != DEFAULT))
    return tuple(ratios)
