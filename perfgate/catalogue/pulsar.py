"""The catalogue of Pulsar: bases and families. Ratios between them are in relations-pulsar.toml.

A name that a scenario of Kafka's catalogue has too means the same load. Replicas are the write quorum. What one copy
is on Kafka, written by whichever broker leads the partition, is one copy here that the three bookies of the ensemble
take in turn (3/1/1: ensemble, write quorum, ack quorum); three replicas with acks=-1 and min.insync.replicas=2 are
3/3/2. Bookies do not wait for the disk (journalSyncData=false), as Kafka's brokers do not, but where `fsync` is varied.
"""

from dataclasses import replace

from perfgate.catalogue.pulsar_failover import FAILOVER
from perfgate.model import KIB, ClusterSpec, Consumers, Load, Scenario, TopicSpec, settings, with_changes
from perfgate.model.catalogue import Family, family

R1 = "cloud service white paper, 2021"
R3 = "Pulsar benchmark"
BYTES_PER_S = 400_000_000
"""Offered at most: 390,000/s of 1,024 B, where brokers and client on two cores took all of 195,000. It bounds what a
run may write."""

CLUSTER = ClusterSpec(system="pulsar", bookies=3, bookie_config=settings({"journalSyncData": "false"}))

# The white paper's load, by the names that Pulsar's client has for it: records of 1 KiB, a batch each, and a bound of
# what may be under way. The client waits 1 ms for a batch to fill, its least.
PAPER = Scenario(
    name="white-paper-pulsar",
    summary="the white paper's load: three brokers and bookies, as fast as they take it",
    families=(),
    factor=(),
    topic=TopicSpec(partitions=3, replication_factor=1, config=settings({"ensemble": 3})),
    producer=settings(
        {
            "batchingMaxBytes": 1 * KIB,
            "batchingMaxPublishDelayMicros": 1_000,
            "maxPendingMessages": 1_000,
        }
    ),
    record_bytes=1 * KIB,
    load=Load(kind="capped", rate=102_400),
    cluster=CLUSTER,
)

