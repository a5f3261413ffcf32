"""A/A pairs for a profile, from comparisons without a change, written only with --accept: ``kafka-perf-gate pairs``."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import tomlkit

from perfgate.judge.besides import NOT_THE_SAME_READ
from perfgate.judge.phrases import percent
from perfgate.judge.rounds import spoilt
from perfgate.judge.thresholds import ENOUGH_PAIRS, match_profile
from perfgate.judge.units import unit_logs
from perfgate.model import DECIDES_PACED, Comparison, RecordedPairs
from perfgate.model.command import command_line
from perfgate.model.compared import declared_digest
from perfgate.model.errors import ConfigurationError
from perfgate.model.judged import UNSOUND
from perfgate.report.folder_options import ACCEPT, RESULTS, THRESHOLDS, in_changelog, profiles_in, words_given
from perfgate.report.proposal import suggested_name, text_in, with_profile
from perfgate.report.results import note_once, recorded_comparisons, recorded_facts, recorded_runs, run_files

KEPT = ("records_per_s", "broker_cpu_us_per_record", DECIDES_PACED, *NOT_THE_SAME_READ)
"""Metrics that decide comparisons and are judged against a reference."""
COMPARES_NOTHING = "changes/nothing-on-pairs.toml"
NOTHING = {"name", "budget_s", "pairs"}
"""Keys in run.json of such a change."""

PairsByScenario = dict[str, dict[str, RecordedPairs]]
"""By scenario and metric."""


def of_nothing(run: Mapping[str, Any]) -> bool:
    """Whether a run compared scenarios as declared with themselves, on pairs of clusters."""
    change = run.get("change") or {}
    return bool(change.get("pairs")) and set(change) <= NOTHING and not run["modified"] and not run["replay_of"]


def _whole(run: Mapping[str, Any]) -> bool:
    try:
        recorded_comparisons(run)
    except ConfigurationError as error:
        note_once(f"skipped run {run['run_id']}: {error}")
        return False
    return True


def pairs_of(runs: Sequence[Mapping[str, Any]]) -> PairsByScenario:
    """Return the differences of pairs in these runs of a tier, oldest first, of pairs that were measured alike."""
    by_scenario: PairsByScenario = {}
    for run in sorted(runs, key=lambda run: str(run["run_id"])):
        sound = {entry["scenario"] for entry in run["comparisons"] if entry["verdict"] not in UNSOUND}
        for name, comparison in recorded_comparisons(run).items():
            if name not in sound or comparison.method != "pairs":
                continue
            for metric, effects in _effects(comparison).items():
                kept = by_scenario.setdefault(name, {}).get(metric)
                pairs = RecordedPairs(
                    metric=metric,
                    rounds_per_unit=comparison.rounds_per_unit,
                    effects=effects,
                    window_s=_window_s(comparison, float(run["tier"]["window_s"])),
                    declared=declared_digest(comparison.scenario),
                )
                if kept and replace(kept, effects=effects) == pairs:
                    pairs = replace(kept, effects=(*kept.effects, *effects))
                by_scenario[name][metric] = pairs
    return by_scenario


def _window_s(comparison: Comparison, tier_s: float) -> float:
    """Return the median length of the rounds, in s, which may exceed the tier's; of turns the tier's."""
    in_blocks = comparison.rounds_per_unit > len(comparison.orders[0].split())
    return round(statistics.median(r.window_s for r in comparison.baseline.rounds), 3) if in_blocks else tier_s


def _effects(comparison: Comparison) -> dict[str, tuple[float, ...]]:
    sides = (comparison.baseline, comparison.candidate)
    logs = {name: unit_logs(comparison, name) for name in KEPT if not any(spoilt(m, name) for m in sides)}
    return {name: tuple(round(value, 5) for value in values) for name, values in logs.items() if values}


def with_pairs(text: str, facts: Mapping[str, str], pairs_by_scenario: PairsByScenario, run_ids: Sequence[str]) -> str:
    """Return the thresholds file `text` with these pairs instead of those of the same scenarios; all else stays."""
    document = with_profile(text, facts)
    table = document.setdefault("pairs", tomlkit.table(is_super_table=True))
    for name, by_metric in pairs_by_scenario.items():
        table[name] = tomlkit.table()
        for metric, pairs in by_metric.items():
            table[name][metric] = entry = tomlkit.inline_table()
            window = {"window_s": pairs.window_s} if pairs.window_s else {}
            size, declared = pairs.rounds_per_unit, pairs.declared
            entry.update({"rounds_per_unit": size, **window, "declared": declared, "effects": list(pairs.effects)})
    today = datetime.now(UTC).date().isoformat()
    return tomlkit.dumps(document).rstrip() + f"\n\n# {today}: A/A pairs of {', '.join(sorted(run_ids))}\n"


@click.command(epilog="Example: kafka-perf-gate pairs --accept")
@RESULTS
@THRESHOLDS
@ACCEPT
def command(results: Path, thresholds: Path, accept: bool) -> int:
    """Show by what recorded pairs of like clusters differ (A/A).

    With them stored, fewer pairs decide a comparison.
    """
    try:
        return _show(results, thresholds, accept=accept)
    except (ConfigurationError, OSError) as error:
        print(f"no pairs: {error}", file=sys.stderr)
        return 2


def _show(results: Path, thresholds: Path, *, accept: bool) -> int:
    runs = [run for run in recorded_runs(run_files(results)) if of_nothing(run) and _whole(run)]
    measures = command_line("compare", COMPARES_NOTHING)
    if not runs:
        raise ConfigurationError(
            f"{results} holds no run that compared nothing on pairs of clusters: {measures} makes one"
        )
    newest = max(runs, key=lambda run: str(run["run_id"]))
    facts = recorded_facts(newest)
    alike = [run for run in runs if recorded_facts(run) == facts and run["tier"] == newest["tier"]]
    ids = [str(run["run_id"]) for run in alike]
    print(f"{len(alike)} run(s): {', '.join(f'{key} {value}' for key, value in facts.items())}")
    enough: PairsByScenario = {}
    for name, by_metric in pairs_of(alike).items():
        for metric, pairs in by_metric.items():
            few = "" if len(pairs.effects) >= ENOUGH_PAIRS else f"; too few: {ENOUGH_PAIRS} are needed"
            scatter = math.sqrt(statistics.fmean(effect**2 for effect in pairs.effects))
            print(f"{name:<14}{metric:<28}{len(pairs.effects):>4} pairs, {percent(scatter)}{few}")
            if not few:
                enough.setdefault(name, {})[metric] = pairs
    if not enough:
        print(f"too few pairs: {measures} again, with a longer --budget")
        return 1
    profiles = profiles_in(thresholds)
    used = match_profile(profiles, facts)
    path = thresholds / f"{used.name if used else suggested_name(facts, profiles)}.toml"
    if not accept:
        print(f"nothing was written; to write {path}: {command_line('pairs', *words_given(), '--accept')}")
        return 0
    thresholds.mkdir(exist_ok=True)
    path.write_text(with_pairs(text_in(path), facts, enough, ids), encoding="utf-8")
    print(f"written: {path}; say so in the commit{in_changelog().removesuffix(',')}")
    return 0
