"""Base scenarios: what families vary. Each is a load in full; its name is never run."""

from perfgate.model import KIB, Load, Scenario, TopicSpec, settings

PAPER = Scenario(
    name="white-paper",
    summary="the cloud service white paper (2021): three brokers in three zones, as fast as they take it",
    families=(),
    factor=(),
    topic=TopicSpec(partitions=3, replication_factor=1),
    producer=settings(
        {
            "acks": 1,
            "batch.size": 1 * KIB,
            "linger.ms": 0,
            "max.in.flight.requests.per.connection": 5,
            "queue.buffering.max.kbytes": 32 * KIB,
        }
    ),
    record_bytes=1 * KIB,
    load=Load(kind="capped", rate=102_400),
)

PACED = Scenario(
    name="paced",
    summary="records sent on a fixed schedule, three replicas, acks=-1",
    families=(),
    factor=(),
    topic=TopicSpec(partitions=3, replication_factor=3),
    producer=settings({"acks": -1, "linger.ms": 0, "batch.size": 16 * KIB}),
    record_bytes=1 * KIB,
    load=Load(kind="paced", rate=500),
)
