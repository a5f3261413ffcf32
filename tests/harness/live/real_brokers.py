"""Runs on real brokers by file: their state folder, topics and records."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import NewTopic

from perfgate.host.waiting import poll_until
from perfgate.model import SAME_ZONE
from tests.harness.run_gate import ROOT
from tests.harness.secured import Secured

SHORT = ("-k", "paced-slow", "--rounds", 2, "--window", 1, "--broker-warmup", 0)
SETTING = "log.cleaner.backoff.ms"


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the manifests of these runs apart from those of others."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a run and kill it in the end, if it is still there."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def topics(brokers: Secured) -> list[str]:
    """Return the topics that are not the brokers' own; one that stands still is not the broker that is asked again."""

    def listed() -> list[str]:
        return sorted(name for name in brokers.admin.list_topics(timeout=20).topics if not name.startswith("__"))

    return poll_until("the brokers told no topics", listed, within_s=240, every_s=1, not_yet=(KafkaException,))


def produce(brokers: Secured, topic: str, values: Sequence[bytes]) -> None:
    reply = brokers.admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])[topic]
    reply.result(timeout=60)
    producer = Producer({"bootstrap.servers": brokers.cluster.bootstrap(SAME_ZONE)})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def content(brokers: Secured, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": brokers.cluster.bootstrap(SAME_ZONE),
            "group.id": "reader",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([topic])
        messages = consumer.consume(count, timeout=60)
        return [bytes(message.value() or b"") for message in messages]
    finally:
        consumer.close()
