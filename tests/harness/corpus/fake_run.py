"""A fake target, driver, engine and sampler under a fake clock: they write down what a measurement does, and when."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from perfgate.load.schedule import timetable
from perfgate.measure.ledger import Ledger
from perfgate.measure.setup import Setup
from perfgate.metrics.usage import Usage
from perfgate.model import ClusterSpec, Link, Load, Scenario, Settings, Tier, TopicSpec
from perfgate.model.errors import (
    BrokersFailedError,
    ConfigurationError,
    InterferedError,
    LimitReachedError,
    TargetError,
    TopicRefusedError,
)
from perfgate.model.load import (
    Batching,
    Late,
    LoadError,
    LoadResult,
    LoadSpec,
    Observer,
    Pace,
    Progress,
    SendsFailedError,
)
from perfgate.model.target import Meter, Watch
from perfgate.systems.kafka.load.librdkafka import KafkaInstructions
from tests.harness.build import histogram, received, sent

START_S, TOPIC_S, CHANGE_S, CANARY_S = 8.0, 0.2, 0.05, 0.2
WARM_WINDOW_S = 1.5
TIER = Tier(name="nightly", rounds=4, window_s=10.0, warmup_max_s=5.0, broker_warmup_s=60.0)
RAISES: Mapping[str, type[BaseException]] = {
    "dies": BrokersFailedError,
    "sick": TargetError,
    "limit": LimitReachedError,
    "interfered": InterferedError,
    "no load": LoadError,
    "crash": RuntimeError,
    "interrupt": KeyboardInterrupt,
}
"""What a scripted event raises; others change what a load comes to (_result)."""
LATE_DEATH = "late death"


@dataclass
class World:
    """The clock, the script and what was written down."""

    script: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """By "load NAME", "turns NAME", "start", "change", "topic NAME", the n-th of which becomes something else."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Records/s by the scenario's name; else 1,000."""
    noise: float = 0.01
    compiles: Collection[int] = ()
    """Of each cluster's loads those that find its brokers compiling, by number."""
    usage_window_s: float = 0.0
    unknown: Mapping[str, Collection[str]] = field(default_factory=dict)
    """By a cluster's name, the settings that it does not know."""
    now: float = 0.0
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = random.Random(7)
        self.done: Counter[str] = Counter()
        self.clusters: list[Cluster] = []

    def write(self, text: str) -> None:
        self.lines.append(f"{self.now:10.2f}  {text}")

    def event(self, what: str) -> str:
        """Return what the script has for this one; raise what it asks for."""
        self.done[what] += 1
        found = self.script.get(what, {}).get(self.done[what], "")
        if found == LATE_DEATH:
            raise BrokersFailedError("its replicas are not in sync", perhaps_late=True)
        if found in RAISES:
            raise RAISES[found](f"scripted: {what} {self.done[what]}: {found}\nand its evidence")
        return found

    def rate(self, name: str, share: float = 1.0) -> float:
        return round(self.rates.get(name, 1000.0) * share * math.exp(self._chance.gauss(0, self.noise)), 1)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let this clock be the one of all, and the canary take its time of it."""

        def deflate() -> tuple[float, float]:
            self.write("canary")
            self.now += CANARY_S
            return 60.0, 30.0

        def ping() -> float:
            self.now += CANARY_S
            return 10_000.0

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "monotonic", lambda: self.now)
            patch.setattr(time, "sleep", self.sleep)
            patch.setattr("perfgate.measure.canary._deflate_on_all_cores", deflate)
            patch.setattr("perfgate.measure.canary._ping_over_loopback", ping)
            patch.setattr("os.cpu_count", lambda: 4)
            yield


class Say:
    """Writes down what a person is told."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __call__(self, text: str, left_s: float | None) -> None:
        self._world.write(f'say "{text}"' + ("" if left_s is None else f", {left_s:.1f} s left"))

    def note(self, text: str) -> None:
        self._world.write(f'note "{text}"')

    def clear(self) -> None:
        self._world.write("say nothing")


