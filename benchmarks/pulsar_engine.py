"""The load engine of Pulsar beside pulsar-perf and other ways to libpulsar: same brokers and settings, rounds in turn.

``make bench PART=pulsar_engine ARGS="--rounds 7 --only produce-1ms"``. Of each round the tools' rates and client CPU
per record are paired; the table shows medians and the paired ratio with its interval (order statistics).
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import psutil

from benchmarks.load_engine import Measure, Point, by_driver, compared, table
from perfgate.host.environment import environment_facts
from perfgate.host.java import find_java
from perfgate.host.machine_use import Usage
from perfgate.load.transport import LocalTransport
from perfgate.model import SAME_ZONE, ClusterSpec, Consumers, Load, Scenario, TopicSpec, settings
from perfgate.model.load import LoadError, LoadSpec, Observer
from perfgate.systems.pulsar.jars import tool_jars
from perfgate.systems.pulsar.load.libpulsar import LibpulsarDriver
from perfgate.systems.pulsar.load.perf import PulsarPerfDriver
from perfgate.systems.pulsar.load.settings import settings_of
from perfgate.systems.pulsar.managed.embedded import EmbeddedCluster, PulsarTarget

RESULTS = Path(__file__).parent / "results" / "pulsar_engine.json"
ENGINE, PERF, SLOW, PYTHON = "libpulsar", "pulsar-perf", "libpulsar, no compiler", "Python client"
UNBOUNDED = 10_000_000.0
WARM_S = 3.0
BROKER_WARMUP_S = 40.0
START_TIMEOUT_S, END_TIMEOUT_S = 30.0, 60.0
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
    """Measure the Python client: the brokers' counts say what it sent in the window."""
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
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", PYTHON_CLIENT, json.dumps(request)], stdout=output, stderr=output
        )
        try:
            deadline = time.monotonic() + START_TIMEOUT_S
            while not observer.written():
                if process.poll() is not None or time.monotonic() > deadline:
                    output.seek(0)
                    raise LoadError(f"the Python client sent nothing; exit code {process.poll()}: {output.read()}")
                time.sleep(0.1)
            time.sleep(spec.warmup_max_s)
            usage, before, begin = Usage([process.pid]), observer.written(), time.monotonic()
            usage.look()
            time.sleep(spec.window_s)
            after, end = observer.written(), time.monotonic()
            usage.look()
        finally:
            process.kill()
            process.wait()
    records, span = after - before, usage.span()
    return Point(
        records_per_s=records / (end - begin),
        cpu_us_per_record=span["cpu_cores"] * (end - begin) / records * 1e6,
        rss_mib=span["rss_mib"],
    )


