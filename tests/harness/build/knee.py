"""Brokers of a known knee, and the scenario that looks for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perfgate.measure.assembly import Finished
from perfgate.measure.ramp import LEAST_SHARE, UNLOADED_TIMES
from perfgate.model import Load, Measurement, Round, Scenario
from tests.harness.build.rounds import flawed, one_round, scenario

MOST = 100_000.0
LEAST = MOST * LEAST_SHARE
RAMP = replace(scenario("knee"), load=Load(kind="ramp", rate=MOST))


def step(rate: float, p99_ms: float, **changes: Any) -> Round:
    """Return the round of a paced load at this rate."""
    found = one_round(1, rate)
    return flawed(found, **{"metrics": {**found.metrics, "latency_ms.p99": p99_ms}, **changes})


def brokers(knee: float, beyond: Round | None = None, *, repeatable: bool = False) -> Any:
    """Return what measures brokers of this knee; `beyond`: the round of each rate above it."""

    def measure(row: Scenario, _doing: str) -> Finished:
        assert row.load.kind == "paced"
        if row.load.rate <= knee:
            return Finished(round=step(row.load.rate, 2.0), repeatable=False)
        return Finished(round=beyond or step(row.load.rate, 2.1 * UNLOADED_TIMES), repeatable=repeatable)

    return measure


def of(found: Round) -> Measurement:
    """Return a measurement of two such rounds."""
    return Measurement(scenario=RAMP, rounds=(found, replace(found, index=2)), rtt_ms={})
