"""Numbers of clients' settings, which librdkafka reads in part."""

import pytest

from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.client.settings import check_settings, checked
from tests.scenarios.catalogue import SCENARIOS


@pytest.mark.parametrize(
    ("path", "value", "plain"),
    [
        ("producer.batch.size", "16k", "16384"),
        ("producer.batch.size", "64 KiB", "65536"),
        ("producer.batch.size", "1e6", "1000000"),
        ("producer.batch.size", "010000", "10000"),
        ("producer.batch.size", "0x10", "16"),
        ("producer.batch.size", "16_384", "16384"),
        ("producer.linger.ms", "5s", "5000"),
        ("producer.queue.buffering.max.kbytes", "32MB", "32768"),
        ("producer.batch.num.messages", "10k", "10000"),
        ("consumer.fetch.min.bytes", "1k", "1024"),
    ],
)
def test_a_number_that_librdkafka_reads_in_part_is_refused_with_the_plain_one(
    path: str, value: str, plain: str
) -> None:
    """`batch.size=16k` was 16 bytes."""
    with pytest.raises(ConfigurationError) as caught:
        checked(path, value)
    setting = path.partition(".")[2]
    assert f"--set {path}={value}: {setting} must be a plain number, as in {plain};" in str(caught.value)


@pytest.mark.parametrize("value", ["1.5", 2**32 + 1])
def test_a_part_and_more_than_librdkafka_keeps_are_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"batch.size must be a whole number from -2147483647 to 2147483647"):
        checked("producer.batch.size", value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("producer.acks", -1),
        ("producer.acks", "all"),
        ("producer.linger.ms", 0.5),
        ("producer.batch.size", 64e3),
        ("producer.compression.level", "-1"),
        ("producer.compression.type", "lz4"),
        ("producer.enable.idempotence", True),
        ("producer.enable.idempotence", "1"),
        ("producer.client.id", "1e6"),
        ("producer.client.rack", "2k"),
        ("producer.broker.version.fallback", "0.9.0"),
        ("consumer.partition.assignment.strategy", "range,roundrobin"),
        ("consumer.group.instance.id", "7a"),
    ],
)
def test_texts_and_plain_numbers_are_taken(path: str, value: object) -> None:
    assert checked(path, value)[0] == path


def test_the_catalogues_settings_are_what_set_takes() -> None:
    for row in SCENARIOS:
        check_settings(row)
