"""Parser of workload files of OpenMessaging Benchmark: topics, records, clients, rate or knee, backlog."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from perfgate.model import KEY_BYTES, Consumers, Fault, FaultScenario, Keys, Load, Payload, Scenario, settings
from perfgate.model.errors import ConfigurationError
from perfgate.model.sizes import LEAST_BYTES
from perfgate.model.structured import strict, structured
from perfgate.workloads.imported import (
    MOST_PRODUCERS,
    Dictionary,
    Workload,
    members_of,
    name_of,
    payload_of,
    sized,
    sizes_of,
    topic_notes,
    topics_of,
)
from perfgate.workloads.omb_drivers import Driver

TOOL = "OpenMessaging Benchmark"
KEYS = 10_000
"""Number of keys, of 10 characters, that the benchmark makes, whichever distributor picks them."""
MOST_RATE = 100_000
"""Records/s up to which the knee is searched; --set load.rate states another bound."""
LEAST_AWAY_S, MOST_AWAY_S = 15, 60
"""Bounds on the time that consumers stay away for a backlog, unless the file's own size is asked for."""
GIB = 1 << 30
FORKS = {
    "producerStartRate": "the knee is searched from a hundredth of its bound",
    "acceptableBacklog": "a rate that is not taken whole is above the knee",
    "producerIncrementRate": "of a fork of the benchmark: the rate is constant",
    "producerIncrementSeconds": "of a fork of the benchmark: the rate is constant",
    "producerPauseBeforeDrain": "of a fork of the benchmark: producers go on",
    "producerPauseDuringDrain": "of a fork of the benchmark: producers go on",
    "messageRateReceivedForSubscription": "of a fork of the benchmark: every group reads everything",
}
"""Keys that forks have added, and why they are not carried over."""
SIZE = re.compile(r"\s*(\d+)\s*(B|KB|MB|)\s*", re.IGNORECASE)
UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20}
Count = Annotated[int, Ge(0), "must be a whole number from 0"]
Minutes = Annotated[int, Ge(0), Le(10_080), "must be a whole number from 0 to 10,080, a week"]
Some = Annotated[int, Ge(1), "must be a whole number from 1"]
Distributor = Literal["NO_KEY", "KEY_ROUND_ROBIN", "RANDOM_NANO"]


@strict
class _File:
    name: str = ""
    topics: Some
    partitionsPerTopic: Some
    keyDistributor: Distributor = "NO_KEY"
    messageSize: Count = 0
    messageSizeDistribution: Mapping[str, Count] = field(default_factory=dict)
    useRandomizedPayloads: bool = False
    randomBytesRatio: Annotated[float, Ge(0), Le(1), "must be a share from 0 to 1"] = 0.0
    randomizedPayloadPoolSize: Count = 0
    payloadFile: str | None = None
    subscriptionsPerTopic: Count = 0
    producersPerTopic: Count = 0
    consumerPerSubscription: Count = 0
    producerRate: Count = 0
    consumerBacklogSizeGB: Count = 0
    backlogDrainRatio: Annotated[float, Ge(0), Le(1), "must be a share from 0 to 1"] = 1.0
    testDurationMinutes: Minutes = 0
    warmupDurationMinutes: Minutes = 1


