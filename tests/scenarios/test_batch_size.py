"""batch.size: how many bytes of records go into one batch."""

import pytest

from fixtures.gate import Gate
from perfgate.model import KIB, Relation, Scenario
from tests.scenarios.white_paper import row

FAMILY = "batch-size"
ROWS = (
    row(
        "batch-1k",
        "1 KiB batches: one record each",
        factor="batch.size",
        families=("batch-size", "cross-az", "replicas"),
        batch_bytes=1 * KIB,
    ),
    row("batch-16k", "16 KiB batches", factor="batch.size", families=("batch-size",), batch_bytes=16 * KIB),
)


@pytest.mark.parametrize("scenario", ROWS, ids=repr)
def test_batch_size(scenario: Scenario, gate: Gate) -> None:
    """Throughput and broker CPU at this batch size."""
    measurement = gate.measure(scenario)
    gate.hold(measurement)


def test_batch_size_relation(relation: Relation, gate: Gate) -> None:
    """Larger batches: more records per second for less broker CPU."""
    gate.hold_relation(relation)
