"""Result files of OpenMessaging Benchmark: its TestResult, in ms (delay of sends: us), a point for each round.

What is not known has the tool's own empty value where its chart script reads the field, and is absent elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from hdrh.histogram import HdrHistogram

from perfgate.judge.rounds import spoilt
from perfgate.model import Measurement
from perfgate.model.histogram import merged

PERCENTILES = {"50pct": 50.0, "75pct": 75.0, "95pct": 95.0, "99pct": 99.0, "999pct": 99.9, "9999pct": 99.99}
TICKS_PER_HALF = 100
"""Of the quantiles' curve, as the tool has it."""
READ = "received_records_per_s"
END_TO_END = "end_to_end_latency_ms.p99"
UNKNOWN = "backlog, and the delay of sends but its p99"
"""What no round states, in words."""


def omb_result(measurement: Measurement, workload: str, driver: str) -> dict[str, Any]:
    """Return the result of a scenario; `workload` and `driver`: its names in the tool's charts."""
    scenario, rounds = measurement.scenario, measurement.rounds
    consumers = scenario.consumers
    delays = [r.generator.schedule_delay_p99_ms for r in rounds if r.generator]
    sent, received = (() if spoilt(measurement, name) else rounds for name in ("latency_ms.p99", END_TO_END))
    return {
        "workload": workload,
        "driver": driver,
        "messageSize": scenario.record_bytes,
        "topics": scenario.topic.count,
        "partitions": scenario.topic.partitions,
        "producersPerTopic": scenario.producers * scenario.threads if scenario.load.sends else 0,
        "consumersPerTopic": consumers.processes * consumers.threads if consumers else 0,
        "publishRate": [r.metrics["records_per_s"] for r in rounds] if scenario.load.sends else [],
        "publishErrorRate": [r.accounting.failed_total / (r.warmup_s + r.window_s) for r in rounds],
        "consumeRate": [r.metrics[READ] for r in rounds if READ in r.metrics],
        "backlog": [],
        "publishDelayLatency99pct": [round(1e3 * delay) for delay in delays if delay is not None],
        "aggregatedPublishDelayLatencyQuantiles": {},
        **_latencies("publishLatency", [r.latency_histogram for r in sent]),
        **_latencies("endToEndLatency", [r.end_to_end_histogram for r in received], zeros=not consumers),
    }


def file_name(scenario: str, driver: str, now: datetime) -> str:
    """Return the name that the tool gives a result: workload, driver, local time."""
    return f"{scenario}-{driver.replace('/', '-')}-{now:%Y-%m-%d-%H-%M-%S}.json"


def _latencies(name: str, encoded: Sequence[str], *, zeros: bool = False) -> dict[str, Any]:
    """Return a latency of each round, its aggregates and curve; `zeros`: it was not measured, as the tool has it."""
    of_rounds = [_figures(merged([text])) for text in encoded if text or zeros]
    result: dict[str, Any] = {f"{name}{end}": [r[end] for r in of_rounds] for end in ("Avg", *PERCENTILES, "Max")}
    stem = f"aggregated{name[0].upper()}{name[1:]}"
    result[f"{stem}Quantiles"] = {}
    if of_rounds:
        whole = merged(encoded)
        result |= {f"{stem}{end}": value for end, value in _figures(whole).items()}
        curve = whole.get_percentile_iterator(TICKS_PER_HALF)
        result[f"{stem}Quantiles"] = {str(at.percentile_level_iterated_to): at.value_iterated_to / 1e3 for at in curve}
    return result


def _figures(histogram: HdrHistogram) -> dict[str, float]:
    """Return the figures of a histogram of us, in ms, by the ends of the tool's names."""
    percentiles = {end: histogram.get_value_at_percentile(percentile) for end, percentile in PERCENTILES.items()}
    values = {"Avg": histogram.get_mean_value(), **percentiles, "Max": histogram.get_max_value()}
    return {end: value / 1e3 for end, value in values.items()}
