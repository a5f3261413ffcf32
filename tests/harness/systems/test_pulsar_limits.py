"""Limits on real Pulsar brokers: which scenarios keep those of the target file, and which settings may be changed."""

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from perfgate.model import CROSS_ZONE, ClusterSpec, Fault, FaultScenario, Load, Scenario, TopicSpec, settings
from perfgate.model.declared import LINKS
from perfgate.model.target import OfCluster
from perfgate.systems.attached.limits import Rule, bounds
from perfgate.systems.pulsar.attached.described import DescribedPulsar, load_target
from perfgate.systems.pulsar.attached.external import PulsarTarget
from perfgate.systems.pulsar.attached.limits import (
    BOUNDED_OF_BROKERS,
    NEVER_OF_BROKERS,
    beyond,
    lacks_nodes,
    lacks_permission,
    never_of_brokers,
)
from tests.harness.build import scenario

FILE = """system = "pulsar"
service-url = "pulsar://127.0.0.1:6650"
admin-url = "http://127.0.0.1:8080"
tenant = "gate"
"""
DOCS = Path(__file__).parents[3] / "docs" / "safety.md"
SETTING = "dispatcherMaxRoundRobinBatchSize"
OWN_OF_NAMESPACES = Rule(
    (
        "compactionThreshold",
        "deduplicationEnabled",
        "dispatchThrottling*",
        "ensemble",
        "managedLedgerMaxMarkDeleteRate",
        "maxUnackedMessages*",
        "publishThrottling*",
        "subscriptionDispatchThrottling*",
    ),
    "concerns the run's own messages alone, which go with the namespace",
)
"""What else a namespace of a run may state: no rule refuses it."""


def described(tmp_path: Path, top: str = "", tables: str = "", limits: str = "") -> DescribedPulsar:
    path = tmp_path / "t.toml"
    path.write_text(f'{FILE}{top}\n[limits]\nbytes = "1 GB"\nmib-per-s = 5\n{limits}\n{tables}')
    return load_target(path)


def of_pulsar(**changes: Any) -> Scenario:
    return replace(
        scenario(),
        **{
            "topic": TopicSpec(partitions=3, replication_factor=3),
            "cluster": ClusterSpec(system="pulsar", bookies=3),
            "factor": (),
            **changes,
        },
    )


def bookies(sync: str, *, varied: bool = False) -> dict[str, object]:
    """Changes of a scenario whose bookies wait for the disk, or do not."""
    config = settings({"journalSyncData": sync})
    spec = ClusterSpec(system="pulsar", bookies=3, bookie_config=config)
    return {"cluster": spec, "factor": config if varied else ()}


def test_a_usual_scenario_is_run(tmp_path: Path) -> None:
    one = PulsarTarget(described(tmp_path), note=print, run_id="r", manifests=tmp_path)
    assert one.cannot(of_pulsar()) is None


@pytest.mark.parametrize(
    ("changes", "limits", "words"),
    [
        ({"topic": TopicSpec(partitions=200, replication_factor=3)}, "", "600 partitions with replicas"),
        ({"topic": TopicSpec(partitions=200, replication_factor=3)}, "partitions = 600", ""),
        ({"load": Load(kind="paced", rate=1e6)}, "", "MiB/s with its replicas, and the file allows 5.0"),
        ({"transaction_ms": 10.0}, "", "brokers keep the state of transactions: the file must say"),
        ({"transaction_ms": 10.0}, "transactions = true", ""),
        ({"cluster": ClusterSpec(system="pulsar", security="tls")}, "", "how real brokers let clients in"),
        ({"load": Load(kind="backlog", records=5)}, "read-mib-per-s = 5", "reads as fast as it can"),
        (
            {"topic": TopicSpec(partitions=1, replication_factor=3, config=settings({"messageTTLInSeconds": 86400}))},
            "",
            "keep what it holds for 8 h at most: messageTTLInSeconds",
        ),
        (
            {"topic": TopicSpec(partitions=1, replication_factor=3, config=settings({"retentionTimeInMinutes": -1}))},
            "",
            "retentionTimeInMinutes",
        ),
        (
            {"topic": TopicSpec(partitions=1, replication_factor=3, config=settings({"messageTTLInSeconds": 28800}))},
            "",
            "",
        ),
    ],
)
def test_limits_of_the_file(tmp_path: Path, changes: dict[str, object], limits: str, words: str) -> None:
    said = beyond(described(tmp_path, limits=limits).limits, of_pulsar(**changes)) or ""
    assert words in said
    assert bool(said) == bool(words)


@pytest.mark.parametrize(
    ("topic", "factor", "brokers", "bookies", "words"),
    [
        (TopicSpec(partitions=1, replication_factor=3), (), 3, 2, "it needs 3 bookies, and the cluster has 2"),
        (TopicSpec(partitions=1, replication_factor=3), (), 3, 0, ""),
        (TopicSpec(partitions=1, replication_factor=3), (), 1, 3, ""),
        (TopicSpec(partitions=1, replication_factor=2, config=settings({"ensemble": 5})), (), 3, 3, "needs 5 bookies"),
        (TopicSpec(partitions=1, replication_factor=3), (("bookies", "4"),), 3, 3, "it is about 4 bookies"),
        (TopicSpec(partitions=1, replication_factor=3), (("cluster.brokers", "5"),), 3, 3, "it is about 5 brokers"),
        (TopicSpec(partitions=1, replication_factor=3), (("cluster.brokers", "5"),), 0, 0, ""),
    ],
)
def test_a_cluster_too_small_is_said_of_the_cluster(
    topic: TopicSpec, factor: tuple[tuple[str, str], ...], brokers: int, bookies: int, words: str
) -> None:
    said = lacks_nodes(of_pulsar(topic=topic, factor=factor), brokers, bookies)
    assert words in (said or "")
    assert (said is not None) == bool(words)
    assert said is None or isinstance(said, OfCluster)


