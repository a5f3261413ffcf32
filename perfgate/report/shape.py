"""Recorded runs as their readers rely on them: run.json and lines of the history checked, older schemas brought up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NoReturn, TypeVar, dataclass_transform

from pydantic import ConfigDict, ValidationError, with_config

from perfgate.model.compared import HEARD_LATE, OUTLASTED, SATURATED, SENT_LATE, STOOD_STILL, WAITED
from perfgate.model.doubt import Doubt
from perfgate.model.flaw import EVERYTHING, Flaw, Part
from perfgate.model.measured import CanaryReading
from perfgate.model.structured import adapter

READ = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)
KINDS_IN_TEXTS = (OUTLASTED, WAITED, SATURATED, STOOD_STILL, HEARD_LATE, SENT_LATE)
"""Kinds of flaws that the text of a run of before schema 5 names."""
BEFORE_FLAWS = ("invalid", "broken", "perhaps_late", "invalid_metrics", "doubts")
Table = Mapping[str, Any]
T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def _read(kind: type[T]) -> type[T]:
    return with_config(READ)(dataclass(frozen=True, kw_only=True, slots=True)(kind))


@_read
class _Metric:
    value: float | None
    rounds: Sequence[float]


@_read
class _Round:
    metrics: Mapping[str, float]


@_read
class _Judgement:
    metric: str
    limit: float | None


@_read
class _Load:
    kind: str


@_read
class _Declared:
    cluster: Table
    fault: object


@with_config({**READ, "extra": "forbid"})
@dataclass(frozen=True, kw_only=True, slots=True)
class _Reading(CanaryReading):
    pass


@_read
class _Scenario:
    name: str
    family: str
    verdict: str | None
    reasons: Sequence[str]
    judgements: Sequence[_Judgement]
    first_look: Table | None
    metrics: Mapping[str, _Metric]
    load: _Load
    declared: _Declared
    rounds: Sequence[_Round]
    canary: Sequence[_Reading]


@_read
class _Relation:
    name: str
    verdict: str


@_read
class _NotRun:
    name: str
    reason: str


@_read
class _Comparison:
    scenario: str
    verdict: str


@_read
class _Tier:
    name: str
    rounds: int
    window_s: float


@_read
class _Target:
    kind: str
    name: str
    kafka_version: str


@_read
class _Environment:
    cores: int
    cpu_model: str
    commit: str | None


@_read
class _Run:
    run_id: str
    started: str
    finished: str
    tier: _Tier
    driver: str
    modified: Sequence[str]
    profile: str | None
    replay_of: str | None
    change: Table | None
    target: _Target
    environment: _Environment
    exit_code: int
    scenarios: Sequence[_Scenario]
    second_looks: Sequence[_Scenario]
    relations: Sequence[_Relation]
    ranges: Sequence[_Relation] = ()
    comparisons: Sequence[_Comparison]
    not_run: Sequence[_NotRun]


@_read
class _Line:
    run_id: str
    started: str
    tier: str
    driver: str
    modified: Sequence[str]
    profile: str | None
    facts: Table
    commit: str | None
    exit_code: int
    rows: Mapping[str, Table]


def check_run(text: str) -> None:
    """Raise ValueError with what keeps this run.json from being read, its key first."""
    _check(_Run, text)


def line_of(text: str, figures: Sequence[str]) -> dict[str, Any]:
    """Return a line of the history whose `figures` of a scenario, where present, are numbers. Raises ValueError."""
    _check(_Line, text)
    entry: dict[str, Any] = json.loads(text, parse_constant=no_number)
    for name, row in entry["rows"].items():
        if "verdict" not in row:
            raise ValueError(f"rows.{name}.verdict: Field required")
        if wrong := [one for one in figures if not isinstance(row.get(one, 0), int | float)]:
            raise ValueError(f"rows.{name}.{wrong[0]}: Input should be a valid number")
    return entry


def bring_to_flaws(value: Any) -> None:
    """Have every round in a run.json state its flaws as values. Raises KeyError where one lacks what was wrong."""
    if isinstance(value, list):
        for each in value:
            bring_to_flaws(each)
    elif isinstance(value, dict):
        if "accounting" in value and "warmup_s" in value and "flaws" not in value:
            old = {name: value.pop(name) for name in BEFORE_FLAWS if name in value}
            value["flaws"] = [asdict(flaw) for flaw in flaws_of(old)]
        for each in value.values():
            bring_to_flaws(each)


def flaws_of(old: Mapping[str, Any]) -> tuple[Flaw, ...]:
    """Return the flaws that a round of before schema 5 states. Raises KeyError where it lacks `invalid`."""
    invalid, broken, late = (tuple(old.get(name, ())) for name in ("invalid", "broken", "perhaps_late"))
    if not isinstance(old["invalid"], list | tuple):
        raise TypeError(f"invalid = {old['invalid']!r}")
    by_text: dict[str, list[str]] = {}
    for metric, text in dict(old.get("invalid_metrics", {})).items():
        by_text.setdefault(text, []).append(metric)
    doubts = [one if isinstance(one, Doubt) else Doubt(**one) for one in old.get("doubts", ())]
    marks = {text: (text in late, text in broken) for text in (*invalid, *broken, *late)}
    flaws = [_flaw(text, (), doubts, *marks[text]) for text in dict.fromkeys((*invalid, *broken))]
    flaws += [_flaw(text, tuple(metrics), doubts, text in late) for text, metrics in by_text.items()]
    known = {flaw.text for flaw in flaws}
    return (*flaws, *(_flaw(doubt.text, doubt.metrics, [doubt]) for doubt in doubts if doubt.text not in known))


def _flaw(
    text: str, metrics: tuple[str, ...], doubts: Iterable[Doubt], late: bool = False, broken: bool = False
) -> Flaw:
    """Return a flaw with what its doubts explain; without doubts, as in the oldest runs, it explains everything."""
    own = [doubt for doubt in doubts if doubt.text == text]
    kind = own[0].kind if own else "flaw"
    if kind in ("flaw", "turns"):
        kind = next((name for name in KINDS_IN_TEXTS if name in text), kind)
    parts = tuple(Part(factor=doubt.factor, offset=doubt.offset, metrics=doubt.metrics) for doubt in own)
    return Flaw(
        text,
        kind=kind,
        whose=own[0].whose if own else "unknown",
        metrics=metrics,
        late=late,
        broken=broken,
        explains=parts or EVERYTHING,
    )


def no_number(text: str) -> NoReturn:
    """Raise ValueError for what Python writes and JSON has no word for."""
    raise ValueError(f"{text} is no number, and no run of the gate writes one")


def _check(kind: type[Any], text: str) -> None:
    try:
        # As JSON: strictly read, a table of Python is none of these types.
        adapter(kind).validate_json(text)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, fault['loc'])) or 'it'}: {fault['msg']}") from None
