"""Failover: the cost of the loss of a broker, and whether a record is lost with it.

Three brokers with their controllers apart, so that a killed broker takes no vote of the quorum along; 6 partitions of
3 replicas; 100 records/s per partition, paced and sent every 20 ms: gaps longer than some 40 ms are seen.
"""

from dataclasses import replace

from perfgate.model import (
    KIB,
    ClusterSpec,
    Consumers,
    Fault,
    FaultScenario,
    Load,
    TopicSpec,
    settings,
    with_settings,
)
from perfgate.model.catalogue import Family
from perfgate.model.declared import TierName

FAMILY, UNREAD, ENDURANCE_FAMILY = "failover", "backlog", "endurance"
SHARE = "share-group"
BROKERS, PARTITIONS, RATE_PER_PARTITION = 3, 6, 100
SAFE = settings(
    {
        "acks": "all",
        "enable.idempotence": "true",
        "batch.size": 16 * KIB,
        "linger.ms": 20,  # a request for each record would take 1.4 cores of three brokers
        # Records that wait for the longest outage must fit, or the blocked generator would hide it.
        "queue.buffering.max.kbytes": 512 * KIB,
    }
)
ALONG = Consumers(membership="assigned")


def group(**config: object) -> Consumers:
    """A group of three members that learns of a dead member after 6 s."""
    return Consumers(
        membership="group", processes=3, config=settings({name.replace("_", "."): v for name, v in config.items()})
    )


def fault_scenario(
    name: str,
    summary: str,
    kind: str,
    *,
    hold_s: float = 15.0,
    repeats: int = 1,
    producer: dict[str, object] | None = None,
    broker: dict[str, object] | None = None,
    consumers: Consumers = ALONG,
    producers: int = 1,
    partitions: int = PARTITIONS,
    brokers: int = BROKERS,
    on_brokers: int = 0,
    also: tuple[str, ...] = (),
    tier: TierName = "nightly",
) -> FaultScenario:
    """A scenario of this family, by its differences from the others; `also`: other families it belongs to."""
    return FaultScenario(
        name=name,
        summary=summary,
        families=(FAMILY, *also),
        tier=tier,
        factor=settings({"fault": kind, **(producer or {}), **(broker or {})}),
        topic=TopicSpec(
            partitions=partitions,
            replication_factor=3,
            config=settings({"min.insync.replicas": 2}),
            on_brokers=on_brokers,
        ),
        producer=with_settings(SAFE, producer or {}),
        record_bytes=KIB,
        load=Load(kind="paced", rate=RATE_PER_PARTITION * PARTITIONS),
        producers=producers,
        consumers=consumers,
        cluster=ClusterSpec(brokers=brokers, controllers=3, severable=True, config=settings(broker or {})),
        fault=Fault(kind=kind, hold_s=hold_s, repeats=repeats),
    )


