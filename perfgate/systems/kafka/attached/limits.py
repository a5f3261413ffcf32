"""Limits on real brokers: which scenarios keep those of the target file, and which settings may be changed at all.

The tables of settings stand in docs/safety.md too. They hold every setting that Kafka 4.3 changes while a broker runs,
and every topic setting, that can do harm (tests/harness/systems/test_shared_settings.py). Others are not changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from perfgate.model import KIB, MIB, Scenario
from perfgate.model.target import OfCluster
from perfgate.systems.attached.limits import (
    Rule,
    another_kind,
    beyond_limits,
    lacking_permissions,
    never_set,
    no_zone,
    number_of,
    outside,
)
from perfgate.systems.attached.target_file import Limits
from perfgate.systems.kafka.attached.described import DescribedTarget
from perfgate.systems.kafka.client.quotas import cannot_set

MOST_KEPT_H = 8
"""Retention where the topic cannot be deleted: twice as long as endurance-4h lasts."""
HOUR_MS = 3_600_000
SEGMENT_MS = 7 * 24 * HOUR_MS
"""Kafka's default."""


def lacks_brokers(scenario: Scenario, brokers: int) -> OfCluster | None:
    """The reason why the scenario means nothing on a cluster of this many brokers; None when it does."""
    replicas = scenario.topic.replication_factor
    asked = dict(scenario.factor).get("cluster.brokers", brokers)
    if int(asked) != brokers:
        return OfCluster(f"it is about {asked} brokers, and the cluster has {brokers}")
    if scenario.refusal and replicas <= brokers:
        return OfCluster(f"its {replicas} replicas are to be refused, and the cluster has {brokers} brokers")
    if replicas > brokers and not scenario.refusal:
        return OfCluster(f"it needs {replicas} replicas, and the cluster has {brokers} brokers")
    return None


def lacks_permission(scenario: Scenario, described: DescribedTarget, *, broker_config_allowed: bool) -> str | None:
    """The zone or broker setting that the target file and the run's options do not give; None when they do."""
    if reason := no_zone(scenario, described):
        return reason
    topic = dict(scenario.topic.config)
    wanted = lacking_permissions(described)
    if any(part.quota_mib_per_s for part in scenario.beside):
        if not broker_config_allowed:
            return f"it sets a quota of a client id of its own: {wanted}"
        if unset := cannot_set(described.client):
            return unset
    for name, value in scenario.cluster.config:
        if reason := never_of_brokers(name, value):
            return reason
    if reason := never_of_topics(topic):
        return reason
    if scenario.cluster.config and not broker_config_allowed:
        return f"it needs broker settings: {wanted}"
    if not broker_config_allowed and (harm := next(wears_out(topic), None)):
        return f"{harm}: {wanted}"
    return None


def beyond(limits: Limits, scenario: Scenario) -> str | None:
    """The limit that the scenario would exceed, or what else it asks of the brokers; None when it keeps all."""
    if reason := another_kind(scenario):
        return reason
    if scenario.consumers and scenario.consumers.membership == "share":
        return "where its share group begins is a setting of the group that would stay on real brokers"
    topic = dict(scenario.topic.config)
    if not 0 < number_of(topic.get("retention.ms", 1)) <= MOST_KEPT_H * 3_600_000:
        return f"a topic that cannot be deleted may keep what it holds for {MOST_KEPT_H} h at the most: retention.ms"
    if "delete" not in [policy.strip() for policy in topic.get("cleanup.policy", "delete").split(",")]:
        return "a topic that cannot be deleted would keep what it holds for good: its cleanup.policy is without delete"
    return beyond_limits(limits, scenario, of_transactions="brokers keep each transactional.id for days")


