"""Numbers of clients' settings, which librdkafka reads in part."""

from dataclasses import replace

import pytest

from perfgate.model import Consumers
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.client.settings import check_settings, checked
from tests.harness.build import scenario
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


@pytest.mark.parametrize("scope", ["producer", "consumer"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("security.protocol", "plaintext"),
        ("sasl.mechanisms", "PLAIN"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.password", "s3cret-pw"),
        ("ssl.key.password", "s3cret-pw"),
        ("ssl.ca.location", "/dev/null"),
        ("ssl.endpoint.identification.algorithm", "none"),
        ("enable.ssl.certificate.verification", False),
        ("enable.sasl.oauthbearer.unsecure.jwt", True),
        ("https.ca.pem", "x"),
        ("bootstrap.servers", "elsewhere:9092"),
        ("metadata.broker.list", "elsewhere:9092"),
    ],
)
def test_how_clients_are_secured_is_the_targets_alone(scope: str, name: str, value: object) -> None:
    """The target file's checks were undone by them: its password went over the wire in clear text, others to run.json.

    By --set, in a change file and in a scenario of one's own.
    """
    row, stated = scenario(), ((name, str(value)),)
    consumers = Consumers(membership="assigned", config=stated)
    own = replace(row, producer=stated) if scope == "producer" else replace(row, consumers=consumers)
    for told, state in (
        (f"--set {scope}.{name}", lambda: checked(f"{scope}.{name}", value)),
        (f"[{scope}] {name}", lambda: checked(f"{scope}.{name}", value, told=f"[{scope}] {name} = {value!r}")),
        (f"batch-1k: {scope}.{name}", lambda: check_settings(own)),
    ):
        with pytest.raises(ConfigurationError) as caught:
            state()
        assert str(caught.value).startswith(f"{told}: it belongs in the target file's [client]")
        assert "s3cret" not in str(caught.value)


def test_the_catalogues_settings_are_what_set_takes() -> None:
    for row in SCENARIOS:
        check_settings(row)
