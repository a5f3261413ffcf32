"""Command lines and output of pulsar-perf: a scenario in its terms, and its reports. Pure.

It ends with 0 when nothing was sent, and runs on where no broker answers: the exit code does not count. Of its records
it reports those that were acknowledged, and a warning for each that failed.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from hdrh.histogram import HdrHistogram

from perfgate.load.tools import NUMBER, OutputError, finite
from perfgate.model import MIB, Scenario
from perfgate.model.histogram import BUCKETS, HIGHEST_US, LOWEST_US, bucket_of, lowest_of
from perfgate.systems.pulsar.load.settings import settings_of

LOGGING = """
status = error
appender.console.type = Console
appender.console.name = Console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{UNIX_MILLIS} %p %c{1} - %m%notEmpty{ | %throwable{short.message}}%n
appender.console.layout.alwaysWriteExceptions = false
appender.console.filter.settings.type = RegexFilter
appender.console.filter.settings.regex = (?s).*config: [{].*
appender.console.filter.settings.onMatch = DENY
appender.console.filter.settings.onMismatch = ACCEPT
rootLogger.level = info
rootLogger.appenderRef.console.ref = Console
"""
"""Configuration of log4j 2: a line an event; the tool's print of its settings, with the token, is left out."""
REPORT_S = 10.0
"""The tool's interval of lines of progress; it has no option for it."""
CONF_NAMES = {
    "tlsTrustCertsFilePath": "tlsTrustCertsFilePath",
    "tlsAllowInsecureConnection": "tlsAllowInsecureConnection",
    "tlsHostnameVerificationEnable": "tlsEnableHostnameVerification",
}
"""Client settings of a target by the names of the tool's conf file; those of the log-in are added."""
TYPES = {"exclusive": "Exclusive", "shared": "Shared", "failover": "Failover", "key-shared": "Key_Shared"}
"""Types of subscriptions by membership; an exclusive consumer can read all that assigned consumers read."""
EXPRESSED = {
    "producer": {
        "batchingEnabled",
        "batchingMaxBytes",
        "batchingMaxMessages",
        "batchingMaxPublishDelayMicros",
        "compressionType",
        "maxPendingBytes",
        "maxPendingMessages",
        "numIoThreads",
        "numListenerThreads",
        "sendTimeoutMs",
    },
    "consumer": {"acknowledgementsGroupTimeMicros", "numIoThreads", "numListenerThreads", "receiverQueueSize"},
}
"""Settings that the tool has an option for."""
FULL = 0.9
"""Share of its bound from which a producer's buffer counts as full: an acknowledged batch frees many messages."""


def inexpressible(scenario: Scenario) -> str | None:
    load, consumers = scenario.load, scenario.consumers
    if scenario.client_version:
        return f"pulsar-perf is a Java client; the scenario asks for the Python package {scenario.client_version}"
    if reason := _settings_without_option(scenario):
        return reason
    if consumers is not None and consumers.groups > 1:
        return "pulsar-perf counts what all subscriptions read together; the scenario has several"
    if not load.sends:
        assert consumers is not None
        clients = consumers.processes * consumers.threads
        if consumers.membership not in (*TYPES, "assigned"):
            return f"pulsar-perf has no subscription of the type {consumers.membership}"
        if consumers.membership in ("assigned", "exclusive") and clients > 1:
            return "pulsar-perf allows an exclusive subscription one consumer, which reads all partitions"
        return None
    if load.open_loop:
        return "pulsar-perf has no open loop: it counts latency from the actual send, not from the intended one"
    if consumers is not None:
        return "pulsar-perf sends or reads; it does not measure a record from send to receipt"
    if scenario.transaction_ms:
        return "pulsar-perf ends a transaction after a number of messages, not after a time"
    if scenario.sizes:
        return "pulsar-perf sends messages of one size"
    if scenario.keys.kind != "none":
        return "pulsar-perf's keys are numbers, of other sizes than the scenario's"
    compressed = dict(scenario.producer).get("compressionType", "NONE") != "NONE"
    if scenario.payload.kind == "text" or (scenario.payload.kind == "random" and compressed):
        return "pulsar-perf sends the same letters in every message, of another compressibility than the scenario's"
    return None


def _settings_without_option(scenario: Scenario) -> str:
    kind = "producer" if scenario.load.sends else "consumer"
    reading = scenario.consumers.config if scenario.consumers else ()
    stated = dict(scenario.producer if scenario.load.sends else reading)
    for name in stated:
        if name not in EXPRESSED[kind]:
            return f"pulsar-perf has no option for {kind}.{name}"
    for name, step in (("sendTimeoutMs", 1000), ("acknowledgementsGroupTimeMicros", 1000)):
        if int(stated.get(name, 0)) % step:
            return f"pulsar-perf takes {kind}.{name} in steps of {step:,}; it is {stated[name]}"
    return ""


def rate_of(rate: float, threads: int, *, at_most: bool = False) -> int:
    """The option for this rate, of which each thread gets an equal share in whole records/s.

    The tool's limiter counts in whole microseconds a record, rounded down: 102,400/s become 111,111/s at most (seen:
    104,853/s). `at_most`: the next rate below that it keeps.
    """
    if at_most:
        return max(1, math.floor(1e6 / math.ceil(1e6 * threads / rate))) * threads
    return max(1, math.ceil(rate / threads)) * threads


def producer_arguments(scenario: Scenario, *, topic: str, rate: float, at_most: bool = False) -> list[str]:
    """Arguments of `produce`, without addresses; `rate`, `at_most`: of :func:`rate_of`."""
    chosen = settings_of(scenario.producer, "producer")
    threads = scenario.producers * scenario.threads
    options = ["-r", str(rate_of(rate, threads, at_most=at_most)), "-threads", str(threads)]
    options += ["-f", scenario.payload.path] if scenario.payload.kind == "lines" else ["-s", str(scenario.record_bytes)]
    pending = int(chosen["maxPendingMessages"])
    options += ["-o", str(pending), "-p", str(pending * scenario.topic.partitions), "-ml", chosen["maxPendingBytes"]]
    if chosen["batchingEnabled"] == "true":
        delay_ms = int(chosen["batchingMaxPublishDelayMicros"]) / 1e3
        options += ["-b", f"{delay_ms:g}", "-bm", chosen["batchingMaxMessages"], "-bb", chosen["batchingMaxBytes"]]
    else:
        options += ["-db"]
    options += ["-z", chosen["compressionType"], "--send-timeout", str(int(chosen["sendTimeoutMs"]) // 1000)]
    return [*options, *_threads(chosen), topic]


def consumer_arguments(scenario: Scenario, *, topic: str, subscription: str) -> list[str]:
    """Arguments of `consume`, without addresses: it reads the topic from its start."""
    consumers = scenario.consumers
    assert consumers is not None
    chosen = settings_of(consumers.config, "consumer")
    queue = int(chosen["receiverQueueSize"])
    options = ["-ss", subscription, "-st", TYPES.get(consumers.membership, TYPES["exclusive"]), "-sp", "Earliest"]
    options += ["-n", str(consumers.processes * consumers.threads)]
    options += ["-q", str(queue), "-p", str(queue * scenario.topic.partitions)]
    options += ["--acks-delay-millis", str(int(chosen["acknowledgementsGroupTimeMicros"]) // 1000)]
    return [*options, *_threads(chosen), topic]


def _threads(chosen: Mapping[str, str]) -> list[str]:
    options = {"-ioThreads": "numIoThreads", "-lt": "numListenerThreads"}
    return [word for option, name in options.items() if name in chosen for word in (option, chosen[name])]


def by_hand(scenario: Scenario) -> str:
    """The command that repeats the scenario's load with pulsar-perf, or the reason why there is none."""
    if reason := inexpressible(scenario):
        return f"no official command makes this load: {reason}"
    if not scenario.load.sends:
        arguments = consumer_arguments(scenario, topic="TOPIC", subscription="SUBSCRIPTION")
        return shlex.join(["pulsar-perf", "consume", "-u", "SERVICE_URL", *arguments])
    arguments = producer_arguments(scenario, topic="TOPIC", rate=scenario.load.rate)
    return shlex.join(["pulsar-perf", "produce", "-u", "SERVICE_URL", "-time", "30", *arguments])


@dataclass(frozen=True, kw_only=True, slots=True)
class Produced:
    """A line of progress: all records acknowledged by `at_s` (s since 1970), and figures since the last line.

    `failed_per_s`: records that failed; `max_ms`: the longest latency, from an actual send.
    """

    at_s: float
    records: int
    failed_per_s: float
    max_ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Pending:
    """Number of messages of a producer in a partition without an outcome at `at_s` (s since 1970)."""

    at_s: float
    producer: str
    partition: str
    messages: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Consumed:
    """Rates of a consumer of a partition in the second before `at_s` (s since 1970)."""

    at_s: float
    consumer: str
    records_per_s: float
    bytes_per_s: float


_EVENT = re.compile(r"^(\d{13}) ([A-Z]+) (\w+) - (.*)$", re.MULTILINE)
_finite = partial(finite, tool="pulsar-perf")
_PRODUCED = re.compile(
    rf"Throughput produced: +(\d+) msg --- +{NUMBER} msg/s --- +{NUMBER} Mbit/s +--- failure +{NUMBER} msg/s --- "
    rf"Latency: mean: +{NUMBER} ms - med: .* - Max: +{NUMBER}"
)
_SENT = re.compile(rf"Aggregated throughput stats --- (\d+) records sent --- {NUMBER} msg/s --- {NUMBER} Mbit/s *")
_RECEIVED = re.compile(rf"Aggregated throughput stats --- (\d+) records received --- {NUMBER} +msg/s --- .*")
_PENDING = re.compile(r"\[(.*)\] \[(.*)\] --- Publish throughput: .* --- Pending messages: (\d+)")
_CONSUMED = re.compile(
    rf"\[(.*)\] \[(.*)\] \[(.*)\] .*Consume throughput received: {NUMBER} msgs/s --- {NUMBER} Mbit/s --- .*"
)
_CREATED = "Created 1 producers"
_FAILED = "Write message error with exception"
_CAUSE = re.compile(r"(\w+(?:Exception|Error))(?=:|$| )")
_CRASH = re.compile(r"^Exception in thread .*$", re.MULTILINE)


def parse_produced(text: str) -> list[Produced]:
    """Lines of progress so far. Raises OutputError for an unknown line, or a line without a number."""
    lines = []
    for at, words in _events(text, "PerformanceProducer", "Throughput produced:"):
        match = _PRODUCED.fullmatch(words)
        if match is None:
            raise OutputError(f"pulsar-perf wrote a line of progress that is not known: {words!r}")
        _, _, failed, _, longest = [_finite(number, words) for number in match.groups()[1:]]
        lines.append(Produced(at_s=at, records=int(match[1]), failed_per_s=failed, max_ms=longest))
    return lines


def reports(text: str) -> int:
    """Number of lines of progress, whatever their content."""
    return text.count(" - Throughput produced:")


def created(text: str) -> int:
    """Number of threads that have created their producer. Raises OutputError when a thread could not."""
    if reason := refused(text):
        raise OutputError(f"pulsar-perf could not begin: {reason}")
    return sum(1 for _ in _events(text, "PerformanceProducer", _CREATED))


def refused(text: str) -> str:
    """The error that ended a thread of the tool, or the tool; empty without such an error."""
    if crash := _CRASH.search(text):
        return crash[0]
    for _, words in _events(text, "PerformanceProducer", "Got error"):
        return words.partition(" | ")[2] or words
    for line in text.splitlines():
        if line.startswith(("Unknown option", "Invalid value", "Missing required")):
            return line
    return ""


def parse_pending(text: str) -> list[Pending]:
    """Pending messages as the tool's client reports them, a line a second, producer and partition."""
    lines = [(at, _PENDING.fullmatch(words)) for at, words in _events(text, "ProducerStatsRecorderImpl", "[")]
    return [
        Pending(at_s=at, producer=m[2], partition=m[1], messages=int(m[3])) for at, m in lines if m and m[2] != "null"
    ]


def parse_consumed(text: str) -> list[Consumed]:
    """Consumers' rates as the tool's client reports them, a line a second, consumer and partition."""
    lines = []
    for at, words in _events(text, "ConsumerStatsRecorderImpl", "["):
        if match := _CONSUMED.fullmatch(words):
            rate, mbit = _finite(match[4], words), _finite(match[5], words)
            consumer = f"{match[1]} {match[3]}"
            lines.append(Consumed(at_s=at, consumer=consumer, records_per_s=rate, bytes_per_s=mbit * MIB / 8))
    return lines


def sent_in_all(text: str) -> tuple[int, Mapping[str, int]]:
    """Records acknowledged, and failed by error. Raises OutputError, with the cause, if none was, or it ended badly."""
    failed = _failed(text)
    causes = "; ".join(f"{count} x {name}" for name, count in failed.items()) or refused(text)
    total = _total(text, "PerformanceProducer", _SENT)
    if total is None:
        raise OutputError(f"pulsar-perf gave no sum of what it sent{': ' + causes if causes else ''}")
    if total == 0:
        raise OutputError(f"pulsar-perf sent 0 records{': ' + causes if causes else ''}")
    if not failed and any(line.failed_per_s > 0 for line in parse_produced(text)):
        raise OutputError("pulsar-perf counted records that failed, and wrote no error of any")
    return total, failed


def received_in_all(text: str) -> int:
    """Number of records read. Raises OutputError unless the tool has ended as it should."""
    total = _total(text, "PerformanceConsumer", _RECEIVED)
    if total is None:
        raise OutputError("pulsar-perf gave no sum of what it read")
    return total


def _total(text: str, tool: str, pattern: re.Pattern[str]) -> int | None:
    """The tool's sum; None: it printed none. Raises OutputError where it crashed, or the sum is not known."""
    if crash := _CRASH.search(text):
        raise OutputError(f"pulsar-perf failed: {crash[0]}")
    matches = [pattern.fullmatch(words) for _, words in _events(text, tool, "Aggregated throughput stats")]
    sums = [int(match[1]) for match in matches if match]
    if len(sums) > 1 or len(sums) < len(matches):
        raise OutputError("pulsar-perf's sum of the whole run is not known, or written twice")
    return sums[0] if sums else None


def _failed(text: str) -> Counter[str]:
    """Number of failed records by the last exception that their warning names."""
    causes = [_CAUSE.findall(words) for _, words in _events(text, "PerformanceProducer", _FAILED)]
    return Counter(names[-1] if names else "unknown" for names in causes)


def pushed_back_s(
    lines: Sequence[Pending], opens_s: float, closes_s: float, *, messages: int, record_bytes: int, most_bytes: int
) -> float:
    """Time in a window for which a full buffer refused records, in s: the mean over the clients' fullest partitions.

    `messages`: the bound of a partition, 0: none; `most_bytes`: a client's, over all its partitions.
    """
    samples: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)
    for line in lines:
        if opens_s <= line.at_s < closes_s:
            samples[line.producer, int(line.at_s - opens_s)][line.partition] = line.messages
    full = [
        (messages > 0 and max(held.values()) >= FULL * messages)
        or sum(held.values()) * record_bytes >= FULL * most_bytes
        for held in samples.values()
    ]
    return sum(full) / len(full) * (closes_s - opens_s) if full else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """An interval of a histogram log: its latencies as counts of the suite's own buckets, the longest in ms."""

    counts: npt.NDArray[np.int64]
    max_ms: float


def parse_histograms(text: str) -> list[Span]:
    """Whole intervals of an HdrHistogram log in microseconds. Raises OutputError for another format."""
    head, *lines = text[: text.rfind("\n") + 1].splitlines() or [""]
    if head != "#[Histogram log format version 1.3]":
        raise OutputError(f"pulsar-perf's histogram file begins with {head[:60]!r}, not as a log of version 1.3")
    spans = []
    for line in lines:
        if line.startswith(("#", '"StartTimestamp"')):
            continue
        try:
            _start, _length, _max, encoded = line.split(",")
            histogram = HdrHistogram.decode(encoded.encode("ascii"))
        except Exception as error:  # any error of the decoder for damaged text
            raise OutputError(f"pulsar-perf's histogram file holds a line that cannot be read: {error}") from error
        counts = np.frombuffer(histogram.counts, np.int64)
        used = np.flatnonzero(counts)
        bits = int(histogram.sub_bucket_count).bit_length() - 1
        middles = (lowest_of(used, bits) + lowest_of(used + 1, bits) - 1) // 2
        into = bucket_of(np.clip(middles, LOWEST_US, HIGHEST_US))
        own = np.bincount(into, weights=counts[used], minlength=BUCKETS).astype(np.int64)
        spans.append(Span(counts=own, max_ms=float(histogram.get_max_value()) / 1e3))
    return spans


def latencies(lines: Sequence[Produced], spans: Sequence[Span], first: int, after: int) -> npt.NDArray[np.int64]:
    """Sum of the counts of lines `first` up to `after`. Raises OutputError where an interval is missing or another."""
    if len(spans) < after:
        raise OutputError(f"pulsar-perf's histogram file has {len(spans)} of {after} intervals")
    for line, span in zip(lines[first:after], spans[first:after], strict=True):
        if not math.isclose(line.max_ms, span.max_ms, rel_tol=1e-3, abs_tol=1e-3):
            raise OutputError(
                f"pulsar-perf's histogram file is not of its lines: {span.max_ms:g} ms at most, not {line.max_ms:g} ms"
            )
    counts: npt.NDArray[np.int64] = np.sum([span.counts for span in spans[first:after]], axis=0, dtype=np.int64)
    return counts


def _events(text: str, logger: str, begin: str) -> list[tuple[float, str]]:
    """Times (s since 1970) and texts of a logger's lines that begin so, without an unfinished last line."""
    whole = text[: text.rfind("\n") + 1]
    return [
        (int(at) / 1e3, words)
        for at, _level, source, words in _EVENT.findall(whole)
        if source == logger and words.startswith(begin)
    ]
