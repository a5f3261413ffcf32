"""Observation of a topic in use for --like: requests that describe it, and a bounded sample of its records.

Nothing is written, no group is joined and no offset is committed.
"""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, OffsetSpec, ResourceType

from perfgate.model import KIB, MIB, Settings, settings
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.model.secret import redacted, revealed
from perfgate.model.target import ObservedTopic, SampledRecords
from perfgate.systems.kafka.attached.described import DescribedTarget
from perfgate.systems.kafka.attached.diagnosis import reachable
from perfgate.systems.kafka.attached.identity import refuse_other_clusters
from perfgate.systems.kafka.attached.topic_trial import DENIED
from perfgate.systems.kafka.client.iam import with_tokens
from perfgate.systems.kafka.client.topics import REQUEST_TIMEOUT_S, answer

RATE_OVER_S = 10.0
SAMPLE_RECORDS, SAMPLE_BYTES, SAMPLE_S = 2_000, 16 * MIB, 10.0
"""The sample ends with whichever comes first."""
STATISTICS_MS = 250
BATCH_BYTES = 16 * KIB
PARTS = 20
MATTERING = (
    "min.insync.replicas",
    "compression.type",
    "segment.bytes",
    "segment.ms",
    "flush.messages",
    "flush.ms",
    "max.message.bytes",
)
"""Topic settings that bear on performance and that a topic of a run can have too."""
Offsets = Mapping[int, int]


def observe_topic(described: DescribedTarget, topic: str) -> ObservedTopic:
    """Observe the topic for RATE_OVER_S and up to SAMPLE_S. Raises ConfigurationError where it cannot."""
    admin, _ = reachable(described.bootstrap, dict(described.client))
    try:
        reply = admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S)
        refuse_other_clusters(described, str(answer(reply, "asking for the cluster").cluster_id))
    except TargetError as error:
        raise ConfigurationError(f"{described.name}: {error}") from error
    return _Topic(described, topic, admin).observed()


