"""Parser of driver files of OpenMessaging Benchmark, for Kafka and for Pulsar: clients, topics, quorums."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import javaproperties

from perfgate.model import ClusterSpec, Settings, TopicSpec, settings
from perfgate.model.declared import Membership
from perfgate.model.errors import ConfigurationError
from perfgate.workloads.imported import Dictionary

CLASSES: Mapping[str, Literal["kafka", "pulsar"]] = {
    "io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver": "kafka",
    "io.openmessaging.benchmark.driver.pulsar.PulsarBenchmarkDriver": "pulsar",
}
OF_TLS = ("tlsAllowInsecureConnection", "tlsEnableHostnameVerification", "tlsTrustCertsFilePath")
OF_TARGET = "the run's target says where the brokers are and how clients log in"
OF_KAFKA: Mapping[str, str] = {
    "reset": "the topics of others are never deleted",
    "batchSize": "of a fork of the benchmark",
    "useTransactions": "of a fork of the benchmark: producers.transaction.ms makes transactions here",
    "maxConcurrentTransactions": "of a fork of the benchmark",
    "skipCreateTopic": "a round always has a new topic",
}
"""Keys of a driver for Kafka that are not carried over, with the reason."""
KAFKA = ("name", "driverClass", "replicationFactor", "topicConfig", "commonConfig", "producerConfig", "consumerConfig")
SUBSCRIPTIONS: Mapping[str, Membership] = {
    "Exclusive": "exclusive",
    "Shared": "shared",
    "Failover": "failover",
    "Key_Shared": "key-shared",
}
PULSAR: Mapping[str, str] = {
    **{f"client.{key}": OF_TARGET for key in ("serviceUrl", "httpUrl", *OF_TLS, "authentication")},
    "client.ioThreads": "a client of libpulsar has one such thread, and one for each broker",
    "client.connectionsPerBroker": "a client of libpulsar has one connection to a broker",
    "client.maxConcurrentLookupRequests": "libpulsar's own number",
    "client.namespacePrefix": "a run has a namespace of its own",
    "client.clusterName": "a run has a namespace of its own",
    "client.astraStreaming": "of a fork of the benchmark",
    "client.retentionTimeInMinutes": "of a fork of the benchmark: topic.retentionTimeInMinutes here",
    "client.retentionSizeInMB": "of a fork of the benchmark: topic.retentionSizeInMB here",
    "producer.producerRate": "of a fork of the benchmark: the workload's rate holds",
    "consumer.subscriptionMode": "subscriptions are durable",
}
"""The same for Pulsar."""
PERSISTENCE = ("ensembleSize", "writeQuorum", "ackQuorum", "deduplicationEnabled")
PRODUCER = ("batchingEnabled", "batchingMaxPublishDelayMs", "batchingMaxBytes", "blockIfQueueFull", "pendingQueueSize")
TAKEN = (
    "client.topicType",
    *(f"client.persistence.{key}" for key in PERSISTENCE),
    "client.clientMemoryLimitMB",
    *(f"producer.{key}" for key in PRODUCER),
    "consumer.receiverQueueSize",
    "consumer.subscriptionType",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Driver:
    """A driver file: its clients, and the topics of a workload, with one partition; `compresses`: batches."""

    name: str
    topic: TopicSpec
    cluster: ClusterSpec
    producer: Settings
    consumer: Settings
    membership: Membership = "group"
    compresses: bool = False
    notes: tuple[str, ...] = ()


def driver_of(document: Mapping[str, Any], where: str, words: Dictionary) -> Driver:
    """The driver of this file. Raises ConfigurationError, beginning with `where`."""
    named = str(document.get("driverClass"))
    if named not in CLASSES:
        raise ConfigurationError(
            f"{where}: driverClass = {named!r} is not one that is read; legal: {', '.join(CLASSES)}"
        )
    return _kafka(document, where, words) if CLASSES[named] == "kafka" else _pulsar(document, where)


def plain_kafka(words: Dictionary) -> Driver:
    """The driver of a workload without a driver file: three replicas, and the Java client's defaults."""
    return _kafka({"replicationFactor": 3}, "", words)


def _kafka(document: Mapping[str, Any], where: str, words: Dictionary) -> Driver:
    for key in document:
        if key not in KAFKA and key not in OF_KAFKA:
            raise ConfigurationError(f"{where}: unknown key {key!r}; legal: {', '.join((*KAFKA, *OF_KAFKA))}")
    common, sending, reading, topic = (
        _properties(document.get(key), f"{where}: {key}")
        for key in ("commonConfig", "producerConfig", "consumerConfig", "topicConfig")
    )
    replicas = _whole(document, "replicationFactor", 3, where, least=1)
    try:
        producer, consumer = words.producer({**common, **sending}), words.consumer({**common, **reading})
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from None
    codec = topic.get("compression.type", "producer")
    if codec == "producer":
        codec = producer.settings.get("compression.type", "none")
    untaken = {
        **{name: why for name, why in producer.untaken.items() if name in sending or name in consumer.untaken},
        **{name: why for name, why in consumer.untaken.items() if name in reading or name in producer.untaken},
    }
    by_reason: dict[str, list[str]] = {}
    for name, why in untaken.items():
        by_reason.setdefault(why, []).append(name)
    return Driver(
        name=str(document.get("name", "Kafka")),
        topic=TopicSpec(partitions=1, replication_factor=replicas, config=settings(topic)),
        cluster=ClusterSpec(),
        producer=settings(producer.settings),
        consumer=settings(consumer.settings),
        compresses=codec not in ("none", "uncompressed"),
        notes=(
            *(f"{key}: {why}" for key, why in OF_KAFKA.items() if document.get(key)),
            *(f"{', '.join(names)}: {why}" for why, names in by_reason.items()),
        ),
    )


