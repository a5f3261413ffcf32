"""Small loads with a known answer, for the live tests."""

from dataclasses import replace

import pytest

from perfgate.fixtures.gate import Gate
from perfgate.model import KIB, Consumers, Load, Scenario, TopicSpec, settings


def probe(name: str, load: Load, *, record_bytes: int = KIB, **producer: object) -> Scenario:
    """Return a probe; producer settings are named with underscores for dots."""
    named = {key.replace("_", "."): value for key, value in producer.items()}
    return Scenario(
        name=name,
        summary="a probe",
        families=("probe",),
        factor=(),
        topic=TopicSpec(partitions=3, replication_factor=1),
        producer=settings(named),
        record_bytes=record_bytes,
        load=load,
    )


ROWS = (
    # Far below what brokers take: its latency is the brokers' and the client's own.
    probe("paced-slow", Load(kind="paced", rate=500)),
    # A buffer that no generator can fill in a round, more records than it can make, and compression that costs it many
    # times what brokers pay: the generator is the limit, beside brokers on the same processors too.
    probe(
        "capped-by-generator",
        Load(kind="capped", rate=10_000_000),
        record_bytes=64,
        batch_size=1_000_000,
        compression_type="gzip",
        compression_level=9,
        queue_buffering_max_kbytes=2_000_000,
        queue_buffering_max_messages=100_000_000,
    ),
    probe(
        "paced-by-generator",
        Load(kind="paced", rate=5_000_000),
        record_bytes=64,
        batch_size=1_000_000,
        queue_buffering_max_kbytes=2_000_000,
        queue_buffering_max_messages=100_000_000,
    ),
    # One request per record, several times as many as the brokers take.
    probe("paced-by-brokers", Load(kind="paced", rate=60_000), batch_size=KIB, queue_buffering_max_kbytes=4096),
    # For tests that break something in the middle of a long round, whose disk space has to be there.
    probe("capped-wide", Load(kind="capped", rate=20_000), batch_size=16 * KIB),
    # A request per record, as fast as the brokers take it: what a change costs shows at once.
    probe("capped-plain", Load(kind="capped", rate=50_000), batch_size=KIB),
    # Two processes of two producers each, and consumers.
    replace(
        probe("capped-by-four", Load(kind="capped", rate=20_000), batch_size=16 * KIB),
        producers=2,
        threads=2,
        consumers=Consumers(membership="group"),
    ),
)


@pytest.mark.parametrize("scenario", ROWS, ids=repr)
def test_probe(scenario: Scenario, gate: Gate) -> None:
    """Measure the probe and judge it."""
    measurement = gate.measure(scenario)
    gate.hold(measurement)
