"""Instructions for generator processes: their clients' version and settings, and their share of a scenario's load."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import cast

from perfgate.host.disk import cache_dir
from perfgate.load.payload import is_compact, run_tag
from perfgate.model import Scenario, Settings, with_settings
from perfgate.model.load import LoadSpec

READY_TIMEOUT_S = 45
DRAIN_MARGIN_S = 10
MARGIN_S = 900.0
"""A load that is never ended lasts this much longer than it should, and no more."""
STATISTICS_MS = 500
PRODUCE, CONSUME = "producer", "consumer"

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


def producer_settings(producer: Settings) -> dict[str, str]:
    """Full client settings of a scenario's producer."""
    return dict(with_settings(SAME_AS_JAVA, dict(producer)))


def drain_s_of(scenario: Scenario) -> float:
    """Time for the outcomes of a producer's records in the end, in s."""
    return float(producer_settings(scenario.producer)["delivery.timeout.ms"]) / 1e3 + 5


def producers_of(spec: LoadSpec) -> dict[str, dict[str, object]]:
    """Instructions of each producer process, by its name."""
    scenario = spec.scenario
    client = producer_settings(scenario.producer)
    if scenario.transaction_ms:
        # Brokers abort what is open for longer, and librdkafka refuses to wait longer for a record than that.
        client.setdefault("transaction.timeout.ms", client["delivery.timeout.ms"])
    request = {
        **_common(spec, "produce", client),
        "transaction_ms": scenario.transaction_ms,
        # Of the client of this number, in every round of the run: brokers remember each for days.
        "transactional_id": f"{spec.prefix}{spec.run_id}",
        "paced": scenario.load.open_loop,
        "rate": scenario.load.rate,
        "most_rate": spec.most_rate if spec.most_rate < math.inf else 0.0,
        "records": 0,
        "record_bytes": scenario.record_bytes,
        "payload": asdict(scenario.payload),
        "keys": asdict(scenario.keys),
        "seed": spec.seed,
        "drain_s": drain_s_of(scenario),
        "clients": scenario.threads,
        "of": scenario.producers * scenario.threads,
    }
    firsts = range(0, scenario.producers * scenario.threads, scenario.threads)
    return {f"{PRODUCE}-{n}": {**request, "first": first} for n, first in enumerate(firsts, 1)}


def consumers_of(spec: LoadSpec) -> dict[str, dict[str, object]]:
    """Instructions of each consumer process, by its name; those of a group follow one another."""
    scenario, consumers = spec.scenario, spec.scenario.consumers
    if consumers is None:
        return {}
    backlog = not scenario.load.sends
    count = consumers.processes * consumers.threads
    shares = [list(range(number, scenario.topic.partitions, count)) for number in range(count)] * consumers.groups
    store = {
        "queued.max.messages.kbytes": str(max(1024, STORE_KIB // scenario.topic.partitions)),
        "queued.min.messages": str(max(1000, STORE_RECORDS // scenario.topic.partitions)),
    }
    at_end = {"fetch.wait.max.ms": END_WAIT_MS} if backlog else {}
    share = consumers.membership == "share"
    # What a share group's brokers decide, its members may not set: where it begins, what is committed.
    client = {**({} if share else {**dict(CONSUME_AS_JAVA), **store, **at_end}), **dict(consumers.config)}
    # Without commits an assigned consumer leaves no group behind.
    client |= {"enable.auto.commit": "false"} if consumers.membership == "assigned" else {}
    client |= {} if share else {"statistics.interval.ms": str(STATISTICS_MS)}
    client |= {"enable.partition.eof": "true"} if backlog else {}
    request = {
        "assigned": shares if consumers.membership == "assigned" else None,
        "share": share,
        "laps": backlog,
        "compact_bytes": scenario.record_bytes if is_compact(scenario.payload, scenario.record_bytes) else 0,
        "paced_rate": scenario.load.rate if scenario.load.open_loop else 0.0,
        "transactions": scenario.transaction_ms > 0,
        "producers": 1 if backlog else scenario.producers * scenario.threads,
        "clients": consumers.threads,
    }
    found: dict[str, dict[str, object]] = {}
    for number in range(consumers.groups * consumers.processes):
        common = _common(spec, "consume", {**client, "group.id": group_of(spec.topic, number // consumers.processes)})
        found[f"{CONSUME}-{number + 1}"] = {**common, **request, "first": number * consumers.threads}
    return found


def paired(producers: Mapping[str, dict[str, object]], consumers: Mapping[str, dict[str, object]]) -> bool:
    """Have each producer process write what the consumer process of its number reads; return whether that is possible.

    It is where both are as many, partitions are assigned, as many to each, and no keys choose them. The load is the
    same; dealt out to hosts, each host reads what it wrote: end-to-end latency needs one clock then.
    """
    shares = [_read_by(consumer) for consumer in consumers.values()]
    if len(producers) != len(consumers) or len(set(map(len, shares))) != 1:
        return False
    every = sorted(itertools.chain.from_iterable(shares))  # of several groups each reads all
    if every != list(range(cast(int, next(iter(producers.values()))["partitions"]))):
        return False
    if any(cast(Mapping[str, object], producer["keys"])["kind"] != "none" for producer in producers.values()):
        return False
    for producer, share in zip(producers.values(), shares, strict=True):
        producer["own_partitions"] = share
    return True


def _read_by(consumer: Mapping[str, object]) -> list[int]:
    first, clients = cast(int, consumer["first"]), cast(int, consumer["clients"])
    assigned = cast(list[list[int]], consumer["assigned"] or [])
    return sorted(itertools.chain.from_iterable(assigned[first : first + clients]))


def group_of(topic: str, number: int) -> str:
    """Name of a topic's consumer group: the topic's own, with a number from the second group on."""
    return f"{topic}-{number + 1}" if number else topic


def _common(spec: LoadSpec, role: str, client: Mapping[str, str]) -> dict[str, object]:
    return {
        "role": role,
        "client_path": str(folder_of(spec.scenario.client_version)) if spec.scenario.client_version else "",
        "topic": spec.topic,
        "partitions": spec.scenario.topic.partitions,
        # The scenario's own settings win: what is measured is what is declared.
        "client": {
            **dict(spec.security),
            **client,
            "bootstrap.servers": spec.bootstrap,
            "allow.auto.create.topics": "false",
        },
        "run": run_tag(spec.run_id),
        "most_s": spec.warmup_max_s + spec.window_s + drain_s_of(spec.scenario) + MARGIN_S,
    }


def folder_of(wanted: str) -> Path:
    """Folder of this version of the Kafka client, once :func:`cannot_have` has fetched it.

    A generator process puts it first on its path, and fails when it has loaded a library from elsewhere.
    """
    return cache_dir() / "clients" / f"{PACKAGE}-{wanted}-{sys.implementation.cache_tag}"


@cache
def cannot_have(wanted: str) -> str | None:
    """Fetch this version with pip, from its registry, once; return why it cannot be had, or None when it can."""
    folder = folder_of(wanted)
    if folder.is_dir():
        return None
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".part-") as scratch:
        into = Path(scratch) / folder.name
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary", ":all:", "--target", str(into), f"{PACKAGE}=={wanted}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{PACKAGE} {wanted} could not be fetched: {error}"
        if done.returncode:
            words = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")] or [done.stderr.strip()]
            return f"{PACKAGE} {wanted} could not be fetched: {words[-1].removeprefix('ERROR: ')}"
        try:
            into.rename(folder)
        except OSError:  # another run was faster
            if not folder.is_dir():
                raise
    return None
