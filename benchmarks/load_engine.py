"""This suite's load engine beside Kafka's own tools and librdkafka's: same brokers, same settings, interleaved rounds.

Over several topics beside itself: over one with as many partitions.
``make bench PART=load_engine ARGS="--rounds 7 --window 4 --only produce-16k"``. Of each round the tools' rates and
client CPU per record are paired; the table shows medians and the paired ratio with its interval (order statistics).
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import psutil

from perfgate.fixtures.wiring_kafka import make_driver
from perfgate.host.environment import environment_facts
from perfgate.host.machine_use import Usage
from perfgate.judge.statistics import median_interval, spread
from perfgate.measure.assembly import done_in_window
from perfgate.measure.validity import accounting_of, flaws
from perfgate.model import (
    DEFAULT_KAFKA_VERSION,
    SAME_ZONE,
    ClusterSpec,
    Consumers,
    Load,
    Scenario,
    TopicSpec,
    settings,
)
from perfgate.model.load import Driver, Engine, LoadError, LoadResult, LoadSpec, Observer
from perfgate.model.target import Cluster, TopicKeeper
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver, producer_settings
from perfgate.systems.kafka.managed.embedded import EmbeddedTarget

RESULTS = Path(__file__).parent / "results" / "load_engine.json"
ENGINE, JAVA, RDKAFKA = "librdkafka", "java", "rdkafka_performance"
ONE_TOPIC = "one topic"
"""The engine over one topic with as many partitions as the case's topics have together."""
TEN = TopicSpec(count=10, partitions=3, replication_factor=1)
UNBOUNDED = 100_000_000.0
WARM_S = 3.0
BROKER_WARMUP_S = 40.0
START_TIMEOUT_S = 30.0
BACKLOG = 3_000_000
LASTS = 1.8
"""A backlog lasts for this many times a measurement's length at the engine's own rate: an official tool reads it
once, and may be faster."""
CAP = 50_000.0
"""Records/s at which both this engine and the official tool still reach their cap, here."""


def producing(name: str, summary: str, record_bytes: int, **producer: object) -> Scenario:
    """Return a case that sends as fast as it can; settings are named with underscores for dots."""
    return Scenario(
        name=name,
        summary=summary,
        families=("benchmark",),
        factor=(),
        topic=TopicSpec(partitions=3, replication_factor=1),
        producer=settings({"acks": 1, **{key.replace("_", "."): value for key, value in producer.items()}}),
        record_bytes=record_bytes,
        load=Load(kind="capped", rate=UNBOUNDED),
    )