def _properties(value: object, where: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, str):
        raise ConfigurationError(f"{where} must be lines of a Java properties file, as in `{where.split()[-1]}: |`")
    try:
        return dict(javaproperties.loads(value))
    except ValueError as error:
        raise ConfigurationError(f"{where}: not a Java properties file ({error.__class__.__name__})") from None


def _pulsar(document: Mapping[str, Any], where: str) -> Driver:
    parts = {
        f"{part}.{key}": value
        for part in ("client", "producer", "consumer")
        for key, value in _table(document, part, where).items()
    }
    persistence = _table(parts, "client.persistence", where)
    parts.pop("client.persistence", None)
    parts |= {f"client.persistence.{key}": value for key, value in persistence.items()}
    tables = ("name", "driverClass", "client", "producer", "consumer")
    for key in (*(key for key in document if key not in tables), *parts):
        if key not in (*PULSAR, *TAKEN):
            raise ConfigurationError(f"{where}: unknown key {key!r}; legal: {', '.join((*TAKEN, *PULSAR))}")
    kind = parts.get("client.topicType", "persistent")
    if kind != "persistent":
        raise ConfigurationError(
            f"{where}: client.topicType = {kind!r}: nothing accounts for records that are not kept"
        )
    subscription = parts.get("consumer.subscriptionType", "Failover")
    if str(subscription) not in SUBSCRIPTIONS:
        legal = ", ".join(SUBSCRIPTIONS)
        raise ConfigurationError(f"{where}: consumer.subscriptionType = {subscription!r}; legal: {legal}")
    ensemble, write, acks = (
        _whole(parts, f"client.persistence.{key}", default, where, least=1)
        for key, default in (("ensembleSize", 3), ("writeQuorum", 3), ("ackQuorum", 2))
    )
    topic = {"ensemble": str(ensemble)} if ensemble != write else {}
    if _is_true(parts, "client.persistence.deduplicationEnabled", False, where):
        topic["deduplicationEnabled"] = "true"
    producer = {
        "batchingEnabled": str(_is_true(parts, "producer.batchingEnabled", True, where)).lower(),
        "batchingMaxPublishDelayMicros": 1_000 * _whole(parts, "producer.batchingMaxPublishDelayMs", 1, where),
        "batchingMaxBytes": _whole(parts, "producer.batchingMaxBytes", 1 << 20, where),
    }
    if "producer.pendingQueueSize" in parts:
        producer["maxPendingMessages"] = parts["producer.pendingQueueSize"]
    if "client.clientMemoryLimitMB" in parts:
        producer["maxPendingBytes"] = _whole(parts, "client.clientMemoryLimitMB", 0, where) << 20
    notes = [f"{key}: {why}" for key, why in PULSAR.items() if parts.get(key) not in (None, "", {})]
    if not _is_true(parts, "producer.blockIfQueueFull", True, where):
        notes.append("producer.blockIfQueueFull: false: a full queue holds the producer back here")
    return Driver(
        name=str(document.get("name", "Pulsar")),
        topic=TopicSpec(partitions=1, replication_factor=write, ack_quorum=acks, config=settings(topic)),
        cluster=ClusterSpec(system="pulsar", bookies=3),
        producer=settings(producer),
        consumer=settings({"receiverQueueSize": parts.get("consumer.receiverQueueSize", 10_000)}),
        membership=SUBSCRIPTIONS[subscription],
        notes=tuple(notes),
    )


def _table(document: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    value = document.get(key)
    if value is not None and not isinstance(value, dict):
        raise ConfigurationError(f"{where}: {key} must have keys and values")
    return value or {}


def _whole(stated: Mapping[str, Any], key: str, default: int, where: str, least: int = 0) -> int:
    value = stated.get(key, default)
    number = int(value) if re.fullmatch(r"\d+", str(value)) else -1
    if number < least:
        raise ConfigurationError(f"{where}: {key} = {value!r} must be a whole number from {least}")
    return number


def _is_true(stated: Mapping[str, Any], key: str, default: bool, where: str) -> bool:
    """Read a switch, which the benchmark takes in quotes too."""
    value = stated.get(key, default)
    if str(value).lower() not in ("true", "false"):
        raise ConfigurationError(f"{where}: {key} = {value!r} must be true or false")
    return str(value).lower() == "true"