# The Pulsar benchmark's: records of 1 KiB over three partitions, batches as the client has them (128 KiB or 1 ms).
BENCHMARK = with_changes(PAPER, [("producer.batchingMaxBytes", 128 * KIB), ("load.rate", BYTES_PER_S // (1 * KIB))])

TEXT = with_changes(BENCHMARK, [("record.payload", "text:4")])

REPLICATED = with_changes(BENCHMARK, [("topic.replicas", 3), ("load.rate", 200_000)])

PACED = Scenario(
    name="paced-pulsar",
    summary="messages sent on a fixed schedule, quorums 3/3/2",
    families=(),
    factor=(),
    topic=TopicSpec(partitions=3, replication_factor=3),
    producer=settings({"batchingMaxBytes": 16 * KIB, "batchingMaxPublishDelayMicros": 1_000}),
    record_bytes=1 * KIB,
    load=Load(kind="paced", rate=500),
    cluster=CLUSTER,
)

READING = Scenario(
    name="reading-pulsar",
    summary="a topic that was written beforehand, read over and over as fast as it can be",
    families=(),
    factor=(),
    topic=TopicSpec(partitions=3, replication_factor=1, config=settings({"ensemble": 3})),
    producer=settings({"batchingMaxBytes": 64 * KIB, "maxPendingMessages": 1_000}),
    record_bytes=1 * KIB,
    load=Load(kind="backlog", records=300_000),
    consumers=Consumers(membership="assigned"),
    cluster=CLUSTER,
)

END_TO_END = replace(
    PACED,
    name="end-to-end-pulsar",
    summary="messages sent on a fixed schedule and read as they arrive, quorums 3/3/2",
    load=Load(kind="paced", rate=1_000),
    consumers=Consumers(membership="assigned"),
)

RAMP = replace(
    END_TO_END,
    name="ramp-pulsar",
    summary="messages sent on schedules of rising rates and read as they arrive, quorums 3/3/2",
    load=Load(kind="ramp", rate=100_000),
)


def of_size(record_bytes: int) -> dict[str, object]:
    """Records of this size, offered at the same bytes per second whatever their size."""
    return {"record.bytes": record_bytes, "load.rate": BYTES_PER_S // record_bytes}


FAMILIES: tuple[Family, ...] = (
    family(
        "batch-size",
        "how many bytes of messages go into one batch, or none are made: more per second for less CPU",
        base=PAPER,
        varies="producer.batchingMaxBytes",
        smoke={"batch-1k": 1 * KIB, "batch-16k": 16 * KIB},
        full={"batch-none": {"producer.batchingEnabled": "false"}},
        says={
            "batch-1k": "1 KiB batches: one message each",
            "batch-16k": "16 KiB batches",
            "batch-none": "no batches: an entry for each message, without a batch's framing",
        },
        source=R1,
    ),
    family(
        "acks",
        "how many of three bookies must have a message before it is acknowledged: whether a slow one is waited for",
        base=with_changes(PAPER, [("topic.replicas", 3)]),
        varies="topic.ack-quorum",
        smoke={"ack-quorum-2": 2},
        full={"ack-quorum-3": 3},
        says={"ack-quorum-2": "quorums 3/3/2: two of three copies", "ack-quorum-3": "quorums 3/3/3: all copies"},
        source=f"{R1}, whose acks=-1 waits for all that are in sync",
    ),
    family(
        "cross-az",
        "the producer sits in another zone than the brokers: fewer messages per second",
        base=PAPER,
        varies="link",
        nightly_1h={"cross-az": "cross-zone"},
        full={"cross-az-2ms": "cross-zone-2ms", "cross-az-10ms": "cross-zone-10ms"},
        says={"cross-az": "1 KiB batches from another zone"},
        source=R1,
    ),
    family(
        "replicas",
        "how many copies of each message bookies keep (write quorum; a majority acknowledges): fewer per second",
        base=with_changes(REPLICATED, [("topic.ensemble", 3)]),
        varies="topic.replicas",
        nightly_1h={"replicas-3": 3},
        nightly={"replicas-1": 1},
        full={"replicas-2": 2},
        says={
            "replicas-1": "quorums 3/1/1: one copy, on each of three bookies in turn",
            "replicas-2": "quorums 3/2/2",
            "replicas-3": "quorums 3/3/2",
        },
        source=R1,
    ),
    family(
        "latency",
        "what one message waits for at a rate that the brokers take easily",
        base=PACED,
        varies="load.rate",
        smoke={"paced-500": 500},
        says={"paced-500": "500 messages/s, quorums 3/3/2: how long a message takes"},
        source=R3,
    ),
    family(
        "partitions",
        "over how many partitions the messages go: most per second at about twice as many as brokers",
        base=BENCHMARK,
        varies="topic.partitions",
        smoke={"partitions-3": 3},
        nightly_1h={"partitions-6": 6},
        nightly={"partitions-1": 1},
        full={"partitions-9": 9, "partitions-15": 15, "partitions-25": 25},
        source=R3,
    ),
    family(
        "record-size",
        "how many bytes a message has (1,024 in partitions-3): fewer per second the longer, and about as many bytes",
        base=BENCHMARK,
        nightly_1h={"record-8192": of_size(8_192)},
        full={f"record-{size}": of_size(size) for size in (512, 2_048, 4_096)},
        source=R3,
    ),
    family(
        "producers",
        "how many producer processes there are (one in partitions-3): no more per second once the cores are busy",
        base=BENCHMARK,
        varies="producers.processes",
        nightly={"producers-3": 3},
        full={f"producers-{count}": count for count in (4, 5, 6, 7, 9)},
        source=R3,
    ),
    family(
        "compression",
        "how batches are compressed, of text that gzip makes a quarter: less network and disk for client CPU",
        base=TEXT,
        varies="producer.compressionType",
        full={f"compression-{codec.lower()}": codec for codec in ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")},
    ),
    # Not run: the reason is the driver's.
    family(
        "transactions",
        "how long one transaction is open: the suite's client of Pulsar has none, that of Java has",
        base=REPLICATED,
        varies="producers.transaction.ms",
        full={"transactions-1s": 1_000},
        says={"transactions-1s": "a commit every second"},
    ),
    # Nothing is compared across this line: no relation names both sides.
    family(
        "fsync",
        "whether a bookie acknowledges once a message is on its disk, or in its page cache: the disk's own latency",
        base=with_changes(REPLICATED, [("topic.partitions", 6)]),
        varies="bookie.journalSyncData",
        nightly_1h={"fsync-on": "true"},
        nightly={"fsync-off": "false"},
        says={
            "fsync-off": "six partitions, 3/3/2, durability page cache",
            "fsync-on": "six partitions, 3/3/2, durability fsync: a majority of disks has each message",
        },
        source=R3,
    ),
    # Consuming.
    family(
        "consumers",
        "how many consumer processes read, each its share of nine partitions: about as many messages per second",
        base=with_changes(READING, [("topic.partitions", 9)]),
        varies="consumers.processes",
        nightly_1h={"consumers-1": 1},
        nightly={"consumers-3": 3},
        full={f"consumers-{count}": count for count in (4, 5, 6, 7, 9)},
        source=R3,
    ),
    family(
        "read-partitions",
        "how many partitions one consumer reads (nine in consumers-1)",
        base=READING,
        varies="topic.partitions",
        nightly={"read-partitions-3": 3},
        full={f"read-partitions-{count}": count for count in (1, 6, 15, 25)},
        source=R3,
    ),
    family(
        "subscription-type",
        "who of a subscription's consumers gets a message: one of all, one of a partition, any, or any by its key",
        base=END_TO_END,
        full={
            "subscription-exclusive": {"consumers.membership": "exclusive"},
            "subscription-failover": {"consumers.membership": "failover", "consumers.threads": 3},
            "subscription-shared": {"consumers.membership": "shared", "consumers.threads": 3},
            "subscription-key-shared": {
                "consumers.membership": "key-shared",
                "consumers.threads": 3,
                "record.keys": "random",
                "producer.batchingEnabled": "false",  # a batch goes to one consumer, whatever its keys
            },
        },
        says={
            "subscription-exclusive": "one consumer, which alone may read",
            "subscription-failover": "three consumers, of which one reads a partition",
            "subscription-shared": "three consumers, each message goes to any of them",
            "subscription-key-shared": "three consumers, messages of one key go to the same one",
        },
    ),
    family(
        "end-to-end",
        "how long a message takes from its intended send to its receipt",
        base=END_TO_END,
        varies="load.rate",
        smoke={"end-to-end-1k": 1_000},
        full={"end-to-end-half-knee": "0.5 x knee"},
        says={"end-to-end-half-knee": "half the knee that an earlier run's rate-ramp found on this target"},
        source=R3,
    ),
    family(
        "rate-limit",
        "latency at a stated rate, quorums 3/3/2, six partitions: it breaks away near the knee",
        base=with_changes(PACED, [("topic.partitions", 6)]),
        varies="load.rate",
        full={"rate-1k": 1_000, "rate-5k": 5_000, "rate-10k": 10_000, "rate-20k": 20_000, "rate-30k": 30_000},
        source=R3,
    ),
    family(
        "rate-ramp",
        "the highest rate that still meets the service level: what was sent, confirmed and received at each step",
        base=RAMP,
        nightly={"knee": {}},
        says={"knee": "3/3/2, one consumer: steps up to 100,000 messages/s, then bisection"},
        source=R3,
    ),
    FAILOVER,
)
SCENARIOS = tuple(scenario for declared in FAMILIES for scenario in declared.scenarios)
