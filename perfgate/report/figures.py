"""Figures for tables: single cells, and rows of a run's scenarios, measured against the last run and the baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from perfgate.judge.phrases import number, percent
from perfgate.judge.rounds import never_turned_over
from perfgate.model import ClusterSpec, Measurement, Outcome, TopicSpec, metric_info, settings
from perfgate.model.judged import place
from perfgate.model.summary import metric_value
from perfgate.model.system import system_of

HEADS = ("scenario", "decided by", "measured", "to last run", "to baseline", "p99 ms", "us CPU/record", "limit")
KEPT = "quorums, durability"
"""Head of a column that tables of Pulsar have besides: see :attr:`Scenario.kept`."""
PUBLISHED_COLUMNS = ("metric", "published", "here", "on", "which differs")
RATE, P99, CPU = "records_per_s", "latency_ms.p99", "broker_cpu_us_per_record"


def or_dash(value: float | None, form: Callable[[float], str] = number) -> str:
    """Return a figure for a cell; a dash where there is none."""
    return "-" if value is None else form(value)


def with_unit(value: float | None, metric: str) -> str:
    """Return a figure with its metric's unit; a dash where there is none."""
    info = metric_info(metric)
    return "-" if value is None else f"{number(value)} {info.unit if info else ''}".strip()


def change_of(measured: float | None, other: float | None) -> str:
    """Return the share by which a figure is off another, for a cell; a dash where there is none."""
    if measured is None or not other:
        return "-"
    off = measured / other - 1
    return f"{'+' if off > 0 else ''}{percent(off)}"


def published_rows(outcome: Outcome, measurement: Measurement) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for figure in outcome.published:
        here = or_dash(metric_value(measurement, figure.metric))
        rows.append((figure.metric, with_unit(figure.value, figure.metric), here, figure.hardware, figure.differs))
    return rows


@dataclass(frozen=True, kw_only=True, slots=True)
class FigureRow:
    """One scenario, by its `entry` in run.json: `cells` under HEADS; `metric`: what decides; `kept`: of Pulsar."""

    entry: Mapping[str, Any]
    metric: str
    cells: tuple[str, ...]
    verdict: str
    kept: str


def figure_rows(document: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[FigureRow]:
    """Return the rows of a gate's run.json, the worst first; none of a comparison. `before`: that of the last run."""
    if document["comparisons"]:
        return []
    entries = sorted(
        (entry for entry in document["scenarios"] if entry["metrics"]), key=lambda entry: place(entry["verdict"])
    )
    earlier = {entry["name"]: entry["metrics"] for entry in before["scenarios"]} if before else {}
    of_pulsar = system_of(document["target"]) == "pulsar"
    return [_row(entry, earlier.get(entry["name"], {}), of_pulsar) for entry in entries]


def _row(entry: Mapping[str, Any], earlier: Mapping[str, Any], of_pulsar: bool) -> FigureRow:
    metrics = entry["metrics"]
    decided: Mapping[str, Any] = (entry["judgements"] or [{"metric": RATE, "baseline": None, "limit": None}])[0]
    metric = str(decided["metric"]) if decided["metric"] in metrics else RATE
    measured, last = (_value(known, metric) for known in (metrics, earlier))
    cells = (
        entry["name"],
        metric,
        with_unit(measured, metric),
        change_of(measured, last),
        change_of(measured, decided["baseline"]),
        "-" if (p99 := _value(metrics, P99)) is None or _waited_since_the_start(entry) else number(p99),
        or_dash(_value(metrics, CPU)),
        or_dash(decided["limit"]),
    )
    verdict, kept = str(entry["verdict"] or "not judged"), recorded_kept(entry) if of_pulsar else ""
    return FigureRow(entry=entry, metric=metric, cells=cells, verdict=verdict, kept=kept)


def _waited_since_the_start(entry: Mapping[str, Any]) -> bool:
    """See :func:`perfgate.judge.rounds.since_the_start`."""
    if entry["load"]["kind"] != "capped":
        return False
    sound = [r for r in entry["rounds"] if "latency_ms.p50" in r["metrics"] and all(f["metrics"] for f in r["flaws"])]
    return never_turned_over([(r["metrics"]["latency_ms.p50"], r["warmup_s"], r["window_s"]) for r in sound])


def _value(metrics: Mapping[str, Any], name: str) -> float | None:
    return metrics[name]["value"] if name in metrics else None


def recorded_kept(entry: Mapping[str, Any]) -> str:
    """Return quorums and durability of a recorded scenario of Pulsar; see :attr:`Scenario.kept`."""
    declared = entry["declared"]
    topic = TopicSpec(**{**declared["topic"], "config": settings(declared["topic"]["config"])})
    cluster = ClusterSpec(system="pulsar", bookie_config=settings(declared["cluster"]["bookie_config"]))
    return f"{topic.quorums}, {cluster.durability}"
