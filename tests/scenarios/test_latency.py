"""latency: what one record waits for at a rate that the brokers take easily."""

import pytest

from fixtures.gate import Gate
from perfgate.model import KIB, Load, Scenario, TopicSpec, settings

FAMILY = "latency"
ROWS = (
    Scenario(
        name="paced-500",
        summary="500 records/s, three replicas, acks=-1: how long a record takes",
        families=("latency",),
        factor=settings({"records/s": 500}),
        topic=TopicSpec(partitions=3, replication_factor=3),
        producer=settings({"acks": -1, "linger.ms": 0, "batch.size": 16 * KIB}),
        record_bytes=1 * KIB,
        # The slowest machine tried took 1,100/s of such records as fast as it could: there the brokers are half idle.
        load=Load(kind="paced", rate=500),
    ),
)


@pytest.mark.parametrize("scenario", ROWS, ids=repr)
def test_latency(scenario: Scenario, gate: Gate) -> None:
    """The 99th percentile of the time from the intended send to the acknowledgement, and broker CPU."""
    measurement = gate.measure(scenario)
    gate.hold(measurement)
