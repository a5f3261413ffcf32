"""metrics.csv: all valid figures of a run, a row for each scenario and metric, for a spreadsheet or a data frame."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from perfgate.model import Measurement
from perfgate.model.secret import redacted
from perfgate.report.figures import valid_figures

COLUMNS = (
    "run_id",
    "started",
    "scenario",
    "family",
    "factor",
    "metric",
    "unit",
    "value",
    "spread",
    "rounds",
    "better",
    "verdict",
)
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A text cell that begins so is a formula to a spreadsheet."""


def metrics_csv(document: Mapping[str, Any], measurements: Mapping[str, Measurement]) -> str:
    """Return the table for a run.json and its measurements by scenario: RFC 4180, with a head.

    Names, units and `spread` are run.json's. `value`: the centre of so many `rounds`; of a latency the percentile of
    all of them, of counted records their sum. What was not valid or not measured has no row.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for entry in document["scenarios"]:
        factor = " ".join(f"{name}={value}" for name, value in entry["factor"].items())
        for metric, value in valid_figures(measurements[entry["name"]]).items():
            figure = entry["metrics"][metric]
            spread = "" if figure["spread"] is None else figure["spread"]
            texts = (document["run_id"], document["started"], entry["name"], entry["family"], factor, metric)
            writer.writerow(
                [
                    *map(text_cell, (*texts, figure["unit"])),
                    value,
                    spread,
                    len(figure["rounds"]),
                    figure["better"],
                    entry["verdict"] or "",
                ]
            )
    return text.getvalue()


def text_cell(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula, without secrets."""
    shown = redacted(text)
    return f"'{shown}" if shown.startswith(FORMULA) else shown


def rounds_csv(measurement: Measurement) -> str:
    """Return a row for each round and metric of one scenario."""
    rows = [f"{r.index},{name},{value!r}" for r in measurement.rounds for name, value in r.metrics.items()]
    return "\n".join(["round,metric,value", *rows]) + "\n"
