"""The figures of a measurement that reports for other programs hold: those that are valid, and no others."""

from __future__ import annotations

from perfgate.judge.rounds import spoilt
from perfgate.judge.scenario_case import invalid_reasons
from perfgate.model import Measurement, metric_info
from perfgate.model.summary import metric_value


def valid_figures(measurement: Measurement) -> dict[str, float]:
    """Return the metrics of a measurement by name, in run.json's units; empty when any of its rounds is not valid.

    A metric that is not valid, or was not measured in every round, is absent: a median of the rounds that went well
    would hide the others, and a program would take 0 for a figure. Records that were lost, or found twice, are counted
    over all rounds.
    """
    if invalid_reasons(measurement):
        return {}
    everywhere = [name for name in measurement.rounds[0].metrics if all(name in r.metrics for r in measurement.rounds)]
    found = {name: _value(measurement, name) for name in everywhere if not spoilt(measurement, name)}
    return {name: value for name, value in found.items() if value is not None}


def _value(measurement: Measurement, name: str) -> float | None:
    info = metric_info(name)
    if info is not None and info.unit == "records":
        return sum(r.metrics[name] for r in measurement.rounds)
    return metric_value(measurement, name)
