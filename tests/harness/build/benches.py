"""Fakes of a bench and a setup that give stated rounds."""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perfgate.measure import bench as benches
from perfgate.measure.assembly import Finished
from perfgate.measure.ledger import Ledger
from perfgate.measure.plan import one_host_fewer
from perfgate.model import Round, Scenario, Tier
from perfgate.model.measured import Arm
from perfgate.model.target import Meter
from perfgate.systems.kafka.client.topics import Topics
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver

TIER = Tier(name="smoke", rounds=2, window_s=1, warmup_max_s=1, broker_warmup_s=1)


class Cluster:
    """Stands where a cluster would be asked for its addresses."""

    meter = Meter()
    most_bytes_per_s = most_read_bytes_per_s = math.inf
    dedicated = False
    prefix = "kpg-"

    def bootstrap(self, _link: object) -> str:
        return "127.0.0.1:1"

    def client_settings(self) -> tuple[()]:
        return ()

    def topics(self) -> Topics:
        cluster: Any = self
        return Topics(cluster)


def bench_of(
    cluster: Any, say: Any, sampler: Any, driver: LibrdkafkaDriver | None = None, **settings: bool
) -> benches.Bench:
    driver = driver or LibrdkafkaDriver()
    means = benches.Means(
        tier=TIER,
        driver=driver,
        engine=driver,
        sampler=lambda _cluster: sampler,
        say=say,
        histories=Path("none"),
        ledger=Ledger(),
        **settings,
    )
    return benches.Bench(means, cluster, "r")


@dataclass
class Bench:
    """Stands where brokers would be loaded: gives these rounds, the last one again and again."""

    gives: list[Round]
    notes: list[str] = field(default_factory=list)
    loaded: list[tuple[int, int]] = field(default_factory=list)
    """Of each round its number, and on how many load hosts; 0: all."""

    def warm_up(self, _scenarios: object) -> dict[str, object]:
        return {}

    def round_trips(self, _scenarios: object) -> dict[str, float]:
        return {}

    def delete_backlogs(self) -> None: ...

    def brokers_cpu_s(self) -> float:
        return 0.0

    def note(self, text: str) -> None:
        self.notes.append(text)

    def round(
        self, _scenario: Scenario, index: int, _left: object, _doing: str, *, least_s: float, hosts: int
    ) -> Finished:
        assert least_s == 0
        self.loaded.append((index, hosts))
        given = self.gives.pop(0) if len(self.gives) > 1 else self.gives[0]
        spoilt = bool(given.invalid or given.invalid_metrics)
        return Finished(round=replace(given, index=index), repeatable=spoilt)


@dataclass
class FakeSetup:
    """A setup with this bench, and the cluster."""

    own = dedicated = True
    given: Bench
    tier: Tier = TIER
    driver: LibrdkafkaDriver = field(default_factory=LibrdkafkaDriver)
    ledger: Ledger = field(default_factory=Ledger)
    hosts: int = 1

    def fewer(self, row: Scenario) -> Arm | None:
        return one_host_fewer(replace(row, producers=self.hosts), self.hosts)

    def bench(self, _cluster: object, _run_id: str) -> Bench:
        return self.given

    def check(self) -> None: ...

    def log_tail(self) -> str:
        return ""


class WarmsUp:
    """A stop rule for which this row is still warming up until it has so many rounds."""

    def __init__(self, name: str, until: int) -> None:
        self.name, self.until, self.asked = name, until, 0

    def hopeless(self, _scenario: object, _earlier: object) -> bool:
        return False

    def sure(self, _scenario: object, _block: object) -> bool:
        return False

    def still_warming(self, done: Any) -> dict[str, str]:
        warming = max(r.index for r in done[self.name]) < self.until
        return {self.name: "growing"} if warming else {}
