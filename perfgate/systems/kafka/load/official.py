"""Command lines and output of the official tools: a scenario in their terms, and their results. Pure.

Both tools end with 0 when nothing was sent or read: the exit code does not count.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from perfgate.load.tools import NUMBER, OutputError, finite
from perfgate.model import Scenario, with_settings
from perfgate.model.changes import release_numbers

# Settings of this suite's producers (librdkafka's names) that the Java client calls otherwise, and what to multiply by.
RENAMED = {
    "queue.buffering.max.kbytes": ("buffer.memory", 1024),
    "compression.codec": ("compression.type", 0),
    "message.max.bytes": ("max.request.size", 1),
    "socket.timeout.ms": ("request.timeout.ms", 1),
}
# Those that only say how librdkafka is to do what the Java client does anyway.
WITHOUT_COUNTERPART = {"socket.nagle.disable", "queue.buffering.max.messages", "partitioner"}
_JAVA_PRODUCER_SETTINGS = """
    acks batch.size buffer.memory client.id compression.gzip.level compression.lz4.level compression.type
    compression.zstd.level connections.max.idle.ms delivery.timeout.ms enable.idempotence linger.ms max.block.ms
    max.in.flight.requests.per.connection max.request.size metadata.max.age.ms receive.buffer.bytes
    reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms
    send.buffer.bytes transaction.timeout.ms transactional.id
"""
JAVA_PRODUCER_SETTINGS = _JAVA_PRODUCER_SETTINGS.split()
JAVA_DEFAULTS = {
    "acks": "1",
    "batch.size": "16384",
    "enable.idempotence": "false",
    "linger.ms": "0",
    "max.in.flight.requests.per.connection": "5",
}
"""In every command: between Java's releases, and between Java and librdkafka, these defaults differ."""
BY_HAND_S = 30.0
"""Duration of the command that repeats a scenario by hand, at the scenario's rate."""


def new_options(version: str) -> bool:
    """Whether its tools have --bootstrap-server, --command-property, --warmup-records, --num-records for consumers."""
    return release_numbers(version) >= (4, 2)


def java_settings(scenario: Scenario) -> dict[str, str]:
    """The scenario's producer settings by the Java client's names. Raises ValueError for a setting without."""
    settings = {}
    for name, value in with_settings((), {**JAVA_DEFAULTS, **dict(scenario.producer)}):
        if name in RENAMED:
            java, factor = RENAMED[name]
            settings[java] = str(int(value) * factor) if factor else value
        elif name in JAVA_PRODUCER_SETTINGS:
            settings[name] = value
        elif name not in WITHOUT_COUNTERPART:
            raise ValueError(f"the Java client has no setting {name}")
    return settings


def inexpressible(scenario: Scenario) -> str | None:
    load, consumers = scenario.load, scenario.consumers
    if scenario.client_version:
        return f"the official tools are Java clients; the scenario asks for confluent-kafka {scenario.client_version}"
    if scenario.beside:
        return "the official tools make one load; the scenario has others beside it"
    if scenario.topic.count > 1:
        return "the official tools write to one topic, or read one; the scenario has several"
    if consumers is not None and consumers.membership == "share":
        return "this driver's consumers form no share group"
    if consumers is not None and consumers.groups > 1:
        return "this driver's consumers form one group; the scenario has several, each of which reads everything"
    if consumers is not None and consumers.commit_records:
        return "this driver's consumers commit when they like, not after so many records"
    if scenario.crowd is not None:
        return "a process of the official tools has one connection to each broker"
    if not load.sends:
        if consumers is not None and consumers.membership == "assigned":
            return "ConsumerPerformance always joins a group; the scenario assigns its partitions"
        return None
    if load.open_loop:
        return "ProducerPerformance has no open loop: it counts latency from the actual send, not from the intended one"
    if consumers is not None:
        return "the official tools send or read; none measures a record from send to receipt at full rate"
    if scenario.transaction_ms:
        return (
            "ProducerPerformance commits (--transaction-duration-ms), but does not tell how many markers that wrote, "
            "so that records could not be accounted for"
        )
    if scenario.sizes:
        return "ProducerPerformance sends records of one size"
    if scenario.keys.kind != "none":
        return "ProducerPerformance sends no keys"
    compression = dict(scenario.producer).get("compression.type", "none")
    if scenario.payload.kind == "text" or (scenario.payload.kind == "random" and compression != "none"):
        return "ProducerPerformance makes its own payload, of another compressibility than the scenario's"
    try:
        java_settings(scenario)
    except ValueError as error:
        return str(error)
    return None


def producer_arguments(
    scenario: Scenario, *, version: str, topic: str, records: int, rate: float, warmup: int = 0
) -> list[str]:
    """ProducerPerformance's arguments, without addresses and log-in."""
    what = ["--topic", topic, "--num-records", str(records), "--throughput", str(math.ceil(rate))]
    if scenario.payload.kind == "lines":
        what += ["--payload-file", scenario.payload.path]
    else:
        what += ["--record-size", str(scenario.record_bytes)]
    if warmup:
        what += ["--warmup-records", str(warmup)]
    properties = [f"{name}={value}" for name, value in sorted(java_settings(scenario).items())]
    flag = "--command-property" if new_options(version) else "--producer-props"
    return [*what, flag, *properties]


def consumer_arguments(scenario: Scenario, *, version: str, topic: str, group: str, records: int) -> list[str]:
    count = "--num-records" if new_options(version) else "--messages"
    return ["--topic", topic, "--group", group, count, str(records)]