@pytest.mark.parametrize(
    ("changes", "top", "words"),
    [
        ({"link": CROSS_ZONE}, "", "the target file states no [zones] cross-zone"),
        ({"link": CROSS_ZONE}, '\n[zones]\ncross-zone = "pulsar://b:6650"', ""),
        ({"link": LINKS["cross-zone-10ms"]}, '\n[zones]\ncross-zone = "pulsar://b:6650"', "as far apart as they are"),
        (bookies("true", varied=True), "", "about durability fsync, and that of these bookies is not stated"),
        (bookies("true", varied=True), 'durability = "fsync"', ""),
        (bookies("false", varied=True), 'durability = "fsync"', "of these bookies is fsync"),
        (bookies("false", varied=True), 'durability = "page cache"', ""),
        (bookies("false"), 'durability = "fsync"', ""),  # what is not its subject is as the owner has it
        (
            {"cluster": ClusterSpec(system="pulsar", bookie_config=settings({"dbStorage_writeCacheMaxSizeMb": 8}))},
            "",
            "bookies take it at their start only",
        ),
    ],
)
def test_what_the_file_does_not_give(tmp_path: Path, changes: dict[str, object], top: str, words: str) -> None:
    at_the_top, _, tables = top.partition("\n")
    found = described(tmp_path, at_the_top, tables)
    said = lacks_permission(of_pulsar(**changes), found, broker_config_allowed=False) or ""
    assert words in said
    assert bool(said) == bool(words)


def test_broker_settings_need_both_permissions(tmp_path: Path) -> None:
    one = of_pulsar(cluster=ClusterSpec(system="pulsar", config=((SETTING, "33"),)))
    for file, person, fine in ((True, True, True), (True, False, False), (False, True, False)):
        found = described(tmp_path, tables=f"[broker-config]\nallowed = {str(file).lower()}\n")
        target = PulsarTarget(found, note=print, run_id="r", manifests=tmp_path, broker_config_allowed=person)
        assert (target.cannot(one) is None) == fine


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ttlDurationDefaultInSeconds", "1", "messages of others are deleted"),
        ("backlogQuotaDefaultLimitBytes", "1", "messages of others are deleted"),
        ("loadBalancerSheddingEnabled", "true", "topics of others change brokers"),
        ("maxTenants", "1", "clients of others are held up"),
        ("dispatchThrottlingRateInByte", "1", "clients of others are held up"),
        ("allowAutoTopicCreation", "true", "what others may do"),
        ("loadManagerClassName", "a.B", "topics of others change brokers"),
        ("entryFilterNames", "a", "brokers load code"),
        ("superUserRoles", "gate", "or let others in"),
        ("a.setting.of.a.later.pulsar", "1", "none of those that a run may change"),
        (SETTING, "0", "on real brokers it may be 1 to 1,000"),
        (SETTING, "33", ""),
        ("managedLedgerCacheEvictionTimeThresholdMillis", "1", "it may be 100 to 10,000"),
    ],
)
def test_what_a_run_never_changes_on_real_brokers(name: str, value: str, words: str) -> None:
    said = never_of_brokers(name, value) or ""
    assert words in said
    assert bool(said) == bool(words)


def test_faults_need_permission_commands_and_sight(tmp_path: Path) -> None:
    stated: dict[str, Any] = {each.name: getattr(of_pulsar(), each.name) for each in fields(Scenario)}
    fault = FaultScenario(**stated, fault=Fault(kind="kill-broker"))
    commands = '[faults]\nkill = "x {host}"\nstart = "y {host}"\n'
    plain = PulsarTarget(described(tmp_path), note=print, run_id="r", manifests=tmp_path)
    assert plain.cannot(fault) == "faults on real brokers need --allow-faults"
    allowed = PulsarTarget(described(tmp_path), note=print, run_id="r", manifests=tmp_path, faults_allowed=True)
    assert "states no [faults] kill" in (allowed.cannot(fault) or "")
    able = PulsarTarget(
        described(tmp_path, tables=commands), note=print, run_id="r", manifests=tmp_path, faults_allowed=True
    )
    assert able.cannot(fault) is None


def table_rows(heading: str) -> list[list[str]]:
    """Return the rows of the table of safety.md below this heading line."""
    text = DOCS.read_text().split(heading, 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[1:]]


def names_of(rule: Rule) -> str:
    return ", ".join(f"`{name}`" for name in rule.names)


def test_the_tables_of_the_page_are_those_that_hold() -> None:
    never = table_rows("| never changed on Pulsar's brokers | why |\n")
    assert never == [[names_of(rule), rule.why] for rule in NEVER_OF_BROKERS]
    changed = table_rows("| changed on Pulsar's brokers with permission | to | why no further |\n")
    assert changed == [[names_of(rule), bounds(rule), rule.why] for rule in BOUNDED_OF_BROKERS]
    assert f"{names_of(OWN_OF_NAMESPACES)}: {OWN_OF_NAMESPACES.why}" in re.sub(r"\s+", " ", DOCS.read_text())
