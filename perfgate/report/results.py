"""run.json: written once at the end, read again by --replay. The schema is docs/run.schema.json."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from perfgate.judge.statistics import spread
from perfgate.model import (
    Accounting,
    CanaryReading,
    ClusterSpec,
    Consumers,
    Failover,
    Fault,
    GeneratorReport,
    Judgement,
    Keys,
    Link,
    Load,
    Measurement,
    Outcome,
    Payload,
    Reading,
    Relation,
    Round,
    Scenario,
    TopicSpec,
    metric_info,
    settings,
)
from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import masked
from perfgate.model.summary import metric_value

SCHEMA = 4
READABLE = (3, SCHEMA)
"""Versions that can be judged again: what was added since 3 is empty in a recording that lacks it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFacts:
    """What run.json says of the run as a whole."""

    run_id: str
    started: str
    finished: str
    tier: Mapping[str, object]
    driver: str
    modified: Sequence[str]
    profile: str | None
    replay_of: str | None
    change: Mapping[str, object] | None
    target: Mapping[str, object]
    environment: Mapping[str, object]
    time: Mapping[str, object]
    left_behind: tuple[str, ...]
    exit_code: int


def run_document(
    facts: RunFacts,
    measured: Sequence[tuple[Measurement, Outcome | None]],
    relations: Sequence[tuple[Relation, Outcome]],
    not_run: Sequence[tuple[str, str]],
    comparisons: Sequence[Mapping[str, Any]] = (),
    measured_again: Sequence[Measurement] = (),
) -> dict[str, Any]:
    """Return run.json as an object."""
    return {
        "schema": SCHEMA,
        **_plain(asdict(facts)),
        "scenarios": [scenario_entry(measurement, outcome) for measurement, outcome in measured],
        "relations": [_relation_entry(relation, outcome) for relation, outcome in relations],
        "second_looks": [scenario_entry(measurement, None) for measurement in measured_again],
        "comparisons": list(comparisons),
        "not_run": [{"name": name, "reason": reason} for name, reason in not_run],
    }


def write_run(document: Mapping[str, Any], path: Path) -> None:
    """Write run.json whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(masked(document), indent=1, allow_nan=False) + "\n")
    part.replace(path)


def scenario_entry(measurement: Measurement, outcome: Outcome | None) -> dict[str, Any]:
    """Return a scenario's entry: what it declares, what was measured, what was judged."""
    scenario = measurement.scenario
    rounds = measurement.rounds
    return {
        "name": scenario.name,
        "summary": scenario.summary,
        "family": scenario.families[0],
        "families": list(scenario.families),
        "factor": dict(scenario.factor),
        "verdict": outcome.verdict.value if outcome else None,
        "reasons": list(outcome.reasons) if outcome else ["measured, but not judged: the run ended before"],
        "judgements": [_judgement_entry(judgement) for judgement in outcome.judgements] if outcome else [],
        "metrics": _metrics(measurement),
        "accounting": _summed_accounting(rounds),
        "load": {**asdict(scenario.load), "latency_basis": measurement.latency_basis},
        "link": {"name": scenario.link.name, "rtt_ms": measurement.rtt_ms.get(scenario.link.name)},
        "rtt_ms": dict(measurement.rtt_ms),
        "generator": _generator(rounds),
        "reading": _summed_reading(rounds),
        "canary": [asdict(reading) for reading in measurement.canary],
        "first_look": _first_look(outcome.first_look if outcome else None),
        "official_command": measurement.by_hand,
        "declared": {
            "cluster": {**_plain(asdict(scenario.cluster)), "config": dict(scenario.cluster.config)},
            "topic": {**asdict(scenario.topic), "config": dict(scenario.topic.config)},
            "producer": dict(scenario.producer),
            "record_bytes": scenario.record_bytes,
            "producers": scenario.producers,
            "threads": scenario.threads,
            "payload": asdict(scenario.payload),
            "keys": asdict(scenario.keys),
            "consumers": _consumers_entry(scenario.consumers),
            "added_rtt_ms": scenario.link.added_rtt_ms,
            "fault": asdict(scenario.fault) if scenario.fault else None,
        },
        "rounds": [_plain(asdict(r)) for r in rounds],
        "discarded_rounds": [_plain(asdict(r)) for r in measurement.discarded],
        "warm_up_rounds": [_plain(asdict(r)) for r in measurement.warm_up],
        "warming": measurement.warming,
        "broker_log_tail": measurement.broker_log_tail if _failed(outcome) else "",
    }


