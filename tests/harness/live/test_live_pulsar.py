"""Pulsar as processes of this machine: ready, written to, seen through faults, gone with the run that started it."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from perfgate.fixtures.wiring_pulsar import process_usage
from perfgate.host.waiting import NotYet, poll_until
from perfgate.model import CROSS_ZONE, SAME_ZONE, ClusterSpec, TopicSpec, settings
from perfgate.model.errors import BrokersFailedError
from perfgate.model.metrics import metric_info
from perfgate.systems.pulsar.managed.embedded import DATA, EmbeddedCluster, PulsarTarget
from tests.harness.live.pulsar_messages import produce
from tests.harness.run_gate import ROOT

SPEC = ClusterSpec(
    system="pulsar",
    bookies=3,
    config=settings({"metadataStoreSessionTimeoutMillis": 6_000, "bookkeeper_delayEnsembleChange": "true"}),
    bookie_config=settings({"journalSyncData": "false"}),
)
THREE = TopicSpec(partitions=3, replication_factor=3)
MESSAGES = 3_000
BOUND_S = 180.0
"""So long a start, or what follows a fault, may take on a slow machine."""
STARTS = """
import sys
from pathlib import Path
from perfgate.model import ClusterSpec
from perfgate.systems.pulsar.managed.embedded import PulsarTarget
target = PulsarTarget(log_folder=Path(sys.argv[1]), cross_zone=False, say=print)
target.cluster(ClusterSpec(system="pulsar", bookies=3))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    target = PulsarTarget(log_folder=tmp_path_factory.mktemp("logs"), cross_zone=True, say=print)
    target.prepare([SPEC])
    try:
        yield target.cluster(SPEC)
    finally:
        target.close()


def test_a_cluster_is_ready_and_says_what_it_is(cluster: EmbeddedCluster) -> None:
    facts = cluster.facts()
    assert (facts["system"], facts["pulsar_version"]) == ("pulsar", SPEC.version)
    assert (facts["brokers"], facts["bookies"], facts["durability"]) == (3, 3, "page cache")
    assert sorted(cluster.pids()) == [1, 2, 3, 11, 12, 13, 21]
    assert cluster.admin.version() == SPEC.version
    assert len(cluster.admin.brokers()) == len(cluster.admin.bookies()) == 3
    cluster.check()


def test_libraries_of_a_node_are_unpacked_into_the_runs_own_folder(cluster: EmbeddedCluster) -> None:
    """They lay in the machine's temporary folder, where a node that is killed leaves them: 38 MB a run."""
    temporary = Path(tempfile.gettempdir())
    mapped = {Path(one.path) for pid in cluster.pids().values() for one in psutil.Process(pid).memory_maps()}
    libraries = {path for path in mapped if path.is_relative_to(temporary) and ".so" in path.name}
    assert libraries, "none is unpacked: this test sees nothing"
    of_other_folders = [path for path in libraries if not path.relative_to(temporary).parts[0].startswith(DATA)]
    assert not of_other_folders


def test_messages_are_counted_over_either_link_and_all_roles_use_something(cluster: EmbeddedCluster) -> None:
    topics, topic = cluster.topics(), f"{cluster.prefix}written"
    topics.create(topic, THREE)
    usage = process_usage(cluster)
    usage.edge()
    assert produce(cluster, topic, MESSAGES) == MESSAGES
    assert produce(cluster, topic, MESSAGES, CROSS_ZONE) == MESSAGES
    usage.edge()
    assert sum(topics.end_offsets(topic, 3)) == 2 * MESSAGES
    assert topics.leaders(topic) == (1, 2, 3), "partitions are given to the brokers in turn"
    metrics = usage.metrics(1000.0, [0])
    for name in ("broker_cpu_cores", "broker_rss_mib"):
        of_roles = [metrics[f"{name}.{role}"] for role in ("brokers", "bookies", "metadata")]
        assert sum(of_roles) == pytest.approx(metrics[f"{name}.sum"])
        # A metadata store that is not asked uses less than the kernel's tick of 10 ms.
        assert min(of_roles[: 2 if name == "broker_cpu_cores" else 3]) > 0
    assert metrics["broker_network_in_mib_per_s.bookies"] > 0
    assert all(metric_info(name) for name in metrics)
    topics.delete(topic)
    assert not topics.exists(topic)