def workload_of(
    document: Mapping[str, Any], stem: str, where: str, driver: Driver, words: Dictionary, *, durations: bool
) -> Workload:
    """The workload of this file with this driver; `durations`: its backlog is to be of the size that it states.

    `stem`: the file's name. Raises ConfigurationError, beginning with `where`.
    """
    file = structured(_File, {key: value for key, value in document.items() if key not in FORKS}, f"{where}:")
    name = name_of("omb", stem)
    middles = tuple(_middles(file.messageSizeDistribution, where))
    sizes = sizes_of(middles, "messageSizeDistribution", where) if middles else None
    record_bytes = sizes.mean if sizes else sized(file.messageSize, "messageSize", where)
    random = file.randomBytesRatio if file.useRandomizedPayloads else 0.0
    topic = topics_of(replace(driver.topic, partitions=file.partitionsPerTopic), file.topics, driver.cluster.system)
    paced, readers = file.producerRate > 0, file.topics * file.consumerPerSubscription
    scenario = Scenario(
        name=name,
        summary=f"{TOOL}: {file.name or name}",
        families=(name,),
        factor=settings({"workload": name}),
        topic=topic,
        producer=driver.producer,
        record_bytes=record_bytes,
        load=Load(kind="paced" if paced else "ramp", rate=float(file.producerRate or MOST_RATE), probes=paced),
        threads=max(1, min(file.topics * file.producersPerTopic, MOST_PRODUCERS)),
        payload=payload_of(random, record_bytes, words) if driver.compresses and not sizes else Payload(),
        sizes=sizes,
        keys=Keys() if file.keyDistributor == "NO_KEY" else Keys(kind="set", count=KEYS),
        consumers=Consumers(
            membership=driver.membership,
            groups=file.subscriptionsPerTopic,
            processes=members_of(readers, topic.partitions),
            config=driver.consumer,
        )
        if file.subscriptionsPerTopic and readers
        else None,
        cluster=driver.cluster,
    )
    if file.consumerBacklogSizeGB:
        if not paced or not scenario.consumers:
            raise ConfigurationError(
                f"{where}: consumerBacklogSizeGB needs a producerRate and consumers: at that rate the backlog is "
                "built, and they drain it"
            )
        whole_s = file.consumerBacklogSizeGB * GIB / _backlog_per_s(file, scenario)
        away_s = max(LEAST_AWAY_S, whole_s if durations else min(whole_s, MOST_AWAY_S))
        scenario = FaultScenario.of(scenario, Fault(kind="consumers-away", hold_s=round(away_s, 1)))
    small = any(middle < LEAST_BYTES for middle, _ in middles)
    notes = _notes(file, scenario, readers, small=small, compresses=driver.compresses, durations=durations)
    return Workload(
        tool=TOOL,
        title=file.name or stem,
        driver=driver.name,
        scenario=scenario,
        window_s=60.0 * file.testDurationMinutes,
        warmup_s=60.0 * file.warmupDurationMinutes,
        notes=(*notes, *(f"{key}: {FORKS[key]}" for key in document if key in FORKS), *driver.notes),
    )


def _middles(distribution: Mapping[str, int], where: str) -> Iterator[tuple[int, int]]:
    """Yield the middle of each range of sizes, with its weight, as the benchmark has it."""
    for text, weight in distribution.items():
        low, _, high = text.rpartition("-")
        ends = [SIZE.fullmatch(end) for end in (low, high)]
        low_bytes, high_bytes = (int(end[1]) * UNITS[end[2].upper()] if end else -1 for end in ends)
        if not 0 <= low_bytes <= high_bytes:
            raise ConfigurationError(
                f"{where}: messageSizeDistribution {text!r} is no range of sizes, as in 256-1024 or 1KB-4KB"
            )
        yield (low_bytes + high_bytes) // 2, weight


def _backlog_per_s(file: _File, scenario: Scenario) -> int:
    """Bytes by which the sum of the subscriptions' unread records grows in a second."""
    return file.producerRate * scenario.record_bytes * file.subscriptionsPerTopic


def _notes(
    file: _File, scenario: Scenario, readers: int, *, small: bool, compresses: bool, durations: bool
) -> Iterator[str]:
    """Yield a line for each value that is not carried over, or not as the benchmark has it.

    `readers`: stated consumers of a group, over all topics; `small`: some records are smaller than those made here.
    """
    producers = file.topics * file.producersPerTopic
    yield from topic_notes("topics", file.topics, scenario.topic)
    if not file.producerRate:
        yield f"producerRate: 0: the knee is searched up to {MOST_RATE:,}/s (--set load.rate=N: another bound)"
    if scenario.threads != producers:
        yield f"producersPerTopic: of {producers:,} producers {scenario.threads} are made, which share the rate"
    if scenario.consumers and (processes := scenario.consumers.processes) != readers:
        yield f"consumerPerSubscription: of {readers:,} consumers a group {processes} are made, which share it"
    if scenario.sizes and small:
        yield f"messageSizeDistribution: records of less than {LEAST_BYTES} bytes have as many"
    if scenario.sizes and compresses:
        yield "messageSizeDistribution: records of several sizes are random bytes, which no codec makes smaller"
    if file.keyDistributor != "NO_KEY":
        yield f"keyDistributor: drawn at random from {KEYS:,} keys of {KEY_BYTES} bytes, not of 10"
    if file.payloadFile or file.randomizedPayloadPoolSize:
        of = "payloadFile" if file.payloadFile else "randomizedPayloadPoolSize"
        filled = "random bytes" + ("" if compresses else ", which nothing compresses here")
        if scenario.payload.kind == "text":
            filled = f"text that gzip makes {scenario.payload.ratio:g} times smaller"
        yield f"{of}: records are filled with {filled}"
    if scenario.has_fault:
        away = f"{scenario.held_s:g} s, {scenario.held_s * _backlog_per_s(file, scenario) / GIB:.2g} GiB"
        more = "" if durations else " (--workload-durations: all of it)"
        yield f"consumerBacklogSizeGB: {file.consumerBacklogSizeGB}: consumers stay away for {away}{more}"
        if file.backlogDrainRatio < 1:
            yield "backlogDrainRatio: drained is what leaves consumers no further behind than usual"