def _failed(outcome: Outcome | None) -> bool:
    return outcome is None or not outcome.verdict.green


def load_run(path: Path) -> dict[str, Any]:
    """Return a recorded run.json. Raises ConfigurationError when it is none, or of another schema version."""
    if not path.is_file():
        raise ConfigurationError(f"--replay {path}: no such file; a run is recorded in results/<run-id>/run.json")
    try:
        document: Any = json.loads(path.read_text(), parse_constant=_no_number)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--replay {path}: {error}") from error
    found = document.get("schema") if isinstance(document, dict) else None
    if found not in READABLE:
        legal = " or ".join(map(str, READABLE))
        raise ConfigurationError(f"--replay {path}: schema {found!r} is not a run.json of schema {legal}")
    if found != SCHEMA:
        # Before schema 4 the canary was another one, SHA-256, which some processors have instructions for.
        for entry in (*document["scenarios"], *document["second_looks"]):
            entry["canary"] = []
    return dict(document)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number, and no run of the gate writes one")


def recorded_shares_cores(document: Mapping[str, Any]) -> bool:
    """Return whether brokers and clients of a recorded run shared the cores of one machine."""
    return bool(document["target"].get("shares_cores", document["target"]["kind"] != "brokers"))


def recorded_measurements(document: Mapping[str, Any], *, again: bool = False) -> dict[str, Measurement]:
    """Return the measurements of a recorded run by scenario name, or those of its confirmation runs.

    Raises ConfigurationError when one is damaged.
    """
    try:
        entries = document["second_looks"] if again else document["scenarios"]
        return {entry["name"]: recorded_measurement(entry) for entry in entries}
    except (KeyError, TypeError) as error:
        raise ConfigurationError(f"run.json is damaged: {error!r} in a scenario's entry") from error


def recorded_measurement(entry: Mapping[str, Any]) -> Measurement:
    """Return the measurement that a scenario's entry holds. Raises KeyError or TypeError when it is damaged."""
    declared = entry["declared"]
    scenario = Scenario(
        name=entry["name"],
        summary=entry["summary"],
        families=tuple(entry["families"]),
        factor=settings(entry["factor"]),
        topic=TopicSpec(**{**declared["topic"], "config": settings(declared["topic"]["config"])}),
        producer=settings(declared["producer"]),
        record_bytes=declared["record_bytes"],
        load=Load(**{name: entry["load"][name] for name in ("kind", "rate", "records")}),
        producers=declared["producers"],
        threads=declared["threads"],
        payload=Payload(**declared["payload"]),
        keys=Keys(**declared["keys"]),
        consumers=_recorded_consumers(declared["consumers"]),
        link=Link(name=entry["link"]["name"], added_rtt_ms=declared["added_rtt_ms"]),
        cluster=_recorded_cluster(declared["cluster"]),
        fault=Fault(**declared["fault"]) if declared.get("fault") else None,
    )
    return Measurement(
        scenario=scenario,
        rounds=tuple(_round(r) for r in entry["rounds"]),
        discarded=tuple(_round(r) for r in entry["discarded_rounds"]),
        warm_up=tuple(_round(r) for r in entry.get("warm_up_rounds", ())),
        warming=entry.get("warming", ""),
        rtt_ms=entry["rtt_ms"],
        latency_basis=entry["load"]["latency_basis"],
        by_hand=entry.get("official_command", ""),
        broker_log_tail=entry["broker_log_tail"],
        canary=tuple(CanaryReading(**reading) for reading in entry["canary"]),
    )


