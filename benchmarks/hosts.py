"""The cost of load hosts: the transport beside local pipes, how closely hosts begin, and the controlling side alone.

``make bench PART=hosts ARGS="--rounds 7 --only cost"``. All hosts are agents of this machine (`--hosts=local:N`).
"""

from __future__ import annotations

import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import psutil

from benchmarks.hosts_figures import Costs, Started, ratios, tables
from benchmarks.load_engine import CASES, note_if_busy, observer_of, parser_of, spec_of
from perfgate.host.environment import environment_facts
from perfgate.host.machine_use import Usage
from perfgate.load.hosts import dask_hosts
from perfgate.load.transport import WORKER, Transport
from perfgate.measure.assembly import done_in_window
from perfgate.measure.validity import accounting_of, flaws
from perfgate.model import DEFAULT_KAFKA_VERSION, MIB, SAME_ZONE, ClusterSpec, Load, Scenario
from perfgate.model.histogram import latency_metrics
from perfgate.model.load import LoadError, LoadResult, Observer
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from perfgate.systems.kafka.managed.embedded import EmbeddedTarget
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster

RESULTS = Path(__file__).parent / "results" / "hosts.json"
PARTS = ("cost", "spread", "idle")
LOCAL, HOSTS = "local pipes", "one Dask agent"
SATURATING = replace(CASES[0], name="saturating")
PACED = replace(CASES[0], name="paced", load=Load(kind="paced", rate=20_000))
SPREAD_RATE = 2_000
AGENTS = (1, 2, 4, 8)
IDLE_AGENTS = (8, 16, 32)
IDLE_GENERATOR = ("-m", "benchmarks.idle_generator")
WARM_S = 2.0
BROKER_WARMUP_S = 30.0


@dataclass
class Watch:
    """The CPU and memory of this process and `others` over the window, and when the window's edges came."""

    others: Sequence[int] = ()

    def __post_init__(self) -> None:
        self.own, self.all, self.edges = Usage([os.getpid()]), Usage([os.getpid(), *self.others]), list[float]()

    def edge(self, _at: float) -> None:
        """Look at the counters at an edge of the window."""
        self.edges.append(time.monotonic())
        self.own.look()
        self.all.look()


@contextmanager
def agents(count: int, worker: Sequence[str] = WORKER) -> Iterator[tuple[Transport, list[int]]]:
    """Yield the transport of so many agents of this machine, and the processes that they run in."""
    known = {child.pid for child in psutil.Process().children()}
    with dask_hosts(f"local:{count}", worker=worker) as transport:
        yield transport, [child.pid for child in psutil.Process().children() if child.pid not in known]


class Bench:
    """Puts rounds of load on one cluster."""

    def __init__(self, cluster: EmbeddedCluster, window_s: float) -> None:
        self._cluster, self._topics, self._window_s = cluster, cluster.topics(), window_s
        self._made = 0

    def round(self, row: Scenario, transport: Transport | None, watch: Watch) -> LoadResult:
        """Run one round on a topic of its own. Raises LoadError when anything but the generators was the limit."""
        self._made += 1
        topic, partitions = f"bench-{self._made:03d}-{row.name}", row.topic.partitions
        self._topics.create(topic, row.topic)
        try:
            before = self._topics.end_offsets(topic, partitions)
            spec = spec_of(row, self._cluster.bootstrap(SAME_ZONE), topic, self._made, self._window_s, warm_s=WARM_S)
            observer = observer_of(self._cluster, topic, row.topic, watch.edge)
            result = LibrdkafkaDriver(transport).run(spec, observer)
            sent = accounting_of(result.sent, before, self._topics.end_offsets(topic, partitions))
        finally:
            self._topics.delete(topic)
        if wrong := [flaw.text for flaw in flaws(row.load, result, sent) if not flaw.again]:
            raise LoadError("; ".join(wrong))
        return result

    def warm_up(self) -> None:
        """Load the brokers until their JVMs have compiled what they need."""
        until = time.monotonic() + BROKER_WARMUP_S
        while time.monotonic() < until:
            self.round(SATURATING, None, Watch())


def costs(bench: Bench, row: Scenario, rounds: int) -> dict[str, list[Costs]]:
    """Return what the load cost by local pipes and by one agent, in interleaved rounds."""
    found: dict[str, list[Costs]] = {LOCAL: [], HOSTS: []}
    with agents(1) as (transport, others):
        for index in range(rounds + 1):  # round 0 does not count
            for name in random.sample([LOCAL, HOSTS], 2):
                watch = Watch(others if name == HOSTS else ())
                result = bench.round(row, transport if name == HOSTS else None, watch)
                assert result.sent is not None
                records = done_in_window(result)
                cost = Costs(
                    records_per_s=records / result.window_s,
                    generator_us_per_record=result.cpu_cores * result.window_s / records * 1e6,
                    generator_cores=result.cpu_cores,
                    run_cores=watch.own.span()["cpu_cores"],
                    agent_cores=watch.all.span()["cpu_cores"] - watch.own.span()["cpu_cores"],
                    p99_ms=latency_metrics([result.sent.latency])["latency_ms.p99"],
                )
                if index:
                    found[name].append(cost)
                print(f"{row.name} round {index}/{rounds} {name}: {cost}", flush=True)
    return found


