"""Imported workloads: a scenario, the name and durations that its file states, and what could not be carried over."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from perfgate.model import Payload, Scenario, System, TopicSpec
from perfgate.model.changes import MOST_TOPICS
from perfgate.model.errors import ConfigurationError
from perfgate.model.sizes import LEAST_BYTES, Sizes, read_sizes

MOST_TEXT_RATIO, LEAST_TEXT_RATIO = 100.0, 1.1
"""Bounds on the ratio of a payload's text: a payload that gzip hardly makes smaller is random bytes here."""
LEAST_RECORD_BYTES = 10
"""A record holds its sender and its number."""
MOST_PRODUCERS, MOST_MEMBERS = 16, 4
"""Producers, and consumers of a group, that are made at most: each has threads or a process, files state thousands."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """A workload file as a scenario; `notes`: a line for each value that is not carried over as it is."""

    tool: str
    title: str
    driver: str
    scenario: Scenario
    window_s: float
    warmup_s: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OfJava:
    """A Java client's settings by the names of this suite's clients, and why others have no counterpart, by name."""

    settings: Mapping[str, str]
    untaken: Mapping[str, str] = field(default_factory=dict)


FromJava = Callable[[Mapping[str, str]], OfJava]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dictionary:
    """Functions of the clients' packages: `producer` and `consumer` translate a Java client's settings of Kafka.

    `text_ratio`: the gzip ratio of the text that comes nearest to a ratio, in records of a number of bytes.
    """

    producer: FromJava
    consumer: FromJava
    text_ratio: Callable[[int, float], float]


def name_of(prefix: str, stem: str) -> str:
    """Name of the family and the scenario: the tool's prefix and the file's name, in the form of scenario names."""
    return f"{prefix}-{re.sub(r'[^a-z0-9]+', '-', stem.lower()).strip('-') or 'workload'}"


def topics_of(topic: TopicSpec, topics: int, system: System) -> TopicSpec:
    """This number of topics like `topic`; on Pulsar a single topic with the partitions of all of them."""
    if system != "kafka":
        return replace(topic, partitions=topics * topic.partitions)
    return replace(topic, count=min(topics, MOST_TOPICS))


def topic_notes(key: str, topics: int, topic: TopicSpec) -> Iterator[str]:
    """Yield a line where the topics are not those that a file states."""
    if topics != topic.count:
        made = "one topic has" if topic.count == 1 else f"{topic.count:,} of them are made, with"
        yield f"{key}: {topics:,}: {made} {topic.in_all:,} partitions in all"


def sized(record_bytes: int, key: str, where: str) -> int:
    """The bytes of a record, if they are enough. Raises ConfigurationError."""
    if record_bytes < LEAST_RECORD_BYTES:
        raise ConfigurationError(
            f"{where}: {key}: records of {record_bytes} bytes: one needs {LEAST_RECORD_BYTES} at least, for its sender "
            "and number"
        )
    return record_bytes


def sizes_of(weighted: Iterable[tuple[int, float]], key: str, where: str) -> Sizes:
    """Sizes, in bytes, with their weights, none too small for records of several sizes. Raises ConfigurationError."""
    weights: dict[int, float] = {}
    for size, weight in weighted:
        if weight > 0:
            at_least = max(LEAST_BYTES, size)
            weights[at_least] = weights.get(at_least, 0) + weight
    if not weights:
        raise ConfigurationError(f"{where}: {key}: its weights must add up to more than 0")
    values = "/".join(f"{size}={weight:g}" for size, weight in weights.items())
    return read_sizes(f"{where}: {key}", f"values:{values}")


def payload_of(random: float, record_bytes: int, words: Dictionary) -> Payload:
    """The payload that gzip makes about as much smaller as one of which this share is random bytes."""
    ratio = 1 / random if random else MOST_TEXT_RATIO
    nearest = min(words.text_ratio(record_bytes, min(ratio, MOST_TEXT_RATIO)), MOST_TEXT_RATIO)
    return Payload(kind="text", ratio=round(nearest, 2)) if min(nearest, ratio) >= LEAST_TEXT_RATIO else Payload()


def members_of(stated: int, partitions: int) -> int:
    """Number of a group's members: more than a topic has partitions would have none, by the range assignor."""
    return max(1, min(stated, MOST_MEMBERS, partitions))
