"""What faults do to the nodes of an embedded cluster, seen from a client."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perfgate.model import SAME_ZONE, ClusterSpec, TopicSpec, settings
from perfgate.model.errors import TargetError
from perfgate.model.target import Action
from perfgate.systems.kafka.client.topics import admin_client
from perfgate.systems.kafka.managed.embedded import EmbeddedTarget
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster
from perfgate.systems.kafka.observe import MetadataWatch

BOUND_S = 300
SEEN_BOUND_S = 40
"""Sessions of 3 s; a client that waits for the broker that stands still waits for 60."""
QUICK = settings({"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    target = EmbeddedTarget(log_folder=tmp_path_factory.mktemp("logs"), cross_zone=False, say=print)
    spec = ClusterSpec(brokers=3, controllers=3, severable=True, config=QUICK)
    target.prepare([spec])
    try:
        yield target.cluster(spec)
    finally:
        target.close()


def brokers(cluster: EmbeddedCluster) -> set[int]:
    return set(admin_client(cluster.bootstrap(SAME_ZONE), ()).list_topics(timeout=60).brokers)


def until(true: Callable[[], bool]) -> float:
    """Wait until it is true; return how long that took."""
    begin = time.monotonic()
    while not true():
        assert time.monotonic() - begin < BOUND_S
        time.sleep(0.1)
    return time.monotonic() - begin


@pytest.mark.parametrize(("take", "give_back"), [("kill", "start"), ("pause", "resume"), ("cut-off", "heal")])
def test_a_broker_goes_and_comes_back(cluster: EmbeddedCluster, take: Action, give_back: Action) -> None:
    until(lambda: brokers(cluster) == {1, 2, 3})
    cluster.faults.do(take, 2)
    print(f"{take}: gone after {until(lambda: brokers(cluster) == {1, 3}):.1f} s")
    cluster.check()
    cluster.faults.do(give_back, 2)
    print(f"{give_back}: back after {until(lambda: brokers(cluster) == {1, 2, 3}):.1f} s")


@pytest.mark.slow
def test_the_watch_is_not_held_up_by_whichever_broker_stands_still(cluster: EmbeddedCluster) -> None:
    until(lambda: brokers(cluster) == {1, 2, 3})
    topics = cluster.topics()
    topics.create("watched", TopicSpec(partitions=3, replication_factor=3))
    with MetadataWatch(cluster.bootstrap(SAME_ZONE), (), "watched") as watch:
        for broker in (1, 2, 3):
            cluster.faults.do("pause", broker)
            try:
                took = until(lambda gone=broker: gone not in watch.last.brokers)  # type: ignore[misc]
            finally:
                cluster.faults.do("resume", broker)
            assert took < SEEN_BOUND_S
            until(lambda: watch.last.full and len(watch.last.brokers) == 3)
    topics.delete("watched")


def test_an_orderly_stop_ends_the_process(cluster: EmbeddedCluster) -> None:
    cluster.faults.do("stop", 3)
    cluster.faults.wait_until_ended(3)
    until(lambda: brokers(cluster) == {1, 2})
    cluster.faults.do("start", 3)
    until(lambda: brokers(cluster) == {1, 2, 3})


def test_another_controller_leads_once_the_active_one_is_killed(cluster: EmbeddedCluster) -> None:
    first = cluster.faults.active_controller()
    assert first in (101, 102, 103)
    cluster.faults.do("kill", first)
    cluster.check()

    def replaced() -> bool:
        try:
            return cluster.faults.active_controller() != first
        except TargetError:
            return False

    until(replaced)
    cluster.faults.do("start", first)
    assert brokers(cluster) == {1, 2, 3}


def test_links_without_proxies_cannot_be_cut(tmp_path: Path) -> None:
    target = EmbeddedTarget(log_folder=tmp_path, cross_zone=False, say=print)
    spec = ClusterSpec(brokers=1)
    target.prepare([spec])
    try:
        with pytest.raises(TargetError, match="nothing can be severed"):
            target.cluster(spec).faults.do("cut-off", 1)
    finally:
        target.close()
