"""The default driver of Kafka: the suite's engine with librdkafka's clients, their settings and limits."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import metadata
from pathlib import Path

from perfgate.host.disk import cache_dir
from perfgate.load.engine import SuiteEngine
from perfgate.load.instructions import Instructions
from perfgate.load.transport import Transport
from perfgate.model import KIB, ClusterSpec, Consumers, Crowd, Scenario, Settings, with_settings
from perfgate.model.changes import release_numbers
from perfgate.model.load import Batching, LoadSpec
from perfgate.systems.kafka.load.official import by_hand

STATISTICS_MS = 500

# librdkafka's equivalents of the Java client's defaults, where the scenario states nothing else:
# its own defaults are 1,000,000 requests in flight, linger 5 ms, 1 MB batches, 1 GiB of buffer and 300 s to deliver.
# The bound on buffered records keeps a generator of small records under 300 MiB: each takes about 250 bytes more.
SAME_AS_JAVA: Settings = (
    ("acks", "1"),
    ("batch.size", "16384"),
    ("compression.type", "none"),
    ("delivery.timeout.ms", "120000"),
    ("enable.idempotence", "false"),
    ("linger.ms", "0"),
    ("max.in.flight.requests.per.connection", "5"),
    ("partitioner", "murmur2_random"),
    ("queue.buffering.max.kbytes", "32768"),
    ("queue.buffering.max.messages", "400000"),
    ("socket.nagle.disable", "true"),
)
# The Java consumer's defaults. librdkafka would wait a second before it fetches again once its store is full.
CONSUME_AS_JAVA: Settings = (
    ("auto.offset.reset", "earliest"),
    ("enable.auto.commit", "true"),
    ("fetch.max.bytes", "52428800"),
    ("fetch.queue.backoff.ms", "2"),
    ("fetch.min.bytes", "1"),
    ("fetch.wait.max.ms", "500"),
    ("isolation.level", "read_uncommitted"),
    ("max.partition.fetch.bytes", "1048576"),
)
END_WAIT_MS = "10"
"""How long brokers may hold a fetch at the end of a backlog, which is read over and over. A client asks for nothing
else of that broker until it is answered: with Kafka's 500 ms a lap of 300,000 records was mostly a pause."""
STORE_KIB, STORE_RECORDS = 131_072, 300_000
"""A consumer's fetch-ahead over all its partitions: as much as stays under 300 MiB of memory in all."""
PACKAGE = "confluent-kafka"
INSTALL_TIMEOUT_S = 300
SHARE_GROUPS_SINCE = (4, 2)
"""Kafka's own clusters have them switched on from this release on (KIP-932)."""
SHARE_CONSUMER_SINCE = "2.15.0"
"""The release of confluent-kafka that has a share consumer first."""


def producer_settings(producer: Settings) -> dict[str, str]:
    return dict(with_settings(SAME_AS_JAVA, dict(producer)))


def _common(spec: LoadSpec, client: Mapping[str, str]) -> dict[str, object]:
    return {
        "client_path": str(folder_of(spec.scenario.client_version)) if spec.scenario.client_version else "",
        # The scenario's own settings win: what is measured is what is declared.
        "client": {
            **dict(spec.security),
            **client,
            **({"client.id": spec.client_id} if spec.client_id else {}),
            "bootstrap.servers": spec.bootstrap,
            "allow.auto.create.topics": "false",
        },
    }


def folder_of(wanted: str) -> Path:
    """Folder of this version of the client, once fetched. A generator process fails that has loaded another."""
    return cache_dir() / "clients" / f"{PACKAGE}-{wanted}-{sys.implementation.cache_tag}"


