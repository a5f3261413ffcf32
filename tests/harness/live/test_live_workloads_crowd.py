"""Crowds of connections on a real broker: every record in the log once, all connected within about a second."""

from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest

from perfgate.catalogue.bases import CROWD
from perfgate.measure.validity import accounting_of, flaws
from perfgate.model import ClusterSpec, Crowd, Load, Scenario
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from perfgate.systems.kafka.managed.embedded import EmbeddedTarget
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster
from tests.harness.live.test_live_load import sound
from tests.harness.live_load import LiveLoad

DRIVER = LibrdkafkaDriver()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveLoad[EmbeddedCluster]]:
    target = EmbeddedTarget(log_folder=tmp_path_factory.mktemp("logs"), cross_zone=False, say=print)
    try:
        yield LiveLoad(target.cluster(ClusterSpec(brokers=1)))
    finally:
        target.close()


def crowd(connections: int, idle: int, processes: int = 1) -> Scenario:
    return replace(
        CROWD,
        topic=replace(CROWD.topic, replication_factor=1),
        load=Load(kind="paced", rate=connections),
        crowd=Crowd(connections=connections, idle=idle),
        producers=processes,
        cluster=ClusterSpec(brokers=1),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("connections", "idle", "processes"), [(30, 6, 3), (1_000, 200, 1), (5_000, 0, 2)])
def test_every_connection_sends(live: LiveLoad[EmbeddedCluster], connections: int, idle: int, processes: int) -> None:
    most = 0

    def count() -> None:
        nonlocal most
        port = int(live.cluster.bootstrap(CROWD.link).split(",")[0].rpartition(":")[2])
        found = [one.raddr[1] for one in psutil.net_connections("tcp4") if one.raddr and one.status == "ESTABLISHED"]
        most = max(most, found.count(port))

    scenario = crowd(connections, idle, processes)
    result, end_offsets = live.run(DRIVER, scenario, window_s=4, edge=count)
    sent = sound(result.sent, end_offsets)
    assert sent.due_in_window == pytest.approx(4 * connections, rel=0.02), "a slow machine catches up in the window"
    assert sent.crowd
    assert (sent.crowd.asked, sent.crowd.reached) == (connections + idle, connections + idle)
    assert most >= connections + idle, "while the load went on"
    accounting = accounting_of(sent, [0] * CROWD.topic.partitions, sent.acked_by_partition)
    assert not [flaw for flaw in flaws(scenario.load, result, accounting) if flaw.whose == "brokers" and not flaw.late]
    print(f"{connections} + {idle}: last answer after {sent.crowd.settled_s:.2f} s, {result.cpu_cores:.2f} cores")
