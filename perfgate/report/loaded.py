"""A recorded run as typed values, without what a later minor version added, and as a table: perfgate.load_run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform

from pydantic import ConfigDict, with_config

from perfgate.model import Effect, Verdict
from perfgate.model.errors import ConfigurationError
from perfgate.model.system import system_of
from perfgate.report.results import load_run, run_file
from perfgate.report.shape import read_as

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def _read(kind: type[T]) -> type[T]:
    """Make a frozen dataclass whose unknown keys are skipped."""
    return with_config(ConfigDict(extra="ignore"))(dataclass(frozen=True, kw_only=True, slots=True)(kind))


@_read
class Metric:
    """`value`: the centre of the rounds, in `unit`; `spread`: their standard deviation over their median."""

    value: float | None
    unit: str
    better: str
    rounds: tuple[float, ...]
    spread: float | None


@_read
class Flaw:
    """Why the numbers of a round, or only some `metrics` of it (none: all), were not judged."""

    text: str
    metrics: tuple[str, ...]


@_read
class Round:
    """One measured window of `window_s` seconds; `metrics` by name, whose unit ends the name."""

    index: int
    window_s: float
    metrics: Mapping[str, float]
    flaws: tuple[Flaw, ...]


@_read
class Scenario:
    """A scenario, what was measured of it and its verdict; None: the run ended before it was judged."""

    name: str
    family: str
    verdict: Verdict | None
    reasons: tuple[str, ...]
    metrics: Mapping[str, Metric]
    rounds: tuple[Round, ...]


@_read
class Relation:
    """A ratio of two scenarios, `of` over `over`, and its verdict; `ratio` is None where it was not measured."""

    name: str
    family: str
    metric: str
    of: str
    over: str
    verdict: Verdict
    reasons: tuple[str, ...]
    ratio: float | None
    interval: tuple[float, float] | None


@_read
class Comparison:
    """What a change does to a scenario: `estimate` is the change of `metric` as a share of 1, with its interval."""

    scenario: str
    change: str
    metric: str | None
    verdict: Effect
    estimate: float | None
    interval: tuple[float, float] | None
    reasons: tuple[str, ...]


@_read
class Tier:
    """How much was measured: `rounds` of `window_s` seconds each."""

    name: str
    rounds: int
    window_s: float


@_read
class Run:
    run_id: str
    started: datetime
    finished: datetime
    tier: Tier
    driver: str
    target: Mapping[str, Any]
    environment: Mapping[str, Any]
    modified: tuple[str, ...]
    profile: str | None
    exit_code: int
    scenarios: tuple[Scenario, ...]
    relations: tuple[Relation, ...]
    comparisons: tuple[Comparison, ...]
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """All of run.json, in the present schema."""

    def rounds(self) -> list[dict[str, object]]:
        """Return a flat dictionary of each counted round, as pandas.DataFrame takes them, with its metrics."""
        run: dict[str, object] = {
            "run_id": self.run_id,
            "started": self.started,
            "system": system_of(self.target),
            "target": self.target["kind"],
            "tier": self.tier.name,
            "driver": self.driver,
        }
        return [
            {
                **run,
                "scenario": scenario.name,
                "family": scenario.family,
                "verdict": scenario.verdict.value if scenario.verdict else None,
                "round": round_.index,
                "window_s": round_.window_s,
                "flaws": "; ".join(flaw.text for flaw in round_.flaws),
                **round_.metrics,
            }
            for scenario in self.scenarios
            for round_ in scenario.rounds
        ]


def loaded(path: Path) -> Run:
    """Return the run in this file, or in this folder of a run. Raises ConfigurationError."""
    file = run_file(path)
    document = load_run(file, "load_run")
    try:
        run = read_as(Run, json.dumps(document))
    except ValueError as error:
        raise ConfigurationError(f"load_run {file}: {error}") from None
    return replace(run, document=document)
