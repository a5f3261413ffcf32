"""Records beyond 1 MB: clients and topics take them, or the run is refused; librdkafka refused them, BROKEN."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.model import Consumers, Payload, settings
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.client.settings import AROUND_BYTES, made_room
from perfgate.systems.kafka.load.official import java_settings
from tests.harness.build import scenario

LARGE = replace(scenario(), record_bytes=2_000_000, consumers=Consumers(membership="group"))


def test_usual_records_change_nothing() -> None:
    assert made_room(scenario()) is not None
    assert made_room(scenario()) == scenario()
    nearly = replace(scenario(), record_bytes=998_000)
    assert made_room(nearly) == nearly


@given(size=st.integers(1_000_001, 100_000_000))
def test_every_limit_on_the_way_has_room(size: int) -> None:
    found = made_room(replace(LARGE, record_bytes=size))
    producer, topic = dict(found.producer), dict(found.topic.config)
    assert found.consumers is not None
    consumer = dict(found.consumers.config)
    assert int(producer["message.max.bytes"]) > size
    assert int(producer["queue.buffering.max.kbytes"]) * 1024 >= 4 * size
    assert int(topic.get("max.message.bytes", 1_048_588)) > size
    assert int(consumer["fetch.max.bytes"]) >= int(consumer["message.max.bytes"]) > size
    assert int(consumer["receive.message.max.bytes"]) >= int(consumer["fetch.max.bytes"]) + 512
    assert made_room(found) == found


def test_a_client_takes_those_settings() -> None:
    from confluent_kafka import Consumer, Producer

    found = made_room(replace(LARGE, record_bytes=90_000_000))
    assert found.consumers is not None
    Producer({**dict(found.producer), "log_level": 0})
    Consumer({**dict(found.consumers.config), "group.id": "x", "log_level": 0}).close()
    assert java_settings(found)["max.request.size"] == dict(found.producer)["message.max.bytes"]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (replace(LARGE, producer=settings({"message.max.bytes": 1_000_000})), "--set producer.message.max.bytes=2001"),
        (
            replace(LARGE, topic=replace(LARGE.topic, config=settings({"max.message.bytes": 5000}))),
            "topic.max.message.bytes = 5000 refuses them",
        ),
        (replace(LARGE, record_bytes=200_000_000), "brokers take requests of 104,857,600 bytes"),
        (
            replace(LARGE, topic=replace(LARGE.topic, config=settings({"max.message.bytes": "4MiB"}))),
            "topic.max.message.bytes = 4MiB must be a whole number of bytes",
        ),
        (
            replace(LARGE, cluster=replace(LARGE.cluster, config=settings({"socket.request.max.bytes": "0.2e9"}))),
            "broker.socket.request.max.bytes = 0.2e9 must be a whole number of bytes",
        ),
    ],
)
def test_what_would_refuse_them_is_told_before_anything_starts(row: object, words: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        made_room(row)  # type: ignore[arg-type]


def test_a_stated_limit_that_is_large_enough_stays() -> None:
    stated = replace(LARGE, producer=settings({"message.max.bytes": 50_000_000}))
    assert dict(made_room(stated).producer)["message.max.bytes"] == "50000000"


def test_lines_of_a_file_count_by_the_longest(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"short\n" + b"x" * 3_000_000 + b"\n")
    row = replace(scenario(), record_bytes=100, payload=Payload(kind="lines", path=str(path)))
    assert int(dict(made_room(row).producer)["message.max.bytes"]) >= 3_000_000 + AROUND_BYTES
