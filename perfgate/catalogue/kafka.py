"""The catalogue: every family of scenarios, one declaration each. Ratios between them are in relations.toml."""

from dataclasses import replace

from perfgate.catalogue import bases
from perfgate.catalogue.cold import COLD, TIERED
from perfgate.catalogue.failover import BACKLOG, ENDURANCE, FAILOVER
from perfgate.catalogue.rebalance import REBALANCE
from perfgate.model import KIB, MIB, Load, with_changes
from perfgate.model.catalogue import Family, family
from perfgate.model.sizes import read_sizes

R1 = "cloud service white paper, 2021"
R2 = "Kafka stress test, Kafka 0.10.0.1"
R3 = "Pulsar benchmark"
R4 = "Kafka for high availability, Kafka 0.10.2"
R5 = "Kafka benchmark and tools"
R6 = "OpenMessaging Benchmark: 1-topic-1-partition-1kb, 100k-10-topics-3-partitions-1k, 100-topics-1-partitions-1kb"
R7 = "Kroxylicious performance page, 0.20"
QUOTA_MIB_PER_S = 2
BYTES_PER_S = 300_000_000
SMALL_BYTES, SMALL_PER_S = 50, 400_000
"""Brokers take more records of a few bytes than one generator makes (427,000 and 783,000/s of 20 and 10 B on two busy
cores, at 0.7 us of broker CPU or less; 1.7 million of 40 B take more CPU to make than to store), so that without a cap
of their own none would push back, and each be INVALID: at the cap CPU per record and latency are compared."""


