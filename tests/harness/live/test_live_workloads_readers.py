"""Readers as real applications have them, on real brokers: members of a group come and go, work, read old data."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from confluent_kafka import Consumer, TopicPartition

from perfgate.load.history import OUTCOME, RECEIPT, Rows, outcomes_path, read_journal, receipts_path
from perfgate.model import (
    SAME_ZONE,
    ClusterSpec,
    Consumers,
    Fault,
    FaultScenario,
    Load,
    Scenario,
    TopicSpec,
    settings,
)
from perfgate.model.faults import Scene
from perfgate.model.load import LoadResult
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from perfgate.systems.kafka.managed.embedded import EmbeddedTarget
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster
from tests.harness.live_load import LiveLoad
from tests.harness.run_gate import gate

DRIVER = LibrdkafkaDriver()
Live = LiveLoad[EmbeddedCluster]
BASE = Scenario(
    name="live",
    summary="a load of the tests",
    families=("live",),
    factor=(),
    topic=TopicSpec(partitions=4, replication_factor=1),
    producer=settings({"acks": "all", "enable.idempotence": "true", "linger.ms": 5}),
    record_bytes=200,
    load=Load(kind="paced", rate=400),
)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    target = EmbeddedTarget(log_folder=tmp_path_factory.mktemp("logs"), cross_zone=False, say=print)
    spec = ClusterSpec(brokers=1, config=settings({"group.initial.rebalance.delay.ms": 0}))
    try:
        yield LiveLoad(target.cluster(spec))
    finally:
        target.close()


def rolled(live: Live, folder: Path, config: dict[str, object]) -> tuple[Rows, list[Rows]]:
    """Restart two members of a group in turn; return where each record was acknowledged, and what each was given."""
    members = Consumers(membership="group", processes=2, config=settings(config))
    row = FaultScenario.of(replace(BASE, consumers=members), Fault(kind="rolling-application", hold_s=0.5))
    with live.topic(row) as topic:
        spec, observer = live.spec(row, topic, warmup_max_s=1.0), live.observer(topic, 4)
        with DRIVER.journaled(spec, folder, observer) as load:
            load.begin()
            scene = Scene(row, Mock(), load, Mock())
            row.fault.about.act(scene)
            load.follow_until(time.monotonic() + 1.0, "after it")
            assert not load.finish()
        assert [words for _, words in scene.marks] == [
            "consumer 1 leaves",
            "consumer 3 joins",
            "consumer 2 leaves",
            "consumer 4 joins",
        ]
    outcomes = read_journal(outcomes_path(folder, 0), OUTCOME)
    assert not outcomes["error"].any()
    return outcomes, [read_journal(receipts_path(folder, number), RECEIPT) for number in range(4)]


def none_missed(outcomes: Rows, given: list[Rows]) -> None:
    """Each successor was given records, and the group as a whole every one of those before its last."""
    assert all(len(rows) for rows in given)
    together = np.concatenate(given)
    for partition in range(4):
        here = np.unique(together["offset"][together["partition"] == partition])
        assert (np.diff(here) == 1).all()
        assert here[0] == 0
        assert here[-1] <= outcomes["offset"][outcomes["partition"] == partition].max()


def test_an_application_that_is_restarted_misses_no_record(live: Live, tmp_path: Path) -> None:
    config = {"partition.assignment.strategy": "range", "heartbeat.interval.ms": 300}
    none_missed(*rolled(live, tmp_path, config))


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [
        {
            "partition.assignment.strategy": "cooperative-sticky",
            "heartbeat.interval.ms": 300,
            "session.timeout.ms": 6_000,
        },
        {"group.protocol": "consumer"},
        {"group.protocol": "consumer", "group.instance.id": "app"},
    ],
    ids=["cooperative", "new", "new-static"],
)
def test_so_does_each_other_kind_of_group(live: Live, tmp_path: Path, config: dict[str, object]) -> None:
    none_missed(*rolled(live, tmp_path, config))


@pytest.mark.slow
def test_static_members_are_given_back_what_they_had(live: Live, tmp_path: Path) -> None:
    config = {
        "partition.assignment.strategy": "range",
        "group.instance.id": "app",
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 300,
    }
    outcomes, given = rolled(live, tmp_path, config)
    none_missed(outcomes, given)
    for before, after in ((0, 2), (1, 3)):
        assert {*given[before]["partition"].tolist()} == {*given[after]["partition"].tolist()}


@pytest.mark.slow
def test_a_rolling_restart_is_measured_as_a_user_does(tmp_path: Path) -> None:
    row = "rolling-application"
    asked = ("-k", f"{row} and not {row}-", "--family", "rebalance", "--broker-warmup", "5", "--relations-only")
    done = gate(tmp_path, *asked)
    entry = done.scenario(row)
    (measured,) = entry["rounds"]
    metrics = measured["metrics"]
    assert entry["verdict"] not in ("INVALID", "BROKEN"), done.output
    assert metrics["missed_records"] == metrics["lost_records"] == 0
    assert 0 < metrics["receive_outage_s.max"] < 60
    assert metrics["receive_outage_partition_seconds"] > metrics["receive_outage_all_s"]
    assert len(measured["failover"]["marks"]) == 6
    assert "partitions lay idle for" in done.output


def worked(live: Live, work: Mapping[str, object], window_s: float = 3.0) -> LoadResult:
    """Run a round in which a group of two members works; all that was sent was received, and is accounted for."""
    members = replace(Consumers(membership="group", threads=2), **work)  # type: ignore[arg-type]  # its fields
    result, ends = live.run(DRIVER, replace(BASE, consumers=members), window_s=window_s)
    assert result.sent is not None
    assert result.received is not None
    assert result.sent.acked == ends == result.received.received
    assert (result.received.failed, result.received.duplicated, result.received.reordered) == ({}, 0, 0)
    assert result.lag is not None
    return result


@pytest.mark.slow
@pytest.mark.parametrize(
    "work",
    [
        {"work_ms": 2.0},
        {"work_ms": 2.0, "work_sigma": 1.0},
        {"work_ms": 50.0, "work_per": "batch"},
        {"work_ms": 1_500.0, "work_per": "batch", "pauses": True},
    ],
    ids=["constant", "lognormal", "batch", "pauses"],
)
def test_consumers_that_can_keep_up_work_off_all(live: Live, work: dict[str, object]) -> None:
    lag = worked(live, work).lag
    assert lag is not None
    assert lag.drained_s is not None
    assert 0 < lag.most < 5 * 400, "no more than comes while each works on what it was given at a time"


@pytest.mark.slow
def test_consumers_that_cannot_by_declaration_fall_behind_as_declared(live: Live) -> None:
    lag = worked(live, {"work_ms": 8.0}, window_s=6.0).lag
    assert lag is not None
    assert lag.drained_s is None
    assert lag.growth_per_s == pytest.approx(150, rel=0.3)


@pytest.mark.slow
def test_a_group_has_committed_what_it_worked_off(live: Live) -> None:
    members = Consumers(membership="group", work_ms=0.5, commit_records=100)
    row = replace(BASE, consumers=members)
    with live.topic(row) as topic:
        result = DRIVER.run(live.spec(row, topic), live.observer(topic, 4))
        ends = live.topics.end_offsets(topic, 4)
        asking = Consumer({"bootstrap.servers": live.cluster.bootstrap(SAME_ZONE), "group.id": topic})
        found = asking.committed([TopicPartition(topic, number) for number in range(4)], timeout=30)
        asking.close()
    assert result.received is not None
    assert result.received.received == sum(ends)
    assert [one.offset for one in found] == list(ends)


@pytest.mark.slow
@pytest.mark.parametrize(("row", "family"), [("read-cold", "cold-read"), ("tiered-on", "tiered-read")])
def test_records_that_are_not_at_hand_are_read_beside_those_who_write(row: str, family: str, tmp_path: Path) -> None:
    done = gate(tmp_path, "-k", row, "--family", family, "--broker-warmup", "5", "--relations-only")
    entry = done.scenario(row)
    (measured,) = entry["rounds"]
    metrics = measured["metrics"]
    assert entry["verdict"] not in ("INVALID", "BROKEN"), done.output
    assert metrics["lost_records"] == metrics["duplicated_records"] == 0
    assert metrics["unread_records"] > 0.9 * 60 * entry["load"]["rate"]
    assert 0 < metrics["catch_up_s"] < 60
    assert metrics["latency_during_ms.p99"] > 0
    assert len(measured["failover"]["marks"]) == 3
    assert f"{metrics['unread_records']:,.0f} records unread, read in" in done.output
