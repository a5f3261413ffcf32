"""Replicas: how many copies of each partition the brokers keep."""

import pytest

from fixtures.gate import Gate
from perfgate.model import Relation, Scenario
from tests.scenarios.white_paper import row

FAMILY = "replicas"
ROWS = (
    row("replicas-3", "three replicas, acks=1", factor="replication.factor", families=("replicas", "acks"), replicas=3),
)


@pytest.mark.parametrize("scenario", ROWS, ids=repr)
def test_replicas(scenario: Scenario, gate: Gate) -> None:
    """Throughput and broker CPU with this many replicas."""
    measurement = gate.measure(scenario)
    gate.hold(measurement)


def test_replicas_relation(relation: Relation, gate: Gate) -> None:
    """More replicas: far fewer records per second, and more broker CPU for each."""
    gate.hold_relation(relation)
