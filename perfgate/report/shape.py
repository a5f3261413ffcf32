"""The shape of a run.json and of a line of the history, as far as its readers rely on it; more is not looked at."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pydantic import ConfigDict, ValidationError, with_config

from perfgate.model.measured import CanaryReading
from perfgate.model.structured import adapter

READ = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)
Table = Mapping[str, Any]


@with_config(READ)
@dataclass(frozen=True, kw_only=True, slots=True)
class _Metric:
    value: float | None
    rounds: Sequence[float]


@with_config(READ)
@dataclass(frozen=True, kw_only=True, slots=True)
class _Round:
    metrics: Mapping[str, float]


@with_config(READ)
@dataclass(frozen=True, kw_only=True, slots=True)
class _Judgement:
    metric: str
    limit: float | None


@with_config(READ)
@dataclass(frozen=True, kw_only=True, slots=True)
class _Load:
    kind: str


@with_config(READ)
@dataclass(frozen=True, kw_only=True, slots=True)
class _Declared:
    cluster: Table
    fault: object


@with_config({**READ, "extra": "forbid"})
@dataclass(frozen=True, kw_only=True, slots=True)
class _Reading(CanaryReading):
    pass


@with_config(READ)
@dataclass(frozen=True, kw_only=True, slots=True)
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


@with_config(READ)
@dataclass(frozen=True, kw_only=True, slots=True)
class _Relation:
    name: str
    verdict: str


@with_config(READ)
@dataclass(frozen=True, kw_only=True, slots=True)
class _NotRun:
    name: str
    reason: str


@with_config(READ)
@dataclass(frozen=True, kw_only=True, slots=True)
class _Comparison:
    scenario: str
    verdict: str


@with_config(READ)
@dataclass(frozen=True, kw_only=True, slots=True)
class _Tier:
    name: str
    rounds: int
    window_s: float


@with_config(READ)
@dataclass(frozen=True, kw_only=True, slots=True)
class _Target:
    kind: str
    name: str
    kafka_version: str


@with_config(READ)
@dataclass(frozen=True, kw_only=True, slots=True)
class _Environment:
    cores: int
    cpu_model: str
    commit: str | None


@with_config(READ)
@dataclass(frozen=True, kw_only=True, slots=True)
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


@with_config(READ)
@dataclass(frozen=True, kw_only=True, slots=True)
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
    """Return a line of the history, which has these `figures` of each scenario as far as it has them.

    Raises ValueError with what keeps it from being read.
    """
    _check(_Line, text)
    entry: dict[str, Any] = json.loads(text, parse_constant=no_number)
    for name, row in entry["rows"].items():
        if "verdict" not in row:
            raise ValueError(f"rows.{name}.verdict: Field required")
        if wrong := [one for one in figures if not isinstance(row.get(one, 0), int | float)]:
            raise ValueError(f"rows.{name}.{wrong[0]}: Input should be a valid number")
    return entry


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
