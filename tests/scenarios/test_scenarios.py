"""Every scenario of the catalogue, and every relation between them: the two tests that a gate is made of.

Each is parametrised by `fixtures/selection.py`: with the scenarios of FAMILIES and of --scenarios, and with the
relations of relations.toml; a run has those of its --system.
"""

from perfgate import catalogue
from perfgate.fixtures.gate import Gate
from perfgate.model import Relation, Scenario

FAMILIES = catalogue.FAMILIES


def test_scenario(scenario: Scenario, gate: Gate) -> None:
    """Rate or latency, broker CPU, and the cost of a fault, held against stored thresholds."""
    measurement = gate.measure(scenario)
    gate.hold(measurement)


def test_relation(relation: Relation, gate: Gate) -> None:
    """The ratio of two scenarios, held against its minimum and maximum in relations.toml."""
    gate.hold_relation(relation)