class Keeper:
    """Topics, and how far they are written."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self._name = world, name
        self.ends: dict[str, list[int]] = {}

    def create(self, name: str, spec: TopicSpec, progress: object = None) -> None:
        self._world.write(f"{self._name}: topic {name}")
        self._world.sleep(TOPIC_S)
        if refused := self._world.event(f"topic {name.split('-', 3)[-1]}"):
            raise TopicRefusedError("refused", refused)
        self.ends[name] = [0] * spec.partitions

    def reuse(self, name: str, spec: TopicSpec) -> None: ...

    def exists(self, name: str) -> bool:
        return name in self.ends

    def end_offsets(self, name: str, partitions: int, count: int = 1) -> tuple[int, ...]:
        return tuple(self.ends[name][:partitions])

    def leaders(self, name: str, count: int = 1) -> tuple[int, ...]:
        return tuple(1 for _ in self.ends[name])

    def delete(self, name: str, count: int = 1, progress: object = None) -> None:
        self._world.write(f"{self._name}: topic {name} deleted")
        self._world.sleep(TOPIC_S)
        self.ends.pop(name, None)

    def written(self, topic: str, by_partition: Sequence[int]) -> None:
        self.ends[topic] = [old + new for old, new in zip(self.ends[topic], by_partition, strict=True)]


class Live:
    """Settings that brokers change while they run."""

    rehearsals = 1

    def __init__(self, world: World, name: str) -> None:
        self._world, self._name = world, name

    def fixed(self, names: Iterable[str]) -> list[str]:
        asked = list(names)
        if unknown := [name for name in asked if name in self._world.unknown.get(self._name, ())]:
            raise ConfigurationError(f"these brokers do not know {', '.join(unknown)}")
        return [name for name in asked if name.startswith("fixed.")]

    def change(self, values: Settings) -> float:
        return self._do(f"change {dict(values)}", CHANGE_S)

    def still(self, values: Settings) -> float:
        return 0.0

    def restore(self) -> float:
        return self._do("restore", CHANGE_S)

    def close(self) -> tuple[str, ...]:
        self._do("close", 0.0)
        return ()

    def _do(self, what: str, seconds: float) -> float:
        self._world.write(f"{self._name}: {what}")
        if self._world.event("change") == "slow":
            seconds = 3.0
        self._world.sleep(seconds)
        return seconds


class Cluster:
    """Brokers that take what the world says."""

    own = dedicated = True
    prefix = "kpg-"
    most_failed = 1.0
    most_bytes_per_s = most_read_bytes_per_s = math.inf
    faults = None

    def __init__(self, world: World, spec: ClusterSpec) -> None:
        self.world, self.spec = world, spec
        self.name = f"cluster-{len(world.clusters) + 1}"
        self.meter, self.keeper, self.loads = Meter(), Keeper(world, self.name), 0
        self._live = Live(world, self.name)
        self.dead = ""

    def bootstrap(self, link: Link) -> str:
        return f"{self.name}/{link.name}"

    def client_settings(self) -> Settings:
        return ()

    def check(self) -> None:
        if self.dead:
            raise BrokersFailedError(self.dead)

    def watch(self, topic: str, link: Link) -> Watch:
        raise NotImplementedError

    def topics(self) -> Keeper:
        return self.keeper

    def live_settings(self) -> Live:
        return self._live

    def rtt_ms(self, link: Link) -> float:
        self.world.write(f"{self.name}: round trip, {link.name}")
        return 0.3 + link.added_rtt_ms

    def log_tail(self, lines: int = 40) -> str:
        return f"the log of {self.name}"

    def facts(self) -> Mapping[str, object]:
        return {"kind": "fake", "name": self.name, "kafka_version": self.spec.version, "ready_s": 7.5}


@dataclass
class Target:
    """Starts clusters."""

    world: World
    own: bool = True
    dedicated: bool = True
    kind: str = "fake"
    left_behind: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._alive: dict[str, Cluster] = {}

    def check_room(self, at_a_time: float, in_all: float) -> None: ...

    def prepare(self, specs: Iterable[ClusterSpec]) -> None: ...

    def facts(self, spec: ClusterSpec) -> Mapping[str, object]:
        return {}

    def cannot(self, scenario: Scenario) -> str | None:
        return None

    def cluster(self, spec: ClusterSpec) -> Cluster:
        return self._start("only", spec)

    def beside(self, spec: ClusterSpec) -> Cluster:
        return self._start("beside", spec)

    def _start(self, place: str, spec: ClusterSpec) -> Cluster:
        if place in self._alive and self._alive[place].spec == spec:
            return self._alive[place]
        self.world.sleep(START_S)
        self.world.event("start")
        self._alive[place] = found = Cluster(self.world, spec)
        found.own, found.dedicated = self.own, self.dedicated
        self.world.clusters.append(found)
        self.world.write(f"{found.name}: start {place}, Kafka {spec.version}, {spec.brokers} brokers")
        return found

    def keep_aot_cache(self) -> None:
        self.world.write("AOT cache kept")

    def gone(self) -> str:
        return ""

    def close(self) -> None:
        self.world.write(f"close {', '.join(one.name for one in self._alive.values()) or 'nothing'}")
        self._alive.clear()


@dataclass
class Sampler:
    """Reads the counters of a cluster's brokers."""

    cluster: Cluster
    gives: Sequence[str] = ("broker_cpu_cores.sum", "broker_cpu_us_per_record")
    unavailable: str = ""
    why_missing: str = "nothing else is told"

    def __post_init__(self) -> None:
        self._edges: list[float] = []

    def edge(self, at: float | None = None) -> None:
        self._edges.append(self.cluster.world.now if at is None else at)

    def glance(self) -> None: ...

    def over_time(self) -> Mapping[str, tuple[tuple[float, float], ...]]:
        return {}

    def read(self) -> Mapping[int, Usage]:
        now = self.cluster.world.now
        return {1: Usage(at=now, cpu_s=now / 2, rss_bytes=0, written_bytes=None)}

    def metrics(self, records_per_s: float, windows: Sequence[int]) -> dict[str, float]:
        world = self.cluster.world
        compiling = {"broker_compile_share.max": 0.3 if self.cluster.loads in world.compiles else 0.0}
        if len(self._edges) > 1 and self._edges[-1] - self._edges[-2] < world.usage_window_s:
            return compiling
        used = {"broker_cpu_cores.max": 0.8, "broker_cpu_cores.sum": 2.0}
        return {**compiling, **used, "broker_cpu_us_per_record": world.rate("CPU", 0.05)}


