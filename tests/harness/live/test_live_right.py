"""On real brokers: the numbers say what was done."""

import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from perfgate.model import CROSS_ZONE, SAME_ZONE, ClusterSpec, TopicSpec
from perfgate.model.errors import TopicRefusedError
from perfgate.systems.kafka.client.topics import Topics
from perfgate.systems.kafka.managed.embedded import EmbeddedTarget
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster
from tests.harness.run_gate import PROBES, ROOT, UNDECIDED, Finished, gate

SHORT = ("--rounds=2", "--window=3", "--warmup-max=2", "--broker-warmup=5", "-p", "tests.harness.no_more_rounds")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return gate(tmp_path_factory.mktemp("plain"), PROBES, "-k", "paced-slow", *SHORT)


@pytest.fixture(scope="module")
def lingering(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    results = tmp_path_factory.mktemp("lingering")
    # Batches that no linger of this rate fills: it is the linger that ends them.
    change = ("--set", "producer.linger.ms=500", "--set", "producer.batch.size=1000000")
    return gate(results, PROBES, "-k", "paced-slow", *SHORT, *change)


def test_the_example_of_ones_own_scenarios_is_measured_and_judged(tmp_path: Path) -> None:
    selected = ("--family=orders", "-k", "orders-plain or orders-lz4 or orders-latency", "--window=1", "--warmup-max=1")
    done = gate(tmp_path, f"--scenarios={ROOT / 'examples/own-scenarios'}", *SHORT, *selected)
    assert done.measured, done.output
    assert {entry["name"] for entry in done.run["scenarios"]} == {"orders-plain", "orders-lz4"}
    assert [one["name"] for one in done.run["relations"]] == ["orders-latency"]
    assert all(entry["accounting"]["acked"] > 0 for entry in done.run["scenarios"])


def test_linger_shows_in_the_latency_of_a_row_below_its_capacity(plain: Finished, lingering: Finished) -> None:
    """A record waits for its batch for up to 500 ms, for half of that on average, on any machine; a slow one adds."""
    quick, slow = (done.scenario("paced-slow")["metrics"] for done in (plain, lingering))
    assert slow["latency_ms.p50"]["value"] > max(200, quick["latency_ms.p50"]["value"])
    assert slow["latency_ms.p99"]["value"] > 450
    assert lingering.run["modified"] == ["producer.linger.ms=500", "producer.batch.size=1000000"]
    assert plain.run["modified"] == []


def test_a_paced_load_keeps_its_rate_and_its_schedule(plain: Finished) -> None:
    entry = plain.scenario("paced-slow")
    assert entry["load"] == {
        "kind": "paced",
        "rate": 500,
        "records": 0,
        "probes": False,
        "times_out": False,
        "share_of_knee": 0.0,
        "level_p99_ms": 0.0,
        "knee": "",
        "shape": None,
        "latency_basis": "intended-send",
    }
    assert statistics.median(entry["metrics"]["records_per_s"]["rounds"]) == pytest.approx(500, rel=0.1)
    assert entry["generator"]["schedule_delay_p99_ms_max"] > 0
    assert entry["generator"]["wake_delay_p99_ms_max"] > 0


def test_cpu_over_time_adds_up_to_that_of_the_window(plain: Finished) -> None:
    for recorded in plain.scenario("paced-slow")["rounds"]:
        assert set(recorded["broker_cpu_over_time"]) == {"1", "2", "3"}
        for broker, steps in recorded["broker_cpu_over_time"].items():
            begins = [0.0, *(end for end, _ in steps)]
            spent = sum(cores * (end - begin) for begin, (end, cores) in zip(begins, steps, strict=False))
            assert len(steps) >= 2
            assert begins[-1] == pytest.approx(recorded["window_s"], abs=1.0), "a slow machine reads late"
            assert spent / begins[-1] == pytest.approx(recorded["metrics"][f"broker_cpu_cores.{broker}"], abs=0.02)


def test_the_brokers_received_what_was_sent_and_told_so(plain: Finished) -> None:
    entry = plain.scenario("paced-slow")
    copies = entry["declared"]["topic"]["replication_factor"]
    for recorded in entry["rounds"]:
        metrics = recorded["metrics"]
        # A record has some bytes of its own, and requests have: more than its payload comes and goes.
        assert metrics["broker_network_in_mib_per_s"] > 0.8 * copies * metrics["mib_per_s"]
        assert metrics["broker_network_out_mib_per_s"] > 0.8 * (copies - 1) * metrics["mib_per_s"]
        assert metrics["broker_rss_mib.sum"] > 100
        assert metrics["broker_disk_write_mib_per_s"] >= 0
        assert recorded["untold"] == {}


def test_every_record_is_accounted_for(plain: Finished) -> None:
    for recorded in plain.scenario("paced-slow")["rounds"]:
        accounting = recorded["accounting"]
        assert accounting["attempted"] == accounting["acked"] == accounting["offset_delta"] > 0
        assert accounting["failed"] == {}
        assert accounting["unresolved"] == 0


def test_without_thresholds_the_row_is_missing_not_green(plain: Finished) -> None:
    assert plain.code == UNDECIDED, "nothing was judged"
    if (
        plain.scenario("paced-slow")["verdict"] == "INCONCLUSIVE"
    ):  # a machine on which brokers that are hardly loaded compile for minutes
        assert "brokers still warming up: " in plain.output
        return
    assert plain.allure["paced-slow"]["status"] == "skipped"
    assert plain.scenario("paced-slow")["verdict"] == "MISSING"
    assert "NOTHING JUDGED: judged 0 of 1 scenarios (1 MISSING)" in plain.output


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    target = EmbeddedTarget(log_folder=tmp_path_factory.mktemp("logs"), cross_zone=True, say=print)
    yield target.cluster(ClusterSpec())
    target.close()


def test_the_cross_zone_link_adds_its_delay(cluster: EmbeddedCluster) -> None:
    # Brokers that have just started answer by fits and starts.
    added = statistics.median(cluster.rtt_ms(CROSS_ZONE) - cluster.rtt_ms(SAME_ZONE) for _ in range(7))
    assert 0.5 * CROSS_ZONE.added_rtt_ms < added < 100


def test_brokers_sit_in_three_racks_behind_both_links(cluster: EmbeddedCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap(SAME_ZONE)})
    described = admin.describe_cluster().result(timeout=60)
    assert {node.id: node.rack for node in described.nodes} == {1: "az-1", 2: "az-2", 3: "az-3"}
    assert len(cluster.bootstrap(SAME_ZONE).split(",")) == 3
    assert not set(cluster.bootstrap(SAME_ZONE).split(",")) & set(cluster.bootstrap(CROSS_ZONE).split(","))


def test_many_topics_in_a_row_become_ready(cluster: EmbeddedCluster) -> None:
    """librdkafka's admin client went on calling 1 new topic in 17 leaderless for ever."""
    topics = Topics(cluster)
    for number in range(60):
        spec = TopicSpec(partitions=3, replication_factor=1 + 2 * (number % 2))
        topics.create(f"many-{number}", spec)
        assert topics.end_offsets(f"many-{number}", 3) == (0, 0, 0)
        topics.delete(f"many-{number}")


def test_a_topic_the_brokers_refuse_is_told_in_their_words(cluster: EmbeddedCluster) -> None:
    with pytest.raises(TopicRefusedError, match=r"creating topic too-many .*replication factor"):
        Topics(cluster).create("too-many", TopicSpec(partitions=1, replication_factor=4))


def test_equal_specs_share_a_cluster(tmp_path: Path) -> None:
    target = EmbeddedTarget(log_folder=tmp_path, cross_zone=False, say=print)
    try:
        first = target.cluster(ClusterSpec(brokers=1))
        assert target.cluster(ClusterSpec(brokers=1)) is first
        other = target.cluster(ClusterSpec(brokers=1, config=(("num.io.threads", "2"),)))
        assert other is not first
        other.check()
    finally:
        target.close()