NEVER_OF_BROKERS = (
    Rule(
        ("log.retention.*", "log.local.retention.*", "log.cleanup.policy"),
        "records of others are deleted, or never are, and putting back brings none back",
    ),
    Rule(
        ("log.cleaner.*.retention.ms", "log.cleaner.*.compaction.lag.ms", "log.cleaner.min.cleanable.ratio"),
        "topics of others are compacted earlier: what that removes stays removed",
    ),
    Rule(
        ("log.cleaner.dedupe.buffer.size", "log.cleaner.io.*", "log.cleaner.threads", "log.cleaner.enable"),
        "memory for all, and where it is too little the cleaner ends: disks fill with what is never compacted",
    ),
    Rule(("unclean.leader.election.enable",), "acknowledged records of others are lost"),
    Rule(("log.message.*",), "records written meanwhile have another timestamp or format for good, or are refused"),
    Rule(("compression.*",), "records written meanwhile are stored so for good"),
    Rule(
        ("log.roll.*", "log.segment.bytes", "log.index.*"),
        "every topic begins files meanwhile: they use up open files and memory maps, and stay until their retention",
    ),
    Rule(("log.preallocate",), "each new file of every topic takes its whole size of the disk at once"),
    Rule(("log.segment.delete.delay.ms",), "deleted files of every topic fill the disks, or go while they are read"),
    Rule(
        ("producer.id.expiration.ms", "transaction*"),
        "brokers forget producers and transactions of others: duplicates, aborted work",
    ),
    Rule(
        ("min.insync.replicas", "message.max.bytes", "*fetch.max.bytes", "socket.*", "offsets.*"),
        "what others write, read or commit is refused",
    ),
    Rule(
        ("max.connection*", "connections.max.*", "listeners", "advertised.listeners", "listener.*", "*.listener.name"),
        "others are shut out, and this client may be before it has put back",
    ),
    Rule(
        ("ssl.*", "sasl.*", "security.*", "principal.*", "authorizer.*", "password.*", "delegation.*"),
        "the same; and brokers tell no secret, so that nobody could put it back",
    ),
    Rule(
        ("quota.*", "*.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second", "cordoned.log.dirs"),
        "clients of others, or replicas on their way, are held up, or get no place",
    ),
    Rule(
        ("remote.*", "follower.fetch.last.tiered.offset.enable"),
        "copies of others go to remote storage, from it, or no longer, so that local disks fill",
    ),
    Rule(
        ("*metric*.reporters", "config.providers*", "*.class", "*.class.name", "*.class.path", "*.assignors"),
        "brokers load code",
    ),
)
BOUNDED_OF_BROKERS = (
    Rule(
        ("num.io.threads", "num.network.threads", "background.threads"),
        "fewer serve others too slowly, more take memory",
        least=2,
        most=64,
    ),
    Rule(
        ("num.replica.fetchers", "num.recovery.threads.per.data.dir"),
        "threads of each other broker, or each disk, read side by side",
        least=1,
        most=16,
    ),
    Rule(("log.flush.interval.messages", "log.flush.interval.ms"), "disks do little else, for every topic", least=1000),
    Rule(("log.cleaner.backoff.ms",), "the cleaner spins, or hardly cleans", least=1000, most=60_000),
    Rule(
        ("group.*.assignment.interval.ms",), "groups of others wait so long for their partitions", least=0, most=15_000
    ),
    Rule(
        ("*.coordinator.cached.buffer.max.bytes",),
        "memory, of each partition of the coordinator's topics",
        least=512 * KIB,
        most=16 * MIB,
    ),
)
NEVER_OF_TOPICS = (
    Rule(("preallocate",), "each partition takes a whole segment of the disk at once, outside of what is counted"),
    Rule(
        ("remote.*", "local.retention.*"),
        "records go to remote storage, which may keep them after the topic is deleted",
    ),
    Rule(("*.replication.throttled.replicas",), "replicas take from the rate that somebody's reassignment has"),
)
BOUNDED_OF_TOPICS = (
    Rule(("flush.messages", "flush.ms"), "has the brokers' disks written through again and again", least=1000),
    Rule(("segment.bytes",), "has the brokers begin file after file", least=MIB),
    Rule(("segment.ms",), "has the brokers begin file after file", least=1000),
    Rule(
        ("segment.index.bytes",),
        "has the brokers begin file after file, whose index is full, or takes memory maps of that size",
        least=64 * KIB,
        most=10 * MIB,
    ),
    Rule(("index.interval.bytes",), "has the brokers begin file after file, whose index is full", least=KIB),
    Rule(("file.delete.delay.ms",), "keeps what is deleted on the disks", most=600_000),
    Rule(("max.compaction.lag.ms",), "keeps the cleaner, which others share, busy", least=60_000),
    Rule(("min.cleanable.dirty.ratio",), "keeps the cleaner, which others share, busy", least=0.1),
    Rule(("max.message.bytes",), "makes requests that take the brokers' memory", most=100 * MIB),
)
JITTER = Rule(
    ("segment.jitter.ms",), "has the brokers begin file after file: a segment lasts segment.ms less this", most=0
)
"""Its largest value follows from the topic's `segment.ms`: the rest has to be no less than segment.ms may be."""


def never_of_brokers(name: str, value: str) -> str | None:
    return never_set(name, value, NEVER_OF_BROKERS, BOUNDED_OF_BROKERS)


def never_of_topics(config: Mapping[str, str]) -> str | None:
    """The reason why a topic with these settings is never made on brokers that others share."""
    for name, value in config.items():
        rule = next((rule for rule in NEVER_OF_TOPICS if rule.has(name)), None)
        if rule and value.strip().lower() not in ("false", ""):
            return f"its topic's {name} is never stated on real brokers: {rule.why}"
    return None


def wears_out(config: Mapping[str, str]) -> Iterator[str]:
    """Yield the harm of a topic with these settings to brokers that others share, outside of the bounds."""
    for name, value in config.items():
        rule = next((rule for rule in BOUNDED_OF_TOPICS if rule.has(name)), None)
        if rule and outside(rule, value):
            yield f"it {rule.why} ({name} = {value})"
    (jitter,) = JITTER.names
    left_ms = number_of(config.get("segment.ms", SEGMENT_MS)) - number_of(config.get(jitter, 0))
    if jitter in config and left_ms < 1000:
        yield f"it {JITTER.why} ({jitter} = {config[jitter]})"
