"""Parser of Trogdor task specifications: ProduceBench, which sends, and RoundTrip, which reads what it sends."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le, MinLen

from perfgate.model import Consumers, Keys, Load, Payload, Scenario, TopicSpec, settings
from perfgate.model.changes import MOST_TRANSACTION_MS
from perfgate.model.errors import ConfigurationError
from perfgate.model.sizes import LEAST_BYTES
from perfgate.model.structured import strict, structured
from perfgate.workloads.imported import (
    Dictionary,
    OfJava,
    Workload,
    name_of,
    payload_of,
    sized,
    sizes_of,
    topic_notes,
    topics_of,
)

TOOL = "Trogdor"
ROOM = "org.apache.kafka.trogdor.workload."
PRODUCE, ROUND_TRIP = f"{ROOM}ProduceBenchSpec", f"{ROOM}RoundTripWorkloadSpec"
CLASSES = (PRODUCE, ROUND_TRIP)
ROUND_TRIP_PRODUCER = {"acks": "all", "batch.size": "16384", "buffer.memory": "65536", "request.timeout.ms": "105000"}
ROUND_TRIP_CONSUMER = {"max.poll.interval.ms": "100000", "request.timeout.ms": "105000"}
"""Settings that RoundTrip itself gives its clients."""
VALUE_OF_PRODUCE: Mapping[str, Any] = {"type": "constant", "size": 512}
VALUE_OF_ROUND_TRIP: Mapping[str, Any] = {"type": "uniformRandom", "size": 32, "padding": 10}
RANDOM = ("uniformRandom", "timestampRandom", "gaussianTimestampRandom")
SIZED = (*RANDOM, "constant", "sequential", "timestampConstant", "gaussianTimestampConstant")
DEFAULT_REPLICAS = 3
RANGE = re.compile(r"\[(\d+)-(\d+)\]")
TARGETS = ("producerNode", "clientNode", "bootstrapServers", "startMs", "commonClientConf", "adminClientConf")
Count = Annotated[int, Ge(0), "must be a whole number from 0"]
Table = Mapping[str, Any]
Texts = Mapping[str, str]


@strict
class _Partitions:
    numPartitions: int = 0
    replicationFactor: int = 0
    partitionAssignments: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    configs: Texts = field(default_factory=dict)


@strict
class _Common:
    """Keys of both kinds. `class` stands apart: it is a word of Python."""

    startMs: Count = 0
    durationMs: Annotated[int, Ge(0), Le(604_800_000), "must be a whole number from 0 to 604,800,000, a week"] = 0
    bootstrapServers: str = ""
    targetMessagesPerSec: Annotated[int, Ge(1), "must be a whole number from 1"]
    maxMessages: Count = 0
    valueGenerator: Table | None = None
    producerConf: Texts = field(default_factory=dict)
    commonClientConf: Texts = field(default_factory=dict)
    adminClientConf: Texts = field(default_factory=dict)
    activeTopics: Mapping[str, _Partitions]


@strict
class _Produce(_Common):
    producerNode: str = ""
    keyGenerator: Table | None = None
    transactionGenerator: Table | None = None
    inactiveTopics: Mapping[str, _Partitions] = field(default_factory=dict)
    useConfiguredPartitioner: bool = False
    skipFlush: bool = False


@strict
class _RoundTrip(_Common):
    clientNode: str = ""
    consumerConf: Texts = field(default_factory=dict)


@strict
class _Component:
    percent: Annotated[float, Gt(0), Le(100), "must be a percentage"]
    component: Table


@strict
class _Components:
    components: Annotated[tuple[_Component, ...], MinLen(1), "must be tables of percent and component"]


def workload_of(document: Mapping[str, Any], stem: str, where: str, words: Dictionary) -> Workload:
    """The workload of this specification, from file `stem`. Raises ConfigurationError, beginning with `where`."""
    kind, stated = document.get("class"), {key: value for key, value in document.items() if key != "class"}
    if kind not in CLASSES:
        raise ConfigurationError(f"{where}: class = {kind!r} is not one that is read; legal: {', '.join(CLASSES)}")
    produce = structured(_Produce, stated, f"{where}:") if kind == PRODUCE else None
    spec: _Common = produce or structured(_RoundTrip, stated, f"{where}:")
    name = name_of("trogdor", stem)
    topics, topic = _topics(spec.activeTopics, where)
    common, sends = spec.commonClientConf, {} if produce else ROUND_TRIP_PRODUCER
    consumer = None
    try:
        producer = words.producer({**sends, **common, **spec.producerConf})
        if isinstance(spec, _RoundTrip):
            consumer = words.consumer({**ROUND_TRIP_CONSUMER, **common, **spec.consumerConf})
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from None
    generator = spec.valueGenerator or (VALUE_OF_PRODUCE if produce else VALUE_OF_ROUND_TRIP)
    sizes = _sizes(generator, where)
    shares = ((size, share) for size, _, share in sizes)
    several = sizes_of(shares, "valueGenerator", where) if len({size for size, _, _ in sizes}) > 1 else None
    record_bytes = several.mean if several else sized(sizes[0][0], "valueGenerator", where)
    compressed = producer.settings.get("compression.type", "none") != "none"
    random = sum(random * share for _, random, share in sizes) / sum(size * share for size, _, share in sizes)
    transaction_ms = _transaction_ms(produce, where)
    keyed = produce and produce.useConfiguredPartitioner and (produce.keyGenerator or {}).get("type") != "null"
    scenario = Scenario(
        name=name,
        summary=f"{TOOL}: {kind.removeprefix(ROOM)} of {stem}",
        families=(name,),
        factor=settings({"workload": name}),
        topic=topic,
        producer=settings({**producer.settings, **({"enable.idempotence": "true"} if transaction_ms else {})}),
        record_bytes=record_bytes,
        load=Load(kind="paced", rate=float(spec.targetMessagesPerSec), probes=True),
        transaction_ms=transaction_ms,
        payload=payload_of(random, record_bytes, words) if compressed and not several else Payload(),
        sizes=several,
        keys=Keys(kind="random") if keyed else Keys(),
        consumers=Consumers(membership="assigned", config=settings(consumer.settings)) if consumer else None,
    )
    lasts_s = spec.maxMessages / spec.targetMessagesPerSec
    return Workload(
        tool=TOOL,
        title=stem,
        driver="Kafka",
        scenario=scenario,
        window_s=min(filter(None, (spec.durationMs / 1e3, lasts_s)), default=0.0),
        warmup_s=0.0,
        notes=tuple(_notes(spec, topics, scenario, producer, consumer)),
    )


def _topics(stated: Mapping[str, _Partitions], where: str) -> tuple[int, TopicSpec]:
    if not stated:
        raise ConfigurationError(f"{where}: activeTopics names no topic")
    kinds = {
        TopicSpec(
            partitions=len(partitions.partitionAssignments) or max(1, partitions.numPartitions),
            replication_factor=max(map(len, partitions.partitionAssignments.values()), default=0)
            or (partitions.replicationFactor if partitions.replicationFactor > 0 else DEFAULT_REPLICAS),
            config=settings(partitions.configs),
        )
        for partitions in stated.values()
    }
    if len(kinds) > 1:
        raise ConfigurationError(f"{where}: activeTopics differ among themselves: a scenario's topics are all alike")
    (topic,) = kinds
    topics = sum(map(_count, stated))
    return topics, topics_of(topic, topics, "kafka")


def _count(name: str) -> int:
    """Number of topics that a name with ranges stands for: three of foo[1-3]."""
    return math.prod(max(1, int(high) - int(low) + 1) for low, high in RANGE.findall(name))


def _sizes(generator: Mapping[str, Any], where: str) -> list[tuple[int, int, float]]:
    """Sizes of values: bytes, the number of them that are random, and the share of records that have them."""
    kind = generator.get("type")
    if kind == "randomComponent":
        parts = structured(_Components, {"components": generator.get("components")}, f"{where}: valueGenerator:")
        if not math.isclose(whole := sum(part.percent for part in parts.components), 100):
            raise ConfigurationError(f"{where}: valueGenerator: percents of {whole:g} in all: they must add up to 100")
        return [
            (size, random, share * part.percent / 100)
            for part in parts.components
            for size, random, share in _sizes(part.component, where)
        ]
    size = generator.get("messageSizeAverage" if str(kind).startswith("gaussian") else "size")
    if kind not in SIZED or not isinstance(size, int) or size < 1:
        raise ConfigurationError(
            f"{where}: valueGenerator {dict(generator)} makes no values of a known size; legal: "
            f"{', '.join((*SIZED, 'randomComponent'))}"
        )
    padding = generator.get("padding", 0) if kind in RANDOM else size
    if not isinstance(padding, int) or not 0 <= padding <= size:
        raise ConfigurationError(f"{where}: valueGenerator: padding = {padding!r} must be bytes of its size, {size}")
    return [(size, size - padding, 1.0)]


def _deviations(generator: Mapping[str, Any]) -> Iterator[str]:
    """Yield the deviation of sizes of values from their mean, in the words of each generator that states it."""
    for part in generator["components"] if generator.get("type") == "randomComponent" else ():
        yield from _deviations(part["component"])
    if deviation := generator.get("messageSizeDeviation"):
        yield f"messageSizeDeviation {deviation} of {generator.get('messageSizeAverage')} B"


def _transaction_ms(spec: _Produce | None, where: str) -> float:
    """Time in ms for which a transaction is open at the stated rate; 0: there are none."""
    if spec is None or not spec.transactionGenerator:
        return 0.0
    stated = spec.transactionGenerator
    kinds = {"uniform": "messagesPerTransaction", "interval": "transactionIntervalMs"}
    size = stated.get(kinds.get(str(stated.get("type")), ""))
    if type(size) is not int or size < 1:
        raise ConfigurationError(
            f"{where}: transactionGenerator {dict(stated)}; legal: uniform with messagesPerTransaction, interval "
            "with transactionIntervalMs, whole numbers from 1"
        )
    open_ms = 1e3 * size / spec.targetMessagesPerSec if stated["type"] == "uniform" else float(size)
    return min(max(open_ms, 1.0), float(MOST_TRANSACTION_MS))


def _notes(spec: _Common, topics: int, scenario: Scenario, producer: OfJava, consumer: OfJava | None) -> Iterator[str]:
    """Yield a line for each value that is not carried over, or not as Trogdor has it."""
    yield from topic_notes("activeTopics", topics, scenario.topic)
    if stated := [key for key in TARGETS if getattr(spec, key, None)]:
        yield f"{', '.join(stated)}: the run's target says where the brokers are and how clients log in"
    if spec.maxMessages:
        yield f"maxMessages: {spec.maxMessages:,}: a window of {spec.maxMessages / spec.targetMessagesPerSec:g} s"
    if any(partitions.partitionAssignments for partitions in spec.activeTopics.values()):
        yield "activeTopics.partitionAssignments: the cluster chooses where replicas lie"
    if scenario.sizes:
        yield f"valueGenerator: records of several sizes are random bytes, {LEAST_BYTES} at least"
    for deviation in _deviations(spec.valueGenerator or {}):
        yield f"valueGenerator: {deviation}: all these records have the mean size here"
    if isinstance(spec, _Produce):
        if not spec.useConfiguredPartitioner:
            yield "keyGenerator: no keys: Trogdor goes through the partitions one by one, the client picks them here"
        elif scenario.keys.kind != "none":
            yield "keyGenerator: random keys of 16 bytes"
        if spec.inactiveTopics:
            yield "inactiveTopics: nothing is written to them, and they are not made"
        if not spec.skipFlush:
            yield "skipFlush: false: Trogdor flushes every 100 ms and waits; records have an even schedule here"
        if scenario.transaction_ms:
            yield f"transactionGenerator: each transaction is open for {scenario.transaction_ms:g} ms"
    untaken = {**producer.untaken, **(consumer.untaken if consumer else {})}
    yield from (f"{name}: {why}" for name, why in untaken.items())
