"""run.json, written at the end of a run and read again by --replay. The schema is docs/run.schema.json."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from perfgate.judge.statistics import spread
from perfgate.judge.thresholds import profile_facts
from perfgate.model import (
    Change,
    Comparison,
    ComparisonOutcome,
    FaultScenario,
    Link,
    Load,
    Measurement,
    Outcome,
    PairRelation,
    RangeRelation,
    Reading,
    Relation,
    Round,
    Scenario,
    Verdict,
    metric_info,
)
from perfgate.model.declared import LINKS
from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import masked, redacted
from perfgate.model.structured import adapter, shallow, shared, structured
from perfgate.model.summary import metric_value
from perfgate.report.entries import (
    SCHEMA,
    STATED,
    AccountingEntry,
    ComparisonEntry,
    Declared,
    EffectEntry,
    FirstLook,
    LinkEntry,
    LoadEntry,
    MetricEntry,
    RangeEntry,
    RangeStepEntry,
    Recorded,
    RecordedComparison,
    ReferenceEntry,
    RelationEntry,
    RunFacts,
    ScenarioEntry,
)
from perfgate.report.shape import RUN, bring_to_flaws, bring_to_systems, check_release, no_number, read_as

T = TypeVar("T")
READABLE = (3, 4, 5, 6, SCHEMA)
"""Schemas that can be judged again: what was added since 3 is empty in a recording that lacks it."""
LARGEST = ("cpu_cores", "busiest_thread_cores", "rss_mib", "schedule_delay_p99_ms", "wake_delay_p99_ms")
"""Figures of the generator whose largest value over the rounds is recorded."""


def run_document(
    facts: RunFacts,
    measured: Sequence[tuple[Measurement, Outcome | None]],
    relations: Sequence[tuple[Relation, Outcome]],
    not_run: Sequence[tuple[str, str]],
    comparisons: Sequence[Mapping[str, Any]],
    measured_again: Sequence[Measurement],
    baselines: Mapping[tuple[str, str], Measurement],
    references: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return run.json as an object that JSON can hold, see :func:`finite`."""
    document = {
        "schema": SCHEMA,
        **plain(facts),
        "scenarios": _with_each_log_once([scenario_entry(measurement, outcome) for measurement, outcome in measured]),
        "relations": [
            plain(RelationEntry(**_of_relation(RelationEntry, each, outcome), **_ratio(outcome)))
            for each, outcome in relations
            if isinstance(each, PairRelation)
        ],
        "ranges": [_range_entry(each, outcome) for each, outcome in relations if isinstance(each, RangeRelation)],
        "second_looks": [scenario_entry(measurement, None) for measurement in measured_again],
        "baselines": baseline_entries(baselines),
        "comparisons": list(comparisons),
        "references": list(references),
        "not_run": [{"name": name, "reason": reason} for name, reason in not_run],
    }
    return cast("dict[str, Any]", finite(document))


def finite(value: Any) -> Any:
    """Return the JSON value with null for a figure that is not finite and for an interval with such an end."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {name: None if _open_ended(name, each) else finite(each) for name, each in value.items()}


def _open_ended(name: str, value: Any) -> bool:
    ends = value if name.endswith("interval") and isinstance(value, list | tuple) else ()
    return any(isinstance(end, float) and not math.isfinite(end) for end in ends)


def write_run(document: Mapping[str, Any], path: Path) -> None:
    """Write run.json whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(masked(document), indent=1, allow_nan=False) + "\n")
    part.replace(path)


def without_histograms(entry: object) -> str:
    """Return an entry as JSON without its encoded histograms: half of its bytes, and nothing that a person reads."""

    def kept(part: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in part.items() if not name.endswith("_histogram")}

    return json.dumps(json.loads(json.dumps(entry), object_hook=kept), separators=(",", ":"))


