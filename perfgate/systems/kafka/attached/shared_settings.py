"""Settings of Kafka on brokers that others share: what a run never states there, and within which bounds it may.

The tables stand in docs/safety.md too. Every setting that Kafka 4.3 changes while a broker runs, and every one of its
topics, is in one of them (tests/harness/systems/test_shared_settings.py); a broker setting in none is not changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from perfgate.model import KIB, MIB

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Rule:
    """Settings by name (`*` stands for anything), the smallest and the largest value that is harmless, and why."""

    names: tuple[str, ...]
    why: str
    least: float = -math.inf
    most: float = math.inf

    def has(self, name: str) -> bool:
        """Return whether the setting is one of these."""
        return any(fnmatchcase(name, pattern) for pattern in self.names)


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
        ("group.*.assignment.interval.ms",),
        "groups of others wait so long for their partitions",
        least=0,
        most=15_000,
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
"""Its most follows from `segment.ms` of the topic: what is left of that has to be no less than segment.ms may be."""
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
SEGMENT_MS = 7 * 24 * HOUR_MS
"""What Kafka has where a topic states none."""


def never_of_brokers(name: str, value: str) -> str | None:
    """Return why a run never sets a broker setting to this value on brokers that others share."""
    if rule := next((rule for rule in NEVER_OF_BROKERS if rule.has(name)), None):
        return f"{name} is never changed on real brokers: {rule.why}"
    rule = next((rule for rule in BOUNDED_OF_BROKERS if rule.has(name)), None)
    if rule is None:
        return f"{name} is never changed on real brokers: it is none of those that a run may change (docs/safety.md)"
    if outside(rule, value):
        return f"{name} = {value}: on real brokers it may be {bounds(rule)}: {rule.why}"
    return None


def never_of_topics(config: Mapping[str, str]) -> str | None:
    """Return why a topic with these settings is never made on brokers that others share."""
    for name, value in config.items():
        rule = next((rule for rule in NEVER_OF_TOPICS if rule.has(name)), None)
        if rule and value.strip().lower() not in ("false", ""):
            return f"its topic's {name} is never stated on real brokers: {rule.why}"
    return None


def wears_out(config: Mapping[str, str]) -> Iterator[str]:
    """Give what a topic with these settings does to brokers that others share, outside of the bounds."""
    for name, value in config.items():
        rule = next((rule for rule in BOUNDED_OF_TOPICS if rule.has(name)), None)
        if rule and outside(rule, value):
            yield f"it {rule.why} ({name} = {value})"
    (jitter,) = JITTER.names
    left_ms = _number(config.get("segment.ms", SEGMENT_MS)) - _number(config.get(jitter, 0))
    if jitter in config and left_ms < 1000:
        yield f"it {JITTER.why} ({jitter} = {config[jitter]})"


def bounds(rule: Rule) -> str:
    """Return the values that are harmless, for a person."""
    least, most = (f"{number:,.15g}" for number in (rule.least, rule.most))
    if math.isinf(rule.most):
        return f"{least} or more"
    return f"{most} at most" if math.isinf(rule.least) else f"{least} to {most}"


def outside(rule: Rule, value: str) -> bool:
    """Return whether a value is outside of the bounds; a text, which the brokers refuse, is not."""
    number = _number(value)
    return number < rule.least or number > rule.most


def _number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return math.nan