def by_hand(scenario: Scenario) -> str:
    """Return the command that repeats the scenario's load with the official tools, or why there is none."""
    version = scenario.cluster.version
    if reason := inexpressible(scenario):
        return f"no official command makes this load: {reason}"
    if not scenario.load.sends:
        arguments = consumer_arguments(
            scenario, version=version, topic="TOPIC", group="GROUP", records=scenario.load.records
        )
        return shlex.join(["kafka-consumer-perf-test.sh", "--bootstrap-server", "BROKERS", *arguments])
    clients = scenario.producers * scenario.threads
    rate = scenario.load.rate / clients
    arguments = producer_arguments(
        scenario, version=version, topic="TOPIC", records=math.ceil(rate * BY_HAND_S), rate=rate
    )
    servers = ["--bootstrap-server", "BROKERS"]
    words = [*servers, *arguments] if new_options(version) else [*arguments, "bootstrap.servers=BROKERS"]
    command = shlex.join(["kafka-producer-perf-test.sh", *words])
    return f"{command}   # {clients} of these side by side" if clients > 1 else command


@dataclass(frozen=True, kw_only=True, slots=True)
class Sending:
    """A summary line of ProducerPerformance; latencies in ms, whole ones but for the average."""

    records: int
    records_per_s: float
    avg_ms: float
    max_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    p999_ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ProducerOutput:
    """All records, those after warm-up, errors by class, time blocked. `throttled_ms`: longest delay by a quota."""

    total: Sending
    steady: Sending | None
    errors: Mapping[str, int]
    blocked_s: float
    throttled_ms: float


_finite = partial(finite, tool="the tool")
_SUMMARY = re.compile(
    rf"^(\d+)( steady state)? records sent, {NUMBER} records/sec \({NUMBER} MB/sec\), {NUMBER} ms avg latency, "
    rf"{NUMBER} ms max latency(.*)$",
    re.MULTILINE,
)
_PERCENTILES = re.compile(rf"^, {NUMBER} ms 50th, {NUMBER} ms 95th, {NUMBER} ms 99th, {NUMBER} ms 99\.9th\.$")
_ERROR = re.compile(
    r"^(?:org\.apache\.kafka[\w.]*\.|Exception in thread \"[^\"]*\" [\w.]*\.)(\w+Exception)", re.MULTILINE
)
_BLOCKED = re.compile(r"^producer-metrics:bufferpool-wait-time-ns-total:\S+\s*: (\d+(?:\.\d+)?)$", re.MULTILINE)
_THROTTLED = re.compile(r"^producer-metrics:produce-throttle-time-max:\S+\s*: (\d+(?:\.\d+)?)$", re.MULTILINE)


def parse_producer(text: str, *, warmed_up: bool = False) -> ProducerOutput:
    """Return the tool's report. Raises OutputError unless there is a single whole summary (with `warmed_up`, two)."""
    errors = Counter(_ERROR.findall(text))
    cause = "; ".join(f"{count} x {name}" for name, count in errors.items())
    summaries: dict[bool, Sending] = {}
    for match in _SUMMARY.finditer(text):
        if match[7] == ".":
            continue  # a line of progress
        steady = bool(match[2])
        if steady in summaries:
            raise OutputError("ProducerPerformance gave two summaries")
        summaries[steady] = _sending(match, cause)
    if False not in summaries:
        raise OutputError(f"ProducerPerformance gave no summary{': ' + cause if cause else ''}")
    if warmed_up and True not in summaries:
        raise OutputError("ProducerPerformance gave no summary of its steady state")
    blocked = sum(float(value) for value in _BLOCKED.findall(text)) / 1e9
    return ProducerOutput(
        total=summaries[False],
        steady=summaries.get(True),
        errors=errors,
        blocked_s=blocked,
        throttled_ms=max(map(float, _THROTTLED.findall(text)), default=0.0),
    )


def _sending(match: re.Match[str], cause: str) -> Sending:
    percentiles = _PERCENTILES.match(match[7])
    if percentiles is None:
        raise OutputError(f"ProducerPerformance's summary lacks its percentiles: {match[0]!r}")
    records = int(match[1])
    if records == 0:
        raise OutputError(f"ProducerPerformance sent 0 records{': ' + cause if cause else ''}")
    rate, _, *rest = [_finite(text, match[0]) for text in (*match.group(3, 4, 5, 6), *percentiles.groups())]
    names = ("avg_ms", "max_ms", "p50_ms", "p95_ms", "p99_ms", "p999_ms")
    return Sending(records=records, records_per_s=rate, **dict(zip(names, rest, strict=True)))


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadSoFar:
    """A line of ConsumerPerformance with --show-detailed-stats: records and MiB read since the start."""

    records: int
    mib: float


_CONSUMED = re.compile(rf"^(\d{{4}}-\d\d-\d\d [\d:]+), (\d+), {NUMBER}, {NUMBER}, (\d+), {NUMBER}, ", re.MULTILINE)
_SHORT = re.compile(r"^WARNING: Exiting before consuming.*$", re.MULTILINE)
_HEAD = re.compile(r"^(start\.)?time, .*$", re.MULTILINE)
_COLUMNS = "time, threadId, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec,"


def parse_consumer(text: str) -> list[ReadSoFar]:
    """Return the lines of progress so far. Raises OutputError for a warning, an exception or unknown columns."""
    if short := _SHORT.search(text):
        raise OutputError(f"ConsumerPerformance read too few records: {short[0]}")
    if errors := Counter(_ERROR.findall(text)):
        raise OutputError("ConsumerPerformance failed: " + "; ".join(f"{n} x {name}" for name, n in errors.items()))
    head = _HEAD.search(text)
    if head and not head[0].startswith(_COLUMNS):
        raise OutputError(f"ConsumerPerformance gave columns that are not known: {head[0]}")
    lines = _CONSUMED.findall(text) if head else []
    return [ReadSoFar(records=int(records), mib=_finite(mib, at)) for at, _thread, mib, _rate, records, _ in lines]
