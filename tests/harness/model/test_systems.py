"""What a declaration says of each system: paths, versions, durability, quorums."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.model import Change, ClusterSpec, Scenario, TopicSpec, with_changes
from perfgate.model.changes import PATHS, legal_paths, read_value, setting_of
from perfgate.model.declared import MEMBERSHIPS, Consumers
from perfgate.model.errors import ConfigurationError
from perfgate.model.system import SYSTEMS, System, release_of, system_of, version_of
from tests.harness.build import scenario

PULSAR = replace(scenario("batch"), cluster=ClusterSpec(system="pulsar", bookies=3))


def test_a_cluster_is_of_the_default_version_of_its_system() -> None:
    assert ClusterSpec() == ClusterSpec(version="4.3.1")
    assert ClusterSpec(system="pulsar") == ClusterSpec(system="pulsar", version="4.0.8")
    assert hash(ClusterSpec(system="pulsar")) == hash(ClusterSpec(system="pulsar", version="4.0.8"))
    assert ClusterSpec(system="pulsar") != ClusterSpec(version="4.0.8")


@pytest.mark.parametrize(
    ("sync", "durability"), [({"journalSyncData": "false"}, "page cache"), ({"journalSyncData": "true"}, "fsync")]
)
def test_durability_is_what_the_journal_does(sync: dict[str, str], durability: str) -> None:
    assert ClusterSpec(system="pulsar", bookie_config=tuple(sync.items())).durability == durability
    assert ClusterSpec(bookie_config=tuple(sync.items())).durability == "", "a topic of Kafka says when it flushes"


def test_a_journal_of_which_nothing_is_stated_syncs_as_bookkeeper_has_it() -> None:
    assert ClusterSpec(system="pulsar").durability == "fsync"


@pytest.mark.parametrize(
    ("topic", "quorums"),
    [
        (TopicSpec(partitions=3, replication_factor=3), "3/3/2"),
        (TopicSpec(partitions=3, replication_factor=2), "2/2/2"),
        (TopicSpec(partitions=3, replication_factor=1), "1/1/1"),
        (TopicSpec(partitions=3, replication_factor=3, ack_quorum=3), "3/3/3"),
        (TopicSpec(partitions=3, replication_factor=2, ack_quorum=1, config=(("ensemble", "3"),)), "3/2/1"),
    ],
)
def test_quorums_are_ensemble_write_and_ack(topic: TopicSpec, quorums: str) -> None:
    assert topic.quorums == quorums


@given(st.integers(1, 100))
def test_what_no_topic_states_is_a_majority(copies: int) -> None:
    acks = TopicSpec(partitions=1, replication_factor=copies).acks
    assert copies < 2 * acks <= copies + 2
    assert acks <= copies


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("cluster.bookies", 4, lambda row: row.cluster.bookies == 4),
        ("topic.ack-quorum", 3, lambda row: row.topic.acks == 3),
        ("bookie.journalSyncData", "true", lambda row: row.cluster.durability == "fsync"),
        (
            "broker.managedLedgerCacheSizeMB",
            64,
            lambda row: dict(row.cluster.config)["managedLedgerCacheSizeMB"] == "64",
        ),
        ("cluster.version", "4.2.4", lambda row: row.cluster.version == "4.2.4"),
        ("consumers.membership", "key-shared", lambda row: row.consumers.membership == "key-shared"),
    ],
)
def test_pulsar_has_paths_of_its_own(path: str, value: object, found: Callable[[Scenario], bool]) -> None:
    base = replace(PULSAR, consumers=Consumers(membership="shared"))
    after = with_changes(base, [(path, value)])
    assert after != base
    assert found(after)


def test_an_image_of_no_version_is_of_an_unknown_one_on_either_system() -> None:
    for row in (scenario("batch"), PULSAR):
        assert with_changes(row, [("cluster.image", "mine:today")]).cluster.version == "unknown"
        assert with_changes(row, [("cluster.image", "mine:4.0.7")]).cluster.version == "4.0.7"


@pytest.mark.parametrize(
    ("system", "path", "value", "words"),
    [
        ("kafka", "cluster.bookies", 3, "cluster.bookies has no meaning for Kafka: it is a path of Pulsar; legal: rec"),
        ("kafka", "bookie.journalSyncData", "true", "bookie.journalSyncData has no meaning for Kafka"),
        ("kafka", "topic.ack-quorum", 2, "topic.ack-quorum has no meaning for Kafka"),
        ("kafka", "consumers.membership", "shared", "'shared' is no membership; legal: group, assigned, share"),
        ("pulsar", "cluster.controllers", 3, "cluster.controllers has no meaning for Pulsar: it is a path of Kafka"),
        ("pulsar", "cluster.home", "/builds", "cluster.home has no meaning for Pulsar"),
        ("pulsar", "client.version", "2.11.0", "client.version has no meaning for Pulsar"),
        ("pulsar", "consumers.membership", "group", "'group' is no membership; legal: assigned, exclusive, shared"),
        ("pulsar", "cluster.version", "four", "'four' is not a Pulsar release; write it as in 4.0.8"),
        ("pulsar", "bookie.", 1, "unknown path 'bookie.'; legal: record.bytes"),
    ],
)
def test_a_path_of_the_other_system_is_refused_by_name(system: System, path: str, value: object, words: str) -> None:
    row = PULSAR if system == "pulsar" else scenario("batch")
    with pytest.raises(ConfigurationError) as error:
        with_changes(row, [(path, value)])
    assert words in str(error.value)


@pytest.mark.parametrize("path", PATHS)
def test_no_value_makes_a_path_of_the_other_system_legal(path: str) -> None:
    for system in SYSTEMS:
        if path not in legal_paths(system):
            with pytest.raises(ConfigurationError, match="has no meaning for"):
                read_value(path, 1, system)


def test_every_membership_is_of_one_system_at_least() -> None:
    for system, legal in MEMBERSHIPS.items():
        assert [read_value("consumers.membership", one, system) for one in legal] == [*legal]


def test_a_bookies_setting_needs_another_start() -> None:
    change = Change(name="sync", changes=(("bookie.journalSyncData", "true"),))
    assert (change.restarts_brokers, change.concerns_brokers) == (True, True)
    assert change.settings("bookie") == (("journalSyncData", "true"),)
    assert setting_of("bookie.journalSyncData") == ("bookie", "journalSyncData")


def test_a_target_states_its_system_and_release() -> None:
    kafka: dict[str, object] = {"kind": "embedded", "kafka_version": "4.3.1"}
    pulsar: dict[str, object] = {"kind": "embedded", "system": "pulsar", "pulsar_version": "4.0.8"}
    assert [(system_of(one), version_of(one), release_of(one)) for one in (kafka, pulsar, {})] == [
        ("kafka", "4.3.1", "Kafka 4.3.1"),
        ("pulsar", "4.0.8", "Pulsar 4.0.8"),
        ("kafka", "unknown", "Kafka unknown"),
    ]
