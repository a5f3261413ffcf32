"""Valid figures of a run for other programs: metrics.csv, metrics.prom and the properties in pytest's JUnit XML.

metrics.prom, for a textfile collector, a push gateway or GitLab, is OpenMetrics text and Prometheus text (format 0.0.4)
alike, without timestamps.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from perfgate.judge.rounds import spoilt
from perfgate.judge.scenario_case import invalid_reasons
from perfgate.model import ComparisonOutcome, Measurement, Outcome, Relation, Scenario, Verdict, metric_info
from perfgate.model.metrics import LATENCY_QUANTILES, METRICS, ROLES, part_of
from perfgate.model.secret import redacted
from perfgate.model.summary import metric_value
from perfgate.model.system import system_of, version_of

FACTS = ("target", "tier", "driver", "system", "version", "profile", "machine", "commit")
OF_FIGURE = ("value", "spread", "rounds", "better", "baseline", "limit", "metric_verdict", "verdict")
COLUMNS = ("run_id", "started", "scenario", "family", "factor", "metric", "unit", *OF_FIGURE, *FACTS)
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A text cell that begins so is a formula to a spreadsheet."""
PREFIX = "kafka_perf_gate"
UNITS: Mapping[str, tuple[tuple[str, ...], str, float]] = {
    "records/s": (("records_per_s",), "records_per_second", 1.0),
    "MiB/s": (("mib_per_s",), "bytes_per_second", 2.0**20),
    "MiB": (("mib",), "bytes", 2.0**20),
    "ms": (("ms",), "seconds", 1e-3),
    "s": (("s", "seconds"), "seconds", 1.0),
    "s/s": (("s_per_s",), "seconds_per_second", 1.0),
    "B/record": (("bytes_per_record",), "bytes_per_record", 1.0),
    "us/record": (("us_per_record",), "seconds_per_record", 1e-6),
    "": (("share", "ratio"), "ratio", 1.0),
}
"""By a metric's unit: how its name ends, the base unit, and what a value is multiplied by. Others count things."""
OF_DELIVERY = ("lost", "duplicated", "reordered", "redelivered", "missed", "delivered", "unknown", "vanished")
OF_ACCEPTING = ("accepted", "late_accepts", "given_after_accepted", "unaccepted")
COUNTED = frozenset(f"{what}_records" for what in (*OF_DELIVERY, *OF_ACCEPTING))
"""Counted in each round, and so over all rounds. Other metrics in records are levels: the most at one time."""
Properties = list[tuple[str, object]]


def valid_figures(measurement: Measurement) -> dict[str, float]:
    """Return the metrics of a measurement by name, in run.json's units; empty when any of its rounds is not valid.

    A metric that is not valid, or was not measured in every round, is absent: a median of the other rounds would hide
    those, and a program would take 0 for a figure. Records that were counted are summed over the rounds.
    """
    if invalid_reasons(measurement):
        return {}
    figures = {}
    for name in measurement.rounds[0].metrics:
        if all(name in r.metrics for r in measurement.rounds) and not spoilt(measurement, name):
            rounds = [r.metrics[name] for r in measurement.rounds]
            value = sum(rounds) if name in COUNTED else metric_value(measurement, name)
            if value is not None:
                figures[name] = value
    return figures


def metrics_csv(document: Mapping[str, Any], measurements: Mapping[str, Measurement]) -> str:
    """Return metrics.csv for a run.json and its measurements by scenario; names, units and `spread` are run.json's."""
    text = io.StringIO()
    writer = csv.writer(text)
    facts = [*map(text_cell, _facts(document).values())]
    kept = any(measurement.scenario.kept for measurement in measurements.values())
    writer.writerow([*COLUMNS, *KEPT] if kept else COLUMNS)
    for entry in document["scenarios"]:
        measurement = measurements[entry["name"]]
        factor = " ".join(f"{name}={value}" for name, value in entry["factor"].items())
        judged = {judgement["metric"]: judgement for judgement in entry["judgements"]}
        for metric, value in valid_figures(measurement).items():
            figure = entry["metrics"][metric]
            texts = (document["run_id"], document["started"], entry["name"], entry["family"], factor, metric)
            numbers = (value, figure["spread"], len(figure["rounds"]), figure["better"])
            held = [judged.get(metric, {}).get(name) for name in ("baseline", "limit", "verdict")]  # None: empty
            figures = (*map(text_cell, (*texts, figure["unit"])), *numbers, *held, entry["verdict"])
            writer.writerow([*figures, *facts, *_kept(measurement.scenario).values()])
    return text.getvalue()