class Bench:
    """Runs the cases' tools in rounds on one cluster, in an order that is drawn anew each time."""

    def __init__(
        self, cluster: EmbeddedCluster, *, version: str, window_s: float, seed: int, only: Sequence[str]
    ) -> None:
        self._cluster, self._topics = cluster, cluster.topics()
        self._window_s, self._random, self._made = window_s, random.Random(seed), 0
        perf = PulsarPerfDriver(java=find_java(), classpath=tool_jars(version).classpath)
        slow = LibpulsarDriver(LocalTransport(("-c", WITHOUT_COMPILER)))
        tools: dict[str, Measure] = {
            ENGINE: by_driver(LibpulsarDriver(), self._topics),
            PERF: by_driver(perf, self._topics),
            SLOW: by_driver(slow, self._topics),
            PYTHON: by_python_client,
        }
        self._tools = {name: measure for name, measure in tools.items() if name in only}

    def warm_up(self, case: Scenario) -> None:
        """Load the brokers until their JVMs have compiled what they need."""
        until = time.monotonic() + BROKER_WARMUP_S
        while time.monotonic() < until:
            self._fresh(case, ENGINE)

    def run(self, case: Scenario, rounds: int) -> dict[str, list[Point]]:
        """Return every tool's points, round by round."""
        backlog = not case.load.sends
        tools = [name for name in self._tools if not (backlog and name == PYTHON)]
        points: dict[str, list[Point]] = {name: [] for name in tools}
        kept = self._filled(case) if backlog else ""
        for index in range(1, rounds + 1):
            for name in self._random.sample(tools, len(tools)):
                point = self._measure(case, name, kept) if backlog else self._fresh(case, name)
                points[name].append(point)
                print(
                    f"{case.name} round {index}/{rounds} {name}: {point.records_per_s:,.0f} records/s, "
                    f"{point.cpu_us_per_record:.2f} us/record, {point.rss_mib:.0f} MiB",
                    flush=True,
                )
        if backlog:
            self._topics.delete(kept)
        return points

    def _fresh(self, case: Scenario, name: str) -> Point:
        topic = self._new_topic(case)
        try:
            return self._measure(case, name, topic)
        finally:
            self._topics.delete(topic)

    def _filled(self, case: Scenario) -> str:
        topic = self._new_topic(case)
        LibpulsarDriver().fill(self._spec(case, topic), self._observer(topic, case))
        return topic

    def _new_topic(self, case: Scenario) -> str:
        self._made += 1
        topic = f"{self._cluster.prefix}bench-{self._made:03d}-{case.name}"
        self._topics.create(topic, case.topic)
        return topic

    def _measure(self, case: Scenario, name: str, topic: str) -> Point:
        return self._tools[name](self._spec(case, topic), self._observer(topic, case))

    def _spec(self, case: Scenario, topic: str) -> LoadSpec:
        return LoadSpec(
            scenario=case,
            bootstrap=self._cluster.bootstrap(SAME_ZONE),
            security=(),
            topic=topic,
            run_id=f"bench-{self._made}",
            seed=self._made,
            window_s=self._window_s,
            warmup_max_s=WARM_S,
        )

    def _observer(self, topic: str, case: Scenario) -> Observer:
        return Observer(
            edge=lambda _at: None,
            check=self._cluster.check,
            progress=lambda phase, last: None,
            written=lambda: sum(self._topics.end_offsets(topic, case.topic.partitions)),
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the cases, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="rounds per case (default: 7)")
    parser.add_argument("--window", type=float, default=REPORTS_S, help="seconds measured of each (default: 10)")
    parser.add_argument("--only", choices=[case.name for case in CASES], action="append", help="this case (repeatable)")
    parser.add_argument(
        "--beside", choices=(PERF, SLOW, PYTHON), action="append", help="measure the engine beside this (default: all)"
    )
    options = parser.parse_args(arguments)
    if options.rounds < 2:
        parser.error("--rounds must be 2 or more: a spread needs as many")
    if psutil.cpu_percent(1.0) > 20:
        print("note: this machine is busy; the figures below are not those of a quiet one")
    cases = [case for case in CASES if not options.only or case.name in options.only]
    document = json.loads(RESULTS.read_text()) if RESULTS.exists() and options.only else {"cases": {}}
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
            bench = Bench(
                target.cluster(spec),
                version=spec.version,
                window_s=options.window,
                seed=time.time_ns(),
                only=(ENGINE, *(options.beside or (PERF, SLOW, PYTHON))),
            )
            bench.warm_up(CASES[0])
            for case in cases:
                found = compared(bench.run(case, options.rounds), ENGINE)
                document["cases"][case.name] = {"at": datetime.now(UTC).isoformat(timespec="seconds"), **found}
                document |= {**facts, "cluster": dict(target.facts(spec))}
                RESULTS.parent.mkdir(exist_ok=True)
                RESULTS.write_text(json.dumps(document, indent=1) + "\n")
        finally:
            target.close()
    for case in cases:
        print(table(case, document["cases"][case.name]))
    print(f"written to {RESULTS}")


if __name__ == "__main__":
    main()