def test_the_other_zone_is_farther_away(cluster: EmbeddedCluster) -> None:
    near, far = cluster.rtt_ms(SAME_ZONE), cluster.rtt_ms(CROSS_ZONE)
    assert near > 0
    assert far >= near + 0.5 * CROSS_ZONE.added_rtt_ms


@pytest.mark.parametrize(("action", "node"), [("kill", 12), ("kill", 2), ("stop", 3)])
def test_a_node_that_is_taken_away_is_seen_to_go_and_to_come_back(
    cluster: EmbeddedCluster, action: str, node: int
) -> None:
    topics, topic = cluster.topics(), f"{cluster.prefix}{action}-{node}"
    topics.create(topic, THREE)
    with cluster.watch(topic, SAME_ZONE) as watch:
        assert watch.last.full
        assert node in watch.last.brokers
        cluster.faults.do("kill" if action == "kill" else "stop", node)
        cluster.faults.wait_until_ended(node)

        def gone() -> None:
            if node in watch.last.brokers or node in watch.last.leaders:
                raise NotYet(str(watch.last))

        poll_until(f"node {node} was still there", gone, within_s=BOUND_S, every_s=0.1)
        cluster.check()  # it is meant to be away
        assert watch.last.replicas == ((11, 12, 13),) * 3
        assert watch.last.full == (node != 12)
        assert produce(cluster, topic, 300) == 300, "two copies of three are enough"
        cluster.faults.do("start", node)

        def back() -> None:
            if node not in watch.last.brokers or not watch.last.full:
                raise NotYet(str(watch.last))

        poll_until(f"node {node} did not come back", back, within_s=BOUND_S, every_s=0.1)
    assert sum(topics.end_offsets(topic, 3)) == 300
    topics.delete(topic)


def test_a_node_that_ends_by_itself_is_named_with_its_log(cluster: EmbeddedCluster) -> None:
    """The last test of this cluster: it is not whole afterwards."""
    os.kill(cluster.pids()[13], signal.SIGKILL)

    def ended() -> None:
        try:
            cluster.check()
        except BrokersFailedError:
            return
        raise NotYet("nothing was noticed")

    poll_until("the check went on", ended, within_s=BOUND_S, every_s=0.1)
    with pytest.raises(
        BrokersFailedError, match=r"(?s)bookie 13 \(pid \d+\) was killed by signal 9; end of its log:.*"
    ):
        cluster.check()


def left(folders: set[Path]) -> list[str]:
    """Return the processes that have one of these folders in their command line, and the folders that are there."""
    names = [str(folder) for folder in folders]
    processes = [
        " ".join(process.info["cmdline"] or ())[:200]
        for process in psutil.process_iter(["cmdline"])
        if any(name in " ".join(process.info["cmdline"] or ()) for name in names)
    ]
    return [*processes, *(name for name in names if Path(name).exists())]


def data() -> set[Path]:
    return {*Path(tempfile.gettempdir()).glob(f"{DATA}*")}


@pytest.mark.parametrize(
    "processes",
    [6, *(pytest.param(count, marks=pytest.mark.slow) for count in (1, 2, 4, 7))],
    ids=lambda count: f"{count} processes",
)
def test_a_run_that_is_killed_leaves_no_process_and_no_folder(tmp_path: Path, processes: int) -> None:
    """One process: its metadata store; two: its set-up; then bookies and brokers; seven: all, and soon ready."""
    before = data()
    run = subprocess.Popen([sys.executable, "-c", STARTS, tmp_path / "logs"], cwd=ROOT, stdout=subprocess.DEVNULL)
    try:

        def started() -> set[Path]:
            folders = data() - before
            if len(left(folders)) < processes + len(folders):
                raise NotYet("its nodes do not run yet")
            return folders

        folders = poll_until("no node was started", started, within_s=BOUND_S, every_s=0.05)
    finally:
        run.kill()
        run.wait()
    deadline = time.monotonic() + 30
    while (found := left(folders)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert found == []
