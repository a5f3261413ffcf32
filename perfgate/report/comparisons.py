"""The comparisons of run.json: written with all rounds of both sides, read again by --replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast

from perfgate.model import Change, Comparison, ComparisonOutcome, MetricEffect
from perfgate.model.errors import ConfigurationError
from perfgate.report.results import recorded_measurement, scenario_entry


def change_entry(change: Change) -> dict[str, object]:
    """Return what run.json says of the change: only what it changes."""
    entry: dict[str, object] = {"name": change.name}
    for path, value in change.changes:
        table, dot, key = path.partition(".")
        if dot:
            entry[table] = {**cast("dict[str, object]", entry.get(table, {})), key: value}
        else:
            entry[path] = value
    return entry


def comparison_entry(comparison: Comparison, outcome: ComparisonOutcome) -> dict[str, Any]:
    """Return a comparison's entry: what was found, and all that it was found from."""
    return {
        "scenario": outcome.name,
        "metric": outcome.primary.metric.name if outcome.primary else None,
        "verdict": outcome.effect.value,
        "estimate": outcome.primary.estimate if outcome.primary else None,
        "interval": list(outcome.primary.interval) if outcome.primary else None,
        "pairs": outcome.pairs,
        "units": outcome.units,
        "minutes": outcome.minutes,
        "detectable": outcome.detectable,
        "more_minutes": outcome.more_minutes,
        "unit_effects": list(outcome.unit_effects),
        "reasons": list(outcome.reasons),
        "others": [_effect_entry(other) for other in outcome.others],
        "change": comparison.change,
        "method": comparison.method,
        "rounds_per_unit": comparison.rounds_per_unit,
        "planned_units": comparison.planned_units,
        "orders": list(comparison.orders),
        "baseline": scenario_entry(comparison.baseline, None),
        "candidate": scenario_entry(comparison.candidate, None),
    }


def _effect_entry(effect: MetricEffect) -> dict[str, Any]:
    entry = asdict(effect)
    return {**entry, "metric": effect.metric.name, "interval": list(effect.interval), "worse": effect.worse}


def recorded_comparisons(document: Mapping[str, Any]) -> dict[str, Comparison]:
    """Return a recorded run's comparisons by scenario name. Raises ConfigurationError when one is damaged."""
    try:
        return {
            entry["scenario"]: Comparison(
                change=entry["change"],
                baseline=recorded_measurement(entry["baseline"]),
                candidate=recorded_measurement(entry["candidate"]),
                method=entry["method"],
                rounds_per_unit=entry["rounds_per_unit"],
                planned_units=entry["planned_units"],
                orders=tuple(entry["orders"]),
                minutes=entry["minutes"],
            )
            for entry in document["comparisons"]
        }
    except (KeyError, TypeError) as error:
        raise ConfigurationError(f"run.json is damaged: {error!r} in a comparison's entry") from error
