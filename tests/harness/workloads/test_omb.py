"""Workload and driver files of OpenMessaging Benchmark: what each key becomes, what is told, what is refused."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.model import Consumers, FaultScenario, Keys, Load, Payload
from perfgate.model.errors import ConfigurationError
from perfgate.workloads import omb
from perfgate.workloads.imported import MOST_MEMBERS, MOST_PRODUCERS, Workload
from perfgate.workloads.omb_drivers import driver_of, plain_kafka
from tests.harness.workloads.words import WORDS

KAFKA = "io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver"
PULSAR = "io.openmessaging.benchmark.driver.pulsar.PulsarBenchmarkDriver"
PLAIN: dict[str, Any] = {
    "name": "1 topic / 3 partitions / 1kb",
    "topics": 1,
    "partitionsPerTopic": 3,
    "messageSize": 1024,
    "subscriptionsPerTopic": 1,
    "consumerPerSubscription": 1,
    "producersPerTopic": 1,
    "producerRate": 500,
    "consumerBacklogSizeGB": 0,
    "testDurationMinutes": 15,
}
HALF_RANDOM = {"useRandomizedPayloads": True, "randomBytesRatio": 0.5, "randomizedPayloadPoolSize": 1000}
BACKLOG = {"consumerBacklogSizeGB": 1, "producerRate": 1 << 20}
FACTS: dict[str, dict[str, Any]] = {
    "simple-workload": {"partitionsPerTopic": 10, "payloadFile": "payload/payload-1Kb.data", "producerRate": 10_000},
    "1-topic-1-partition-1kb-with-key": {"partitionsPerTopic": 1, "keyDistributor": "KEY_ROUND_ROBIN"},
    "1-topic-2-partitions-20b": {"partitionsPerTopic": 2, "messageSize": 20},
    "1-topic-100-partitions-1kb-4p-4c-500k-backlog": {
        **HALF_RANDOM,
        "partitionsPerTopic": 100,
        "producersPerTopic": 4,
        "consumerPerSubscription": 4,
        "producerRate": 500_000,
        "consumerBacklogSizeGB": 512,
    },
    "250k-1-topic-500-partitions-100p-100c-1k": {
        **HALF_RANDOM,
        "partitionsPerTopic": 500,
        "producersPerTopic": 100,
        "consumerPerSubscription": 100,
        "producerRate": 250_000,
    },
    "10-topic-3-partitions-100b-1p-2c-1k": {
        **HALF_RANDOM,
        "topics": 10,
        "messageSize": 100,
        "consumerPerSubscription": 2,
        "producerRate": 1_000,
    },
    "13-topics-24-partitions-128b": {
        **HALF_RANDOM,
        "topics": 13,
        "partitionsPerTopic": 24,
        "keyDistributor": "NO_KEY",
        "producersPerTopic": 6,
        "consumerPerSubscription": 48,
    },
    "1m-topic-1kb-4p-4c-500k": {
        **HALF_RANDOM,
        "topics": 1_000_000,
        "partitionsPerTopic": 1,
        "producersPerTopic": 4,
        "consumerPerSubscription": 4,
        "producerRate": 500_000,
    },
    "max-rate-10-topics-1-partition-100b": {"topics": 10, "messageSize": 100, "producerRate": 10_000_000},
    "200k-2-selectors-10-topics-3-partitions-1k": {
        **HALF_RANDOM,
        "topics": 10,
        "messageRateReceivedForSubscription": 50,
        "subscriptionsPerTopic": 2,
        "producerRate": 200_000,
    },
    "2500k-10-topics-10-partitions-50b-increment": {
        **HALF_RANDOM,
        "topics": 10,
        "messageSize": 50,
        "producerRate": 4_000_000,
        "producerStartRate": 2_500_000,
        "producerIncrementRate": 100_000,
        "producerIncrementSeconds": 30,
    },
    "1m-10-topics-3-partitions-100b-32gb-catchup": {
        **HALF_RANDOM,
        "topics": 10,
        "messageSize": 100,
        "producerRate": 200_000,
        "acceptableBacklog": 50_000,
        "producerPauseDuringDrain": 0,
        "consumerBacklogSizeGB": 32,
    },
}
"""Facts of files of the benchmark's repository, of its forks too: one for each key and kind that they have."""


