"""Specifications of Trogdor's tasks: what each key becomes, what is told, what is refused."""

from typing import Any

import pytest

from perfgate.model import Consumers, Keys, Load, Payload
from perfgate.model.errors import ConfigurationError
from perfgate.workloads import trogdor
from perfgate.workloads.imported import Workload
from tests.harness.workloads.words import WORDS

PLAIN: dict[str, Any] = {
    "class": trogdor.PRODUCE,
    "durationMs": 60_000,
    "producerNode": "node0",
    "bootstrapServers": "localhost:9092",
    "targetMessagesPerSec": 100,
    "maxMessages": 500,
    "activeTopics": {"foo[1-3]": {"numPartitions": 4, "replicationFactor": 1}},
}
GAUSSIAN = {"type": "gaussianTimestampRandom", "messageSizeAverage": 300, "messageSizeDeviation": 100}
ROUND_TRIP = {**PLAIN, "class": trogdor.ROUND_TRIP, "clientNode": "node0", "producerNode": None}


def made(plain: dict[str, Any] = PLAIN, **stated: Any) -> Workload:
    document = {key: value for key, value in {**plain, **stated}.items() if value is not None}
    return trogdor.workload_of(document, "spec", "FILE", WORDS)


def test_what_is_sent() -> None:
    workload = made(producerConf={"linger.ms": "5"})
    scenario = workload.scenario
    assert scenario.name == "trogdor-spec"
    assert (scenario.topic.count, scenario.topic.partitions, scenario.topic.replication_factor) == (3, 4, 1)
    assert scenario.load == Load(kind="paced", rate=100, probes=True)
    assert (scenario.record_bytes, scenario.keys, scenario.consumers) == (512, Keys(), None)
    assert dict(scenario.producer) == {"linger.ms": "5"}
    assert workload.window_s == 5, "500 messages at 100/s, of 60 s"
    told = " ".join(workload.notes)
    for key in (
        "producerNode, bootstrapServers: ",
        "maxMessages: 500",
        "keyGenerator: ",
        "skipFlush: ",
    ):
        assert key in told


def test_what_is_sent_and_read() -> None:
    scenario = made(ROUND_TRIP, commonClientConf={"client.rack": "a"}, consumerConf={"fetch.min.bytes": "2"}).scenario
    assert scenario.record_bytes == 32
    assert dict(scenario.producer) == {**trogdor.ROUND_TRIP_PRODUCER, "client.rack": "a"}
    read = {**trogdor.ROUND_TRIP_CONSUMER, "client.rack": "a", "fetch.min.bytes": "2"}
    assert scenario.consumers == Consumers(membership="assigned", config=tuple(sorted(read.items())))


@pytest.mark.parametrize(
    ("generator", "codec", "record_bytes", "payload"),
    [
        ({"type": "constant", "size": 100}, "none", 100, Payload()),
        ({"type": "constant", "size": 100, "components": [3]}, "none", 100, Payload()),  # a key of another type
        ({"type": "constant", "size": 100}, "lz4", 100, Payload(kind="text", ratio=20)),
        ({"type": "sequential", "size": 64}, "none", 64, Payload()),
        ({"type": "uniformRandom", "size": 100, "padding": 75, "seed": 1}, "lz4", 100, Payload(kind="text", ratio=4)),
        ({"type": "timestampRandom", "size": 100}, "lz4", 100, Payload()),
        ({"type": "gaussianTimestampRandom", "messageSizeAverage": 300}, "none", 300, Payload()),
        (
            {
                "type": "randomComponent",
                "components": [
                    {"percent": 75, "component": {"type": "constant", "size": 100}},
                    {"percent": 25, "component": {"type": "uniformRandom", "size": 300}},
                ],
            },
            "lz4",
            150,
            Payload(),
        ),
        (
            {
                "type": "randomComponent",
                "components": [
                    {"percent": 50, "component": {"type": "constant", "size": 100}},
                    {"percent": 50, "component": {"type": "uniformRandom", "size": 100, "padding": 50}},
                ],
            },
            "lz4",
            100,
            Payload(kind="text", ratio=4),  # records of one size, whatever fills them
        ),
    ],
)
def test_values(generator: dict[str, Any], codec: str, record_bytes: int, payload: Payload) -> None:
    scenario = made(valueGenerator=generator, producerConf={"compression.type": codec}).scenario
    assert (scenario.record_bytes, scenario.payload) == (record_bytes, payload)


