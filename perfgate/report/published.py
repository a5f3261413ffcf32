"""Published figures beside the measured ones, and what nothing measured."""

from __future__ import annotations

from perfgate.judge.phrases import number
from perfgate.model import Measurement, Outcome, metric_info
from perfgate.model.summary import metric_value, untold

PUBLISHED_COLUMNS = ("metric", "published", "here", "on", "which differs")


def published_rows(outcome: Outcome, measurement: Measurement) -> list[tuple[str, ...]]:
    """Return a row of PUBLISHED_COLUMNS for each figure that was published of the scenario."""
    rows: list[tuple[str, ...]] = []
    for figure in outcome.published:
        info, here = metric_info(figure.metric), metric_value(measurement, figure.metric)
        unit = f" {info.unit}" if info else ""
        measured = "-" if here is None else number(here)
        rows.append((figure.metric, f"{number(figure.value)}{unit}", measured, figure.hardware, figure.differs))
    return rows


def untold_rows(measurement: Measurement) -> list[tuple[str, ...]]:
    """Return a row for each figure of the brokers that lacks, with the reason: it stands among the metrics."""
    return [
        (f"{figure} of the brokers", "unavailable", "", why)
        for why, figures in untold(measurement).items()
        for figure in figures
    ]
