"""Every scenario of the catalogue, and every relation between them: the two tests that a gate is made of."""

import pytest

from fixtures.gate import Gate
from perfgate.model import Relation, Scenario
from tests.scenarios.catalogue import FAMILIES, SCENARIOS

__all__ = ["FAMILIES"]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=repr)
def test_scenario(scenario: Scenario, gate: Gate) -> None:
    """Rate or latency, broker CPU, and the cost of a fault, held against stored thresholds."""
    measurement = gate.measure(scenario)
    gate.hold(measurement)


def test_relation(relation: Relation, gate: Gate) -> None:
    """The ratio of two scenarios, held against its minimum and maximum in relations.toml."""
    gate.hold_relation(relation)