def made(durations: bool = False, driver: dict[str, Any] | None = None, **stated: Any) -> Workload:
    """Return the workload of PLAIN with these keys; one that is None is left out."""
    document = {key: value for key, value in {**PLAIN, **stated}.items() if value is not None}
    of = driver_of(driver, "driver", WORDS) if driver else plain_kafka(WORDS)
    return omb.workload_of(document, "file", "FILE", of, WORDS, durations=durations)


def test_a_fixed_rate() -> None:
    workload = made()
    scenario = workload.scenario
    assert (scenario.name, scenario.families) == ("omb-file", ("omb-file",))
    assert (scenario.topic.partitions, scenario.topic.replication_factor) == (3, 3)
    assert (scenario.record_bytes, scenario.threads, scenario.payload, scenario.keys) == (1024, 1, Payload(), Keys())
    assert scenario.load == Load(kind="paced", rate=500, probes=True)
    assert scenario.consumers == Consumers(membership="group")
    assert (workload.title, workload.window_s, workload.warmup_s, workload.notes) == (PLAIN["name"], 900, 60, ())


def test_a_rate_of_0_is_the_knee() -> None:
    workload = made(producerRate=0)
    assert workload.scenario.load == Load(kind="ramp", rate=omb.MOST_RATE)
    assert any(note.startswith("producerRate: 0: the knee") for note in workload.notes)


@pytest.mark.parametrize(
    ("durations", "gib", "rate", "held_s", "told"),
    [
        (False, 1, 1 << 20, 15, "stay away for 15 s, 15 GiB"),  # it is built in 1 s
        (False, 32, 1 << 20, 32, "stay away for 32 s, 32 GiB"),
        (False, 512, 1 << 20, 60, "stay away for 60 s, 60 GiB (--workload-durations: all of it)"),
        (True, 512, 1 << 20, 512, "stay away for 512 s, 5.1e+02 GiB"),
    ],
)
def test_a_backlog_is_built_while_consumers_are_away(
    durations: bool, gib: int, rate: int, held_s: float, told: str
) -> None:
    workload = made(durations, producerRate=rate, consumerBacklogSizeGB=gib)
    assert isinstance(workload.scenario, FaultScenario)
    assert (workload.scenario.fault.kind, workload.scenario.fault.hold_s) == ("consumers-away", held_s)
    assert workload.scenario.load.rate == rate
    assert any(told in note for note in workload.notes)


def test_each_subscription_has_a_backlog() -> None:
    scenario = made(producerRate=1 << 20, consumerBacklogSizeGB=50, subscriptionsPerTopic=2).scenario
    assert isinstance(scenario, FaultScenario)
    assert scenario.fault.hold_s == 25


