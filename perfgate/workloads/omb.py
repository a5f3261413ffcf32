"""Parser of workload files of OpenMessaging Benchmark: topics, records, clients, rate or knee, backlog."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from perfgate.model import (
    KEY_BYTES,
    Consumers,
    Fault,
    FaultScenario,
    Keys,
    Load,
    Payload,
    Scenario,
    TopicSpec,
    settings,
)
from perfgate.model.errors import ConfigurationError
from perfgate.model.sizes import LEAST_BYTES, Sizes
from perfgate.model.structured import strict, structured
from perfgate.workloads.imported import (
    MOST_PRODUCERS,
    MOST_TEXT_RATIO,
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
    """A workload file, by the names that it has."""

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

    `stem`: the file's name. Raises ConfigurationError, beginning with `where`, with key, value and what is legal.
    """
    known = {key: value for key, value in document.items() if key not in FORKS}
    file = structured(_File, known, f"{where}:")
    built = _Built(file, driver, words, where, durations=durations)
    name = name_of("omb", stem)
    scenario = built.scenario(name)
    return Workload(
        tool=TOOL,
        title=file.name or stem,
        driver=driver.name,
        scenario=scenario,
        window_s=60.0 * file.testDurationMinutes,
        warmup_s=60.0 * file.warmupDurationMinutes,
        notes=(*built.notes(scenario), *(f"{key}: {FORKS[key]}" for key in document if key in FORKS), *driver.notes),
    )


