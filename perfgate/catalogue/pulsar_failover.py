"""Failover of Pulsar: the cost of the loss of a broker, a bookie or the metadata store, and whether a record is lost.

Three brokers, three bookies, one metadata store; 6 partitions of quorums 3/3/2; 100 messages/s per partition, paced and
sent every 20 ms, as on Kafka: gaps longer than some 40 ms are seen. Brokers drop what a producer sends again.
"""

from dataclasses import replace
from typing import Any

from perfgate.catalogue import failover
from perfgate.model import KIB, MIB, ClusterSpec, FaultScenario, TopicSpec, settings

SAFE = settings(
    {
        "batchingMaxBytes": 16 * KIB,
        "batchingMaxPublishDelayMicros": 20_000,
        # Messages that wait for the longest outage must fit and live long enough, or the client's bounds would hide it.
        "maxPendingMessages": 200_000,
        "maxPendingBytes": 512 * MIB,
        "sendTimeoutMs": 180_000,
    }
)
SESSION = "metadataStoreSessionTimeoutMillis"
DELAYED = "bookkeeper_delayEnsembleChange"


def fault_scenario(
    name: str,
    summary: str,
    kind: str,
    *,
    broker: dict[str, object] | None = None,
    bookies: int = 3,
    deduplicated: bool = True,
    **more: Any,
) -> FaultScenario:
    """A scenario of this family, by its differences from the others; `more`: as on Kafka."""
    config = settings({"deduplicationEnabled": str(deduplicated).lower()})
    return replace(
        failover.fault_scenario(name, summary, kind, **more),
        factor=settings({"fault": kind, "bookies": bookies, **(broker or {})}),
        topic=TopicSpec(partitions=failover.PARTITIONS, replication_factor=3, ack_quorum=2, config=config),
        producer=SAFE,
        cluster=ClusterSpec(
            system="pulsar",
            bookies=bookies,
            config=settings(broker or {}),
            bookie_config=settings({"journalSyncData": "false"}),
        ),
    )


SCENARIOS = (
    fault_scenario("kill-broker", "a broker crashes (SIGKILL)", "kill-broker", repeats=5, tier="nightly-1h"),
    fault_scenario(
        "kill-broker-session-10s",
        "a broker's session ends after 10 s of silence instead of 30",
        "kill-broker",
        broker={SESSION: 10_000},
    ),
    fault_scenario(
        "kill-broker-not-deduplicated",
        "messages that are sent again may be there twice",
        "kill-broker",
        deduplicated=False,
    ),
    fault_scenario("stop-broker", "a broker is shut down in good order (SIGTERM)", "stop-broker", repeats=2),
    fault_scenario("pause-broker", "a broker stands still for 20 s (SIGSTOP)", "pause-broker", hold_s=20),
    fault_scenario(
        "kill-bookie-delayed",
        "a bookie crashes; two of three copies are enough, for the ensemble's change is delayed",
        "kill-bookie",
        repeats=5,
        broker={DELAYED: "true"},
        tier="nightly-1h",
    ),
    fault_scenario("kill-bookie-spare", "a bookie crashes, and a fourth one takes its place", "kill-bookie", bookies=4),
    fault_scenario(
        "kill-bookie-defaults",
        "one of three bookies crashes: by default nothing is written until it is back",
        "kill-bookie-no-spare",
    ),
    fault_scenario("metadata-away", "the metadata store is away for 15 s, within every session", "metadata-away"),
)
FAILOVER = replace(failover.FAILOVER, scenarios=SCENARIOS)