CASES = (
    producing("produce-16k", "1,024 B, batch.size 16 KiB", 1024, batch_size=16384, linger_ms=0),
    producing("produce-1k", "1,024 B, batch.size 1 KiB", 1024, batch_size=1024, linger_ms=0),
    replace(
        producing("capped-16k", "1,024 B, batch.size 16 KiB, 50,000 records/s", 1024, batch_size=16384, linger_ms=0),
        load=Load(kind="capped", rate=CAP),
    ),
    producing("produce-100b", "100 B, batch.size 1 MB, linger 5 ms", 100, batch_size=1_000_000, linger_ms=5),
    replace(
        producing("consume", "1,024 B, every record checked", 1024, batch_size=131_072, linger_ms=5),
        load=Load(kind="backlog", records=BACKLOG),
        consumers=Consumers(membership="group"),
    ),
    replace(
        producing(
            "topics", "10 topics of 3 partitions, 1,024 B, batch.size 16 KiB", 1024, batch_size=16384, linger_ms=0
        ),
        topic=TEN,
    ),
    replace(
        producing("topics-read", "the same topics, every record checked", 1024, batch_size=131_072, linger_ms=5),
        topic=TEN,
        load=Load(kind="backlog", records=BACKLOG // 3),
        consumers=Consumers(membership="group"),
    ),
)


def form_of(tool: str, case: Scenario) -> Scenario:
    """Return the case as this tool runs it."""
    one = replace(case.topic, count=1, partitions=case.topic.in_all)
    return replace(case, topic=one) if tool == ONE_TOPIC else case


@dataclass(frozen=True, kw_only=True)
class Point:
    """One tool in one round."""

    records_per_s: float
    cpu_us_per_record: float
    rss_mib: float


Measure = Callable[[LoadSpec, Observer], Point]


def by_driver(driver: Driver, topics: TopicKeeper) -> Measure:
    """Return how a driver is measured: as in a gate's round, with all its checks; an invalid round is an error."""

    def measure(spec: LoadSpec, observer: Observer) -> Point:
        each = spec.scenario.topic
        before = topics.end_offsets(spec.topic, each.partitions, each.count)
        result = driver.run(spec, observer)
        after = topics.end_offsets(spec.topic, each.partitions, each.count)
        found = flaws(spec.scenario.load, result, accounting_of(result.sent, before, after))
        # That the generator is the limit is what is measured here; anything else is wrong.
        if wrong := [flaw.text for flaw in found if not flaw.again]:
            raise LoadError("; ".join(wrong))
        return _point(result)

    return measure


def _point(result: LoadResult) -> Point:
    records = done_in_window(result)
    return Point(
        records_per_s=records / result.window_s,
        cpu_us_per_record=result.cpu_cores * result.window_s / records * 1e6,
        rss_mib=result.rss_mib,
    )


def by_rdkafka_performance(program: str) -> Measure:
    """Return how librdkafka's own benchmark program is measured."""

    def measure(spec: LoadSpec, observer: Observer) -> Point:
        asked = {**producer_settings(spec.scenario.producer), "queue.buffering.max.messages": "400000"}
        stated = ("-t", spec.topic, "-s", spec.scenario.record_bytes, "-b", spec.bootstrap, "-a", asked.pop("acks"))
        options = [option for name, value in asked.items() for option in ("-X", f"{name}={value}")]
        return of_process([program, "-P", *map(str, stated), "-q", *options], spec, observer)

    return measure


def of_process(command: Sequence[str], spec: LoadSpec, observer: Observer) -> Point:
    """Measure a program that sends until it is killed: the brokers' counts say what it sent in the window."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            deadline = time.monotonic() + START_TIMEOUT_S
            while not observer.written():
                if process.poll() is not None or time.monotonic() > deadline:
                    output.seek(0)
                    raise LoadError(f"{command[0]} sent nothing; exit code {process.poll()}: {output.read()}")
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


def spec_of(
    case: Scenario, bootstrap: str, topic: str, seed: int, window_s: float, *, warm_s: float = WARM_S
) -> LoadSpec:
    """Return a round of a scenario."""
    return LoadSpec(
        scenario=case,
        bootstrap=bootstrap,
        security=(),
        topic=topic,
        run_id="bench",
        seed=seed,
        window_s=window_s,
        warmup_max_s=warm_s,
    )


class Bench:
    """Runs tools in rounds on one cluster, in an order that is drawn anew each time; the first tool warms it up."""

    def __init__(self, cluster: Cluster, engine: Engine, tools: Mapping[str, Measure], *, window_s: float) -> None:
        self._cluster, self._topics = cluster, cluster.topics()
        self._engine, self._tools, self._window_s = engine, tools, window_s
        self._made = 0

    def warm_up(self, case: Scenario) -> None:
        """Load the brokers until their JVMs have compiled what they need."""
        until = time.monotonic() + BROKER_WARMUP_S
        while time.monotonic() < until:
            self._fresh(next(iter(self._tools)), case, window_s=2.0)

    def run(self, forms: Mapping[str, Scenario], rounds: int) -> dict[str, list[Point]]:
        """Return the points of these tools, each with its form of the case, round by round."""
        points: dict[str, list[Point]] = {name: [] for name in forms}
        kept = {form: self._filled(form) for form in dict.fromkeys(forms.values()) if not form.load.sends}
        for index in range(rounds + 1):  # round 0 warms each tool's rate estimate up and does not count
            for name in random.sample([*forms], len(forms)):
                form = forms[name]
                point = self._measured(name, form, kept[form]) if form in kept else self._fresh(name, form)
                if index:
                    points[name].append(point)
                print(
                    f"{form.name} round {index}/{rounds} {name}: {point.records_per_s:,.0f} records/s, "
                    f"{point.cpu_us_per_record:.2f} us/record, {point.rss_mib:.0f} MiB",
                    flush=True,
                )
        for form, topic in kept.items():
            self._topics.delete(topic, form.topic.count)
        return points

    def lasting(self, case: Scenario) -> Scenario:
        """Return the case with a backlog that lasts for a measurement, whatever this machine reads in it."""
        topic = self._filled(case)
        rate = self._measured(next(iter(self._tools)), case, topic).records_per_s
        self._topics.delete(topic, case.topic.count)
        records = max(case.load.records, int(LASTS * rate * (WARM_S + self._window_s)))
        return replace(case, load=replace(case.load, records=records))

    def _fresh(self, tool: str, case: Scenario, *, window_s: float | None = None) -> Point:
        topic = self._new_topic(case)
        try:
            return self._measured(tool, case, topic, window_s=window_s)
        finally:
            self._topics.delete(topic, case.topic.count)

    def _filled(self, case: Scenario) -> str:
        topic = self._new_topic(case)
        self._engine.fill(self._spec(case, topic), self._observer(topic, case))
        return topic

    def _new_topic(self, case: Scenario) -> str:
        self._made += 1
        topic = f"{self._cluster.prefix}bench-{self._made:03d}-{case.name}"
        self._topics.create(topic, case.topic)
        return topic

    def _measured(self, tool: str, case: Scenario, topic: str, *, window_s: float | None = None) -> Point:
        return self._tools[tool](self._spec(case, topic, window_s), self._observer(topic, case))

    def _spec(self, case: Scenario, topic: str, window_s: float | None = None) -> LoadSpec:
        return spec_of(case, self._cluster.bootstrap(SAME_ZONE), topic, self._made, window_s or self._window_s)

    def _observer(self, topic: str, case: Scenario) -> Observer:
        return observer_of(self._cluster, topic, case.topic)


def observer_of(cluster: Cluster, topic: str, spec: TopicSpec, edge: Callable[[float], None] | None = None) -> Observer:
    """Return an observer that knows what was written; `edge`: called at both edges of the window."""
    topics = cluster.topics()
    return Observer(
        edge=edge or (lambda _at: None),
        check=cluster.check,
        progress=lambda phase, last: None,
        written=lambda: sum(topics.end_offsets(topic, spec.partitions, spec.count)),
    )


def compared(points: Mapping[str, Sequence[Point]], engine: str = ENGINE) -> dict[str, object]:
    """Return the medians of every tool, and the engine's paired ratios to each other tool with their intervals."""
    tools = {
        name: {
            "records_per_s": statistics.median(p.records_per_s for p in own),
            "records_per_s_spread": spread([p.records_per_s for p in own]),
            "cpu_us_per_record": statistics.median(p.cpu_us_per_record for p in own),
            "rss_mib_max": max(p.rss_mib for p in own),
            "rounds": [[p.records_per_s, p.cpu_us_per_record] for p in own],
        }
        for name, own in points.items()
    }
    against = {}
    for name in points:
        if name == engine:
            continue
        pairs = list(zip(points[engine], points[name], strict=True))
        rates = [ours.records_per_s / theirs.records_per_s for ours, theirs in pairs]
        cpu = [ours.cpu_us_per_record / theirs.cpu_us_per_record for ours, theirs in pairs]
        against[name] = {
            "rate_ratio": statistics.median(rates),
            "rate_interval": median_interval(rates),
            "cpu_ratio": statistics.median(cpu),
            "cpu_interval": median_interval(cpu),
        }
    return {"rounds": len(points[engine]), "tools": tools, "against": against}


def table(case: Scenario, found: Mapping[str, object]) -> str:
    """Return a case's lines for the terminal."""
    tools, against = found["tools"], found["against"]
    assert isinstance(tools, dict)
    assert isinstance(against, dict)
    lines = [f"{case.name}: {case.summary} ({found['rounds']} rounds)"]
    for name, own in tools.items():
        line = f"  {name:<20} {own['records_per_s']:>12,.0f} records/s  {own['cpu_us_per_record']:>7.2f} us/record"
        if ratio := against.get(name):
            (low, high), (cpu_low, cpu_high) = ratio["rate_interval"], ratio["cpu_interval"]
            line += f"   engine: {ratio['rate_ratio']:.2f} x ({low:.2f} .. {high:.2f}) the rate"
            line += f" at {ratio['cpu_ratio']:.2f} x ({cpu_low:.2f} .. {cpu_high:.2f}) the CPU"
        lines.append(line)
    return "\n".join(lines)


def parser_of(description: str | None, parts: Sequence[str], window_s: float) -> argparse.ArgumentParser:
    """Return the parser of the options that all benchmarks of interleaved rounds have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each measurement (default: 7)")
    parser.add_argument(
        "--window", type=float, default=window_s, help=f"seconds measured of each (default: {window_s:g})"
    )
    parser.add_argument("--only", choices=parts, action="append", help="this part (repeatable)")
    return parser


def note_if_busy() -> None:
    """Say that the machine is busy, where it is."""
    if psutil.cpu_percent(1.0) > 20:
        print("note: this machine is busy; the figures below are not those of a quiet one")


def write_cases(
    path: Path,
    cases: Sequence[Scenario],
    only: Sequence[str] | None,
    facts: Callable[[], Mapping[str, object]],
    measured: Callable[[Scenario], Mapping[str, object]],
) -> None:
    """Measure the cases, `only` these where any are named, write each at once, and print their lines."""
    document = json.loads(path.read_text()) if path.exists() and only else {"cases": {}}
    chosen = [case for case in cases if not only or case.name in only]
    for case in chosen:
        found = measured(case)
        document["cases"][case.name] = {"at": datetime.now(UTC).isoformat(timespec="seconds"), **found}
        document.update(facts())
        path.write_text(json.dumps(document, indent=1) + "\n")
    for case in chosen:
        print(table(case, document["cases"][case.name]))
    print(f"written to {path}")


def main() -> None:
    """Run the cases, print the table, write the results."""
    options = parser_of(__doc__, [case.name for case in CASES], 4.0).parse_args()
    note_if_busy()
    tools = {name: make_driver(name, ClusterSpec()) for name in (ENGINE, JAVA)}
    facts = {
        "command": f"make bench PART=load_engine ARGS='--rounds {options.rounds} --window {options.window:g}'",
        "environment": environment_facts(),
        "kafka_version": DEFAULT_KAFKA_VERSION,
        "window_s": options.window,
    }
    with tempfile.TemporaryDirectory(prefix="kafka-perf-gate-logs-") as logs:
        target = EmbeddedTarget(log_folder=Path(logs), cross_zone=False, say=print)
        try:
            cluster = target.cluster(ClusterSpec())
            ways = {name: by_driver(driver, cluster.topics()) for name, driver in tools.items()}
            ways[ONE_TOPIC] = ways[ENGINE]
            if program := shutil.which(RDKAFKA):
                ways[RDKAFKA] = by_rdkafka_performance(program)
            bench = Bench(cluster, LibrdkafkaDriver(), ways, window_s=options.window)

            def measured(case: Scenario) -> dict[str, object]:
                bench.warm_up(CASES[0])
                own = [ENGINE, ONE_TOPIC] if case.topic.count > 1 else [ENGINE, JAVA]
                if JAVA in own and case.load.sends and case.load.rate == UNBOUNDED:
                    own.append(RDKAFKA)
                case = case if case.load.sends else bench.lasting(case)
                forms = {name: form_of(name, case) for name in own if name in ways}
                return compared(bench.run(forms, options.rounds))

            write_cases(RESULTS, CASES, options.only, lambda: facts, measured)
        finally:
            target.close()


if __name__ == "__main__":
    main()