@dataclass(frozen=True, slots=True)
class _Built:
    """The scenario of a file with a driver, by its parts."""

    file: _File
    driver: Driver
    words: Dictionary
    where: str
    durations: bool = field(kw_only=True)

    def scenario(self, name: str) -> Scenario:
        file, driver = self.file, self.driver
        scenario = Scenario(
            name=name,
            summary=f"{TOOL}: {file.name or name}",
            families=(name,),
            factor=settings({"workload": name}),
            topic=self.topic,
            producer=driver.producer,
            record_bytes=self.record_bytes,
            load=self.load,
            threads=max(1, min(file.topics * file.producersPerTopic, MOST_PRODUCERS)),
            payload=self.payload,
            sizes=self.sizes,
            keys=Keys() if file.keyDistributor == "NO_KEY" else Keys(kind="set", count=KEYS),
            consumers=self.consumers,
            cluster=driver.cluster,
        )
        if not file.consumerBacklogSizeGB:
            return scenario
        if not file.producerRate or not self.consumers:
            raise ConfigurationError(
                f"{self.where}: consumerBacklogSizeGB needs a producerRate and consumers: at that rate the backlog is "
                "built, and they drain it"
            )
        return FaultScenario.of(scenario, Fault(kind="consumers-away", hold_s=round(self.away_s, 1)))

    @property
    def topic(self) -> TopicSpec:
        topic = replace(self.driver.topic, partitions=self.file.partitionsPerTopic)
        return topics_of(topic, self.file.topics, self.driver.cluster.system)

    @property
    def record_bytes(self) -> int:
        """The messages' size, or the mean of several."""
        return self.sizes.mean if self.sizes else sized(self.file.messageSize, "messageSize", self.where)

    @property
    def sizes(self) -> Sizes | None:
        """The middle of each range of a distribution, with its weight, as the benchmark has it."""
        stated = self.file.messageSizeDistribution
        return sizes_of(self._middles(), "messageSizeDistribution", self.where) if stated else None

    def _middles(self) -> Iterator[tuple[int, int]]:
        for text, weight in self.file.messageSizeDistribution.items():
            low, _, high = text.rpartition("-")
            ends = [SIZE.fullmatch(end) for end in (low, high)]
            low_bytes, high_bytes = (int(end[1]) * UNITS[end[2].upper()] if end else -1 for end in ends)
            if not 0 <= low_bytes <= high_bytes:
                raise ConfigurationError(
                    f"{self.where}: messageSizeDistribution {text!r} is no range of sizes, as in 256-1024 or 1KB-4KB"
                )
            yield (low_bytes + high_bytes) // 2, weight

    @property
    def load(self) -> Load:
        if self.file.producerRate:
            return Load(kind="paced", rate=float(self.file.producerRate), probes=True)
        return Load(kind="ramp", rate=float(MOST_RATE))

    @property
    def payload(self) -> Payload:
        """Random bytes, unless they are compressed: then text of the compression ratio of the file's records."""
        file = self.file
        if not self.driver.compresses or self.sizes:
            return Payload()
        random = file.randomBytesRatio if file.useRandomizedPayloads else 0.0
        return payload_of(1 / random if random else MOST_TEXT_RATIO, self.record_bytes, self.words.text_ratio)

    @property
    def readers(self) -> int:
        """Consumers of one group, over all topics."""
        return self.file.topics * self.file.consumerPerSubscription

    @property
    def consumers(self) -> Consumers | None:
        if not self.file.subscriptionsPerTopic or not self.readers:
            return None
        return Consumers(
            membership=self.driver.membership,
            groups=self.file.subscriptionsPerTopic,
            processes=members_of(self.readers, self.topic.partitions),
            config=self.driver.consumer,
        )

    @property
    def whole_s(self) -> float:
        """Time in s to build the backlog that the file states: the sum of the subscriptions' unread records."""
        per_s = self.file.producerRate * self.record_bytes * self.file.subscriptionsPerTopic
        return self.file.consumerBacklogSizeGB * GIB / per_s

    @property
    def away_s(self) -> float:
        return max(LEAST_AWAY_S, self.whole_s if self.durations else min(self.whole_s, MOST_AWAY_S))

    def notes(self, scenario: Scenario) -> Iterator[str]:
        """Yield a line for each value that is not carried over, or not as the benchmark has it."""
        file = self.file
        producers = file.topics * file.producersPerTopic
        yield from topic_notes("topics", file.topics, scenario.topic)
        if not file.producerRate:
            yield f"producerRate: 0: the knee is searched up to {MOST_RATE:,}/s (--set load.rate=N: another bound)"
        if scenario.threads != producers:
            yield f"producersPerTopic: of {producers:,} producers {scenario.threads} are made, which share the rate"
        if scenario.consumers and scenario.consumers.processes != self.readers:
            processes = scenario.consumers.processes
            yield f"consumerPerSubscription: of {self.readers:,} consumers a group {processes} are made, which share it"
        if scenario.sizes and any(middle < LEAST_BYTES for middle, _ in self._middles()):
            yield f"messageSizeDistribution: records of less than {LEAST_BYTES} bytes have as many"
        if scenario.sizes and self.driver.compresses:
            yield "messageSizeDistribution: records of several sizes are random bytes, which no codec makes smaller"
        if file.keyDistributor != "NO_KEY":
            yield f"keyDistributor: drawn at random from {KEYS:,} keys of {KEY_BYTES} bytes, not of 10"
        if file.payloadFile or file.randomizedPayloadPoolSize:
            of = "payloadFile" if file.payloadFile else "randomizedPayloadPoolSize"
            filled = "random bytes" + ("" if self.driver.compresses else ", which nothing compresses here")
            if scenario.payload.kind == "text":
                filled = f"text that gzip makes {scenario.payload.ratio:g} times smaller"
            yield f"{of}: records are filled with {filled}"
        if scenario.has_fault:
            gib = scenario.held_s * file.producerRate * self.record_bytes * file.subscriptionsPerTopic / GIB
            yield (
                f"consumerBacklogSizeGB: {file.consumerBacklogSizeGB}: consumers stay away for "
                f"{scenario.held_s:g} s, {gib:.2g} GiB"
                + ("" if self.durations else " (--workload-durations: all of it)")
            )
            if file.backlogDrainRatio < 1:
                yield "backlogDrainRatio: drained is what leaves consumers no further behind than usual"