def _facts(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the FACTS of a run by name."""
    target, environment = document["target"], document["environment"]
    return {
        "target": str(target.get("name")),
        "tier": str(document["tier"].get("name")),
        "driver": document["driver"],
        "system": system_of(target),
        "version": version_of(target),
        "profile": document["profile"] or "none",
        "machine": str(environment.get("cpu_model")),
        "commit": str(environment.get("commit")),
    }


KEPT = ("quorums", "durability")
"""Columns and labels of figures of Pulsar: without them a rate says little."""


def _kept(scenario: Scenario) -> dict[str, str]:
    durability = scenario.cluster.durability
    return dict(zip(KEPT, (scenario.topic.quorums, durability), strict=True)) if durability else {}


def text_cell(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula, without secrets."""
    shown = redacted(text)
    return f"'{shown}" if shown.startswith(FORMULA) else shown


def rounds_csv(measurement: Measurement) -> str:
    rows = [f"{r.index},{name},{value!r}" for r in measurement.rounds for name, value in r.metrics.items()]
    return "\n".join(["round,metric,value", *rows]) + "\n"


def scenario_properties(measurement: Measurement, outcome: Outcome) -> Properties:
    figures = [(name, f"{value:.6g}") for name, value in valid_figures(measurement).items()]
    scenario = measurement.scenario
    return [("verdict", outcome.verdict.value), ("family", scenario.families[0]), *_kept(scenario).items(), *figures]


def relation_properties(relation: Relation, outcome: Outcome) -> Properties:
    measured = [(f"ratio {judgement.step}".rstrip(), judgement.measured) for judgement in outcome.judgements]
    ratios = [(name, f"{ratio:.6g}") for name, ratio in measured if ratio is not None]
    return [("verdict", outcome.verdict.value), ("family", relation.family), *ratios]


def comparison_properties(outcome: ComparisonOutcome) -> Properties:
    """Return the verdict of a comparison; the effect on the metric that decides, and its 95 % interval, as shares."""
    properties: Properties = [("verdict", outcome.effect.value)]
    if primary := outcome.primary:
        low, high = primary.interval
        properties += [("metric", primary.metric.name), ("effect", f"{primary.estimate:.4f}")]
        properties.append(("interval", f"{low:.4f} .. {high:.4f}"))
    return properties


@dataclass(kw_only=True)
class _Family:
    """One metric of metrics.prom, with all its samples: labels and value."""

    name: str
    help: str
    unit: str = ""
    kind: str = "gauge"
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        if self.unit:
            yield f"# UNIT {self.name} {self.unit}"
        for labels, value in self.samples:
            inside = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            yield f"{self.name}{{{inside}}} {value!r}"


def metrics_text(document: Mapping[str, Any], measurements: Mapping[str, Measurement]) -> str:
    """Return metrics.prom for a run.json of the gate and its measurements; without verdict where nothing was judged."""
    facts = _facts(document)
    # What an upgrade changes would start a new series.
    common = {name: facts[name] for name in ("target", "system", "tier")}
    common["modified"] = "yes" if document["modified"] else "no"
    families = [
        *_figures(document, measurements, common),
        _verdicts("scenario", document["scenarios"], common),
        *_relations([*document["relations"], *document.get("ranges", ())], common),
        *_run(document, common, facts),
    ]
    return "\n".join([line for family in families if family.samples for line in family.lines()] + ["# EOF", ""])


@dataclass(frozen=True, kw_only=True)
class Exported:
    """How a metric stands in metrics.prom: `stem` and `unit` make the name, values are multiplied by `factor`."""

    stem: str
    unit: str
    factor: float
    labels: Mapping[str, str]

    def named(self, what: str = "") -> str:
        """Return the name; `what`: limit or baseline."""
        return "_".join(filter(None, (PREFIX, self.stem, what, self.unit)))

    @property
    def kind(self) -> str:
        """Its type: only a summary may have quantiles."""
        return "summary" if "quantile" in self.labels else "gauge"


def exported(metric: str) -> Exported:
    """Return a metric's name, labels, unit and factor in metrics.prom. Raises KeyError for an unknown metric.

    latency_ms.max: kafka_perf_gate_latency_seconds{quantile="1"}, values multiplied by 0.001. Of a load beside a
    scenario's, latency_ms.p99: kafka_perf_gate_part_latency_seconds{part="noisy",quantile="0.99"}.
    """
    info = metric_info(metric)
    if info is None:
        raise KeyError(metric)
    load, metric = part_of(metric)
    endings, unit, factor = UNITS.get(info.unit, ((info.unit,), info.unit, 1.0))
    stem, _, part = metric.partition(".")
    timed = f"{stem}.p99" in METRICS
    ending = next((end for end in endings if stem == end or stem.endswith(f"_{end}")), "")
    stem = stem.removesuffix(ending).rstrip("_")
    labels = {}
    if timed and part in QUANTILES:
        labels = {"quantile": QUANTILES[part]}
    elif timed:
        stem = f"{stem}_{part}"  # an average is no quantile, and a summary has nothing else
    elif part:
        labels = {"broker" if part.isdigit() else "role" if part in ROLES else "aggregate": part}
    if load:
        stem, labels = f"part_{stem}", {"part": load, **labels}
    return Exported(stem=stem, unit=unit, factor=factor, labels=labels)


QUANTILES: Mapping[str, str] = {"max": "1"} | {name: f"{of / 100:g}" for name, of in LATENCY_QUANTILES.items()}


def _figures(
    document: Mapping[str, Any], measurements: Mapping[str, Measurement], common: Mapping[str, str]
) -> list[_Family]:
    """Return a family for each metric, and those of its baseline and its limit where it is judged."""
    families: dict[str, _Family] = {}
    judged = {(entry["name"], j["metric"]): j for entry in document["scenarios"] for j in entry["judgements"]}
    for name, measurement in measurements.items():
        scenario = measurement.scenario
        labels = {"scenario": name, "family": scenario.families[0], **_kept(scenario), **common}
        for metric, value in valid_figures(measurement).items():
            shape, held = exported(metric), judged.get((name, metric), {})
            for what, figure in (("", value), ("baseline", held.get("baseline")), ("limit", held.get("limit"))):
                if figure is not None:
                    label = f"{_words(metric)}, {what}" if what else _words(metric)
                    text = f"{label[:1].upper()}{label[1:]}."
                    family = _Family(name=shape.named(what), help=text, unit=shape.unit, kind=shape.kind)
                    samples = families.setdefault(family.name, family).samples
                    samples.append(({**labels, **shape.labels}, figure * shape.factor))
    return sorted(families.values(), key=lambda family: family.name)


def _words(metric: str) -> str:
    """Return the words for a metric's family, without the name of a quantile or aggregate."""
    load, metric = part_of(metric)
    if load:
        return f"{_words(metric)}, of a load beside the scenario's"
    info = metric_info(metric)
    assert info is not None
    stem, _, part = metric.partition(".")
    every = metric_info(f"{stem}.sum")
    return every.label if every else info.label.removeprefix(f"{part} ")


def _verdicts(what: str, entries: list[Mapping[str, Any]], common: Mapping[str, str]) -> _Family:
    family = _Family(name=f"{PREFIX}_{what}_verdict", help=f"1 for the verdict of the {what}, 0 for each other one.")
    for entry in entries:
        labels = {what: entry["name"], "family": entry["family"], **common}
        if entry["verdict"] is not None:
            family.samples += [({**labels, "verdict": v.value}, float(v.value == entry["verdict"])) for v in Verdict]
    return family


def _relations(entries: list[Mapping[str, Any]], common: Mapping[str, str]) -> Iterator[_Family]:
    words = "Ratio of a metric of two scenarios, median of the rounds."
    ratios = _Family(name=f"{PREFIX}_relation_ratio", help=words, unit="ratio")
    for entry in entries:
        labels = {"relation": entry["name"], "family": entry["family"], "metric": entry["metric"], **common}
        for pair in entry.get("steps", (entry,)):
            if pair["ratio"] is not None:
                ratios.samples.append(({**labels, "of": pair["of"], "over": pair["over"]}, pair["ratio"]))
    yield ratios
    yield _verdicts("relation", entries, common)


def _run(document: Mapping[str, Any], common: Mapping[str, str], facts: Mapping[str, str]) -> Iterator[_Family]:
    facts = {"run_id": document["run_id"], **facts, **common}
    finished = datetime.fromisoformat(document["finished"]).timestamp()
    for name, text, unit, labels, value in (
        ("run_info", "The run that this file is of; always 1.", "", facts, 1.0),
        ("run_finished_timestamp_seconds", "When the run ended, Unix time.", "seconds", common, finished),
        ("run_exit_code", "Exit code of the run: 0 is green.", "", common, float(document["exit_code"])),
        ("run_not_run", "Scenarios and relations selected and not run.", "", common, float(len(document["not_run"]))),
    ):
        yield _Family(name=f"{PREFIX}_{name}", help=text, unit=unit, samples=[(labels, value)])


def _escaped(text: str) -> str:
    """Return a label's value: no secret, and nothing that ends it."""
    return redacted(text).replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
