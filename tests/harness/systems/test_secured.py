"""Secured listeners of the suite's own brokers: those of clients alone, and no password shown."""

import os
import signal
import stat
from pathlib import Path

import pytest

from perfgate.host.java import find_java
from perfgate.host.maven import Jars
from perfgate.model import ClusterSpec, Scenario, with_changes
from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import redacted, revealed
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster
from perfgate.systems.kafka.managed.faults import METADATA, QUORUM_STATE
from perfgate.systems.kafka.managed.secured import ContainerKeys, Secured
from tests.harness.build import scenario
from tests.harness.host.test_guard import wait_until


@pytest.fixture(scope="module")
def scram(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured("sasl-tls", java=find_java(), folder=tmp_path_factory.mktemp("keys"))


def test_only_the_listeners_of_clients_are_secured(scram: Secured) -> None:
    protocols = "SAMEZONE:PLAINTEXT,CROSSZONE:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
    told = scram.broker_settings(protocols)
    assert told["listener.security.protocol.map"] == (
        "SAMEZONE:SASL_SSL,CROSSZONE:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
    )
    assert told["sasl.enabled.mechanisms"] == "SCRAM-SHA-512"
    assert "listener.name.samezone.scram-sha-512.sasl.jaas.config" in told


def test_the_password_is_the_same_on_both_sides_and_shown_nowhere(scram: Secured) -> None:
    client = scram.client_settings()
    password = revealed(client)["sasl.password"]
    assert password in scram.format_options()[1]
    assert password not in str(dict(client))
    assert password not in redacted(f"--add-scram {scram.format_options()[1]}")


def test_a_container_finds_its_key_store_elsewhere_and_its_user_has_the_same_password(scram: Secured) -> None:
    told = scram.broker_settings("SAMEZONE:PLAINTEXT", "/inside/keys.p12")
    assert told["ssl.keystore.location"] == "/inside/keys.p12"
    assert scram.store.exists()
    password = revealed(scram.client_settings())["sasl.password"]
    assert scram.credential() == f"SCRAM-SHA-512=[password={password}]"


def test_the_keys_of_containers_are_nobody_elses_and_end_with_them() -> None:
    keys = ContainerKeys("tls")
    folder = keys.secured.store.parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(keys.secured.store.stat().st_mode) == 0o644, "another user reads it, mounted into a container"
    keys.close()
    assert not folder.exists()


def test_the_keys_of_containers_go_with_a_run_that_is_killed() -> None:
    """They stayed in the folder for temporary files for ever."""
    reads, writes = os.pipe()
    if not (run := os.fork()):
        try:
            keys = ContainerKeys("tls")
            os.write(writes, os.fsencode(keys.secured.store.parent))
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(writes)
    os.waitpid(run, 0)
    folder = Path(os.fsdecode(os.read(reads, 4096)))
    os.close(reads)
    assert folder.name.startswith("kafka-perf-gate-keys-")
    assert wait_until(lambda: not folder.exists())


def test_tls_alone_has_no_user(tmp_path: Path) -> None:
    tls = Secured("tls", java=find_java(), folder=tmp_path)
    assert tls.format_options() == []
    assert tls.credential() == ""
    assert [name for name, _ in tls.client_settings()] == ["security.protocol", "ssl.ca.location"]
    assert not [name for name in tls.broker_settings("SAMEZONE:PLAINTEXT") if "sasl" in name]


def test_kafkas_tools_come_in_by_the_listener_that_is_not_secured(tmp_path: Path) -> None:
    """They spoke plain text to the secured one: quotas and moves of replicas failed after a minute."""
    jars = Jars(version="4.3.1", jars=())
    spec = ClusterSpec(security="tls")
    cluster = EmbeddedCluster(spec, java=find_java(), jars=jars, logs=tmp_path, cross_zone=False)
    try:
        for folder in cluster.log_dirs():
            (folder / METADATA).mkdir(parents=True)
            (folder / METADATA / QUORUM_STATE).write_text('{"leaderId": 1}')
        found = cluster.faults.run_script('echo "$bootstrap"', {}).strip().split(",")
        settings = [cluster._node_settings(node) for node in (1, 2, 3)]
    finally:
        cluster.close()
    assert all(f"INTERNAL://{at}" in of_one["listeners"] for at, of_one in zip(found, settings, strict=True))
    assert "INTERNAL:PLAINTEXT" in settings[0]["listener.security.protocol.map"]


def test_a_scenario_states_it_by_path() -> None:
    secured: Scenario = with_changes(scenario(), [("cluster.security", "tls")])
    assert (secured.cluster.security, ClusterSpec().security) == ("tls", "plaintext")
    with pytest.raises(ConfigurationError, match="legal: plaintext, tls, sasl-tls"):
        with_changes(scenario(), [("cluster.security", "kerberos")])
