"""Settings of Java clients of Kafka by librdkafka's names, as workloads of other tools state them."""

from dataclasses import replace

import pytest

from perfgate.fixtures.system_settings import check_settings
from perfgate.model import Consumers, settings
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.load.from_java import consumer_of, producer_of
from perfgate.systems.kafka.load.official import JAVA_PRODUCER_SETTINGS
from tests.harness.build import scenario

DEFAULTS = {
    "acks": "-1",
    "batch.size": "16384",
    "enable.idempotence": "true",
    "linger.ms": "0",
    "max.in.flight.requests.per.connection": "5",
}


@pytest.mark.parametrize(
    ("stated", "found"),
    [
        ({}, {}),
        ({"acks": "1"}, {"acks": "1", "enable.idempotence": "false"}),
        ({"acks": "all", "enable.idempotence": "false"}, {"enable.idempotence": "false"}),
        (
            {"max.in.flight.requests.per.connection": "10"},
            {"max.in.flight.requests.per.connection": "10", "enable.idempotence": "false"},
        ),
        ({"retries": "0"}, {"retries": "0", "enable.idempotence": "false"}),
        ({"buffer.memory": "65536"}, {"queue.buffering.max.kbytes": "64"}),
        ({"max.request.size": "2000000"}, {"message.max.bytes": "2000000"}),
        ({"send.buffer.bytes": "131072"}, {"socket.send.buffer.bytes": "131072"}),
        (
            {"compression.type": "zstd", "compression.zstd.level": "3", "compression.gzip.level": "9"},
            {"compression.type": "zstd", "compression.level": "3"},
        ),
        ({"request.timeout.ms": " 120000"}, {"request.timeout.ms": "120000", "socket.timeout.ms": "120000"}),
        ({"request.timeout.ms": "600000"}, {"request.timeout.ms": "300000", "socket.timeout.ms": "300000"}),
    ],
)
def test_producers(stated: dict[str, str], found: dict[str, str]) -> None:
    assert producer_of(stated) == ({**DEFAULTS, **found}, {})


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("bootstrap.servers", "a:1", "the run's target says"),
        ("sasl.jaas.config", "secret", "the run's target says"),
        ("security.protocol", "SASL_SSL", "the run's target says"),
        ("max.block.ms", "5", "librdkafka has no such setting"),
        ("default.api.timeout.ms", "5", "librdkafka has no such setting"),
        ("transactional.id", "x", "librdkafka has no such setting"),
        ("socket.connection.setup.timeout.max.ms", "600000", "librdkafka has one such time"),
    ],
)
def test_what_no_producer_of_the_suite_takes(name: str, value: str, why: str) -> None:
    found, untaken = producer_of({name: value})
    assert found == DEFAULTS
    assert untaken[name].startswith(why)
    assert value not in untaken[name] or len(value) < 3


def test_consumers() -> None:
    found, untaken = consumer_of(
        {
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "fetch.max.wait.ms": "50",
            "max.partition.fetch.bytes": "10485760",
            "max.poll.records": "5",
            "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
            "linger.ms": "1",
            "request.timeout.ms": "5000",
        }
    )
    assert found == {
        "fetch.wait.max.ms": "50",
        "max.partition.fetch.bytes": "10485760",
        "partition.assignment.strategy": "cooperative-sticky",
    } | {"socket.timeout.ms": "5000"}
    assert untaken.keys() == {"auto.offset.reset", "enable.auto.commit", "max.poll.records", "linger.ms"}
    assert consumer_of({"enable.auto.commit": "true"}) == ({}, {})


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"linger": "1"}, "linger is no setting of Kafka's clients"),
        ({"buffer.memory": "32m"}, "buffer.memory = '32m' must be a whole number"),
        ({"acks": "1", "enable.idempotence": "true"}, "enable.idempotence = true needs acks=all"),
    ],
)
def test_what_is_refused(stated: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        producer_of(stated)


def test_librdkafka_takes_every_setting_that_is_carried_over() -> None:
    values = {
        "compression.type": "lz4",
        "compression.lz4.level": "3",
        "acks": "all",
        "client.id": "x",
        "max.in.flight.requests.per.connection": "5",
    }
    stated = {name: values.get(name, "1000") for name in JAVA_PRODUCER_SETTINGS}
    producer, _ = producer_of(
        {**stated, "batch.size": "9000", "max.request.size": "9000", "delivery.timeout.ms": "9000"}
    )
    consumer, _ = consumer_of({"fetch.min.bytes": "1", "receive.buffer.bytes": "65536", "session.timeout.ms": "6000"})
    consumers = Consumers(membership="group", config=settings(consumer))
    check_settings(replace(scenario(), producer=settings(producer), consumers=consumers))