class Driver:
    """Makes loads, turns and backlogs: the suite's own driver."""

    name = "fake"
    buffer_settings = KafkaInstructions.buffer_settings

    def __init__(self, world: World, *, takes_turns: bool = True) -> None:
        self._world, self.takes_turns = world, takes_turns

    def cannot(self, scenario: Scenario) -> str | None:
        return "this driver cannot" if scenario.name.startswith("cannot") else None

    def batching(self, scenario: Scenario) -> Batching:
        return KafkaInstructions().batching(scenario)

    def latency_basis(self, load: Load) -> str:
        return "basis"

    def by_hand(self, scenario: Scenario) -> str:
        return "by hand"

    def rtt_ms(self, link: Link, bootstrap: str, security: Settings) -> float | None:
        return None

    def run(self, spec: LoadSpec, observer: Observer) -> LoadResult:
        world, cluster, name = self._world, self._cluster(spec), spec.scenario.name
        warm_up = spec.window_s == WARM_WINDOW_S
        cluster.loads += 1
        on = f" on {spec.hosts} hosts, {spec.scenario.producers} producers" if spec.hosts else ""
        what = "warm-up" if warm_up else "load"
        world.write(
            f"{cluster.name}: {what} {name}, {spec.topic}{on}, window {spec.window_s:g} s after {spec.warmup_max_s:g} s"
            f", {spec.scenario.load.kind} at {spec.scenario.load.rate:g}"
        )
        event = "" if warm_up else self._event(cluster, f"load {name}")
        if event == "unmade":
            raise SendsFailedError("none was taken", attempted=5, failed=5, code="_MSG_TIMED_OUT")
        world.sleep(min(1.0, spec.warmup_max_s))
        observer.edge(world.now)
        observer.check()
        world.sleep(spec.window_s)
        observer.edge(world.now)
        world.sleep(0.1)
        return self._result(spec, cluster, event, spec.window_s)

    def take_turns(
        self, specs: Mapping[str, LoadSpec], order: str, at: Pace, observer: Observer
    ) -> tuple[dict[str, LoadResult], Mapping[str, Late]]:
        world, name = self._world, specs["A"].scenario.name
        clusters = {side: self._cluster(spec) for side, spec in specs.items()}
        for one in dict.fromkeys(clusters.values()):
            one.loads += 1
        where = "/".join(dict.fromkeys(one.name for one in clusters.values()))
        world.write(
            f"{where}: turns {order} of {name}, {' '.join(spec.topic for spec in specs.values())}, "
            f"gap {at.gap_s:.2f} s, window {at.window_s:g} s, buffer {at.buffer_kib} KiB"
        )
        event = self._event(clusters["A"], f"turns {name}")
        if event == "unmade":
            raise SendsFailedError("none was taken", attempted=5, failed=5)
        for turn in timetable(order, world.now, at)[2:]:
            for edge in (turn.opens, turn.closes):
                world.now = max(world.now, edge)
                observer.check()
                observer.edge(edge)
        window_s = at.window_s * order.count("A")
        side, _, what = event.partition(":")
        results = {
            one: self._result(spec, clusters[one], what if one == side else "", window_s) for one, spec in specs.items()
        }
        return results, {side: Late(turns=2, of=2)} if what == "outlasted" else {}

    def fill(self, spec: LoadSpec, observer: Observer) -> None:
        cluster = self._cluster(spec)
        self._world.write(f"{cluster.name}: fill {spec.topic} with {spec.scenario.load.records} records")
        self._world.sleep(5.0)
        observer.sends(Progress(self._world.now, spec.scenario.load.records, spec.scenario.load.records, 0))
        cluster.keeper.written(spec.topic, self._dealt(spec, spec.scenario.load.records))

    def journaled(self, *_: object) -> Any:
        raise NotImplementedError

    def read_everything(self, *_: object) -> Any:
        raise NotImplementedError

    def _event(self, cluster: Cluster, what: str) -> str:
        try:
            return self._world.event(what)
        except BrokersFailedError as error:
            if not error.perhaps_late:
                cluster.dead = f"a broker of {cluster.name} has ended"
            raise

    def _cluster(self, spec: LoadSpec) -> Cluster:
        return next(one for one in self._world.clusters if one.name == spec.bootstrap.partition("/")[0])

    def _dealt(self, spec: LoadSpec, records: int) -> list[int]:
        partitions = spec.scenario.topic.partitions
        return [records // partitions + (number < records % partitions) for number in range(partitions)]

    def _result(self, spec: LoadSpec, cluster: Cluster, event: str, window_s: float) -> LoadResult:
        """Return what the load came to; `event`: saturated, late, failing or lost."""
        load, name = spec.scenario.load, spec.scenario.name
        share = 0.8 if spec.hosts else 1.0
        rate = self._world.rate(name, share)
        rate = min(rate, load.rate) if load.kind == "capped" else load.rate or rate
        done = round(rate * window_s)
        found = LoadResult(
            warmup_s=1.0,
            steady=True,
            window_s=window_s,
            cpu_cores=0.1,
            busiest_thread_cores=0.05,
            rss_mib=80.0,
            sent=None,
            received=None,
        )
        self._world.write(f"{cluster.name}: {done} records of {name}" + (f", {event}" if event else ""))
        if load.kind == "backlog":
            read = received(received_in_window=done, received_bytes_in_window=done * 1024, read=done, received=done)
            return replace(found, received=read)
        acked = done - 3 if event == "failing" else done
        moved = acked - 2 if event == "lost" else acked
        cluster.keeper.written(spec.topic, self._dealt(spec, moved))
        due = done * 2 if event == "saturated" and load.kind == "paced" else done
        slow_p99 = load.kind == "paced" and self._world.rates.get(f"{name} knee", math.inf) < load.rate
        offered = sent(
            attempted_in_window=due if load.kind == "capped" else done,
            acked_in_window=acked,
            acked_bytes_in_window=acked * 1024,
            attempted=done,
            acked=acked,
            failed={"_MSG_TIMED_OUT": 3} if event == "failing" else {},
            errors={"_MSG_TIMED_OUT": "timed out"} if event == "failing" else {},
            pushback_in_window_s=0.0 if event == "saturated" or load.kind == "paced" else window_s / 2,
            acked_by_partition=self._dealt(spec, acked),
            latency=histogram([0.001, 0.002, 0.1 if slow_p99 else 0.004]),
            schedule_delay=histogram([0.05 if event == "late" else 0.0001] * 10) if load.kind == "paced" else "",
        )
        return replace(found, sent=offered)


def fake_setup(world: World, scenarios: Sequence[Scenario], **changes: Any) -> Setup:
    """Return a setup on this world's brokers, with `changes`."""
    driver = changes.pop("driver", Driver(world))
    target = changes.pop("target", Target(world))
    values = {
        "tier": TIER,
        "driver": driver,
        "engine": Driver(world),
        "target": target,
        "scenarios": scenarios,
        "run_id": "run",
        "histories": Path("none"),
        "say": Say(world),
        "sampler": Sampler,
        "shares_cores": False,
        "usage_window_s": world.usage_window_s,
        "ledger": Ledger(now=lambda: world.now),
        **changes,
    }
    return Setup(**values)
