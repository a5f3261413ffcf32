"""acks: asynchronous (acks=1) against synchronous (acks=-1) replication."""

import pytest

from fixtures.gate import Gate
from perfgate.model import Relation, Scenario
from tests.scenarios.white_paper import row

FAMILY = "acks"
ROWS = (row("acks-all", "three replicas, acks=-1", factor="acks", families=("acks",), replicas=3, acks=-1),)


@pytest.mark.parametrize("scenario", ROWS, ids=repr)
def test_acks(scenario: Scenario, gate: Gate) -> None:
    """Throughput and broker CPU with these acknowledgements."""
    measurement = gate.measure(scenario)
    gate.hold(measurement)


def test_acks_relation(relation: Relation, gate: Gate) -> None:
    """Asynchronous replication: more records per second."""
    gate.hold_relation(relation)
