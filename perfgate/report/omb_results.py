"""Result files of OpenMessaging Benchmark: a scenario's figures by that tool's names, a point for each round.

Fields are those of the tool's TestResult, in its units: ms, but us for the delay of sends. What is not known has the
tool's own empty value where its chart script reads the field (an empty list or mapping), and is absent elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from hdrh.histogram import HdrHistogram

from perfgate.judge.rounds import spoilt
from perfgate.model import Measurement, Round
from perfgate.model.histogram import merged

PERCENTILES: Mapping[str, float] = {
    "50pct": 50.0,
    "75pct": 75.0,
    "95pct": 95.0,
    "99pct": 99.0,
    "999pct": 99.9,
    "9999pct": 99.99,
}
TICKS_PER_HALF = 100
"""Of the quantiles' curve, as the tool has it."""
READ = "received_records_per_s"
END_TO_END = "end_to_end_latency_ms.p99"
UNKNOWN = "backlog, and the delay of sends but its p99"
"""What no round tells, in words."""


def omb_result(measurement: Measurement, workload: str, driver: str) -> dict[str, Any]:
    """Return the result of a scenario; `workload` and `driver`: names by which the tool's charts tell results apart."""
    scenario, rounds = measurement.scenario, measurement.rounds
    consumers = scenario.consumers
    document: dict[str, Any] = {
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
    }
    delays = [r.generator.schedule_delay_p99_ms for r in rounds if r.generator]
    document["publishDelayLatency99pct"] = [round(1e3 * delay) for delay in delays if delay is not None]
    document["aggregatedPublishDelayLatencyQuantiles"] = {}
    sent, received = (() if spoilt(measurement, name) else rounds for name in ("latency_ms.p99", END_TO_END))
    document.update(_latencies("publishLatency", sent, lambda r: r.latency_histogram))
    document.update(_latencies("endToEndLatency", received, lambda r: r.end_to_end_histogram, zeros=not consumers))
    return document


def file_name(scenario: str, driver: str, now: datetime) -> str:
    """Return the name that the tool gives a result: workload, driver, local time."""
    return f"{scenario}-{driver.replace('/', '-')}-{now:%Y-%m-%d-%H-%M-%S}.json"


def _latencies(
    name: str, rounds: tuple[Round, ...], of: Callable[[Round], str], *, zeros: bool = False
) -> Iterator[tuple[str, list[float] | float | dict[str, float]]]:
    """Yield a latency's lists, a value for each round, its aggregates and the curve of its quantiles.

    `zeros`: of what nobody waited for, as the tool has it of an empty histogram.
    """
    each = [merged([of(r)]) for r in rounds if of(r) or zeros]
    yield f"{name}Avg", [one.get_mean_value() / 1e3 for one in each]
    for suffix, percentile in PERCENTILES.items():
        yield f"{name}{suffix}", [one.get_value_at_percentile(percentile) / 1e3 for one in each]
    yield f"{name}Max", [one.get_max_value() / 1e3 for one in each]
    stem = f"aggregated{name[0].upper()}{name[1:]}"
    yield f"{stem}Quantiles", {}
    if not each:
        return
    whole = merged(of(r) for r in rounds)
    yield f"{stem}Avg", whole.get_mean_value() / 1e3
    for suffix, percentile in PERCENTILES.items():
        yield f"{stem}{suffix}", whole.get_value_at_percentile(percentile) / 1e3
    yield f"{stem}Max", whole.get_max_value() / 1e3
    yield f"{stem}Quantiles", dict(_curve(whole))


def _curve(histogram: HdrHistogram) -> Iterator[tuple[str, float]]:
    for item in histogram.get_percentile_iterator(TICKS_PER_HALF):
        yield str(item.percentile_level_iterated_to), item.value_iterated_to / 1e3
