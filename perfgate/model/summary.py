"""One value per metric from the rounds of a measurement. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import combinations_with_replacement

from perfgate.model import Measurement
from perfgate.model.histogram import latency_metrics

HISTOGRAMS = {"latency_ms": "latency_histogram", "end_to_end_latency_ms": "end_to_end_histogram"}


def centre(values: Sequence[float]) -> float:
    """Return the Hodges-Lehmann centre of one or more values: the median of the means of all their pairs.

    A value makes a pair with itself too. Of normal values its variance is 1.05 times that of their mean; a median's is
    1.57 times. More than 29 % of many values must be wrong before it can be anything (Hodges and Lehmann 1963).
    """
    return statistics.median((value + other) / 2 for value, other in combinations_with_replacement(values, 2))


def metric_value(measurement: Measurement, name: str) -> float | None:
    """Return the centre of the rounds' values; for latency percentiles that of all rounds' histograms added up.

    Without histograms it is the centre of the rounds' percentiles; for faults, which are few, the median.
    """
    kind = name.partition(".")[0]
    encoded = [getattr(r, HISTOGRAMS[kind]) for r in measurement.rounds] if kind in HISTOGRAMS else []
    if any(encoded):
        return latency_metrics(encoded, kind).get(name)
    values = [r.metrics[name] for r in measurement.rounds if name in r.metrics]
    if not values:
        return None
    return statistics.median(values) if measurement.scenario.has_fault else centre(values)


def unknown_figures(measurement: Measurement) -> dict[str, tuple[str, ...]]:
    """Return the figures of the brokers that are missing in a round or more, by the reason."""
    by_reason: dict[str, dict[str, None]] = {}
    for r in measurement.rounds:
        for figure, why in r.untold.items():
            by_reason.setdefault(why, {})[figure] = None
    return {why: tuple(figures) for why, figures in by_reason.items()}