@dataclass(frozen=True, slots=True)
class _Topic:
    """A topic of described brokers, which `admin` asks."""

    described: DescribedTarget
    name: str
    admin: AdminClient

    def observed(self) -> ObservedTopic:
        replies = self.admin.describe_topics(TopicCollection([self.name]), request_timeout=REQUEST_TIMEOUT_S)
        partitions = self._answer(replies[self.name], "Describe").partitions
        resource = ConfigResource(ResourceType.TOPIC, self.name)
        configs = self.admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
        config = self._answer(configs[resource], "DescribeConfigs")
        numbers = [partition.id for partition in partitions]
        begins, ends = self._offsets(numbers, OffsetSpec.earliest()), self._offsets(numbers, OffsetSpec.latest())
        if begins == ends:
            name = self.described.name
            raise ConfigurationError(f"{name}: topic {self.name} holds no records: there is nothing to be like")
        began = time.monotonic()
        sample = self._sampled(begins, ends)
        time.sleep(max(0.0, began + RATE_OVER_S - time.monotonic()))
        later, over_s = self._offsets(numbers, OffsetSpec.latest()), time.monotonic() - began
        return ObservedTopic(
            name=self.name,
            cluster=self.described.name,
            partitions=len(numbers),
            replication_factor=max(len(partition.replicas) for partition in partitions),
            config=settings_that_matter(config),
            rate=(sum(later.values()) - sum(ends.values())) / over_s,
            rate_over_s=over_s,
            sample=sample,
        )

    def _offsets(self, partitions: Sequence[int], spec: OffsetSpec) -> Offsets:
        replies = self.admin.list_offsets(
            {TopicPartition(self.name, number): spec for number in partitions},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=REQUEST_TIMEOUT_S,
        )
        return {at.partition: self._answer(reply, "Describe").offset for at, reply in replies.items()}

    def _answer(self, reply: Future[Any], permission: str) -> Any:
        """Return the reply. Raises ConfigurationError: with the `permission` that lacks, where that is the cause."""
        try:
            return reply.result(timeout=REQUEST_TIMEOUT_S + 5)
        except KafkaException as error:
            raise self._refusal(error.args[0], permission) from None
        except TimeoutError:
            cluster, topic = self.described.name, self.name
            raise ConfigurationError(f"{cluster}: topic {topic}: no answer in {REQUEST_TIMEOUT_S} s") from None

    def _refusal(self, error: KafkaError, permission: str) -> ConfigurationError:
        cluster, topic = self.described.name, self.name
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return ConfigurationError(f"{cluster} has no topic {topic}, or does not let this user describe it")
        if error.code() in DENIED:
            user = self.described.user
            return ConfigurationError(
                f"{cluster} does not let {user} read what topic {topic} is like: it needs {permission}; grant it: "
                f"kafka-acls --add --allow-principal User:{user} --operation {permission} --topic {topic}"
            )
        return ConfigurationError(f"{cluster}: topic {topic}: {redacted(error.str())}")

    def _sampled(self, begins: Offsets, ends: Offsets) -> SampledRecords:
        """Read the newest records of each partition, as many of all as the bounds allow."""
        held = [number for number in ends if ends[number] > begins[number]][:SAMPLE_RECORDS]
        most = math.ceil(SAMPLE_RECORDS / len(held))
        starts = [TopicPartition(self.name, number, max(begins[number], ends[number] - most)) for number in held]
        statistics: list[str] = []
        log_in = {**revealed(dict(self.described.client)), "bootstrap.servers": self.described.bootstrap}
        consumer = Consumer(
            {
                **with_tokens(log_in),
                "log_level": "0",
                # librdkafka wants a group; with partitions assigned no client joins it
                "group.id": f"{self.described.prefix}like",
                "enable.auto.commit": "false",
                "enable.auto.offset.store": "false",
                "enable.partition.eof": "true",
                "isolation.level": "read_uncommitted",  # a transaction that hangs would hold the sample up
                "fetch.max.bytes": str(MIB),
                "max.partition.fetch.bytes": str(MIB // 4),
                "queued.max.messages.kbytes": str(4 * KIB),
                "statistics.interval.ms": str(STATISTICS_MS),
                "stats_cb": statistics.append,
            }
        )
        try:
            consumer.assign(starts)
            sample = self._read(consumer, set(held))
            before, deadline = len(statistics), time.monotonic() + 4 * STATISTICS_MS / 1000
            while len(statistics) == before and time.monotonic() < deadline:
                consumer.poll(STATISTICS_MS / 1000)  # what came last is in the next statistics
            return replace(sample, packed=packed(json.loads(statistics[-1])) if statistics else None)
        finally:
            consumer.close()

    def _read(self, consumer: Consumer, left: set[int]) -> SampledRecords:
        records: list[tuple[Any, Any]] = []
        size, deadline = 0, time.monotonic() + SAMPLE_S
        while left and len(records) < SAMPLE_RECORDS and size < SAMPLE_BYTES and time.monotonic() < deadline:
            for message in consumer.consume(min(500, SAMPLE_RECORDS - len(records)), timeout=0.5):
                if (error := message.error()) is None:
                    records.append((message.key(), message.value()))
                    size += len(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    left -= {message.partition()}
                elif error.code() in DENIED:
                    raise self._refusal(error, "Read")
        if not records:
            cluster, topic = self.described.name, self.name
            raise ConfigurationError(f"{cluster}: topic {topic}: no record could be read within {SAMPLE_S:.0f} s")
        return sampled_records(records)


def settings_that_matter(config: Mapping[str, Any]) -> Settings:
    """Return the settings of MATTERING that the topic or its brokers state, which are not Kafka's defaults."""
    default = ConfigSource.DEFAULT_CONFIG.value
    stated = (name for name in MATTERING if name in config and config[name].source != default)
    # A topic that leaves compression to its producers says so by the default, stated or not.
    return settings({name: config[name].value for name in stated if config[name].value not in (None, "producer")})


def sampled_records(records: Iterable[tuple[bytes | None, bytes | None]]) -> SampledRecords:
    values, keyed, keys = [], 0, set()
    for key, value in records:
        values.append(value or b"")
        if key is not None:
            keyed += 1
            keys.add(hash(key))
    sizes = sorted(map(len, values))
    whole = b"".join(values)
    edges = [len(sizes) * n // PARTS for n in range(PARTS + 1)]
    parts = [sizes[begin:end] for begin, end in pairwise(edges)]
    batches = [whole[at : at + BATCH_BYTES] for at in range(0, len(whole), BATCH_BYTES)]
    compressed = sum(len(zlib.compress(batch)) for batch in batches)
    return SampledRecords(
        records=len(sizes),
        record_bytes=round(len(whole) / len(sizes)),
        record_bytes_median=sizes[len(sizes) // 2],
        record_bytes_p99=sizes[int(len(sizes) * 0.99)],
        keyed=keyed,
        keys=len(keys),
        gzip_ratio=len(whole) / compressed if compressed else 1.0,
        record_sizes=tuple(round(sum(part) / len(part)) for part in parts if part),
    )


def packed(statistics: Mapping[str, Any]) -> float | None:
    """Bytes of records in each byte from the brokers, by librdkafka's statistics."""
    topics = statistics["topics"].values()
    records = sum(partition["rxbytes"] for topic in topics for partition in topic["partitions"].values())
    received = sum(broker["rxbytes"] for broker in statistics["brokers"].values())
    return records / received if records and received else None
