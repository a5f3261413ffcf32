"""Result files of OpenMessaging Benchmark: its fields, its units, a point for each round; unknown is no figure."""

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from perfgate.model import Consumers, Measurement
from perfgate.report.omb_results import file_name, omb_result
from tests.harness.build import flawed, histogram, measurement
from tests.harness.build.recorded import RECORDED
from tests.harness.build.rounds import GENERATOR
from tests.harness.forked import gate

CHARTED = (
    "publishLatency99pct",
    "publishDelayLatency99pct",
    "publishRate",
    "endToEndLatency95pct",
    "consumeRate",
    "endToEndLatencyAvg",
)
"""Lists that the tool's bin/create_charts.py draws, and takes the largest value of."""
CURVES = (
    "aggregatedPublishLatencyQuantiles",
    "aggregatedPublishDelayLatencyQuantiles",
    "aggregatedEndToEndLatencyQuantiles",
)
"""Mappings that it draws."""


@pytest.fixture
def measured() -> Measurement:
    """Two paced rounds that are read along."""
    plain = measurement([500.0, 400.0])
    rounds = (
        replace(
            plain.rounds[0],
            latency_histogram=histogram([0.001] * 99 + [0.1]),
            end_to_end_histogram=histogram([0.002]),
            generator=replace(GENERATOR, schedule_delay_p99_ms=0.25),
            metrics={**plain.rounds[0].metrics, "received_records_per_s": 499.0},
        ),
        replace(
            plain.rounds[1],
            latency_histogram=histogram([0.003] * 100),
            end_to_end_histogram=histogram([0.004]),
            generator=replace(GENERATOR, schedule_delay_p99_ms=0.5),
            metrics={**plain.rounds[1].metrics, "received_records_per_s": 401.0},
        ),
    )
    consumers = Consumers(membership="group", groups=2, threads=3)
    return replace(plain, rounds=rounds, scenario=replace(plain.scenario, consumers=consumers))


def test_the_fields_of_the_tool(measured: Measurement) -> None:
    found = omb_result(measured, "1 topic", "Kafka")
    assert [found[key] for key in ("workload", "driver", "messageSize", "topics", "partitions")] == [
        "1 topic",
        "Kafka",
        1024,
        1,
        3,
    ]
    assert (found["producersPerTopic"], found["consumersPerTopic"]) == (1, 3)
    assert (found["publishRate"], found["consumeRate"], found["publishErrorRate"]) == ([500, 400], [499, 401], [0, 0])
    assert found["publishLatency50pct"] == pytest.approx([1, 3], rel=0.001)
    assert found["publishLatency999pct"] == pytest.approx([100, 3], rel=0.001)
    assert found["publishLatencyMax"] == pytest.approx([100, 3], rel=0.001)
    assert found["endToEndLatency95pct"] == pytest.approx([2, 4], rel=0.001)
    assert found["publishDelayLatency99pct"] == [250, 500], "in us"
    assert found["aggregatedPublishLatency99pct"] == pytest.approx(3, rel=0.001), "of 200 records, the second largest"
    assert found["aggregatedPublishLatencyMax"] == pytest.approx(100, rel=0.001)
    curve = {float(key): value for key, value in found["aggregatedPublishLatencyQuantiles"].items()}
    assert curve[100.0] == pytest.approx(100, rel=0.001)
    assert sorted(curve.values()) == [curve[key] for key in sorted(curve)]
    assert found["backlog"] == []
    assert "aggregatedPublishDelayLatency99pct" not in found


@pytest.mark.parametrize("read", [True, False])
def test_the_charts_of_the_tool_have_what_they_read(measured: Measurement, read: bool) -> None:
    if not read:
        rounds = tuple(replace(one, end_to_end_histogram="") for one in measured.rounds)
        measured = replace(measured, scenario=replace(measured.scenario, consumers=None), rounds=rounds)
    found = json.loads(json.dumps(omb_result(measured, "1 topic", "Kafka")))
    for key in CHARTED:
        assert len(found[key]) == 2, key
        assert max(found[key]) >= 0
    for key in CURVES:
        assert all(float(percentile) <= 100 for percentile in found[key])


def test_a_latency_that_is_not_known_is_no_zero(measured: Measurement) -> None:
    rounds = tuple(replace(one, latency_histogram="") for one in measured.rounds)
    found = omb_result(replace(measured, rounds=rounds), "1 topic", "Kafka")
    assert found["publishLatency99pct"] == []
    assert "aggregatedPublishLatency99pct" not in found


def test_a_latency_that_is_not_valid_is_no_figure(measured: Measurement) -> None:
    rounds = (flawed(measured.rounds[0], invalid_metrics={"latency_ms": "sent late"}), measured.rounds[1])
    found = omb_result(replace(measured, rounds=rounds), "1 topic", "Kafka")
    assert found["publishLatency99pct"] == []
    assert len(found["endToEndLatency99pct"]) == len(found["publishRate"]) == 2


def test_the_name_of_a_result() -> None:
    assert file_name("omb-x", "A/B", datetime(2026, 1, 2, 3, 4, 5)) == "omb-x-A-B-2026-01-02-03-04-05.json"


def test_results_of_a_run(tmp_path: Path) -> None:
    done = gate(tmp_path / "results", f"--replay={RECORDED}", f"--omb-results={tmp_path / 'omb'}")
    found = [json.loads(path.read_text()) for path in (tmp_path / "omb").glob("*-Kafka-*.json")]
    assert {one["workload"] for one in found} == {entry["name"] for entry in done.run["scenarios"]}
    assert f"results for OpenMessaging Benchmark's charts: {len(found)} in {tmp_path / 'omb'}" in done.output
    assert list(Path.cwd().glob("omb-*.json")) == []
