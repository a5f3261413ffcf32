"""Workload files of other tools on real brokers: what they state is offered, read and accounted for."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from perfgate.model import ClusterSpec, Scenario
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from perfgate.systems.kafka.managed.embedded import EmbeddedTarget
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster
from perfgate.workloads import omb
from perfgate.workloads.omb_drivers import driver_of
from perfgate.workloads.trogdor import ROUND_TRIP as ROUND_TRIP_CLASS
from tests.harness.live.test_live_load import clean, sound
from tests.harness.live_load import LiveLoad
from tests.harness.run_gate import Finished, gate
from tests.harness.workloads.test_omb import KAFKA, PLAIN
from tests.harness.workloads.test_trogdor import PLAIN as SPEC
from tests.harness.workloads.words import WORDS

DRIVER = {
    "name": "Kafka",
    "driverClass": KAFKA,
    "replicationFactor": 1,
    "commonConfig": "bootstrap.servers=localhost:9092",
    "producerConfig": "acks=all\nlinger.ms=1\nbatch.size=131072",
    "consumerConfig": "auto.offset.reset=earliest\nenable.auto.commit=false",
}
SHORT = ("--rounds=2", "--window=2", "--warmup-max=2", "--broker-warmup=5")


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveLoad[EmbeddedCluster]]:
    target = EmbeddedTarget(log_folder=tmp_path_factory.mktemp("logs"), cross_zone=False, say=print)
    try:
        yield LiveLoad(target.cluster(ClusterSpec(brokers=1)))
    finally:
        target.close()


def test_what_a_workload_states_is_offered_and_read(live: LiveLoad[EmbeddedCluster]) -> None:
    """Two subscriptions of two consumers each, three producers, keys: each record once in the log, and read twice."""
    stated = {**PLAIN, "producersPerTopic": 3, "subscriptionsPerTopic": 2, "consumerPerSubscription": 2}
    stated |= {"keyDistributor": "KEY_ROUND_ROBIN", "messageSize": 200, "producerRate": 600}
    driver = driver_of({**DRIVER, "commonConfig": None, "consumerConfig": None}, "driver", WORDS)
    workload = omb.workload_of(stated, "live", "FILE", replace(driver, producer=()), WORDS, durations=False)
    scenario: Scenario = replace(workload.scenario, cluster=ClusterSpec(brokers=1))
    result, end_offsets = live.run(LibrdkafkaDriver(), scenario, window_s=2)
    sent = sound(result.sent, end_offsets)
    assert sent.acked_in_window == pytest.approx(2 * 600, rel=0.02)
    clean(result.received, 2 * end_offsets)


def run(folder: Path, workload: dict[str, Any], *options: str) -> Finished:
    """Run a workload file on three brokers, with results for the tool's charts."""
    (folder / "driver.yaml").write_text(yaml.safe_dump({**DRIVER, "replicationFactor": 3}))
    (folder / "some.yaml").write_text(yaml.safe_dump(workload))
    files = (f"--workload={folder / 'some.yaml'}", f"--omb-driver={folder / 'driver.yaml'}")
    return gate(folder / "results", *files, f"--omb-results={folder / 'omb'}", *SHORT, *options)


def charted(folder: Path) -> dict[str, Any]:
    (path,) = (folder / "omb").glob("omb-some-Kafka-*.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.slow
def test_a_fixed_rate(tmp_path: Path) -> None:
    done = run(tmp_path, PLAIN)
    assert done.measured, done.output
    entry = done.scenario("omb-some")
    assert entry["accounting"]["acked"] == entry["accounting"]["offset_delta"]
    assert entry["reading"]["missed"] == entry["reading"]["duplicated"] == 0
    found = charted(tmp_path)
    assert (found["workload"], found["driver"]) == (PLAIN["name"], "Kafka")
    assert found["publishRate"] == pytest.approx([500, 500], rel=0.02)
    late = any("latency_ms" in flaw["metrics"] for measured in entry["rounds"] for flaw in measured["flaws"])
    assert found["publishLatency99pct"] == pytest.approx([] if late else entry["metrics"]["latency_ms.p99"]["rounds"])


@pytest.mark.slow
def test_the_knee(tmp_path: Path) -> None:
    done = run(tmp_path, {**PLAIN, "producerRate": 0}, "--set=load.rate=8000", "--window=1", "--warmup-max=1")
    assert done.measured, done.output
    assert done.scenario("omb-some")["metrics"]["knee_records_per_s"]["value"] > 80
    assert max(charted(tmp_path)["publishRate"]) > 80


@pytest.mark.slow
def test_a_backlog(tmp_path: Path) -> None:
    """The backlog is built while consumers are away, and is read to its end while producers go on."""
    done = run(tmp_path, {**PLAIN, "producerRate": 2_000, "consumerBacklogSizeGB": 1}, "--set=record.bytes=200")
    assert "consumers stay away for 60 s" in done.output
    entry = done.scenario("omb-some")
    metrics = {name: found["value"] for name, found in entry["metrics"].items()}
    assert metrics["unread_records"] == pytest.approx(120_000, rel=0.1)
    assert metrics["catch_up_s"] < 60
    assert (metrics["lost_records"], metrics["duplicated_records"]) == (0, 0)


@pytest.mark.slow
def test_a_specification_of_trogdor(tmp_path: Path) -> None:
    path = tmp_path / "trip.json"
    stated = {key: value for key, value in SPEC.items() if key != "producerNode"}
    path.write_text(json.dumps({**stated, "class": ROUND_TRIP_CLASS, "targetMessagesPerSec": 500}))
    done = gate(tmp_path / "results", f"--workload={path}", *SHORT)
    assert done.measured, done.output
    entry = done.scenario("trogdor-trip")
    assert entry["accounting"]["acked"] == entry["accounting"]["offset_delta"]
    assert entry["reading"]["received"] == entry["accounting"]["acked"]
