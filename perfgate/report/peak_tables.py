"""Table of scenarios whose rate changes over a window, for the terminal: before, in and after the peak."""

from __future__ import annotations

from collections.abc import Mapping

from perfgate.judge.phrases import number
from perfgate.model import Measurement, Outcome
from perfgate.model.metrics import OWED, P99_BACK, PHASE_CPU, PHASE_LATENCY
from perfgate.model.summary import metric_value

PEAK_COLUMNS = (
    "shape",
    "records/s",
    "p99 ms before",
    "in peak",
    "after",
    "back in s",
    "owed at most",
    "broker cores before",
    "in peak",
    "after",
    "verdict",
)


def peak_rows(outcomes: Mapping[str, Outcome], measurements: Mapping[str, Measurement]) -> list[tuple[str, ...]]:
    """Return the cells of PEAK_COLUMNS for each scenario of such a load; a dash where there is no number."""
    rows: list[tuple[str, ...]] = []
    for name, outcome in outcomes.items():
        shape = measurements[name].scenario.load.shape
        if shape is None:
            continue
        metrics = (*(f"{latency}.p99" for latency in PHASE_LATENCY.values()), P99_BACK, OWED, *PHASE_CPU.values())
        values = [metric_value(measurements[name], metric) for metric in metrics]
        cells = ("-" if value is None else number(value) for value in values)
        rows.append((name, " to ".join(map(number, shape.rates)), *cells, outcome.verdict.value))
    return rows
