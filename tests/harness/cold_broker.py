"""A plugin for a gate run (`-p tests.harness.cold_broker`): broker 2 is killed and started anew before the rounds."""

from collections.abc import Sequence

from perfgate.measure.bench import Bench
from perfgate.model import Scenario
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster

BROKER = 2
_round_trips = Bench.round_trips


def _swap_and_measure(bench: Bench, scenarios: Sequence[Scenario]) -> dict[str, float]:
    """Do so between the warm-up and the first round, which is when the links are measured."""
    cluster = bench._cluster
    assert isinstance(cluster, EmbeddedCluster)
    cluster.faults.do("kill", BROKER)
    cluster.faults.do("start", BROKER)
    cluster.wait_until_ready("SAMEZONE")
    return _round_trips(bench, scenarios)


setattr(Bench, "round_trips", _swap_and_measure)  # noqa: B010 - mypy refuses the plain assignment