def _first_look(outcome: Outcome | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    return {"verdict": outcome.verdict.value, "judgements": [_judgement_entry(j) for j in outcome.judgements]}


def _recorded_cluster(entry: Mapping[str, Any]) -> ClusterSpec:
    changes = {"config": settings(entry["config"]), "jvm_options": tuple(entry["jvm_options"])}
    return ClusterSpec(**{**entry, **changes})


def _consumers_entry(consumers: Consumers | None) -> dict[str, Any] | None:
    return {**asdict(consumers), "config": dict(consumers.config)} if consumers else None


def _recorded_consumers(entry: Mapping[str, Any] | None) -> Consumers | None:
    return Consumers(**{**entry, "config": settings(entry["config"])}) if entry else None


def _round(entry: Mapping[str, Any]) -> Round:
    generator = entry["generator"]
    values = {
        **entry,
        "accounting": Accounting(**{**entry["accounting"], "partitions": _pairs(entry["accounting"]["partitions"])}),
        "generator": GeneratorReport(**generator) if generator else None,
        "reading": Reading(**entry["reading"]) if entry["reading"] else None,
        "failover": _failover(entry["failover"]) if entry.get("failover") else None,
        "invalid": tuple(entry["invalid"]),
        "broken": tuple(entry.get("broken", ())),
        "perhaps_late": tuple(entry.get("perhaps_late", ())),
    }
    return Round(**values)


def _failover(entry: Mapping[str, Any]) -> Failover:
    return Failover(**{name: _tuples(value) for name, value in entry.items()})


def _tuples(value: Any) -> Any:
    """Return `value` with its lists as tuples, inside objects too."""
    if isinstance(value, Mapping):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _pairs(lists: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    return tuple((first, second) for first, second in lists)


def _metrics(measurement: Measurement) -> dict[str, Any]:
    names = dict.fromkeys(name for r in measurement.rounds for name in r.metrics)
    entries = {}
    for name in names:
        info, value = metric_info(name), metric_value(measurement, name)
        assert info is not None, f"metric {name} is not in the catalogue"
        values = [r.metrics[name] for r in measurement.rounds if name in r.metrics]
        entries[name] = {
            "value": value,
            "unit": info.unit,
            "better": info.better,
            "rounds": values,
            "spread": spread(values) if len(values) > 1 and statistics.median(values) else None,
        }
    return entries


def _summed_accounting(rounds: Sequence[Round]) -> dict[str, Any]:
    failed: dict[str, int] = {}
    for r in rounds:
        for code, count in r.accounting.failed.items():
            failed[code] = failed.get(code, 0) + count
    totals = {
        name: sum(getattr(r.accounting, name) for r in rounds)
        for name in ("attempted", "acked", "unresolved", "withdrawn", "offset_delta")
    }
    return {**totals, "failed": sum(failed.values()), "failed_by_code": failed}


def _summed_reading(rounds: Sequence[Round]) -> dict[str, int] | None:
    readings = [asdict(r.reading) for r in rounds if r.reading]
    return {name: sum(reading[name] for reading in readings) for name in readings[0]} if readings else None


def _generator(rounds: Sequence[Round]) -> dict[str, Any]:
    reports = [r.generator for r in rounds if r.generator]
    delays = [report.schedule_delay_p99_ms for report in reports if report.schedule_delay_p99_ms is not None]
    wakes = [report.wake_delay_p99_ms for report in reports if report.wake_delay_p99_ms is not None]
    return {
        "cpu_cores_max": max((report.cpu_cores for report in reports), default=None),
        "busiest_thread_cores_max": max((report.busiest_thread_cores for report in reports), default=None),
        "rss_mib_max": max((report.rss_mib for report in reports), default=None),
        "pushback_share_min": min((report.pushback_share for report in reports), default=None),
        "schedule_delay_p99_ms_max": max(delays, default=None),
        "wake_delay_p99_ms_max": max(wakes, default=None),
    }


def _relation_entry(relation: Relation, outcome: Outcome) -> dict[str, Any]:
    judgement = outcome.judgements[0] if outcome.judgements else None
    return {
        "name": relation.name,
        "family": relation.family,
        "claim": relation.claim,
        "metric": relation.metric.name,
        "of": relation.of,
        "over": relation.over,
        "at_least": relation.at_least,
        "at_most": relation.at_most,
        "valid": relation.valid,
        "verdict": outcome.verdict.value,
        "reasons": list(outcome.reasons),
        "first_look": _first_look(outcome.first_look),
        "ratio": judgement.measured if judgement else None,
        "interval": list(judgement.interval) if judgement and judgement.interval else None,
        "spread": judgement.spread if judgement else None,
        "rounds": list(outcome.rounds),
        "paired": outcome.paired,
    }


def _judgement_entry(judgement: Judgement) -> dict[str, Any]:
    entry: dict[str, Any] = _plain(asdict(judgement))
    entry["verdict"] = judgement.verdict.value
    return entry


def _plain(value: Any) -> Any:
    """Return `value` as JSON has it: tuples as lists, mappings as objects."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
