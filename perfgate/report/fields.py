"""Fields of scenarios for a list, by the paths that change them: all of a scenario, or columns of those that differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass

from perfgate.judge.phrases import number
from perfgate.model import Keys, Link, Payload, Scenario, Sizes
from perfgate.model.changes import PATHS, SETTING_FIELDS, field_of
from perfgate.model.shape import Shape

APART = ("name", "summary", "families", "factor", "tier")
"""What a list has of its own."""
PATH_OF = {"load.kind": "load", **{field_of(path): path for path in PATHS}}
SCOPE_OF = {field: scope for scope, field in SETTING_FIELDS.items()}
HEADS = {
    "producer.acks": "acks",
    "record.keys": "keys",
    "consumers.membership": "consumers",
    "load": "load",
    "load.rate": "rate",
    "record.bytes": "bytes",
    "topic.partitions": "parts",
    "topic.replicas": "copies",
    "topic.count": "topics",
    "producer.batch.size": "batch",
    "producer.linger.ms": "linger",
    "producer.compression.type": "codec",
    "consumers.groups": "groups",
    "fault.kind": "fault",
}
"""Columns that come first, with their short names; the others have their paths."""
NOTHING = "-"
MOST_NAMED = 8


def fields_of(scenario: Scenario) -> dict[str, str]:
    """Return the values of a scenario's fields that state something, as text, by the paths that change them."""
    stated = ((path, value) for path, value in _flat("", scenario) if path.partition(".")[0] not in APART)
    return {path: value for path, value in stated if value not in ("", "()")}


def _flat(path: str, value: object) -> Iterator[tuple[str, str]]:
    if path in SCOPE_OF and isinstance(value, tuple):
        yield from ((f"{SCOPE_OF[path]}.{name}", str(setting)) for name, setting in value)
    elif isinstance(value, Keys | Payload | Link | Sizes | Shape):
        yield PATH_OF.get(path, path), _in_short(value)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _flat(f"{path}.{field.name}" if path else field.name, getattr(value, field.name))
    elif path == "beside" and isinstance(value, tuple):
        for part in value:
            yield from ((f"beside.{part.name}.{inner}", text) for inner, text in _flat("", part) if inner != "name")
    elif value is not None:
        yield PATH_OF.get(path, path.replace("_", "-")), _text(value)


def _in_short(value: object) -> str:
    if isinstance(value, Link):
        return value.name
    if isinstance(value, Shape):
        low, high = value.rates
        return f"{value.kind} of {value.seconds:g} s, {number(low)} .. {number(high)}/s"
    assert is_dataclass(value)
    given = {field.name: own for field in fields(value) if (own := getattr(value, field.name)) != field.default}
    kind = given.pop("kind", getattr(value, "kind", ""))
    words = ",".join(f"{name}={_text(own)}" for name, own in given.items())
    return f"{kind}:{words}" if given else str(kind)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value:g}" if value < 1e6 else f"{value:.0f}"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """Columns of the fields that differ: heads, cells by scenario, and the paths for which there was no room."""

    heads: tuple[str, ...]
    cells: Mapping[str, tuple[str, ...]]
    left: tuple[str, ...]

    @property
    def named(self) -> str:
        """The first of the paths without a column, and how many more there are."""
        more = len(self.left) - MOST_NAMED
        return ", ".join(self.left[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def columns_of(scenarios: Sequence[Scenario], room: int) -> Columns:
    """Return columns of what differs between these scenarios, in `room` characters with the blanks between."""
    by_scenario = {scenario.name: fields_of(scenario) for scenario in scenarios}
    paths = [*HEADS, *dict.fromkeys(path for values in by_scenario.values() for path in values if path not in HEADS)]
    heads, cells, left = list[str](), {name: list[str]() for name in by_scenario}, list[str]()
    for path in paths:
        values = {name: own.get(path, NOTHING) for name, own in by_scenario.items()}
        if len(set(values.values())) < 2:
            continue
        width = max(map(len, (HEADS.get(path, path), *values.values())))
        if width + 2 > room:
            left.append(path)
            continue
        room -= width + 2
        heads.append(HEADS.get(path, path).ljust(width))
        for name, value in values.items():
            cells[name].append(value.rjust(width) if value.lstrip("-")[:1].isdigit() else value.ljust(width))
    return Columns(heads=tuple(heads), cells={name: tuple(column) for name, column in cells.items()}, left=tuple(left))
