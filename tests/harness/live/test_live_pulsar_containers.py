"""Pulsar's containers target, with a real Docker engine and a local image that keeps the official image's contract."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfgate.fixtures.wiring_pulsar import container_usage
from perfgate.host.docker_engine import OWNER, docker_engine, remove_leftovers
from perfgate.host.waiting import NotYet, poll_until
from perfgate.model import CROSS_ZONE, SAME_ZONE, ClusterSpec, TopicSpec, settings
from perfgate.model.errors import BrokersFailedError, ConfigurationError
from perfgate.systems.pulsar.managed.containers import ContainersCluster, ContainersTarget
from tests.containers import images
from tests.harness.live.pulsar_messages import produce
from tests.harness.live.started_gates import wait_for
from tests.harness.live.test_live_containers import ours, settled
from tests.harness.run_gate import BEGUN_BOUND_S, ROOT, gate, gate_command

IMAGE = images.pulsar_image_name("4.0.8")
IMAGES = ("--system", "pulsar", "--target", "containers", "--pulsar-image", IMAGE)
SPEC = ClusterSpec(
    system="pulsar",
    bookies=3,
    image=IMAGE,
    config=settings({"metadataStoreSessionTimeoutMillis": 6_000, "bookkeeper_delayEnsembleChange": "true"}),
    bookie_config=settings({"journalSyncData": "false"}),
)
THREE = TopicSpec(partitions=3, replication_factor=3)
MESSAGES = 3_000
BOUND_S = 120.0
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("engine", "no_ryuk")]


@pytest.fixture(scope="module")
def engine() -> None:
    """Have an engine and the images. Where CONTAINERS_REQUIRED is set an engine has to be there."""
    try:
        docker_engine()
    except ConfigurationError as error:
        if os.environ.get("CONTAINERS_REQUIRED"):
            raise
        pytest.skip(f"{error}; tests/containers/engine starts one (Debian, root)")
    images.build_pulsar()


@pytest.fixture(scope="module")
def no_ryuk() -> Iterator[None]:
    """Its image cannot be pulled everywhere; the suite's own clean-up is what is tested here."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
        yield


def test_a_scenario_runs_on_containers_and_leaves_none(tmp_path: Path) -> None:
    short = ("--rounds", 2, "--window", 2, "--broker-warmup", 20, "--relations-only")
    bounds = ("--broker-cpus", 1, "--broker-memory", 900)
    done = gate(tmp_path / "results", *IMAGES, *short, *bounds, "-k", "paced-500 or batch-16k")
    assert done.measured, done.output
    target = done.run["target"]
    assert (target["kind"], target["image"], target["pulsar_version"]) == ("containers", IMAGE, "4.0.8")
    assert (target["broker_cpus"], target["broker_memory_mib"]) == (1, 900)
    for name in ("paced-500", "batch-16k"):
        entry = done.scenario(name)
        assert entry["accounting"]["acked"] == entry["accounting"]["offset_delta"] > 0
        metrics = entry["metrics"]
        for role in ("brokers", "bookies", "metadata"):
            assert metrics[f"broker_cpu_cores.{role}"]["value"] > 0
            assert 30 < metrics[f"broker_rss_mib.{role}"]["value"] < 3_000
    logs = list((tmp_path / "results").glob("2*/logs/cluster-1/*.log"))
    assert len(logs) == 8, "seven nodes, and the tool that set the metadata up"
    assert ours() == []


def test_what_a_killed_run_leaves_is_removed_at_the_next_start(tmp_path: Path) -> None:
    command = gate_command(tmp_path / "results", *IMAGES, "-k", "paced-500", "--window", 60)
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: len(ours()) >= 5, BEGUN_BOUND_S, "four containers and their network")
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    left = settled()
    assert left
    assert sorted(remove_leftovers(docker_engine())) == sorted(left)
    assert ours() == []


def test_an_image_that_cannot_be_had_is_one_message(tmp_path: Path) -> None:
    none = "kafka-perf-gate-test/none:1"
    done = gate(tmp_path / "results", *IMAGES[:-1], none, "-k", "paced-500")
    assert done.code == 2, done.output
    assert f"image {none} is not on this machine and cannot be pulled" in done.output
    assert "name another with --pulsar-image" in done.output
    assert "Traceback" not in done.output


@pytest.fixture(scope="module")
def cluster(engine: None, no_ryuk: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainersCluster]:
    """Of the tests from here on; those above expect no containers but their own."""
    logs = tmp_path_factory.mktemp("logs")
    target = ContainersTarget(log_folder=logs, toxiproxy_image=images.TOXIPROXY_IMAGE, say=print, note=print)
    target.prepare([SPEC])
    try:
        yield target.cluster(SPEC)
    finally:
        target.close()
    kept = {path.name for path in logs.glob("cluster-1/*.log")}
    assert kept >= {"broker-1.log", "bookie-11.log", "metadata-store.log", "metadata-setup.log"}
    assert ours() == []


def test_a_cluster_is_ready_and_says_what_it_is(cluster: ContainersCluster) -> None:
    facts = cluster.facts()
    assert (facts["kind"], facts["system"], facts["image"]) == ("containers", "pulsar", IMAGE)
    assert facts["pulsar_version"] == "4.0.8", "as the brokers tell it"
    assert (facts["brokers"], facts["bookies"], facts["durability"]) == (3, 3, "page cache")
    assert sorted(cluster.container_ids()) == [1, 2, 3, 11, 12, 13, 21]
    assert len(cluster.admin.brokers()) == len(cluster.admin.bookies()) == 3
    for container in docker_engine().containers.list(filters={"label": OWNER}):
        ports = [at["HostIp"] for of in container.ports.values() for at in of or ()]
        assert {*ports} <= {"127.0.0.1"}, "published on loopback alone"
    cluster.check()


def test_messages_are_counted_over_either_link_and_all_roles_use_something(cluster: ContainersCluster) -> None:
    topics, topic = cluster.topics(), f"{cluster.prefix}written"
    topics.create(topic, THREE)
    usage = container_usage(cluster)
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
        assert min(of_roles) > 0
    topics.delete(topic)
    assert not topics.exists(topic)


def test_the_other_zone_is_farther_away(cluster: ContainersCluster) -> None:
    near, far = cluster.rtt_ms(SAME_ZONE), cluster.rtt_ms(CROSS_ZONE)
    assert near > 0
    assert far >= near + 0.5 * CROSS_ZONE.added_rtt_ms


@pytest.mark.parametrize(("action", "node"), [("kill", 12), ("kill", 2), ("stop", 3)])
def test_a_node_that_is_taken_away_is_seen_to_go_and_to_come_back(
    cluster: ContainersCluster, action: str, node: int
) -> None:
    topics, topic = cluster.topics(), f"{cluster.prefix}{action}-{node}"
    topics.create(topic, THREE)
    with cluster.watch(topic, SAME_ZONE) as watch:
        assert watch.last.full
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


def test_a_node_that_ends_by_itself_is_named_with_its_log(cluster: ContainersCluster) -> None:
    """The last test of this cluster: it is not whole afterwards."""
    docker_engine().containers.get(cluster.container_ids()[13]).kill()

    def ended() -> None:
        try:
            cluster.check()
        except BrokersFailedError as error:
            assert "bookie 13: its container ended with 137; end of its log:\n" in str(error)  # noqa: PT017
            return
        raise NotYet("nothing was noticed")

    poll_until("the check went on", ended, within_s=BOUND_S, every_s=0.1)