def scenario_entry(measurement: Measurement, outcome: Outcome | None) -> dict[str, Any]:
    scenario, rounds, link = measurement.scenario, measurement.rounds, measurement.scenario.link
    needs_no_log = outcome and (outcome.verdict.green or outcome.verdict is Verdict.MISSING)
    unjudged = {"verdict": None, "reasons": ("measured, but not judged: the run ended before",), "judgements": ()}
    entry: dict[str, Any] = {
        **(shared(ScenarioEntry, outcome) if outcome else unjudged),
        **shared(ScenarioEntry, scenario, measurement),
        "family": scenario.families[0],
        "metrics": _metrics(measurement),
        "accounting": summed_accounting(rounds),
        "load": LoadEntry(**shallow(scenario.load), latency_basis=cast("Any", measurement.latency_basis)),
        "link": LinkEntry(name=link.name, rtt_ms=measurement.rtt_ms.get(link.name)),
        "generator": extremes(rounds),
        "reading": summed_reading(rounds),
        "first_look": _first_look(outcome),
        "official_command": measurement.by_hand,
        "declared": Declared(added_rtt_ms=link.added_rtt_ms, **shared(Declared, scenario)),
        "discarded_rounds": measurement.discarded,
        "warm_up_rounds": measurement.warm_up,
        "broker_log_tail": "" if needs_no_log else measurement.broker_log_tail,
    }
    return plain(ScenarioEntry(**entry))


