"""The comparisons of run.json: written with all rounds of both sides, read again by --replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast

from perfgate.model import Change, Comparison, ComparisonOutcome, Measurement
from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import redacted
from perfgate.model.structured import shallow, shared
from perfgate.report.effect_entries import EffectEntry, RecordedComparison
from perfgate.report.entries import ComparisonEntry, ReferenceEntry
from perfgate.report.results import plain, recorded, recorded_measurement, scenario_entry


def change_entry(change: Change) -> dict[str, object]:
    """Return what run.json says of the change: only what it changes."""
    entry: dict[str, object] = {"name": change.name}
    for path, value in change.changes:
        table, dot, key = path.partition(".")
        if dot:
            entry[table] = {**cast("dict[str, object]", entry.get(table, {})), key: value}
        else:
            entry[path] = value
    if change.on_pairs:
        entry["pairs"] = True
    if change.commands:
        entry["commands"] = {
            name: redacted(text) for name, text in asdict(change.commands).items() if text and isinstance(text, str)
        }
    return entry


def comparison_entry(comparison: Comparison, outcome: ComparisonOutcome) -> dict[str, Any]:
    """Return a comparison's entry: what was found, and all that it was found from."""
    primary = outcome.primary
    found = {
        **shared(ComparisonEntry, outcome, comparison),
        "scenario": outcome.name,
        "metric": primary.metric.name if primary else None,
        "verdict": outcome.effect,
        "estimate": primary.estimate if primary else None,
        "interval": primary.interval if primary else None,
        "others": [EffectEntry(**{**shared(EffectEntry, one), "metric": one.metric.name}) for one in outcome.others],
        "baseline": scenario_entry(comparison.baseline, None),
        "candidate": scenario_entry(comparison.candidate, None),
    }
    return plain(ComparisonEntry(**found))


def reference_entry(comparison: Comparison) -> dict[str, Any]:
    """Return the entry of the reference that a scenario was measured beside; the scenario has one of its own."""
    found = {
        **shared(ReferenceEntry, comparison),
        "scenario": comparison.scenario.name,
        "measured": scenario_entry(comparison.baseline, None),
    }
    return plain(ReferenceEntry(**found))


def recorded_references(document: Mapping[str, Any], measured: Mapping[str, Measurement]) -> dict[str, Comparison]:
    """Return a recorded run's comparisons of the reference with what was `measured`, by scenario name.

    Raises ConfigurationError when one is damaged.
    """
    try:
        return {
            entry["scenario"]: Comparison(
                baseline=recorded_measurement(entry["measured"]),
                candidate=measured[entry["scenario"]],
                **shallow(recorded(RecordedComparison, entry, f"reference of {entry['scenario']!r}:")),
            )
            for entry in document.get("references", ())
        }
    except (KeyError, TypeError) as error:
        raise ConfigurationError(f"run.json is damaged: {error!r} in a reference's entry") from error


def recorded_comparisons(document: Mapping[str, Any]) -> dict[str, Comparison]:
    """Return a recorded run's comparisons by scenario name. Raises ConfigurationError when one is damaged."""
    try:
        return {
            entry["scenario"]: Comparison(
                baseline=recorded_measurement(entry["baseline"]),
                candidate=recorded_measurement(entry["candidate"]),
                **shallow(recorded(RecordedComparison, entry, f"comparison of {entry['scenario']!r}:")),
            )
            for entry in document["comparisons"]
        }
    except (KeyError, TypeError) as error:
        raise ConfigurationError(f"run.json is damaged: {error!r} in a comparison's entry") from error
