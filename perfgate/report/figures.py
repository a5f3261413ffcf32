"""Rows of a run's figures, a scenario each: measured, against the last run and the baseline, p99, CPU, limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perfgate.judge.phrases import number, percent
from perfgate.judge.rounds import never_turned_over
from perfgate.model import metric_info
from perfgate.model.judged import place
from perfgate.model.system import system_of
from perfgate.report.view import recorded_kept

HEADS = ("scenario", "decided by", "measured", "to last run", "to baseline", "p99 ms", "us CPU/record", "limit")
RATE, P99, CPU = "records_per_s", "latency_ms.p99", "broker_cpu_us_per_record"


@dataclass(frozen=True, kw_only=True, slots=True)
class FigureRow:
    """One scenario: `cells` under HEADS, "-" where there is no such figure.

    `metric`: the one that decides. `kept`: quorums and durability of Pulsar; empty for Kafka.
    """

    name: str
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
    info = metric_info(metric)
    cells = (
        entry["name"],
        metric,
        "-" if measured is None else f"{number(measured)} {info.unit if info else ''}".strip(),
        _change(measured, last),
        _change(measured, decided["baseline"]),
        "-" if (p99 := _value(metrics, P99)) is None or _waited_since_the_start(entry) else number(p99),
        "-" if (cpu := _value(metrics, CPU)) is None else number(cpu),
        "-" if decided["limit"] is None else number(decided["limit"]),
    )
    return FigureRow(
        name=entry["name"],
        metric=metric,
        cells=cells,
        verdict=str(entry["verdict"] or "not judged"),
        kept=recorded_kept(entry) if of_pulsar else "",
    )


def _waited_since_the_start(entry: Mapping[str, Any]) -> bool:
    """See :func:`perfgate.judge.rounds.since_the_start`."""
    if entry["load"]["kind"] != "capped":
        return False
    sound = [r for r in entry["rounds"] if "latency_ms.p50" in r["metrics"] and all(f["metrics"] for f in r["flaws"])]
    return never_turned_over([(r["metrics"]["latency_ms.p50"], r["warmup_s"], r["window_s"]) for r in sound])


def _value(metrics: Mapping[str, Any], name: str) -> float | None:
    return metrics[name]["value"] if name in metrics else None


def _change(measured: float | None, from_: float | None) -> str:
    if measured is None or not from_:
        return "-"
    off = measured / from_ - 1
    return f"{'+' if off > 0 else ''}{percent(off)}"