@cache
def cannot_have(wanted: str) -> str | None:
    """Fetch this version with pip, from its registry, once; return why it cannot be had, or None when it can."""
    folder = folder_of(wanted)
    if folder.is_dir():
        return None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".part-") as scratch:
            into = Path(scratch) / folder.name
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
            command += ["--only-binary", ":all:", "--target", str(into), f"{PACKAGE}=={wanted}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
            if done.returncode:
                words = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
                words = words or [done.stderr.strip()]
                return f"{PACKAGE} {wanted} could not be fetched: {words[-1].removeprefix('ERROR: ')}"
            into.rename(folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        if not folder.is_dir():  # else another run was faster
            return f"{PACKAGE} {wanted} could not be fetched: {error}"
    return None


class KafkaInstructions(Instructions):
    system, engine = "kafka", "librdkafka"
    buffer_settings = ("queue.buffering.max.kbytes", "queue.buffering.max.messages")
    by_hand = staticmethod(by_hand)

    def producer(self, spec: LoadSpec) -> dict[str, object]:
        scenario = spec.scenario
        client = producer_settings(scenario.producer)
        if scenario.transaction_ms:
            # Brokers abort what is open for longer, and librdkafka refuses to wait longer for a record than that.
            client.setdefault("transaction.timeout.ms", client["delivery.timeout.ms"])
            # Nor for an answer: 100 ms less is its own rule where nothing is stated.
            if waits := {**dict(spec.security), **client}.get("socket.timeout.ms"):
                client["socket.timeout.ms"] = str(min(int(waits), int(client["transaction.timeout.ms"]) - 100))
        own = {
            **_common(spec, client),
            "buffer_bytes": int(client["queue.buffering.max.kbytes"]) * KIB,
            "buffer_records": int(client["queue.buffering.max.messages"]),
            "compressed": client["compression.type"] != "none",
            "lingers": float(client["linger.ms"]) > 0,
        }
        if crowd := scenario.crowd:  # a crowd that does not divide is refused
            processes = scenario.producers
            own["crowd"] = {"connections": crowd.connections // processes, "idle": crowd.idle // processes}
        return own

    def consumer(self, spec: LoadSpec, consumers: Consumers, group: str) -> dict[str, object]:
        backlog, share = not spec.scenario.load.sends, consumers.membership == "share"
        client: dict[str, str] = {}
        if not share:  # a share group's brokers decide where it begins and what is committed; its members may not
            client |= dict(CONSUME_AS_JAVA)
            client["queued.max.messages.kbytes"] = str(max(1024, STORE_KIB // spec.scenario.topic.in_all))
            client["queued.min.messages"] = str(max(1000, STORE_RECORDS // spec.scenario.topic.in_all))
            if backlog:
                client["fetch.wait.max.ms"] = END_WAIT_MS
        client |= dict(consumers.config)
        # Without commits an assigned consumer leaves no group behind.
        if consumers.membership == "assigned" or consumers.commit_records:
            client["enable.auto.commit"] = "false"
        if not share:
            client["statistics.interval.ms"] = str(STATISTICS_MS)
        if backlog:
            client["enable.partition.eof"] = "true"
        common = _common(spec, {**client, "group.id": group})
        return {**common, "share": share, "commit_records": consumers.commit_records}

    def drain_s_of(self, scenario: Scenario) -> float:
        return float(producer_settings(scenario.producer)["delivery.timeout.ms"]) / 1e3 + 5

    def batching(self, scenario: Scenario) -> Batching:
        client = producer_settings(scenario.producer)
        return Batching(
            batch_bytes=int(client["batch.size"]),
            in_flight=int(client["max.in.flight.requests.per.connection"]),
            linger_s=float(client["linger.ms"]) / 1e3,
            buffer_kib=int(client["queue.buffering.max.kbytes"]),
        )

    def buffered(self, scenario: Scenario, buffer_kib: int) -> Scenario:
        buffer = {"queue.buffering.max.kbytes": buffer_kib}
        return replace(scenario, producer=with_settings(scenario.producer, buffer))

    def cannot(self, scenario: Scenario) -> str | None:
        if scenario.has_fault and scenario.transaction_ms:
            return "a round with a fault is held against every offset of the log, and transactions leave gaps in them"
        if scenario.transaction_ms and not scenario.load.sends:
            return "a backlog is checked for holes by its offsets, and transactions leave gaps in them"
        if scenario.crowd and (reason := _cannot_crowd(scenario, scenario.crowd)):
            return reason
        if scenario.consumers and scenario.consumers.membership == "share":
            return _cannot_share(scenario)
        return cannot_have(scenario.client_version) if scenario.client_version else None

    def keeps_what_was_read(self, scenario: Scenario) -> bool:
        """Without acks=all a log may be cut back."""
        return dict(scenario.producer).get("acks", "").lower() in ("all", "-1")


def _cannot_crowd(scenario: Scenario, crowd: Crowd) -> str:
    client = producer_settings(scenario.producer)
    if scenario.topic.count > 1:
        return "a crowd of connections writes to one topic"
    if scenario.cluster.security != ClusterSpec().security:
        return "a crowd of connections has no log-in and no TLS"
    if scenario.has_fault:
        return "a crowd of connections sends nothing again, so that a fault would be failed sends and no outage"
    if not scenario.load.fixed_rate:
        return "a crowd of connections sends by a schedule: its load must be paced"
    if scenario.threads > 1:
        return "a crowd of connections is shared by processes, of one thread each: producers.processes"
    if crowd.connections % scenario.producers or crowd.idle % scenario.producers:
        return f"a crowd must have as many connections in each of its processes, and there are {scenario.producers}"
    if scenario.transaction_ms or client["enable.idempotence"] == "true":
        return "a crowd of connections has no transactions, and sends nothing again"
    if scenario.keys.kind != "none":
        return "each connection of a crowd writes to a partition of its own, whatever the key"
    if client["compression.type"] != "none":
        return "a crowd of connections compresses nothing"
    if client["acks"] == "0":
        return "each connection of a crowd waits for its acknowledgement: acks must not be 0"
    return ""


def _cannot_share(scenario: Scenario) -> str | None:
    if release_numbers(version := scenario.cluster.version) < SHARE_GROUPS_SINCE:
        return f"share groups came with Kafka {'.'.join(map(str, SHARE_GROUPS_SINCE))}, and these brokers are {version}"
    if not scenario.load.sends:
        return "a backlog is read over and over, and a share group gives each record once"
    if scenario.client_version:
        return "share consumers are those of the installed client alone"
    import confluent_kafka  # few scenarios have share groups

    if not hasattr(confluent_kafka, "ShareConsumer"):
        installed = metadata.version(PACKAGE)
        return f"share consumers came with {PACKAGE} {SHARE_CONSUMER_SINCE}, and {installed} is installed"
    return None


class LibrdkafkaDriver(SuiteEngine):
    def __init__(self, transport: Transport | None = None) -> None:
        super().__init__(KafkaInstructions(), transport)