def started(bench: Bench, count: int, rounds: int) -> list[Started]:
    """Return how closely so many hosts began, a paced load being spread over them."""
    row = replace(PACED, name="spread", load=Load(kind="paced", rate=SPREAD_RATE), producers=count)
    found = []
    with agents(count) as (transport, others):
        for index in range(rounds):
            result = bench.round(row, transport, Watch(others))
            assert result.sent is not None
            late = [host.started_late_ms for host in result.hosts]
            found.append(
                Started(
                    hosts=count,
                    spread_ms=max(late) - min(late),
                    latest_ms=max(late),
                    clock_bound_ms=max(host.clock_bound_ms for host in result.hosts),
                    schedule_delay_p99_ms=latency_metrics([result.sent.schedule_delay])["latency_ms.p99"],
                )
            )
            print(f"round {index + 1}/{rounds}: {found[-1]}", flush=True)
    return found


def idle(count: int, rounds: int, window_s: float) -> dict[str, object]:
    """Return what it takes to lead so many hosts that send nothing."""
    row = replace(PACED, name="idle", producers=count)
    own = psutil.Process()
    before_mib, begun = own.memory_info().rss / MIB, time.monotonic()
    found = []
    with agents(count, IDLE_GENERATOR) as (transport, others):
        started_s = time.monotonic() - begun
        for index in range(rounds):
            watch, asked = Watch(others), time.monotonic()
            result = LibrdkafkaDriver(transport).run(
                spec_of(row, "", "idle", index, window_s, warm_s=WARM_S),
                Observer(edge=watch.edge, check=lambda: None, progress=lambda phase, last: None, written=lambda: 0),
            )
            late = [host.started_late_ms for host in result.hosts]
            found.append(
                {
                    "ready_s": watch.edges[0] - result.warmup_s - asked,
                    "spread_ms": max(late) - min(late),
                    "latest_ms": max(late),
                    "clock_bound_ms": max(host.clock_bound_ms for host in result.hosts),
                    "control_cores": watch.own.span()["cpu_cores"],
                    "agents_cores": watch.all.span()["cpu_cores"] - watch.own.span()["cpu_cores"],
                    "generators_cores": result.cpu_cores,
                    "collect_s": time.monotonic() - watch.edges[1],
                    "control_mib": own.memory_info().rss / MIB,
                }
            )
            print(f"{count} hosts, round {index + 1}/{rounds}: {found[-1]}", flush=True)
    medians = {key: statistics.median(one[key] for one in found) for key in found[0]}
    return {"hosts": count, "set_up_s": started_s, "before_mib": before_mib, **medians, "rounds": found}


def measured(only: Sequence[str], rounds: int, window_s: float) -> Iterator[tuple[str, object]]:
    """Yield each part's name and figures."""
    if {"cost", "spread"} & set(only):
        with tempfile.TemporaryDirectory(prefix="kafka-perf-gate-logs-") as logs:
            target = EmbeddedTarget(log_folder=Path(logs), cross_zone=False, say=print)
            try:
                bench = Bench(target.cluster(ClusterSpec(brokers=1)), window_s)
                bench.warm_up()
                if "cost" in only:
                    both = {row.name: costs(bench, row, rounds) for row in (SATURATING, PACED)}
                    yield "cost", {name: {**ratios(own, LOCAL, HOSTS), "rounds": as_dicts(own)}
                                   for name, own in both.items()}  # fmt: skip
                if "spread" in only:
                    yield "spread", [asdict(one) for count in AGENTS for one in started(bench, count, rounds)]
            finally:
                target.close()
    if "idle" in only:
        yield "idle", [idle(count, 3, window_s) for count in IDLE_AGENTS]


def as_dicts(points: Mapping[str, Sequence[Costs]]) -> dict[str, list[dict[str, float]]]:
    """Return each side's rounds for the results."""
    return {name: [asdict(point) for point in own] for name, own in points.items()}


def main() -> None:
    """Run the parts, print the tables, write the results."""
    options = parser_of(__doc__, PARTS, 3.0).parse_args()
    note_if_busy()
    document = json.loads(RESULTS.read_text()) if RESULTS.exists() and options.only else {}
    for name, figures in measured(options.only or PARTS, options.rounds, options.window):
        document[name] = figures
        document[f"{name}_made"] = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": f"make bench PART=hosts ARGS='--rounds {options.rounds} --window {options.window:g}'",
            "environment": environment_facts(),
            "kafka_version": DEFAULT_KAFKA_VERSION,
        }
        RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    print(tables(document))
    print(f"written to {RESULTS}")


if __name__ == "__main__":
    main()
