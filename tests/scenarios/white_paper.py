"""What all rows of the cloud service white paper (2021) have in common.

Three brokers in three zones; 3 partitions; 1,024 B records; linger.ms=0; at most 5 requests in flight; 32 MiB of client
buffer; as fast as the brokers take it, at most 102,400 records/s.
"""

from perfgate.model import KIB, SAME_ZONE, Link, Load, Scenario, TopicSpec, settings

COMMON = {"linger.ms": 0, "max.in.flight.requests.per.connection": 5, "queue.buffering.max.kbytes": 32 * KIB}
CAP = Load(kind="capped", rate=102_400)


def row(
    name: str,
    summary: str,
    *,
    families: tuple[str, ...],
    factor: str,
    batch_bytes: int = 1 * KIB,
    replicas: int = 1,
    acks: int = 1,
    link: Link = SAME_ZONE,
) -> Scenario:
    """Return one row of the paper's table; `factor` names the setting that its family varies."""
    varied = {"batch.size": batch_bytes, "link": link.name, "replication.factor": replicas, "acks": acks}
    return Scenario(
        name=name,
        summary=summary,
        families=families,
        factor=settings({factor: varied[factor]}),
        topic=TopicSpec(partitions=3, replication_factor=replicas),
        producer=settings({**COMMON, "acks": acks, "batch.size": batch_bytes}),
        record_bytes=1 * KIB,
        load=CAP,
        link=link,
    )