@pytest.mark.parametrize("stem", FACTS)
def test_files_of_the_repository_parse(stem: str) -> None:
    document = {**PLAIN, **FACTS[stem]}
    workload = omb.workload_of(document, stem, stem, plain_kafka(WORDS), WORDS, durations=False)
    scenario = workload.scenario
    assert scenario.name == f"omb-{stem}"
    assert scenario.topic.partitions == document["partitionsPerTopic"]
    assert scenario.topic.count == min(document["topics"], 1_000)
    assert scenario.load.rate == document["producerRate"]
    assert scenario.threads <= MOST_PRODUCERS
    assert scenario.consumers
    assert scenario.consumers.processes <= min(MOST_MEMBERS, scenario.topic.partitions)
    assert scenario.consumers.threads == 1, "a member that waits in one thread keeps the next one from joining"
    told = " ".join(workload.notes)
    for key in omb.FORKS.keys() & document.keys():
        assert f"{key}: " in told
    assert ("topics: " in told) is (document["topics"] > 1_000)
    assert ("producersPerTopic: " in told) is (scenario.threads != document["topics"] * document["producersPerTopic"])


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"producerRates": 5}, "FILE: has unknown key 'producerRates'; legal: name, topics, partitionsPerTopic"),
        ({"topics": None}, "FILE: lacks the key 'topics'"),
        ({"topics": 0}, "FILE: topics = 0 must be a whole number from 1"),
        ({"producerRate": -1}, "FILE: producerRate = -1 must be a whole number from 0"),
        ({"producerRate": "many"}, "FILE: producerRate = 'many' must be a whole number from 0"),
        (
            {"messageSize": None},
            "FILE: messageSize: records of 0 bytes: one needs 10 at least, for its sender and number",
        ),
        (
            {"keyDistributor": "ZIPF"},
            "keyDistributor = 'ZIPF' is not legal; legal: NO_KEY, KEY_ROUND_ROBIN, RANDOM_NANO",
        ),
        ({"randomBytesRatio": 1.5}, "randomBytesRatio = 1.5 must be a share from 0 to 1"),
        ({"consumerBacklogSizeGB": 1, "producerRate": 0}, "consumerBacklogSizeGB needs a producerRate and consumers"),
        (
            {"consumerBacklogSizeGB": 1, "subscriptionsPerTopic": 0},
            "consumerBacklogSizeGB needs a producerRate and cons",
        ),
        ({"messageSizeDistribution": {"1-2-x": 1}}, "messageSizeDistribution '1-2-x' is no range of sizes"),
        ({"messageSizeDistribution": {"9-2": 1}}, "messageSizeDistribution '9-2' is no range of sizes"),
        ({"messageSizeDistribution": {"1MB-9MB": 1}}, "messageSizeDistribution = 'values:5242880=1': their mean is"),
        ({"messageSizeDistribution": {"1-2": 0}}, "messageSizeDistribution: its weights must add up to more than 0"),
    ],
)
def test_what_is_refused(stated: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        made(**stated)
    assert words in str(error.value)


def test_sizes_of_a_distribution_are_the_middles_of_its_ranges() -> None:
    workload = made(messageSize=None, messageSizeDistribution={"0-256": 3, "1KB-3KB": 1})
    sizes = workload.scenario.sizes
    assert sizes is not None
    assert sizes.values == ((128, 3), (2048, 1))
    assert workload.scenario.record_bytes == sizes.mean == pytest.approx((3 * 128 + 2048) / 4, rel=0.02)
    assert workload.notes == ()
    small = made(messageSize=None, messageSizeDistribution={"0-8": 1, "100-100": 1})
    assert small.scenario.sizes
    assert small.scenario.sizes.values == ((32, 1), (100, 1))
    assert small.notes == ("messageSizeDistribution: records of less than 32 bytes have as many",)
    driver = {"driverClass": KAFKA, "producerConfig": "compression.type=lz4"}
    packed = made(driver=driver, messageSizeDistribution={"9-99": 1})
    assert packed.scenario.payload == Payload()
    assert packed.notes == (
        "messageSizeDistribution: records of several sizes are random bytes, which no codec makes smaller",
    )


@pytest.mark.parametrize(
    ("stated", "settings", "payload"),
    [
        (HALF_RANDOM, "", Payload()),
        (HALF_RANDOM, "compression.type=lz4", Payload(kind="text", ratio=2)),
        ({**HALF_RANDOM, "randomBytesRatio": 1.0}, "compression.type=lz4", Payload()),
        ({**HALF_RANDOM, "randomBytesRatio": 0.0}, "compression.type=lz4", Payload(kind="text", ratio=20)),
        ({"payloadFile": "one.data"}, "compression.type=zstd", Payload(kind="text", ratio=20)),
        ({"payloadFile": "one.data"}, "compression.type=none", Payload()),
    ],
)
def test_records_get_as_much_smaller_as_the_files_do(stated: dict[str, Any], settings: str, payload: Payload) -> None:
    workload = made(driver={"driverClass": KAFKA, "producerConfig": settings}, **stated)
    assert workload.scenario.payload == payload
    of = "payloadFile: " if "payloadFile" in stated else "randomizedPayloadPoolSize: "
    assert any(note.startswith(of) for note in workload.notes)


def test_clients_and_topics_of_a_driver_for_kafka() -> None:
    driver = {
        "name": "Kafka three",
        "driverClass": KAFKA,
        "replicationFactor": 2,
        "reset": True,
        "topicConfig": "min.insync.replicas=2\nflush.ms=0",
        "commonConfig": "common.one=5\nuntaken.both=1\nuntaken.of-producers=1",
        "producerConfig": "linger.ms=1\nuntaken.sends=1",
        "consumerConfig": "fetch.min.bytes=9",
    }
    workload = made(driver=driver)
    scenario = workload.scenario
    assert scenario.topic.replication_factor == 2
    assert dict(scenario.topic.config) == {"min.insync.replicas": "2", "flush.ms": "0"}
    assert dict(scenario.producer) == {"common.one": "5", "linger.ms": "1"}
    assert scenario.consumers
    assert dict(scenario.consumers.config) == {"common.one": "5", "fetch.min.bytes": "9"}
    assert workload.driver == "Kafka three"
    assert "reset: the topics of others are never deleted" in workload.notes
    assert "untaken.both, untaken.of-producers, untaken.sends: not taken" in workload.notes


def test_topics_of_pulsar_are_one() -> None:
    workload = made(driver={"driverClass": PULSAR}, topics=5)
    assert (workload.scenario.topic.count, workload.scenario.topic.partitions) == (1, 15)
    assert "topics: 5: one topic has 15 partitions in all" in workload.notes


def test_a_driver_for_pulsar() -> None:
    driver = {
        "driverClass": PULSAR,
        "client": {
            "serviceUrl": "pulsar://localhost:6650",
            "ioThreads": 8,
            "clientMemoryLimitMB": 16,
            "tlsTrustCertsFilePath": None,
            "persistence": {"ensembleSize": 4, "writeQuorum": 3, "ackQuorum": 2, "deduplicationEnabled": True},
        },
        "producer": {"batchingMaxPublishDelayMs": 2, "blockIfQueueFull": False, "pendingQueueSize": 7},
        "consumer": {"subscriptionType": "Key_Shared", "subscriptionMode": "Durable"},
    }
    workload = made(driver=driver)
    scenario = workload.scenario
    assert (scenario.cluster.system, scenario.cluster.bookies, scenario.topic.quorums) == ("pulsar", 3, "4/3/2")
    assert dict(scenario.topic.config) == {"ensemble": "4", "deduplicationEnabled": "true"}
    assert dict(scenario.producer) == {
        "batchingEnabled": "true",
        "batchingMaxPublishDelayMicros": "2000",
        "batchingMaxBytes": "1048576",
        "maxPendingMessages": "7",
        "maxPendingBytes": str(16 << 20),
    }
    assert scenario.consumers == Consumers(membership="key-shared", config=(("receiverQueueSize", "10000"),))
    told = " ".join(workload.notes)
    for key in ("client.serviceUrl", "client.ioThreads", "producer.blockIfQueueFull", "consumer.subscriptionMode"):
        assert f"{key}: " in told
    assert "tlsTrustCertsFilePath" not in told, "it states nothing"


@pytest.mark.parametrize("no", [False, "false", "False"])
def test_a_switch_of_pulsar_that_is_off_is_off_in_quotes_too(no: object) -> None:
    """In quotes it was a text that is not empty: records were batched and deduplicated, and nothing said so."""
    off = {"producer": {"batchingEnabled": no, "blockIfQueueFull": no}}
    workload = made(driver={"driverClass": PULSAR, "client": {"persistence": {"deduplicationEnabled": no}}, **off})
    assert dict(workload.scenario.producer)["batchingEnabled"] == "false"
    assert "deduplicationEnabled" not in dict(workload.scenario.topic.config)
    assert any(note.startswith("producer.blockIfQueueFull: false: ") for note in workload.notes)


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        ({}, "driverClass = 'None' is not one that is read; legal: io.openmessaging"),
        (
            {"driverClass": "io.openmessaging.benchmark.driver.jms.JMSBenchmarkDriver"},
            "is not one that is read; legal:",
        ),
        ({"driverClass": KAFKA, "producerconfig": ""}, "unknown key 'producerconfig'; legal: name, driverClass, rep"),
        ({"driverClass": KAFKA, "replicationFactor": 0}, "replicationFactor = 0 must be a whole number from 1"),
        (
            {"driverClass": KAFKA, "producerConfig": {"acks": "all"}},
            "producerConfig must be lines of a Java properties",
        ),
        (
            {"driverClass": PULSAR, "client": {"secret": "token:x"}},
            "unknown key 'client.secret'; legal: client.topicType",
        ),
        ({"driverClass": PULSAR, "clients": {}}, "unknown key 'clients'"),
        (
            {"driverClass": PULSAR, "producer": {"batchingEnabled": "of"}},
            "batchingEnabled = 'of' must be true or false",
        ),
        (
            {"driverClass": PULSAR, "client": {"topicType": "non-persistent"}},
            "nothing accounts for records that are not",
        ),
        ({"driverClass": PULSAR, "client": {"persistence": {"quorum": 2}}}, "unknown key 'client.persistence.quorum'"),
        ({"driverClass": PULSAR, "client": {"persistence": 3}}, "client.persistence must have keys and values"),
        ({"driverClass": PULSAR, "producer": ["batching"]}, "producer must have keys and values"),
        (
            {"driverClass": PULSAR, "client": {"persistence": {"writeQuorum": "two"}}},
            "client.persistence.writeQuorum = 'two' must be a whole number from 1",
        ),
        (
            {"driverClass": PULSAR, "producer": {"batchingMaxPublishDelayMs": None}},
            "producer.batchingMaxPublishDelayMs = None must be a whole number from 0",
        ),
        (
            {"driverClass": PULSAR, "client": {"clientMemoryLimitMB": "64 MB"}},
            "client.clientMemoryLimitMB = '64 MB' must be a whole number",
        ),
        ({"driverClass": PULSAR, "consumer": {"subscriptionType": ["Shared"]}}, "subscriptionType = ['Shared']; legal"),
        (
            {"driverClass": PULSAR, "consumer": {"subscriptionType": "Any"}},
            "subscriptionType = 'Any'; legal: Exclusive",
        ),
    ],
)
def test_a_driver_that_is_refused(driver: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        driver_of(driver, "DRIVER", WORDS)
    assert str(error.value).startswith("DRIVER: ")
    assert words in str(error.value)
    assert "token" not in str(error.value)


KEYS = [one.name for one in fields(omb._File)]


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "topics": st.integers(1, 50),
            "keyDistributor": st.sampled_from(["NO_KEY", "KEY_ROUND_ROBIN", "RANDOM_NANO"]),
            "producersPerTopic": st.integers(1, 40),
            "consumerPerSubscription": st.integers(1, 40),
            "backlogDrainRatio": st.floats(0, 1),
            "payloadFile": st.text(min_size=1),
            "messageSizeDistribution": st.dictionaries(st.just("10-20"), st.integers(1, 9)),
            "consumerBacklogSizeGB": st.integers(0, 3),
        },
    )
)
def test_nothing_is_dropped_silently(stated: dict[str, Any]) -> None:
    """Each key that is stated is carried over as it is, or has a line."""
    workload = made(**stated)
    told = {note.partition(":")[0] for note in workload.notes}
    scenario = workload.scenario
    clients = {
        "producersPerTopic": scenario.threads,
        "consumerPerSubscription": scenario.consumers.processes if scenario.consumers else 0,
    }
    for key, value in stated.items():
        assert key in KEYS
        if key in clients:
            assert (key in told) is (clients[key] != value * stated.get("topics", 1))
        elif key == "messageSizeDistribution":
            assert (key in told) is bool(value)
            assert bool(scenario.sizes) is bool(value)
        elif key == "topics":
            assert key not in told
            assert scenario.topic.count == value
        elif key == "backlogDrainRatio":
            assert (key in told) is (value < 1 and bool(stated.get("consumerBacklogSizeGB")))
        else:
            assert (key in told) is (value not in ("NO_KEY", 0, {}))


def test_a_file_is_the_same_scenario_each_time() -> None:
    assert made() == made()
    assert replace(made().scenario, record_bytes=7) != made().scenario
