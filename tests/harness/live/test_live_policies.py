"""Brokers with ways of their own: a policy for new topics, and an operator that puts settings back."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from perfgate.host.java import find_java
from perfgate.model import SAME_ZONE, ClusterSpec, settings
from perfgate.systems.kafka.client.admin import dynamic_value
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster
from tests.harness.java_code import jars_with
from tests.harness.live.real_brokers import own_state
from tests.harness.run_gate import UNDECIDED, gate

__all__ = ["own_state"]
pytestmark = pytest.mark.slow
POLICY = """
import java.util.Map;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.CreateTopicPolicy;

public class OnlyThreeReplicas implements CreateTopicPolicy {
    public void configure(Map<String, ?> configs) { }
    public void validate(RequestMetadata asked) {
        if (asked.replicationFactor() != null && asked.replicationFactor() != 3)
            throw new PolicyViolationException("topics here have 3 replicas");
        if (asked.configs().containsKey("flush.ms"))
            throw new PolicyViolationException("flush.ms is not for topics to say");
    }
    public void close() { }
}
"""
QUICK = ("--rounds=2", "--window=2", "--warmup-max=2", "--broker-warmup=0")
RECONCILED_S = 1.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder = tmp_path_factory.mktemp("policy")
    config = settings({"create.topic.policy.class.name": "OnlyThreeReplicas"})
    made = EmbeddedCluster(
        ClusterSpec(config=config),
        java=find_java(),
        jars=jars_with(folder, "OnlyThreeReplicas", POLICY),
        logs=folder / "logs",
        cross_zone=False,
    )
    try:
        made.start()
        yield made
    finally:
        made.close()


def target_file(cluster: EmbeddedCluster, folder: Path) -> Path:
    path = folder / "policy.toml"
    path.write_text(
        f'bootstrap-servers = "{cluster.bootstrap(SAME_ZONE)}"\ntopic-prefix = "team-a."\n'
        '[limits]\nbytes = "200 GB"\nmib-per-s = 100\n[broker-config]\nallowed = true\n'
    )
    return path


def test_topics_that_a_policy_refuses_are_not_run_and_the_others_are(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """The trial of permissions learnt that one replica is refused, and dropped it: INVALID, every night."""
    selected = "acks-all and not acks-all- or batch-1k or flush-1"
    done = gate(tmp_path / "results", f"--target={target_file(cluster, tmp_path)}", *QUICK, "-k", selected)
    not_run = {one["name"]: one["reason"] for one in done.run["not_run"]}
    assert "the brokers refuse its topic:" in not_run["batch-1k"], done.output
    assert "topics here have 3 replicas" in not_run["batch-1k"]
    (measured,) = [one["name"] for one in done.run["scenarios"]]
    assert measured == "acks-all"
    assert done.scenario("acks-all")["verdict"] in ("MISSING", "INCONCLUSIVE")
    left = AdminClient({"bootstrap.servers": cluster.bootstrap(SAME_ZONE)}).list_topics(timeout=60).topics
    assert not [name for name in left if "kpg-" in name]


def test_an_operator_that_reverts_the_change_makes_the_comparison_invalid(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    """Both sides were measured without it: SAME."""
    change = tmp_path / "change.toml"
    change.write_text('name = "fewer io threads"\n[broker]\n"num.io.threads" = 4\n')
    admin, ended = AdminClient({"bootstrap.servers": cluster.bootstrap(SAME_ZONE)}), threading.Event()

    def reconcile() -> None:
        """Put the setting back once it has been there for a while, as an operator's loop does."""
        since: dict[str, float] = {}
        while not ended.wait(0.1):
            for broker in ("1", "2", "3"):
                if dynamic_value(admin, broker, "num.io.threads") is None:
                    since.pop(broker, None)
                elif time.monotonic() - since.setdefault(broker, time.monotonic()) > RECONCILED_S:
                    entry = ConfigEntry("num.io.threads", None, incremental_operation=AlterConfigOpType.DELETE)
                    resource = ConfigResource(ResourceType.BROKER, broker, incremental_configs=[entry])
                    try:
                        admin.incremental_alter_configs([resource])[resource].result()
                    except KafkaException:
                        continue

    operator = threading.Thread(target=reconcile)
    operator.start()
    try:
        target = target_file(cluster, tmp_path)
        compared = (f"--compare={change}", "--budget=90s", f"--target={target}", "--allow-broker-config")
        done = gate(tmp_path / "results", *compared, *QUICK, "-k", "acks-all and not acks-all-")
    finally:
        ended.set()
        operator.join()
    (found,) = done.run["comparisons"]
    assert found["verdict"] == "INVALID", done.output
    assert "somebody reverted the change while it was measured: num.io.threads of broker" in done.output
    assert done.code == UNDECIDED, done.output
    assert "unhealthy" not in done.output
    assert [dynamic_value(admin, broker, "num.io.threads") for broker in ("1", "2", "3")] == [None] * 3
