"""Base scenarios, which families vary. Each is a load in full; its name is never run.

The sources are the documents of docs/catalogue.md.
"""

from dataclasses import replace

from perfgate.model import KIB, Consumers, Crowd, Load, Part, Scenario, TopicSpec, settings, with_changes

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

# The stress test's producer: 1,000 B records, batches of 16 KiB, as fast as the brokers take them. The cap is above
# what brokers on two cores take (200,000/s), and bounds what a run may write.
STRESS = with_changes(PAPER, [("producer.batch.size", 16 * KIB), ("record.bytes", 1_000), ("load.rate", 300_000)])

# The wait of a producer shows in records that come one at a time, not where batches are full anyway.
SEPARATE = replace(STRESS, load=Load(kind="paced", rate=500))

# Three producers over nine partitions, for settings of the brokers that one client cannot use up.
WIDE = with_changes(STRESS, [("producers.threads", 3), ("topic.partitions", 9)])

TEXT = with_changes(STRESS, [("record.payload", "text:4")])

REPLICATED = with_changes(STRESS, [("topic.replicas", 3), ("producer.acks", -1), ("load.rate", 100_000)])

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

# Applications or devices with a connection each, of which each sends a small record a second: brokers have many
# connections, requests and purgatories and next to no bytes. No batch has more than one record.
CROWD = replace(
    PACED,
    name="crowd",
    summary="producers with a connection each that send a record a second, and consumers that wait",
    topic=TopicSpec(partitions=12, replication_factor=3),
    producer=settings({"acks": -1}),
    record_bytes=200,
    load=Load(kind="paced", rate=1_000, probes=True),
    crowd=Crowd(connections=1_000, idle=200),
)

# The high-availability settings: no acknowledged record may be lost with one broker down.
DURABLE = with_changes(
    replace(PACED, load=Load(kind="paced", rate=500, probes=True)),
    [
        ("topic.partitions", 6),
        ("topic.min.insync.replicas", 2),
        ("topic.flush.ms", 1_000),
        ("producer.retries", 3),
        ("producer.request.timeout.ms", 5_000),
    ],
)

# As fast as the brokers take them, from the buffer that Kafka's own producer has by default.
UNLIMITED = with_changes(
    replace(DURABLE, load=Load(kind="capped", rate=100_000)), [("producer.queue.buffering.max.kbytes", 32 * KIB)]
)

# Each commit waits until all that lies in the buffer is acknowledged. One of 32 MiB would take longer than the shortest
# transaction; this one is twice what may be in flight (5 requests of a 16 KiB batch to each of three brokers).
TRANSACTED = with_changes(
    REPLICATED, [("producer.enable.idempotence", "true"), ("producer.queue.buffering.max.kbytes", 512)]
)

# More than the cluster takes, so that records that wait too long time out. The published study's client (0.10.2)
# had request.timeout.ms alone, which bounded the wait in its buffer and that for an answer; now the former is
# delivery.timeout.ms (KIP-91; librdkafka's message.timeout.ms, from acceptance to the end) and the family sets both.
# - A record is sent once (no retries), and a request without an answer ends no connection with others on it
#   (socket.max.fails): the log holds one copy of it at most, so that the accounting still has bounds.
# - Batches of one record: what the cluster takes of them is little (published: 3,981/s with acks=-1; 2 cores: 1,500/s),
#   so that twice as much and more is no load for one client, and what waits for 10 s fits into a small buffer.
# - The buffer holds all that is offered in 12 s (10 s, and up to 2 s until librdkafka, which looks once a second at the
#   latest, ends them), so that records time out rather than being refused; its bounds keep the generator below 200 MiB.
OVERLOAD_RATE = 8_000
OVERLOAD = with_changes(
    replace(DURABLE, load=Load(kind="paced", rate=OVERLOAD_RATE, times_out=True)),
    [
        ("producer.batch.size", 1 * KIB),
        ("producer.retries", 0),
        ("producer.socket.max.fails", 0),
        ("producer.queue.buffering.max.messages", 12 * OVERLOAD_RATE),
        ("producer.queue.buffering.max.kbytes", 12 * OVERLOAD_RATE),
    ],
)

# The rate of all topics together, whatever their number, is that of the paced load: brokers are half idle at it.
TOPICS = replace(
    PACED,
    name="topics",
    summary="records on a fixed schedule over several topics, three replicas, acks=-1",
)

# A neighbour that writes as much as brokers of two cores take beside the paced load, in large batches; its cap keeps it
# from taking all.
NOISY_PER_S = 30_000
NEIGHBOURS = replace(
    PACED,
    name="neighbours",
    summary="a paced load beside another one, which writes much more",
    beside=(
        Part(
            name="noisy",
            topic=TopicSpec(partitions=3, replication_factor=1),
            producer=settings({"acks": 1, "batch.size": 16 * KIB, "linger.ms": 0}),
            record_bytes=1_000,
            load=Load(kind="capped", rate=NOISY_PER_S),
        ),
    ),
)

READING = Scenario(
    name="reading",
    summary="a topic that was written beforehand, read over and over as fast as it can be",
    families=(),
    factor=(),
    topic=TopicSpec(partitions=3, replication_factor=1),
    producer=settings({"acks": 1, "batch.size": 64 * KIB}),
    record_bytes=1_000,
    load=Load(kind="backlog", records=300_000),
    consumers=Consumers(membership="assigned"),
)

END_TO_END = replace(
    PACED,
    name="end-to-end",
    summary="records sent on a fixed schedule and read as they arrive, three replicas, acks=-1",
    load=Load(kind="paced", rate=1_000),
    consumers=Consumers(membership="assigned"),
)

# Three members of a group, each of which takes 3 ms over a record: half of what they can take is sent. At
# 1,000/s brokers and readers left two cores too little for the generator to be in time.
WORKING = with_changes(
    END_TO_END,
    [("load.rate", 500), ("consumers.membership", "group"), ("consumers.threads", 3), ("consumers.work-ms", 3)],
)

RAMP = replace(
    END_TO_END,
    name="ramp",
    summary="records sent on schedules of rising rates and read as they arrive, three replicas, acks=-1",
    load=Load(kind="ramp", rate=100_000),
)

TOGETHER = replace(
    STRESS,
    name="together",
    summary="a topic that is read while it is written, as fast as the brokers take it",
    consumers=Consumers(membership="assigned"),
)