def of_size(record_bytes: int) -> dict[str, object]:
    """Records of this size, offered at no more than BYTES_PER_S whatever their size."""
    most = SMALL_PER_S if record_bytes < SMALL_BYTES else BYTES_PER_S
    return {"record.bytes": record_bytes, "load.rate": min(most, BYTES_PER_S // record_bytes)}


def of_sizes(sizes: str) -> dict[str, object]:
    """Records of these sizes, offered at no more than BYTES_PER_S."""
    return {"record.sizes": sizes, "load.rate": BYTES_PER_S // read_sizes("record.sizes", sizes).mean}


HOURS = [260, 220, 200, 200, 210, 260, 380, 560, 780, 920, 980, 940, 860]
HOURS += [840, 820, 800, 800, 840, 920, 1000, 960, 760, 520, 340, 260]
"""Records/s at each hour of a day, the last that of the next day."""
DAY = "/".join(f"{2 * hour}={rate}" for hour, rate in enumerate(HOURS))


def joined(first: Family, *others: Family) -> Family:
    """The first family with the scenarios of the others, which vary other bases."""
    return replace(first, scenarios=tuple(scenario for part in (first, *others) for scenario in part.scenarios))


FAMILIES: tuple[Family, ...] = (
    # The white paper's.
    family(
        "acks",
        "asynchronous (acks=1) against synchronous (acks=-1) replication: more records per second",
        base=with_changes(bases.PAPER, [("topic.replicas", 3)]),
        varies="producer.acks",
        smoke={"acks-all": -1},
        full={"acks-0": 0},
        says={"acks-all": "three replicas, acks=-1", "acks-0": "three replicas, no acknowledgement"},
        source=R1,
    ),
    family(
        "batch-size",
        "how many bytes of records go into one batch: more records per second for less broker CPU",
        base=bases.PAPER,
        varies="producer.batch.size",
        smoke={"batch-1k": 1 * KIB, "batch-16k": 16 * KIB},
        full={"batch-64k": 64 * KIB, "batch-256k": 256 * KIB},
        says={
            "batch-1k": "1 KiB batches: one record each",
            "batch-16k": "16 KiB batches",
            "batch-64k": "64 KiB batches",
            "batch-256k": "256 KiB batches",
        },
        source=R1,
    ),
    family(
        "cross-az",
        "the producer sits in another zone than the brokers: fewer records per second",
        base=bases.PAPER,
        varies="link",
        smoke={"cross-az": "cross-zone"},
        full={"cross-az-2ms": "cross-zone-2ms", "cross-az-10ms": "cross-zone-10ms"},
        says={"cross-az": "1 KiB batches from another zone"},
        source=R1,
    ),
    family(
        "replicas",
        "how many copies of each partition the brokers keep: far fewer records per second",
        base=bases.PAPER,
        varies="topic.replicas",
        smoke={"replicas-3": 3},
        nightly={"replicas-4-refused": 4},
        full={"replicas-2": 2},
        says={"replicas-3": "three replicas, acks=1", "replicas-4-refused": "more replicas than brokers: refused"},
        refused={"replicas-4-refused": "INVALID_REPLICATION_FACTOR"},
        source=f"{R1}; {R2}",
    ),
    # The slowest machine tried took 1,100/s of such records as fast as it could: there the brokers are half idle.
    family(
        "latency",
        "what one record waits for at a rate that the brokers take easily",
        base=bases.PACED,
        varies="load.rate",
        smoke={"paced-500": 500},
        says={"paced-500": "500 records/s, three replicas: how long a record takes"},
        source=R4,
    ),
    # Producing.
    family(
        "partitions",
        "over how many partitions the records go: more records per second up to the number of brokers, then flat",
        base=bases.STRESS,
        varies="topic.partitions",
        nightly_1h={"partitions-6": 6},
        nightly={"partitions-1": 1, "partitions-3": 3, "partitions-50": 50},
        full={f"partitions-{count}": count for count in (9, 12, 15, 20, 30, 1_000)},
        source=f"{R2}; {R5}",
    ),
    family(
        "min-insync",
        "how many replicas must have a record before it is acknowledged: none fewer records while all are in sync",
        base=bases.REPLICATED,
        varies="topic.min.insync.replicas",
        nightly_1h={"min-insync-2": 2},
        nightly={"min-insync-1": 1},
        full={"min-insync-3": 3},
        source=R4,
    ),
    family(
        "producer-threads",
        "how many producers one process runs: more records per second up to the partition count",
        base=bases.STRESS,
        varies="producers.threads",
        nightly={"threads-3": 3},
        full={"threads-2": 2, "threads-4": 4, "threads-5": 5},
        source=R2,
    ),
    family(
        "producers",
        "how many producer processes there are: more records per second until the brokers are busy",
        base=bases.STRESS,
        varies="producers.processes",
        nightly={"producers-2": 2},
        full={"producers-3": 3},
        source=f"{R2}; {R5}",
    ),
    family(
        "record-size",
        "how many bytes a record has: longer records, fewer records and more bytes per second",
        base=bases.STRESS,
        nightly_1h={"record-10000": of_size(10_000)},
        nightly={"record-100": of_size(100)},
        full={
            f"record-{size}": of_size(size)
            for size in (10, 20, 40, 60, 80, 150, 200, 400, 512, 800, 1_024, 2_000, 2_048, 4_096, 5_000, 8_192)
        },
        source=f"{R3}; {R4}; {R5}",
    ),
    family(
        "compression",
        "how batches are compressed, of text that gzip makes a quarter: less network and latency for client CPU",
        base=bases.TEXT,
        varies="producer.compression.type",
        nightly_1h={"compression-zstd": "zstd"},
        nightly={"compression-none": "none", "compression-lz4": "lz4"},
        full={
            "compression-gzip": "gzip",
            "compression-snappy": "snappy",
            "compression-zstd-1": {"producer.compression.type": "zstd", "producer.compression.level": 1},
            "compression-zstd-9": {"producer.compression.type": "zstd", "producer.compression.level": 9},
        },
        source=R2,
    ),
    family(
        "linger",
        "how long a producer waits for a batch to fill: fewer requests, for the latency of waiting",
        base=bases.SEPARATE,
        varies="producer.linger.ms",
        nightly={"linger-0": 0},
        full={"linger-5": 5, "linger-50": 50},
        source=R2,
    ),
    family(
        "idempotence",
        "whether the brokers drop second copies of a record: costs next to nothing",
        base=bases.REPLICATED,
        varies="producer.enable.idempotence",
        nightly_1h={"idempotence-on": "true"},
        source="KIP-98",
    ),
    family(
        "transactions",
        "how long one transaction is open: each commit costs a pause and a few records in the logs",
        base=bases.TRANSACTED,
        varies="producers.transaction.ms",
        full={"transactions-none": 0, "transactions-100ms": 100, "transactions-1s": 1_000},
        says={
            "transactions-none": "idempotent, three replicas, acks=-1, 512 KiB of buffer, no transactions",
            "transactions-100ms": "a commit every 100 ms",
            "transactions-1s": "a commit every second",
        },
        source="KIP-98; Transactions in Apache Kafka, 2017",
    ),
    family(
        "keys",
        "what chooses a record's partition: random keys, or a thousand of them, fill smaller batches",
        base=bases.STRESS,
        varies="record.keys",
        full={"keys-random": "random", "keys-1000": 1_000},
    ),
    # At a rate that any machine takes: the cost of a hot key is the wait in its partition.
    family(
        "key-skew",
        "keys that are not each as often, so that one partition gets more records than the others: its p99 is judged",
        base=bases.PACED,
        varies="record.keys",
        nightly={"hot-key": "hot:count=1000,share=0.5"},
        full={"keys-zipf": "zipf:count=100000,exponent=1", "keys-newest": "newest:count=10000,exponent=1"},
        says={
            "hot-key": "500 records/s, half of them with one key",
            "keys-zipf": "500 records/s, a key's rank says how often it comes (zipf, exponent 1)",
            "keys-newest": "500 records/s, the newest keys come most often (zipf, exponent 1)",
        },
        source="OpenMessaging Benchmark, keyDistributor; YCSB (Cooper and others, 2010): zipfian and latest",
    ),
    family(
        "sizes",
        "records whose sizes differ by a thousand: bytes and records per second are both judged",
        base=bases.STRESS,
        nightly={"sizes-mixed": of_sizes("values:100=70/1000=25/10000=4/100000=1")},
        full={
            "sizes-lognormal": of_sizes("lognormal:median=500,sigma=1.2,most=200000"),
            "sizes-uniform": of_sizes("uniform:from=100,to=2000"),
        },
        says={
            "sizes-mixed": "70 % of 100 B, 25 % of 1 kB, 4 % of 10 kB, 1 % of 100 kB",
            "sizes-lognormal": "lognormal sizes, median 500 B, sigma 1.2, at most 200 kB",
            "sizes-uniform": "100 to 2,000 B, each size as often",
        },
        source="Trogdor, GaussianThroughputGenerator and payload generators; OpenMessaging Benchmark, payload sizes",
    ),
    # The slowest machine tried took 1,100/s of such records as fast as it could.
    family(
        "shape",
        "a rate that rises and falls: p99 in the peak, the time until it is back, and what was owed at most",
        base=replace(bases.PACED, load=Load(kind="paced", rate=200, probes=True)),
        varies="load.shape",
        nightly={"spike-5x": "spike:base=200,peak=1000,seconds=10,period=30"},
        full={
            "wave-5x": "wave:base=200,peak=1000,period=60",
            "steps-4x": "steps:rates=200/400/800/200,seconds=10",
            "climb-5x": "ramp:from=200,to=1000,seconds=40",
            "day-48s": f"points:{DAY}",
        },
        says={
            "spike-5x": "200 records/s, for 10 s five times that",
            "wave-5x": "200 to 1,000 records/s and back along a cosine, in 60 s",
            "steps-4x": "200, 400, 800 and 200 records/s, 10 s each",
            "climb-5x": "200 to 1,000 records/s within 40 s",
            "day-48s": "a day's rate with a peak in the morning and one in the evening, an hour in 2 s",
        },
        source="Ksunami (phases low, up, high, down); Kates (spike)",
    ),
    joined(
        family(
            "rate-limit",
            "latency at a stated rate, with the settings that lose nothing: it breaks away near the knee",
            base=bases.DURABLE,
            varies="load.rate",
            nightly_1h={"rate-10k": 10_000},
            nightly={"rate-1k": 1_000, "rate-5k": 5_000},
            full={
                "rate-20k": 20_000,
                "rate-30k": 30_000,
                "rate-26k-12": {"load.rate": 26_000, "topic.partitions": 12},
                "rate-half-knee": "0.5 x knee",
                "rate-90-knee": "0.9 x knee",
            },
            says={
                "rate-half-knee": "half the knee that an earlier run of knee-durable found on this target",
                "rate-90-knee": "nine tenths of that knee",
            },
            source=R4,
        ),
        family(
            "rate-limit",
            "no limit",
            base=bases.UNLIMITED,
            nightly={"rate-unlimited": {}},
            says={"rate-unlimited": "as fast as the brokers take them, with a buffer of 32 MiB"},
        ),
    ),
    family(
        "request-timeout",
        "how long a record may take when more is offered than the brokers take: with more time, fewer time out",
        base=bases.OVERLOAD,
        full={
            f"timeout-{seconds}s": {
                "producer.delivery.timeout.ms": seconds * 1_000,
                "producer.request.timeout.ms": seconds * 1_000,
            }
            for seconds in (1, 3, 5, 10)
        },
        source=R4,
    ),
    family(
        "synchronous-send",
        "each record waits for the one before (one in the producer at a time): a fraction of the pipelined rate",
        base=bases.REPLICATED,
        varies="producer.queue.buffering.max.messages",
        nightly={"send-synchronous": 1},
        source=R4,
    ),
    # Brokers.
    family(
        "network-threads",
        "how many threads a broker reads and writes requests with",
        base=bases.WIDE,
        varies="broker.num.network.threads",
        nightly={"network-threads-3": {}, "network-threads-8": 8},
        says={"network-threads-3": "the brokers' own number (Kafka: 3); three producers over nine partitions"},
        source=R2,
    ),
    family(
        "io-threads",
        "how many threads a broker handles requests with: a mild rise",
        base=bases.WIDE,
        varies="broker.num.io.threads",
        full={"io-threads-12": 12},
        source=R2,
    ),
    family(
        "flush",
        "when a broker makes the disk write: every record costs the disk's own latency each time",
        base=bases.STRESS,
        full={
            "flush-10000": {"topic.flush.messages": 10_000, "topic.flush.ms": 1_000},
            "flush-every": {"topic.flush.messages": 1},
        },
        source=f"{R2}; {R4}",
    ),
    family(
        "segment",
        "how large a log file gets before the next: a roll is not felt",
        base=bases.STRESS,
        varies="topic.segment.bytes",
        full={"segment-16m": 16 * MIB},
        source=R2,
    ),
    # Nine partitions are three a broker: one for each folder.
    family(
        "log-dirs",
        "over how many log folders a broker spreads its partitions: no gain while they share one device",
        base=with_changes(bases.STRESS, [("topic.partitions", 9)]),
        varies="cluster.log-dirs",
        full={"log-dirs-2": 2, "log-dirs-3": 3},
        source=R2,
    ),
    family(
        "broker-count",
        "three brokers against one: more records per second where each has its own host",
        base=bases.STRESS,
        varies="cluster.brokers",
        full={"brokers-1": 1},
        source=R2,
    ),
    family(
        "security",
        "how clients are let in: TLS and SCRAM cost broker CPU for each record",
        base=bases.STRESS,
        varies="cluster.security",
        nightly_1h={"security-sasl-tls": "sasl-tls"},
        full={"security-tls": "tls"},
    ),
    # Consuming.
    family(
        "consumer-threads",
        "how many consumers one process runs: more records per second up to the partition count",
        base=bases.READING,
        varies="consumers.threads",
        smoke={"consume-1": 1},
        nightly={"consume-threads-3": 3},
        full={"consume-threads-2": 2, "consume-threads-6": 6},
        says={"consume-1": "one consumer reads what was written beforehand"},
        source=f"{R2}; {R3}; {R5}",
    ),
    family(
        "consumers",
        "how many consumer processes read, each its share of the partitions, or each all of them as a group of its own "
        "(every delivery counts as a record): more records per second",
        base=bases.READING,
        varies="consumers.processes",
        nightly={"consumers-3": 3, "groups-3": {"consumers.groups": 3}},
        full={"consumers-2": 2, "groups-2": {"consumers.groups": 2}},
        says={
            "groups-2": "two groups of one consumer, each reads everything: deliveries per second, added up",
            "groups-3": "three groups of one consumer, each reads everything: deliveries per second, added up",
        },
        source=f"{R2}; {R5}",
    ),
    family(
        "group-protocol",
        "who shares the partitions out, the group's leader or the brokers (KIP-848): the same rate once it is done",
        base=with_changes(bases.READING, [("consumers.membership", "group")]),
        varies="consumer.group.protocol",
        nightly={"protocol-classic": "classic", "protocol-consumer": "consumer"},
        source="KIP-848",
    ),
    family(
        "share-group",
        "a share group hands each record to any of its consumers, however many there are of three partitions",
        base=with_changes(bases.END_TO_END, [("consumers.membership", "share")]),
        varies="consumers.threads",
        nightly={"share-1": 1, "share-3": 3},
        full={"share-9": 9},
        source="KIP-932",
    ),
    family(
        "fetch-size",
        "how many bytes of a partition one answer may hold: small ones cost a request each",
        base=bases.READING,
        varies="consumer.max.partition.fetch.bytes",
        full={"fetch-64k": 64 * KIB, "fetch-8m": 8 * MIB},
    ),
    family(
        "read-partitions",
        "how many partitions one consumer reads",
        base=bases.READING,
        varies="topic.partitions",
        full={"read-partitions-1": 1, "read-partitions-6": 6},
        source=R3,
    ),
    # Kafka's own rule: the replica whose broker.rack is the consumer's client.rack; brokers here are az-1, az-2, az-3.
    family(
        "rack-read",
        "consumers read from the replica in their own zone instead of leaders elsewhere: little crosses zones",
        base=with_changes(
            bases.READING,
            [
                ("topic.replicas", 3),
                ("link", "cross-zone-but-broker-1"),
                ("broker.replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector"),
            ],
        ),
        full={"rack-leader": {}, "rack-follower": {"consumer.client.rack": "az-1"}},
        says={
            "rack-leader": "three leaders, two of them in other zones: each fetch there takes 2 ms more",
            "rack-follower": "client.rack=az-1: all of it from broker 1, which is in the consumer's zone",
        },
        source="KIP-392",
    ),
    family(
        "end-to-end",
        "how long a record takes from its intended send to its receipt",
        base=bases.END_TO_END,
        varies="load.rate",
        nightly_1h={"end-to-end-1k": 1_000},
        full={"end-to-end-half-knee": "0.5 x knee"},
        says={"end-to-end-half-knee": "half the knee that an earlier run's rate-ramp found on this target"},
        source=R4,
    ),
    family(
        "consumer-work",
        "how long consumers work over what they are given: how far they fall behind, and how soon that is worked off",
        base=bases.WORKING,
        full={
            "work-half": {"consumers.work-ms": 3},
            "work-lognormal": {"consumers.work-sigma": 1},
            "work-batches": {"consumers.work-ms": 40, "consumers.work-per": "batch"},
            "work-pauses": {
                "consumers.work-ms": 1_200,
                "consumers.work-per": "batch",
                "consumers.pauses": "true",
            },
            "work-commits": {"consumers.commit-records": 100},
            "work-too-much": {"consumers.work-ms": 8},
        },
        says={
            "work-half": "3 ms over each record: three members take twice as much as is sent",
            "work-lognormal": "3 ms on average, lognormal with sigma 1",
            "work-batches": "40 ms over each batch, however many records it has",
            "work-pauses": "1.2 s over each batch: partitions are paused meanwhile, and polled",
            "work-commits": "3 ms over each record, and a commit every 100",
            "work-too-much": "8 ms over each record: three members take 375/s of 500, and fall behind",
        },
    ),
    family(
        "produce-and-consume",
        "reading beside writing: about the rates of each alone, where there is CPU for both",
        base=bases.TOGETHER,
        nightly_1h={"together-1": {}},
        full={"together-3": {"producers.threads": 3, "consumers.threads": 3}},
        says={"together-1": "one producer, one consumer", "together-3": "three producers, three consumers"},
        source=f"{R2}; {R5}",
    ),
    family(
        "rate-ramp",
        "the highest rate that still meets the service level: p99 at most ten times the unloaded one, nothing lost",
        base=bases.RAMP,
        full={"knee": {}},
        says={"knee": "three replicas, acks=-1, one consumer: steps up to 100,000 records/s, then bisection"},
        source=R3,
    ),
    family(
        "rate-ramp-durable",
        "the same search with the settings that lose nothing, of which rates of rate-limit are shares",
        base=replace(bases.DURABLE, load=bases.RAMP.load),
        full={"knee-durable": {}},
        says={"knee-durable": "six partitions, two in sync at the least, a flush every second, no consumer"},
        source=f"{R3}; {R4}",
    ),
    family(
        "topics",
        "over how many topics the same records go: batches are smaller the more there are, so that a record costs more",
        base=bases.TOPICS,
        varies="topic.count",
        nightly={"topics-100": {"topic.count": 100, "topic.partitions": 1}},
        full={
            "topics-1": 1,
            "topics-10": 10,
            "topics-1-flat": {"topic.count": 1, "topic.partitions": 100},
            "topics-1000": {"topic.count": 1_000, "topic.partitions": 1, "topic.replicas": 1},
        },
        says={
            "topics-1": "one topic of three partitions",
            "topics-10": "ten topics of three partitions",
            "topics-100": "a hundred topics of one partition",
            "topics-1-flat": "one topic with as many partitions: what a hundred topics cost besides",
            "topics-1000": "a thousand topics of one partition, one replica",
        },
        source=f"{R6}; {R7}",
    ),
    family(
        "neighbours",
        "what a load costs that others put on the same brokers, and what a quota on it saves",
        base=bases.NEIGHBOURS,
        nightly={"noisy-neighbour": {}},
        full={"noisy-neighbour-quota": {"beside.quota-mib-per-s": QUOTA_MIB_PER_S}},
        says={
            "noisy-neighbour": "500 records/s, three replicas, beside up to 30,000 records/s of another client",
            "noisy-neighbour-quota": "the other client has a quota (producer_byte_rate) of 2 MiB/s a broker",
        },
        source="KIP-13; KIP-257",
    ),
    family(
        "crowd",
        "many connections that do little: all are made within a second, and every producer sends a record a second",
        base=bases.CROWD,
        full={
            "crowd-1000": {"crowd.connections": 1_000, "crowd.idle": 200, "load.rate": 1_000},
            "crowd-5000": {
                "crowd.connections": 5_000,
                "crowd.idle": 1_000,
                "load.rate": 5_000,
                "producers.processes": 2,
            },
        },
        says={
            "crowd-1000": "1,000 producers with a connection each, 200 idle consumers, from one process",
            "crowd-5000": "5,000 producers with a connection each, 1,000 idle consumers, from two processes",
        },
        source="Trogdor's ConnectionStress and SustainedConnection",
    ),
    ENDURANCE,
    BACKLOG,
    COLD,
    TIERED,
    FAILOVER,
    REBALANCE,
)
SCENARIOS = tuple(scenario for declared in FAMILIES for scenario in declared.scenarios)