def _with_each_log_once(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries; of scenarios with the same log, that of their cluster, only the first keeps it."""
    holder: dict[str, str] = {}
    for entry in entries:
        if tail := entry["broker_log_tail"]:
            first = holder.setdefault(tail, entry["name"])
            entry["broker_log_tail"] = tail if first == entry["name"] else f"(that of {first})"
    return entries


def baseline_entries(baselines: Mapping[tuple[str, str], Measurement]) -> list[dict[str, Any]]:
    """Return the entries of scenarios measured once more with another family, by that family and their name."""
    return [{**scenario_entry(measurement, None), "beside": family} for (family, _), measurement in baselines.items()]


def change_entry(change: Change) -> dict[str, object]:
    """Return only what the change changes."""
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
    primary = outcome.primary
    entry = {
        **shared(ComparisonEntry, outcome, comparison),
        "scenario": outcome.name,
        "metric": primary.metric.name if primary else None,
        "verdict": outcome.effect,
        "estimate": primary.estimate if primary else None,
        "interval": primary.interval if primary else None,
        "others": [EffectEntry(**{**shared(EffectEntry, o), "metric": o.metric.name}) for o in outcome.others],
        "baseline": scenario_entry(comparison.baseline, None),
        "candidate": scenario_entry(comparison.candidate, None),
    }
    return plain(ComparisonEntry(**entry))


def reference_entry(comparison: Comparison) -> dict[str, Any]:
    """Return the entry of the reference that a scenario was measured with; the scenario has its own."""
    entry = shared(ReferenceEntry, comparison)
    entry |= {"scenario": comparison.scenario.name, "measured": scenario_entry(comparison.baseline, None)}
    return plain(ReferenceEntry(**entry))


def plain(entry: Any) -> dict[str, Any]:
    """Return an entry as JSON has it. A value of another type than stated is written as it is."""
    return dict(adapter(type(entry)).dump_python(entry, mode="json", warnings=False))


def summed_accounting(rounds: Sequence[Round]) -> AccountingEntry:
    failed = Counter[str]()
    for r in rounds:
        failed.update(r.accounting.failed)
    names = ("attempted", "acked", "unresolved", "withdrawn", "markers", "offset_delta")
    totals = {name: sum(getattr(r.accounting, name) for r in rounds) for name in names}
    return AccountingEntry(**totals, failed=failed.total(), failed_by_code=failed)


def summed_reading(rounds: Sequence[Round]) -> Reading | None:
    readings = [shallow(r.reading) for r in rounds if r.reading]
    return Reading(**{name: sum(reading[name] for reading in readings) for name in readings[0]}) if readings else None


def extremes(rounds: Sequence[Round]) -> dict[str, float | None]:
    """Return the generator's own figures at their worst; None where no round has them."""
    reports = [shallow(r.generator) for r in rounds if r.generator]
    worst: dict[str, float | None] = {}
    for name, extreme in (("pushback_share", min), *((name, max) for name in LARGEST)):
        values = [report[name] for report in reports if report[name] is not None]
        worst[f"{name}_{extreme.__name__}"] = extreme(values, default=None)
    return worst


class OtherSchemaError(ConfigurationError):
    """A run.json of a schema version that is not read any more, or not yet."""


def load_run(path: Path, option: str = "--replay") -> dict[str, Any]:
    """Return a recorded run.json, or that of a run's folder, in the present schema. Raises ConfigurationError."""
    path = run_file(path)
    try:
        text = path.read_bytes().decode()
        document: Any = json.loads(text, parse_constant=no_number)
    except FileNotFoundError:
        raise ConfigurationError(
            f"{option} {path}: no such file; a run is recorded in results/<run-id>/run.json"
        ) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"{option} {path}, line {line}: {error}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{option} {path}: {error}") from error
    version = document.get("schema") if isinstance(document, dict) else None
    if version not in READABLE:
        legal = " or ".join(map(str, READABLE))
        other = OtherSchemaError if isinstance(version, int) else ConfigurationError
        raise other(f"{option} {path}: schema {version!r} is not a run.json of schema {legal}")
    try:
        if version < 4:
            # The canary was another: SHA-256, which some processors have instructions for.
            for entry in (*document["scenarios"], *document["second_looks"]):
                entry["canary"] = []
        if version < 5:
            bring_to_flaws(document)
        if version < 6:
            bring_to_systems(document)
        if version != SCHEMA:
            document["schema"] = SCHEMA
            text = json.dumps(document)
        read_as(RUN, text)
        check_release(document["target"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{option} {path} is damaged: {error}") from None
    return dict(document)


def run_file(path: Path) -> Path:
    return path / "run.json" if path.is_dir() else path


def run_files(results: Path) -> list[Path]:
    """Return run.json of each run in this folder, the oldest first, without links to a run (results/latest)."""
    return [path for path in sorted(results.glob("*/run.json")) if not path.parent.is_symlink()]


@cache
def note_once(text: str) -> None:
    """Write a note to stderr, unless this process has."""
    print(f"note: {text}", file=sys.stderr)


def recorded_runs(files: Iterable[Path], note: Callable[[str], None] = note_once) -> Iterator[dict[str, Any]]:
    """Return the runs of these files without those of another schema, and without damaged ones, which `note` names."""
    for path in files:
        try:
            yield load_run(path, "skipped")
        except OtherSchemaError:
            continue
        except ConfigurationError as error:
            note(str(error))


def recorded_facts(document: Mapping[str, Any]) -> dict[str, str]:
    return profile_facts(document["target"], document["environment"], document["tier"], document["driver"])


def recorded_shares_cores(document: Mapping[str, Any]) -> bool:
    """Whether brokers and clients of a recorded run shared the cores of one machine."""
    return bool(document["target"].get("shares_cores", document["target"]["kind"] != "brokers"))


def recorded_measurements(document: Mapping[str, Any], *, again: bool = False) -> dict[str, Measurement]:
    """Return a recorded run's measurements by scenario, or its confirmation runs. Raises ConfigurationError."""
    with _damaged_in("a scenario"):
        entries = document["second_looks"] if again else document["scenarios"]
        return {entry["name"]: recorded_measurement(entry) for entry in entries}


def recorded_baselines(document: Mapping[str, Any]) -> dict[tuple[str, str], Measurement]:
    """Return scenarios measured once more, by that other family and their name. Raises ConfigurationError."""
    with _damaged_in("a baseline"):
        return {(e["beside"], e["name"]): recorded_measurement(e) for e in document.get("baselines", ())}


def recorded_references(document: Mapping[str, Any], measured: Mapping[str, Measurement]) -> dict[str, Comparison]:
    """Return comparisons of the reference with what was `measured`, by scenario. Raises ConfigurationError."""
    with _damaged_in("a reference"):
        return {
            e["scenario"]: _comparison("reference", e, e["measured"], measured[e["scenario"]])
            for e in document.get("references", ())
        }


def recorded_comparisons(document: Mapping[str, Any]) -> dict[str, Comparison]:
    """Return a recorded run's comparisons by scenario. Raises ConfigurationError."""
    with _damaged_in("a comparison"):
        return {
            e["scenario"]: _comparison("comparison", e, e["baseline"], recorded_measurement(e["candidate"]))
            for e in document["comparisons"]
        }


def _comparison(what: str, entry: Mapping[str, Any], baseline: Mapping[str, Any], candidate: Measurement) -> Comparison:
    kept = recorded(RecordedComparison, entry, f"{what} of {entry['scenario']!r}:")
    return Comparison(baseline=recorded_measurement(baseline), candidate=candidate, **shallow(kept))


@contextmanager
def _damaged_in(what: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError) as error:
        raise ConfigurationError(f"run.json is damaged: {error!r} in {what}'s entry") from error


def recorded_measurement(entry: Mapping[str, Any]) -> Measurement:
    """Return the measurement of a scenario's entry. Raises ConfigurationError or KeyError if the entry is damaged."""
    _check_stated(entry)
    kept = recorded(Recorded, entry, f"scenario {entry['name']!r}:")
    declared = shallow(kept.declared)
    load = Load(**shared(Load, kept.load))
    link = Link(name=kept.link.name, added_rtt_ms=declared.pop("added_rtt_ms"), near=LINKS[kept.link.name].near)
    fault = declared.pop("fault")
    scenario = Scenario(**{**shared(Scenario, kept), **declared, "load": load, "link": link})
    return Measurement(
        **shared(Measurement, kept),
        scenario=FaultScenario.of(scenario, fault) if fault else scenario,
        discarded=kept.discarded_rounds,
        warm_up=kept.warm_up_rounds,
        latency_basis=kept.load.latency_basis,
        by_hand=kept.official_command,
    )


def _check_stated(entry: Mapping[str, Any]) -> None:
    """Raise KeyError where an entry lacks what a default must not stand in for."""
    declared = entry["declared"]
    rounds = [*entry["rounds"], *entry["discarded_rounds"], *entry.get("one_host_fewer", ())]
    stating = {
        "Round": rounds,
        "Accounting": [r["accounting"] for r in rounds],
        "ClusterSpec": [declared["cluster"]],
        "TopicSpec": [declared["topic"]],
        "Consumers": [declared["consumers"]] if declared["consumers"] else [],
        "LoadEntry": [entry["load"]],
    }
    for name, keys in STATED.items():
        for key in keys:
            _ = [part[key] for part in stating[name]]


def recorded(kind: type[T], entry: Mapping[str, Any], where: str) -> T:
    """Return the part of an entry that a `kind` states. Raises ConfigurationError if it is damaged."""
    names = [field.name for field in fields(cast("Any", kind))]
    return structured(kind, {name: entry[name] for name in names if name in entry}, f"run.json is damaged: {where}")


def _first_look(outcome: Outcome | None) -> FirstLook | None:
    first = outcome.first_look if outcome else None
    return FirstLook(verdict=first.verdict, judgements=first.judgements) if first else None


def _metrics(measurement: Measurement) -> dict[str, MetricEntry]:
    names = dict.fromkeys(name for r in measurement.rounds for name in r.metrics)
    entries = {}
    for name in names:
        info, value = metric_info(name), metric_value(measurement, name)
        assert info is not None, f"metric {name} is not in the catalogue"
        values = tuple(r.metrics[name] for r in measurement.rounds if name in r.metrics)
        around = spread(values) if len(values) > 1 else None
        entries[name] = MetricEntry(value=value, unit=info.unit, better=info.better, rounds=values, spread=around)
    return entries


def _range_entry(relation: RangeRelation, outcome: Outcome) -> dict[str, Any]:
    steps = tuple(
        RangeStepEntry(**{**shared(RangeStepEntry, pair, step), **_ratio(step)})
        for pair, step in zip(relation.steps, outcome.steps, strict=True)
    )
    return plain(RangeEntry(**{**_of_relation(RangeEntry, relation, outcome), "steps": steps}))


def _of_relation(kind: Any, relation: Relation, outcome: Outcome) -> dict[str, Any]:
    stated = {"metric": relation.metric.name, "first_look": _first_look(outcome)}
    return {**shared(kind, relation, outcome), **stated}


def _ratio(outcome: Outcome) -> dict[str, Any]:
    if not outcome.judgements:
        return dict.fromkeys(("ratio", "interval", "spread"))
    judgement = outcome.judgements[0]
    return {"ratio": judgement.measured, "interval": judgement.interval, "spread": judgement.spread}