@pytest.mark.parametrize(
    ("generator", "open_ms"),
    [
        ({"type": "uniform", "messagesPerTransaction": 50}, 500),
        ({"type": "interval", "transactionIntervalMs": 200}, 200),
        ({"type": "uniform", "messagesPerTransaction": 10_000}, 30_000),
    ],
)
def test_transactions(generator: dict[str, Any], open_ms: float) -> None:
    """The names that Trogdor has for an interval were refused."""
    workload = made(transactionGenerator=generator)
    assert workload.scenario.transaction_ms == open_ms
    assert dict(workload.scenario.producer)["enable.idempotence"] == "true"
    assert f"transactionGenerator: each transaction is open for {open_ms:g} ms" in workload.notes


@pytest.mark.parametrize(
    "generator", [GAUSSIAN, {"type": "randomComponent", "components": [{"percent": 100, "component": GAUSSIAN}]}]
)
def test_a_distribution_of_sizes_that_is_not_kept_is_noted(generator: dict[str, Any]) -> None:
    """Records of one size took its place without a word."""
    workload = made(valueGenerator=generator)
    assert (workload.scenario.record_bytes, workload.scenario.sizes) == (300, None)
    (note,) = (note for note in workload.notes if note.startswith("valueGenerator: "))
    assert note == "valueGenerator: messageSizeDeviation 100 of 300 B: all these records have the mean size here"
    assert not any("messageSizeDeviation" in note for note in made().notes)


@pytest.mark.parametrize(
    ("stated", "keys"),
    [
        ({"useConfiguredPartitioner": True}, "random"),
        ({"useConfiguredPartitioner": True, "keyGenerator": {"type": "null"}}, "none"),
    ],
)
def test_keys(stated: dict[str, Any], keys: str) -> None:
    assert made(**stated).scenario.keys.kind == keys


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"class": f"{trogdor.ROOM}ConsumeBenchSpec"}, "ConsumeBenchSpec' is not one that is read; legal: org.apache"),
        ({"class": None}, "class = None is not one that is read"),
        ({"maxMessage": 5}, "FILE: has unknown key 'maxMessage'; legal: "),
        ({"targetMessagesPerSec": 0}, "FILE: targetMessagesPerSec = 0 must be a whole number from 1"),
        ({"activeTopics": {}}, "FILE: activeTopics names no topic"),
        (
            {"activeTopics": {"a": {"numPartitions": 1}, "b": {"numPartitions": 2}}},
            "activeTopics differ among themselves",
        ),
        ({"valueGenerator": {"type": "null"}}, "valueGenerator {'type': 'null'} makes no values of a known size"),
        ({"valueGenerator": {"type": "constant"}}, "makes no values of a known size; legal: uniformRandom"),
        ({"valueGenerator": {"type": "randomComponent"}}, "valueGenerator: components = None must be tables"),
        ({"valueGenerator": {"type": "randomComponent", "components": []}}, "components = [] must be tables of"),
        (
            {"valueGenerator": {"type": "randomComponent", "components": [{"percent": "all", "component": GAUSSIAN}]}},
            "must be tables of percent and component",
        ),
        (
            {"valueGenerator": {"type": "uniformRandom", "size": 10, "padding": 11}},
            "valueGenerator: padding = 11 must be bytes of its size, 10",
        ),
        ({"valueGenerator": {"type": "uniformRandom", "size": 10, "padding": "1"}}, "padding = '1' must be bytes"),
        ({"transactionGenerator": {"type": "other"}}, "transactionGenerator {'type': 'other'}; legal: uniform"),
        (
            {"transactionGenerator": {"type": "uniform", "messagesPerTransaction": 0}},
            "legal: uniform with messagesPerTransaction, interval with transactionIntervalMs, whole numbers from 1",
        ),
        (
            {"valueGenerator": {"type": "randomComponent", "components": [{"percent": 50, "component": GAUSSIAN}]}},
            "FILE: valueGenerator: percents of 50 in all: they must add up to 100",
        ),
        ({"durationMs": 10**12}, "FILE: durationMs = 1000000000000 must be a whole number from 0 to 604,800,000"),
    ],
)
def test_what_is_refused(stated: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        made(**stated)
    assert words in str(error.value)


def test_components_of_a_generator_that_has_none_are_nothing() -> None:
    """They ended the run in a traceback."""
    assert made(valueGenerator={"type": "constant", "size": 100, "components": 5}).scenario.record_bytes == 100


def test_topics_without_figures_have_trogdors_own() -> None:
    topic = made(activeTopics={"foo": {}}).scenario.topic
    assert (topic.partitions, topic.replication_factor) == (1, trogdor.DEFAULT_REPLICAS)
    placed = made(activeTopics={"foo": {"partitionAssignments": {"0": [0, 1], "1": [1, 2]}}})
    assert (placed.scenario.topic.partitions, placed.scenario.topic.replication_factor) == (2, 2)
    assert any(note.startswith("activeTopics.partitionAssignments: ") for note in placed.notes)