SCENARIOS = (
    fault_scenario("kill-leader", "a broker crashes (SIGKILL)", "kill-leader", repeats=5, tier="nightly-1h"),
    fault_scenario(
        "stop-leader", "a broker is shut down in good order (SIGTERM)", "stop-leader", repeats=2, tier="nightly-1h"
    ),
    fault_scenario("pause-leader", "a broker stands still for 20 s (SIGSTOP)", "pause-leader", hold_s=20),
    fault_scenario("cut-off", "a broker's links are severed for 20 s", "cut-off", hold_s=20),
    fault_scenario(
        "slow-follower",
        "a follower is slow for 20 s: acks=all waits for it",
        "slow-follower",
        hold_s=20,
        also=("min-insync",),
    ),
    fault_scenario(
        "slow-follower-acks-1",
        "a follower is slow for 20 s: producers feel nothing, consumers wait for it",
        "slow-follower",
        hold_s=20,
        producer={"acks": 1, "enable.idempotence": "false"},
        also=("min-insync",),
    ),
    fault_scenario("kill-controller", "the active controller crashes (SIGKILL)", "kill-controller"),
    fault_scenario("rolling-restart", "all three brokers are restarted, one after another", "rolling-restart"),
    fault_scenario("two-down", "two of three brokers crash, then one returns", "two-down"),
    fault_scenario("return", "a broker comes back after 30 s and catches up", "return", hold_s=30),
    fault_scenario(
        "scale-out",
        "a fourth broker joins and takes its share of the replicas",
        "scale-out",
        brokers=BROKERS + 1,
        on_brokers=BROKERS,
    ),
    fault_scenario(
        "kill-leader-not-idempotent",
        "acks=all alone: duplicates may be",
        "kill-leader",
        producer={"enable.idempotence": "false"},
    ),
    fault_scenario(
        "kill-leader-acks-1",
        "acks=1: what was not yet copied is lost",
        "kill-leader",
        repeats=3,
        producer={"acks": 1, "enable.idempotence": "false", "linger.ms": 0},
    ),
    *(
        fault_scenario(
            f"kill-leader-lag-{seconds}s",
            f"replicas fall out of sync after {seconds} s instead of 30",
            "kill-leader",
            broker={"replica.lag.time.max.ms": 1_000 * seconds},
        )
        for seconds in (10, 60)
    ),
    fault_scenario(
        "kill-leader-session-3s",
        "brokers are fenced after 3 s of silence instead of 9",
        "kill-leader",
        broker={"broker.session.timeout.ms": 3_000, "broker.heartbeat.interval.ms": 1_000},
    ),
    *(
        fault_scenario(
            f"kill-leader-request-{seconds}s",
            f"requests time out after {seconds} s",
            "kill-leader",
            producer={"request.timeout.ms": 1_000 * seconds, "socket.timeout.ms": 1_000 * seconds},
        )
        for seconds in (3, 5, 10)
    ),
    fault_scenario(
        "consumer-kill-eager",
        "a consumer dies; its group stops and shares out anew",
        "consumer-kill",
        consumers=group(session_timeout_ms=6_000, partition_assignment_strategy="range"),
    ),
    fault_scenario(
        "consumer-kill-cooperative",
        "a consumer dies; only its partitions move",
        "consumer-kill",
        consumers=group(session_timeout_ms=6_000, partition_assignment_strategy="cooperative-sticky"),
    ),
    fault_scenario(
        "consumer-kill-new-protocol",
        "a consumer dies; the brokers share out (KIP-848)",
        "consumer-kill",
        consumers=group(group_protocol="consumer"),
        broker={
            "group.consumer.session.timeout.ms": 6_000,
            "group.consumer.min.session.timeout.ms": 6_000,
            "group.consumer.heartbeat.interval.ms": 2_000,
            "group.consumer.min.heartbeat.interval.ms": 2_000,
        },
    ),
    fault_scenario(
        "consumer-kill-share",
        "a consumer of a share group dies; what it had goes to others (KIP-932)",
        "consumer-kill",
        also=(SHARE,),
        consumers=Consumers(membership="share", processes=3),
        broker={
            "group.share.session.timeout.ms": 6_000,
            "group.share.min.session.timeout.ms": 6_000,
            "group.share.heartbeat.interval.ms": 2_000,
            "group.share.min.heartbeat.interval.ms": 2_000,
        },
    ),
    # One partition, so that all three members read it: each has the records that it is given, and others get those that
    # it is too slow with. A record that was tried five times (the default) would be given up; ten is the most.
    fault_scenario(
        "consumer-slow-share",
        "a consumer of a share group takes twice as long over records as its lock lasts: others get them (KIP-932)",
        "consumer-slow",
        hold_s=30,
        also=(SHARE,),
        consumers=Consumers(membership="share", processes=3),
        partitions=1,
        broker={
            "group.share.record.lock.duration.ms": 2_000,
            "group.share.min.record.lock.duration.ms": 1_000,
            "group.share.delivery.count.limit": 10,
        },
    ),
    fault_scenario(
        "client-crash",
        "one of two producers is killed with records in its buffer",
        "client-crash",
        producers=2,
        producer={"linger.ms": 100},
    ),
)


def away(name: str, summary: str, *, groups: int = 1) -> FaultScenario:
    """A scenario whose consumers stay away for a minute: 180,000 records then wait for them, 176 MiB."""
    base = fault_scenario(name, summary, "consumers-away", hold_s=60, consumers=replace(ALONG, groups=groups))
    return replace(
        base,
        families=(UNREAD,),
        factor=settings({"fault": "consumers-away", "consumers.groups": groups}),
        load=Load(kind="paced", rate=3_000),
        # No proxy between: consumers read more than a proxy passes on.
        cluster=replace(base.cluster, severable=False),
    )


def going_on(name: str, minutes: int, tier: TierName) -> FaultScenario:
    """A scenario in which the load goes on for these minutes and nothing is done to it."""
    summary = f"{minutes} min of 600 records/s: do latency, CPU or memory grow?"
    base = fault_scenario(name, summary, "time", hold_s=60 * minutes)
    # All of it is read in the end; on real brokers topics are kept for an hour where a scenario does not say.
    kept = {"retention.ms": 2 * 60_000 * minutes} if minutes > 30 else {}
    return replace(
        base,
        families=(ENDURANCE_FAMILY,),
        tier=tier,
        factor=settings({"minutes": minutes}),
        topic=replace(base.topic, config=settings({**dict(base.topic.config), **kept})),
        cluster=replace(base.cluster, severable=False),
    )


ENDURANCE = Family(
    name=ENDURANCE_FAMILY,
    about="what time alone does to brokers under a steady load: latency, CPU per record and memory, end over start",
    scenarios=(going_on("endurance-30m", 30, "nightly"), going_on("endurance-4h", 240, "full")),
)
BACKLOG = Family(
    name=UNREAD,
    about="what is unread for a minute and then read at once: how long that takes, and what it costs everybody else",
    scenarios=(
        away("backlog-60s", "the consumer stays away for 60 s, then catches up"),
        away("backlog-60s-two-groups", "one group stays away for 60 s and catches up, another reads on", groups=2),
    ),
    source="Kafka for high availability, Kafka 0.10.2",
)
FAILOVER = Family(
    name=FAMILY, about="what a fault costs: outage, recovery, and the fate of every record", scenarios=SCENARIOS
)
