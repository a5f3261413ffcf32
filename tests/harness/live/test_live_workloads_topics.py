"""Several topics in a scenario, and loads beside one another, on real brokers: every record is accounted for."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest

from perfgate.load import journaled
from perfgate.load.history import OUTCOME, outcomes_path, read_journal
from perfgate.measure.bench import Bench, Means
from perfgate.measure.round_topics import latency_by_topic, unwritten
from perfgate.measure.validity import accounting_of, flaws
from perfgate.metrics.process import process_sampler
from perfgate.model import SAME_ZONE, ClusterSpec, Consumers, Keys, Load, Part, Scenario, Tier, TopicSpec, settings
from perfgate.model.histogram import merged
from perfgate.systems.kafka.attached.described import load_target
from perfgate.systems.kafka.attached.external import ExternalTarget
from perfgate.systems.kafka.load.librdkafka import KafkaInstructions, LibrdkafkaDriver
from perfgate.systems.kafka.managed.embedded import EmbeddedTarget
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster
from perfgate.systems.kafka.managed.faults import JAVA
from tests.harness.live_load import LiveLoad, row

TOPICS = TopicSpec(partitions=2, replication_factor=1, count=5)
BASE = Scenario(
    name="topics",
    summary="a load of the tests over five topics",
    families=("live",),
    factor=(),
    topic=TOPICS,
    producer=settings({"acks": 1, "batch.size": 16384, "linger.ms": 0}),
    record_bytes=512,
    load=Load(kind="paced", rate=5_000),
)
DRIVER = LibrdkafkaDriver()
DESCRIBE = JAVA.format(
    tools="org.apache.kafka.tools.ConfigCommand kafka.admin.ConfigCommand",
    arguments='--bootstrap-server "$bootstrap" --describe --entity-type clients',
)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveLoad[EmbeddedCluster]]:
    target = EmbeddedTarget(log_folder=tmp_path_factory.mktemp("logs"), cross_zone=False, say=print)
    try:
        load = LiveLoad(target.cluster(ClusterSpec(brokers=1)))
        load.run(DRIVER, row(BASE, load=Load(kind="capped", rate=50_000)), window_s=4)  # warm the broker up
        yield load
    finally:
        target.close()


def accounted(live: LiveLoad[EmbeddedCluster], scenario: Scenario) -> None:
    """Run a round; every partition's end is what was acknowledged of it, and each topic was written to."""
    topics = scenario.topic
    with live.topic(scenario) as topic:
        before = live.topics.end_offsets(topic, topics.partitions, topics.count)
        observer = live.observer(topic, topics.partitions, topics.count)
        result = DRIVER.run(live.spec(scenario, topic), observer)
        after = live.topics.end_offsets(topic, topics.partitions, topics.count)
        assert live.topics.leaders(topic, topics.count) == (1,) * topics.in_all
    accounting = accounting_of(result.sent, before, after)
    found = (*flaws(scenario.load, result, accounting), *unwritten(topics, accounting))
    assert [flaw.text for flaw in found if not flaw.again] == [], "but that this machine was late"
    assert unwritten(topics, accounting) == ()
    if result.sent is None:
        return
    assert accounting.acked + accounting.markers == accounting.offset_delta > 0
    assert len(accounting.partitions) == topics.in_all
    assert all(acked == moved for acked, moved in accounting.partitions)
    by_topic = latency_by_topic(topics, result)
    assert by_topic.sum() == merged([result.sent.latency]).get_total_count()
    assert (by_topic.sum(axis=1) > 0).all()


@pytest.mark.parametrize(
    "consumers",
    [
        None,
        Consumers(membership="assigned", threads=3),
        pytest.param(Consumers(membership="group", processes=2), marks=pytest.mark.slow),
    ],
    ids=["alone", "assigned", "group"],
)
def test_every_record_of_every_topic_is_accounted_for(
    live: LiveLoad[EmbeddedCluster], consumers: Consumers | None
) -> None:
    accounted(live, row(BASE, consumers=consumers))


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"keys": Keys(kind="set", count=100), "consumers": Consumers(membership="group", groups=2)},
        {"load": Load(kind="capped", rate=100_000), "producers": 2, "threads": 2},
        {"transaction_ms": 100, "producer": settings({"acks": -1, "enable.idempotence": "true"})},
        {"topic": TopicSpec(partitions=1, replication_factor=1, count=120)},
    ],
    ids=["keys", "processes", "transactions", "120-topics"],
)
def test_other_loads_over_several_topics(live: LiveLoad[EmbeddedCluster], changes: dict[str, object]) -> None:
    accounted(live, row(BASE, **changes))


