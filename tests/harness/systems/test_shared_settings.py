"""Settings that a run states on shared brokers: each of Kafka's list, and the tables of docs/safety.md."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from perfgate.model import ClusterSpec, settings
from perfgate.systems.attached.limits import Rule, bounds
from perfgate.systems.kafka.attached.described import load_target
from perfgate.systems.kafka.attached.limits import (
    BOUNDED_OF_BROKERS,
    BOUNDED_OF_TOPICS,
    JITTER,
    NEVER_OF_BROKERS,
    NEVER_OF_TOPICS,
    beyond,
    lacks_permission,
)
from perfgate.systems.kafka.client.settings import _DESCRIBED
from tests.harness.build import scenario
from tests.harness.build.real_brokers import FILE
from tests.harness.run_gate import ROOT

KAFKA: dict[str, list[str]] = json.loads(
    (ROOT / "tests" / "harness" / "data" / "kafka-4.3.1-settings.json").read_text()
)
"""What Kafka 4.3.1 says of itself: DynamicBrokerConfig.dynamicConfigUpdateModes, LogConfig.nonInternalConfigNames."""
OWN_OF_TOPICS = Rule(
    (
        "cleanup.policy",
        "compression.*",
        "delete.retention.ms",
        "message.*",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "retention.*",
        "unclean.leader.election.enable",
    ),
    "concerns the run's own records alone, which go with the topic",
)
"""What else a topic of a run may state: no rule refuses it."""


def of(tables: Iterable[Sequence[Rule]], name: str) -> list[int]:
    """Return which of the tables have the setting."""
    return [at for at, rules in enumerate(tables) if any(rule.has(name) for rule in rules)]


@pytest.mark.parametrize("name", KAFKA["broker"])
def test_each_setting_that_a_broker_changes_while_it_runs_is_in_one_table(name: str) -> None:
    assert len(of((NEVER_OF_BROKERS, BOUNDED_OF_BROKERS), name)) == 1


@pytest.mark.parametrize("name", sorted({*KAFKA["topic"], *_DESCRIBED["topic"]}))
def test_each_setting_of_a_topic_is_in_one_table(name: str) -> None:
    assert len(of((NEVER_OF_TOPICS, (*BOUNDED_OF_TOPICS, JITTER), (OWN_OF_TOPICS,)), name)) == 1


def test_every_pattern_has_a_setting_of_kafka() -> None:
    known = {*_DESCRIBED["broker"], *_DESCRIBED["topic"], *KAFKA["broker"], *KAFKA["topic"], *STARTED_WITH}
    rules = (*NEVER_OF_BROKERS, *BOUNDED_OF_BROKERS, *NEVER_OF_TOPICS, *BOUNDED_OF_TOPICS, JITTER, OWN_OF_TOPICS)
    one_each = [Rule((pattern,), "") for rule in rules for pattern in rule.names]
    assert not [rule.names for rule in one_each if not any(map(rule.has, known))]


STARTED_WITH = ("advertised.listeners", "quota.consumer.default")
"""What the embedded target sets itself, or older brokers have: nobody can state it, and the tables do not rely on
that."""


def rows() -> list[str]:
    """Return the rows of the tables in docs/safety.md."""

    def line(rule: Rule, *more: str) -> str:
        cells = (", ".join(f"`{name}`" for name in rule.names), *more, rule.why)
        return f"| {' | '.join(cells)} |"

    return [
        *(line(rule) for rule in NEVER_OF_BROKERS),
        *(line(rule, bounds(rule)) for rule in BOUNDED_OF_BROKERS),
        *(line(rule) for rule in NEVER_OF_TOPICS),
        *(line(rule, bounds(rule)) for rule in BOUNDED_OF_TOPICS),
        line(JITTER, "`segment.ms` less 1,000"),
        line(OWN_OF_TOPICS, "any"),
    ]


def test_the_document_has_the_tables() -> None:
    text = (ROOT / "docs" / "safety.md").read_text()
    assert not [row for row in rows() if f"{row}\n" not in text]


def refusal(tmp_path: Path, allowed: bool, **scopes: dict[str, str]) -> str:
    """Return why real brokers do not run a scenario with these settings of `topic` or `broker`."""
    (tmp_path / "t.toml").write_text(FILE)
    described = load_target(tmp_path / "t.toml", lambda stores: {})
    row = scenario()
    row = replace(
        row,
        topic=replace(row.topic, config=settings(scopes.get("topic", {}))),
        cluster=ClusterSpec(config=settings(scopes.get("broker", {}))),
    )
    return lacks_permission(row, described, broker_config_allowed=allowed) or beyond(described.limits, row) or ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log.roll.ms", "1"),
        ("log.roll.jitter.ms", "604800000"),
        ("log.segment.bytes", "1048576"),
        ("log.index.size.max.bytes", "4"),
        ("log.index.interval.bytes", "0"),
        ("log.preallocate", "true"),
        ("log.segment.delete.delay.ms", "0"),
        ("log.cleaner.min.cleanable.ratio", "0"),
        ("log.cleaner.threads", "100"),
        ("log.cleaner.dedupe.buffer.size", "1"),
        ("metric.reporters", "a.B"),
        ("remote.log.manager.copy.max.bytes.per.second", "1"),
        ("follower.fetch.last.tiered.offset.enable", "true"),
        ("replica.alter.log.dirs.io.max.bytes.per.second", "1"),
        ("a.setting.of.a.later.kafka", "1"),
        ("replica.fetch.min.bytes", "1"),
    ],
)
def test_what_a_run_never_changes_on_real_brokers(tmp_path: Path, name: str, value: str) -> None:
    """log.roll.ms = 1 with both permissions began a file for each record of every topic, which putting back left."""
    assert refusal(tmp_path, True, broker={name: value}).startswith(f"{name} is never changed on real brokers: ")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("num.io.threads", "1", "on real brokers it may be 2 to 64"),
        ("num.network.threads", "1000", "on real brokers it may be 2 to 64"),
        ("num.replica.fetchers", "100", "on real brokers it may be 1 to 16"),
        ("log.flush.interval.messages", "1", "on real brokers it may be 1,000 or more"),
        ("log.flush.interval.ms", "1", "on real brokers it may be 1,000 or more"),
        ("group.consumer.assignment.interval.ms", "3600000", "on real brokers it may be 0 to 15,000"),
        ("num.io.threads", "2", ""),
        ("num.network.threads", "8", ""),
        ("log.flush.interval.messages", "10000", ""),
        ("log.cleaner.backoff.ms", "16000", ""),
        ("num.io.threads", "none", ""),  # the brokers refuse it
    ],
)
def test_what_a_run_may_change_has_bounds(tmp_path: Path, name: str, value: str, words: str) -> None:
    said = refusal(tmp_path, True, broker={name: value})
    assert words in said
    assert bool(said) == bool(words)


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"segment.index.bytes": "12"}, "begin file after file, whose index is full, or takes memory maps"),
        ({"segment.index.bytes": "2147483647"}, "memory maps of that size (segment.index.bytes = 2147483647)"),
        ({"index.interval.bytes": "0"}, "begin file after file, whose index is full (index.interval.bytes = 0)"),
        ({"segment.jitter.ms": "604800000"}, "(segment.jitter.ms = 604800000)"),
        ({"segment.ms": "10000", "segment.jitter.ms": "9500"}, "(segment.jitter.ms = 9500)"),
        ({"segment.ms": "10000", "segment.jitter.ms": "9000"}, ""),
        ({"segment.jitter.ms": "1000"}, ""),
        ({"flush.ms": "0"}, "disks written through"),
        ({"file.delete.delay.ms": "86400000"}, "keeps what is deleted on the disks"),
        ({"cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0"}, "keeps the cleaner"),
        ({"cleanup.policy": "compact,delete", "max.compaction.lag.ms": "1"}, "keeps the cleaner"),
        ({"max.message.bytes": "2147483647"}, "take the brokers' memory"),
        ({"max.message.bytes": "200", "min.insync.replicas": "2", "compression.type": "zstd"}, ""),
        ({"segment.index.bytes": "10485760", "index.interval.bytes": "4096"}, ""),
    ],
)
def test_a_topic_that_wears_brokers_out_needs_permission(tmp_path: Path, stated: dict[str, str], words: str) -> None:
    """segment.index.bytes = 12 is a file for every record, as segment.bytes = 14 was."""
    said = refusal(tmp_path, False, topic=stated)
    assert words in said
    assert bool(said) == bool(words)
    assert not refusal(tmp_path, True, topic=stated)


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize(
    ("name", "value", "never"),
    [
        ("preallocate", "true", True),
        ("preallocate", "false", False),
        ("remote.storage.enable", "true", True),
        ("remote.storage.enable", "false", False),
        ("local.retention.ms", "1", True),
        ("leader.replication.throttled.replicas", "*", True),
    ],
)
def test_what_a_topic_never_states_on_real_brokers(
    tmp_path: Path, name: str, value: str, never: bool, allowed: bool
) -> None:
    """preallocate takes a GiB of each partition's disk before a byte is written, and [limits] bytes does not see it."""
    said = refusal(tmp_path, allowed, topic={name: value})
    assert (f"its topic's {name} is never stated on real brokers" in said) is never
