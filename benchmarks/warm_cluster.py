"""A cluster of this machine that is warm and lives for as long as a benchmark measures on it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.scenarios import links
from perfgate.catalogue.kafka import SCENARIOS
from perfgate.fixtures.wiring_kafka import process_usage
from perfgate.measure.bench import Bench
from perfgate.measure.setup import Setup
from perfgate.model import SAME_ZONE, Scenario, Tier
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from perfgate.systems.kafka.managed.embedded import EmbeddedTarget
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster

BY_NAME = {
    scenario.name: scenario
    for scenario in (*SCENARIOS, *(one for family in links.FAMILIES for one in family.scenarios))
}


class Quiet:
    """Says nothing."""

    def __call__(self, text: str, left_s: float | None) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def clear(self) -> None:
        pass


class KeptTarget(EmbeddedTarget):
    """A target whose clusters stay for the next comparison."""

    def close(self) -> None:
        """Keep them."""

    def end(self) -> None:
        """End them."""
        super().close()


@dataclass(frozen=True, kw_only=True, slots=True)
class WarmCluster:
    """What measures on the cluster; `setup` makes benches of further ones, `logs` is gone at the end."""

    target: KeptTarget
    cluster: EmbeddedCluster
    setup: Setup
    bench: Bench
    logs: Path


def quiet_setup(target: KeptTarget, row: Scenario, tier: Tier, logs: Path, driver: LibrdkafkaDriver) -> Setup:
    """Return the setup of a run of one scenario that says nothing."""
    return Setup(
        tier=tier,
        driver=driver,
        engine=driver,
        target=target,
        scenarios=[row],
        run_id=f"b{time.time_ns() // 1_000_000}",
        say=Quiet(),
        sampler=process_usage,
        histories=logs,
    )


def _print(text: str) -> None:
    print(text, flush=True)


@contextmanager
def warm_cluster(row: Scenario, tier: Tier) -> Iterator[WarmCluster]:
    """Start the cluster of a scenario and warm it up with that; end it whatever happens."""
    with tempfile.TemporaryDirectory(prefix="warm-cluster-") as folder:
        logs = Path(folder)
        target = KeptTarget(log_folder=logs, cross_zone=row.link != SAME_ZONE, say=_print)
        target.prepare([row.cluster])
        try:
            cluster = target.cluster(row.cluster)
            setup = quiet_setup(target, row, tier, logs, LibrdkafkaDriver())
            bench = setup.warm_bench(cluster, [row], setup.run_id)
            yield WarmCluster(target=target, cluster=cluster, setup=setup, bench=bench, logs=logs)
        finally:
            target.end()