@pytest.mark.slow
def test_a_backlog_over_several_topics_is_read_over_and_over(live: LiveLoad[EmbeddedCluster]) -> None:
    backlog = row(
        BASE, load=Load(kind="backlog", records=20_000), consumers=Consumers(membership="assigned", threads=2)
    )
    with live.topic(backlog) as topic:
        observer = live.observer(topic, TOPICS.partitions, TOPICS.count)
        spec = live.spec(backlog, topic)
        DRIVER.fill(spec, observer)
        assert sum(live.topics.end_offsets(topic, TOPICS.partitions, TOPICS.count)) == 20_000
        received = DRIVER.run(spec, observer).received
    assert received is not None
    assert received.received > 20_000
    assert (received.foreign, received.duplicated, received.reordered, received.missed) == (0, 0, 0, 0)


@pytest.mark.slow
def test_a_journaled_load_over_several_topics_and_the_log_agree(
    live: LiveLoad[EmbeddedCluster], tmp_path: Path
) -> None:
    reading = row(BASE, consumers=Consumers(membership="group"))
    with live.topic(reading) as topic:
        observer, spec = live.observer(topic, TOPICS.partitions, TOPICS.count), live.spec(reading, topic)
        with DRIVER.journaled(spec, tmp_path / "load", observer) as load:
            load.begin()
            load.follow_until(load.start + 2, "loading")
            assert load.finish() == []
        ends = live.topics.end_offsets(topic, TOPICS.partitions, TOPICS.count)
        log = journaled.read_everything(KafkaInstructions(), spec, tmp_path / "whole", ends, observer)
    outcomes = read_journal(outcomes_path(tmp_path / "load", 0), OUTCOME)
    assert np.bincount(log["partition"], minlength=TOPICS.in_all).tolist() == list(ends)
    where = [(p, o, s) for p, o, s in zip(log["partition"], log["offset"], log["sequence"], strict=True)]
    acked = [(p, o, s) for p, o, s in zip(outcomes["partition"], outcomes["offset"], outcomes["sequence"], strict=True)]
    assert sorted(where) == sorted(acked)


NOISY = Part(
    name="noisy",
    topic=TopicSpec(partitions=3, replication_factor=1, count=2),
    producer=settings({"acks": 1, "batch.size": 16384, "linger.ms": 0}),
    record_bytes=1000,
    load=Load(kind="capped", rate=20_000),
    consumers=Consumers(membership="assigned"),
)


@pytest.mark.slow
@pytest.mark.parametrize("quota_mib_per_s", [0.0, 1.0])
def test_a_load_beside_another_one_is_accounted_for_by_itself(
    live: LiveLoad[EmbeddedCluster], quota_mib_per_s: float
) -> None:
    """With a quota its producers get what that allows, or less where they had sent more before it took hold."""
    paced = row(BASE, beside=(replace(NOISY, quota_mib_per_s=quota_mib_per_s),))
    means = Means(
        tier=Tier(name="live", rounds=2, window_s=8, warmup_max_s=2, broker_warmup_s=0),
        driver=DRIVER,
        engine=DRIVER,
        sampler=lambda cluster: process_sampler(live.cluster.broker_pids),
        say=MagicMock(),
        histories=Path("none"),
    )
    bench = Bench(means, live.cluster, f"r{quota_mib_per_s:.0f}")
    found = bench.round(paced, 1, None, "measuring").round
    print(found.metrics, found.flaws, found.beside)
    assert [flaw.text for flaw in found.flaws if not flaw.metrics and not flaw.again] == []
    (part,) = found.beside
    assert part.accounting.acked == part.accounting.offset_delta > 0
    assert found.accounting.acked == found.accounting.offset_delta > 0
    assert part.reading is not None
    assert part.reading.received == part.accounting.acked
    assert found.metrics["records_per_s"] == pytest.approx(5_000, rel=0.05)
    taken = found.metrics["part.noisy.mib_per_s"]
    assert taken < 2 * quota_mib_per_s if quota_mib_per_s else taken > 5


@pytest.mark.slow
def test_a_quota_on_brokers_by_file_is_there_while_the_run_lasts(
    live: LiveLoad[EmbeddedCluster], tmp_path: Path
) -> None:
    path = tmp_path / "target.toml"
    path.write_text(
        f'bootstrap-servers = "{live.cluster.bootstrap(SAME_ZONE)}"\non-this-host = true\n'
        '[limits]\nbytes = "1 GB"\nmib-per-s = 10\n[broker-config]\nallowed = true\n'
    )
    target = ExternalTarget(
        load_target(path, lambda stores: {}),
        run_id="r",
        manifests=tmp_path / "m",
        note=print,
        broker_config_allowed=True,
    )

    def told() -> str:
        return live.cluster.faults.run_script(DESCRIBE, {})

    try:
        target.prepare([ClusterSpec()])
        target.cluster(ClusterSpec()).limit("kpg-r-noisy", 1_000)
        assert "kpg-r-noisy" in told()
    finally:
        target.close()
        assert target._occupied is not None
        target._occupied.close()
    assert target.left_behind == ()
    assert "kpg-r-noisy" not in told()
