"""From the rounds of a measurement to one value per metric. Pure."""

from __future__ import annotations

import statistics

from perfgate.model import Measurement
from perfgate.model.histogram import latency_metrics

HISTOGRAMS = {"latency_ms": "latency_histogram", "end_to_end_latency_ms": "end_to_end_histogram"}


def metric_value(measurement: Measurement, name: str) -> float | None:
    """Return the median of the rounds' values; a latency percentile is that of all rounds' histograms added up.

    A driver that gives percentiles without a histogram leaves the median of the rounds' percentiles.
    """
    kind = name.partition(".")[0]
    encoded = [getattr(r, HISTOGRAMS[kind]) for r in measurement.rounds] if kind in HISTOGRAMS else []
    if any(encoded):
        return latency_metrics(encoded, kind).get(name)
    values = [r.metrics[name] for r in measurement.rounds if name in r.metrics]
    return statistics.median(values) if values else None
