"""Cold reads: consumers come back to records that brokers no longer have in memory, beside producers at the end."""

from collections.abc import Mapping
from dataclasses import replace

from perfgate.catalogue.failover import away
from perfgate.model import MIB, Fault, FaultScenario, settings, with_settings
from perfgate.model.catalogue import Family

COLD_NAME, TIERED_NAME = "cold-read", "tiered-read"
SECOND_MS = 1_000
TIERS = settings(
    {
        "remote.log.storage.system.enable": "true",
        # Segments move, and are deleted, within seconds instead of half a minute and five.
        "remote.log.manager.task.interval.ms": SECOND_MS,
        "log.retention.check.interval.ms": SECOND_MS,
    }
)
MOVES = {"remote.storage.enable": "true", "segment.bytes": 4 * MIB, "local.retention.bytes": 1}
"""Each partition writes such a segment in 8 s; no other stays on the brokers."""


def read(family: str, name: str, summary: str, kind: str, topic: Mapping[str, object] | None = None) -> FaultScenario:
    """A scenario in which a minute's records are read at once: five rounds, since two cannot be compared."""
    base = away(name, summary)
    return replace(
        base,
        families=(family,),
        tier="full",
        factor=settings({"fault": kind}),
        fault=Fault(kind=kind, hold_s=60, repeats=5),
        topic=replace(base.topic, config=with_settings(base.topic.config, topic or {})),
        cluster=replace(base.cluster, config=TIERS if family == TIERED_NAME else ()),
    )


COLD = Family(
    name=COLD_NAME,
    about="a minute of records read at once, from the page cache and from disk: what that costs those who write",
    scenarios=(
        read(
            COLD_NAME, "read-warm", "180,000 records that nobody read for 60 s, from the page cache", "consumers-away"
        ),
        read(COLD_NAME, "read-cold", "the same, dropped from the page cache before", "cold-read"),
    ),
    source="AutoMQ, benchmark against Apache Kafka; KAFKA-7504",
)
TIERED = Family(
    name=TIERED_NAME,
    about="a minute of records read at once, from the brokers' logs and from a remote tier (a folder on the same disk)",
    scenarios=(
        read(TIERED_NAME, "tiered-off", "180,000 records of a topic without a remote tier", "consumers-away"),
        read(
            TIERED_NAME,
            "tiered-on",
            "the same of one whose full segments move to the remote tier",
            "tiered-read",
            MOVES,
        ),
    ),
    source="KIP-405",
)
