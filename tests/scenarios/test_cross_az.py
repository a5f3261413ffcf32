"""Cross-AZ clients: the producer sits in another availability zone than the brokers."""

import pytest

from fixtures.gate import Gate
from perfgate.model import CROSS_ZONE, Relation, Scenario
from tests.scenarios.white_paper import row

FAMILY = "cross-az"
ROWS = (row("cross-az", "1 KiB batches from another zone", factor="link", families=("cross-az",), link=CROSS_ZONE),)


@pytest.mark.parametrize("scenario", ROWS, ids=repr)
def test_cross_az(scenario: Scenario, gate: Gate) -> None:
    """Throughput and broker CPU over this link."""
    measurement = gate.measure(scenario)
    gate.hold(measurement)


def test_cross_az_relation(relation: Relation, gate: Gate) -> None:
    """The same zone: more records per second, and the brokers are busier."""
    gate.hold_relation(relation)
