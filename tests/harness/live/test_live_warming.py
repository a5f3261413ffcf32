"""On real brokers: no verdict from a broker that is still warming up, and no time lost in draining."""

import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perfgate.measure.validity import accounting_of, flaws
from perfgate.model import COMPILING, CROSS_ZONE, KIB, ClusterSpec, Load, settings
from perfgate.model.compared import HEARD_LATE
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from perfgate.systems.kafka.managed.embedded import EmbeddedTarget
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster
from tests.harness.build import scenario
from tests.harness.live_load import LiveLoad, row
from tests.harness.run_gate import PROBES, UNDECIDED, gate

EASY = """
[profile]
target = "embedded"

[capped-plain]
records_per_s = { baseline = 10, tolerance = 0.5 }
broker_cpu_us_per_record = { baseline = 1e6, tolerance = 0.5 }
"""
"""Thresholds that any broker keeps, a cold one too."""


@pytest.mark.slow
def test_a_cold_broker_is_waited_for_or_said_to_be_cold_never_green(tmp_path: Path) -> None:
    (tmp_path / "easy.toml").write_text(EASY)
    (tmp_path / "relations.toml").write_text("")
    for attempt in "123":  # with a profile the canary speaks, and a machine that is too noisy ends the run at once
        done = gate(
            tmp_path / attempt,
            PROBES,
            "-p",
            "tests.harness.cold_broker",
            f"--thresholds={tmp_path}",
            "--profile=easy",
            "-k",
            "capped-plain",
            "--rounds",
            "3",
            "--window",
            "1",
            "--warmup-max",
            "1",
            "--broker-warmup=30",
        )
        entry = done.scenario("capped-plain")
        measured = (*entry["warm_up_rounds"], *entry["rounds"])
        if measured:
            break
    assert measured, done.output
    judged = [one["metrics"]["broker_compile_share.max"] for one in entry["rounds"]]
    first = measured[0]
    assert first["metrics"]["broker_compile_share.max"] > COMPILING, "the swapped broker was cold"
    assert entry["warming"] or statistics.median(judged) <= COMPILING, judged
    if entry["warming"]:  # without it the rounds may scatter too much for a verdict all the same
        assert (entry["verdict"], done.code) == ("INCONCLUSIVE", UNDECIDED)
        assert f"brokers still warming up: {entry['warming']}" in done.output
    if entry["warm_up_rounds"]:
        assert "one more round (4): the brokers were still warming up at capped-plain" in done.output


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    target = EmbeddedTarget(log_folder=tmp_path_factory.mktemp("logs"), cross_zone=True, say=print)
    yield target.cluster(ClusterSpec(brokers=1))
    target.close()


def test_what_waits_in_a_slow_row_s_buffer_is_withdrawn_and_accounted_for(cluster: EmbeddedCluster) -> None:
    """5 requests in flight of one record each, 5 ms each: 1,000/s, and 32 s of records in 32 MiB of buffer."""
    assert cluster.proxy is not None
    cluster.proxy.set_added_rtt("broker-1", 5)
    load = LiveLoad(cluster)
    slow = row(
        scenario(),
        link=CROSS_ZONE,
        load=Load(kind="capped", rate=100_000),
        record_bytes=KIB,
        producer=settings({"acks": 1, "batch.size": KIB, "linger.ms": 0, "queue.buffering.max.kbytes": 32 * KIB}),
    )
    with load.topic(slow) as topic:
        edges: list[float] = []
        spec = replace(load.spec(slow, topic), bootstrap=cluster.bootstrap(CROSS_ZONE))
        observer = load.observer(topic, slow.topic.partitions, edge=lambda: edges.append(1.0))
        result = LibrdkafkaDriver().run(spec, observer)
        ends = load.topics.end_offsets(topic, slow.topic.partitions)
    sent = result.sent
    assert sent is not None
    accounting = accounting_of(sent, [0] * len(ends), ends)
    found = flaws(slow.load, result, accounting)
    assert [flaw for flaw in found if flaw.kind != HEARD_LATE] == [], "a busy machine may be late itself"
    assert accounting.withdrawn > 20 * sent.acked_in_window / result.window_s, "more than 20 s of load"
    assert accounting.attempted == accounting.acked + accounting.withdrawn
    assert accounting.offset_delta == accounting.acked
