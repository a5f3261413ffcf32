"""The load engine of Pulsar beside pulsar-perf and other ways to libpulsar: same brokers and settings, rounds in turn.

``make bench PART=pulsar_engine ARGS="--rounds 7 --only produce-1ms"``. Of each round the tools' rates and client CPU
per record are paired; the table shows medians and the paired ratio with its interval (order statistics).
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.load_engine import (
    Bench,
    Measure,
    Point,
    by_driver,
    compared,
    note_if_busy,
    of_process,
    parser_of,
    write_cases,
)
from perfgate.host.environment import environment_facts
from perfgate.host.java import find_java
from perfgate.load.transport import LocalTransport
from perfgate.model import ClusterSpec, Consumers, Load, Scenario, TopicSpec, settings
from perfgate.model.load import Driver, LoadSpec, Observer
from perfgate.systems.pulsar.jars import tool_jars
from perfgate.systems.pulsar.load.libpulsar import LibpulsarDriver
from perfgate.systems.pulsar.load.perf import PulsarPerfDriver
from perfgate.systems.pulsar.load.settings import settings_of
from perfgate.systems.pulsar.managed.embedded import PulsarTarget

RESULTS = Path(__file__).parent / "results" / "pulsar_engine.json"
ENGINE, PERF, SLOW, PYTHON = "libpulsar", "pulsar-perf", "libpulsar, no compiler", "Python client"
UNBOUNDED = 10_000_000.0
BACKLOG = 8_000_000
REPORTS_S = 10.0
"""pulsar-perf reports every 10 s: its window is that long at least, and so are the others'."""
WITHOUT_COMPILER = """
import runpy
from perfgate.systems.pulsar.load import native
native.cannot_have = lambda: "not asked for"
runpy.run_module("perfgate.load.worker", run_name="__main__")
"""
PYTHON_CLIENT = """
import json, logging, sys, pulsar
spec = json.loads(sys.argv[1])
logging.disable(logging.CRITICAL)
client = pulsar.Client(spec["url"], logger=logging.getLogger("pulsar"))
producers = [
    client.create_producer(
        f"{spec['topic']}-partition-{number}", block_if_queue_full=True, max_pending_messages=spec["pending"],
        batching_enabled=spec["batched"], batching_max_messages=spec["messages"],
        batching_max_allowed_size_in_bytes=spec["bytes"], batching_max_publish_delay_ms=spec["delay_ms"],
    )
    for number in range(spec["partitions"])
]
value, sent = bytes(spec["record_bytes"]), 0
def done(result, message_id):
    if result != pulsar.Result.Ok:
        sys.exit(f"{result}")
while True:
    for producer in producers:
        for _ in range(100):
            producer.send_async(value, done)
"""
"""What the usual client does: a call and a callback a message."""


def producing(name: str, summary: str, record_bytes: int = 1024, **producer: object) -> Scenario:
    """Return a case that sends as fast as it can."""
    return Scenario(
        name=name,
        summary=summary,
        families=("benchmark",),
        factor=(),
        topic=TopicSpec(partitions=3, replication_factor=3),
        producer=settings(producer),
        record_bytes=record_bytes,
        load=Load(kind="capped", rate=UNBOUNDED),
        cluster=ClusterSpec(system="pulsar", version="4.0.8", brokers=3, bookies=3),
    )


CASES = (
    producing("produce-1ms", "1,024 B, batches of 1 ms, up to 128 KiB"),
    producing("produce-unbatched", "1,024 B, no batches", batchingEnabled="false"),
    replace(
        producing("consume", "1,024 B, every record checked"),
        load=Load(kind="backlog", records=BACKLOG),
        consumers=Consumers(membership="assigned"),
    ),
)


def by_python_client(spec: LoadSpec, observer: Observer) -> Point:
    """Measure the Python client."""
    asked = settings_of(spec.scenario.producer, "producer")
    request = {
        "url": spec.bootstrap,
        "topic": spec.topic,
        "partitions": spec.scenario.topic.partitions,
        "record_bytes": spec.scenario.record_bytes,
        "pending": int(asked["maxPendingMessages"]),
        "batched": asked["batchingEnabled"] == "true",
        "messages": int(asked["batchingMaxMessages"]),
        "bytes": int(asked["batchingMaxBytes"]),
        "delay_ms": int(asked["batchingMaxPublishDelayMicros"]) // 1_000,
    }
    return of_process([sys.executable, "-c", PYTHON_CLIENT, json.dumps(request)], spec, observer)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the cases, print the table, write the results."""
    parser = parser_of(__doc__, [case.name for case in CASES], REPORTS_S)
    parser.add_argument(
        "--beside", choices=(PERF, SLOW, PYTHON), action="append", help="measure the engine beside this (default: all)"
    )
    options = parser.parse_args(arguments)
    if options.rounds < 2:
        parser.error("--rounds must be 2 or more: a spread needs as many")
    note_if_busy()
    spec = CASES[0].cluster
    facts = {
        "command": f"make bench PART=pulsar_engine ARGS='--rounds {options.rounds} --window {options.window:g}'",
        "environment": environment_facts(),
        "pulsar_version": spec.version,
        "window_s": options.window,
    }
    with tempfile.TemporaryDirectory(prefix="kafka-perf-gate-logs-") as logs:
        target = PulsarTarget(log_folder=Path(logs), cross_zone=False, say=print)
        try:
            target.prepare([spec])
            cluster = target.cluster(spec)
            drivers: dict[str, Driver] = {
                ENGINE: LibpulsarDriver(),
                PERF: PulsarPerfDriver(java=find_java(), classpath=tool_jars(spec.version).classpath),
                SLOW: LibpulsarDriver(LocalTransport(("-c", WITHOUT_COMPILER))),
            }
            ways: dict[str, Measure] = {name: by_driver(driver, cluster.topics()) for name, driver in drivers.items()}
            ways[PYTHON] = by_python_client
            asked = (ENGINE, *(options.beside or (PERF, SLOW, PYTHON)))
            bench = Bench(cluster, LibpulsarDriver(), ways, window_s=options.window)
            bench.warm_up(CASES[0])

            def measured(case: Scenario) -> dict[str, object]:
                forms = {name: case for name in ways if name in asked and (case.load.sends or name != PYTHON)}
                return compared(bench.run(forms, options.rounds), ENGINE)

            write_cases(RESULTS, CASES, options.only, lambda: {**facts, "cluster": dict(target.facts(spec))}, measured)
        finally:
            target.close()


if __name__ == "__main__":
    main()
