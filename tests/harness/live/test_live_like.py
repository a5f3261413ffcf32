"""--like on a secured cluster: what it sees, what it asks for, and that it leaves nothing but its file."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from perfgate.model import SAME_ZONE
from tests.harness.run_gate import Finished, gate
from tests.harness.secured import USER, Secured, secured

TOPIC, FAMILY, PRIVATE = "shop.Orders_1", "like-shop-orders-1", "4111-1111-1111-1111"
PER_S = 200


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker with the topic, 3,000 records in it, and one without any."""
    with secured(tmp_path_factory.mktemp("secured")) as made:
        config = {"compression.type": "lz4", "segment.bytes": "16777216", "retention.ms": "3600000"}
        for name in (TOPIC, "empty"):
            topic = NewTopic(name, num_partitions=3, replication_factor=1, config=config)
            made.admin.create_topics([topic])[name].result(timeout=60)
        producer = producer_of(made)
        for number in range(3_000):
            send(producer, number)
        assert producer.flush(60) == 0
        yield made


def producer_of(brokers: Secured) -> Producer:
    return Producer({"bootstrap.servers": brokers.cluster.bootstrap(SAME_ZONE)})


def send(producer: Producer, number: int) -> None:
    size = 400 if number % 10 == 0 else 200
    producer.produce(TOPIC, f"order {number}, paid with {PRIVATE}".ljust(size), key=f"customer-{number % 40}")


@contextmanager
def in_use(brokers: Secured) -> Iterator[None]:
    """Keep writing PER_S records/s to the topic."""
    ended, producer = threading.Event(), producer_of(brokers)

    def write() -> None:
        number = 0
        while not ended.wait(0.1):
            for _ in range(PER_S // 10):
                send(producer, number := number + 1)
            producer.poll(0)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        producer.flush(60)


def allow(brokers: Secured, topic: str, *actions: AclOperation) -> None:
    bindings = [
        AclBinding(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{USER}", "*", action, AclPermissionType.ALLOW
        )
        for action in actions
    ]
    for reply in brokers.admin.create_acls(bindings).values():
        reply.result(timeout=60)


def like(brokers: Secured, folder: Path, topic: str) -> Finished:
    target = brokers.target_file(folder)
    return gate(folder / "results", f"--target={target}", f"--like={topic}", f"--write-family={folder / 'mine'}")


def refused(done: Finished, words: str, folder: Path) -> None:
    assert done.code == 2, done.output
    assert words in done.output
    assert "Traceback" not in done.output
    assert not list(folder.glob("mine/*.py"))
    assert not list(done.results.glob("2*"))


def test_a_topic_is_looked_at_as_far_as_the_brokers_let_one(brokers: Secured, tmp_path: Path) -> None:
    refused(like(brokers, tmp_path, TOPIC), f"does not let {USER} read what topic {TOPIC} is like", tmp_path)
    allow(brokers, TOPIC, AclOperation.DESCRIBE)
    refused(like(brokers, tmp_path, TOPIC), "--operation DescribeConfigs", tmp_path)
    allow(brokers, TOPIC, AclOperation.DESCRIBE_CONFIGS)
    refused(like(brokers, tmp_path, TOPIC), f"--operation Read --topic {TOPIC}", tmp_path)
    allow(brokers, "empty", AclOperation.READ, AclOperation.DESCRIBE_CONFIGS)
    refused(like(brokers, tmp_path, "empty"), "topic empty holds no records: there is nothing to be like", tmp_path)
    allow(brokers, "nowhere", AclOperation.READ, AclOperation.DESCRIBE_CONFIGS)
    refused(like(brokers, tmp_path, "nowhere"), "has no topic nowhere", tmp_path)

    allow(brokers, TOPIC, AclOperation.READ)
    topics_before = set(brokers.admin.list_topics(timeout=60).topics) - {"__consumer_offsets"}
    with in_use(brokers):
        done = like(brokers, tmp_path, TOPIC)
    assert done.code == 0, done.output
    path = tmp_path / "mine" / f"{FAMILY}.py"
    text = path.read_text()
    for words in (
        '("topic.partitions", 3)',
        '("topic.replicas", 1)',
        '("topic.compression.type", "lz4")',
        '("topic.segment.bytes", 16777216)',
        '("record.keys", 40)',
        '("record.payload", "text:',
        "a sample of 2,000 records",
    ):
        assert words in text, text
    assert re.search(r'\("record.bytes", (2[12]\d)\),  # mean of the sample: \1 B; median 200 B, p99 400 B', text), text
    assert "retention" not in text
    for private in (PRIVATE, "customer", "order "):
        assert private not in text + done.output
    (rate,) = (line for line in text.splitlines() if line.startswith("RATE = "))
    assert float(rate.split()[2]) == pytest.approx(PER_S, rel=0.25)

    assert set(brokers.admin.list_topics(timeout=60).topics) - {"__consumer_offsets"} == topics_before
    assert not brokers.admin.list_consumer_groups().result(timeout=60).valid, "no group was joined, nothing committed"
    listed = gate(tmp_path / "list", "--list-scenarios", f"--scenarios={path.parent}", f"--family={FAMILY}")
    assert (listed.code, f"  {FAMILY} " in listed.output) == (0, True), listed.output

    again = like(brokers, tmp_path, TOPIC)
    assert (again.code, "is not written over" in again.output) == (2, True), again.output
    assert path.read_text() == text


@pytest.mark.parametrize(("topic", "compression"), [("plain", "none"), ("packed", "zstd")])
def test_whether_producers_compress_is_seen_by_the_bytes_that_come(
    brokers: Secured, tmp_path: Path, topic: str, compression: str
) -> None:
    made = NewTopic(topic, num_partitions=3, replication_factor=1)
    brokers.admin.create_topics([made])[topic].result(timeout=60)
    allow(brokers, topic, AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    settings = {"compression.type": compression, "linger.ms": 50}
    producer = Producer({"bootstrap.servers": brokers.cluster.bootstrap(SAME_ZONE), **settings})
    for number in range(3_000):
        producer.produce(topic, f"order {number} of a customer who orders ".ljust(200))
    assert producer.flush(60) == 0
    done = like(brokers, tmp_path, topic)
    assert done.code == 0, done.output
    text = (tmp_path / "mine" / f"like-{topic}.py").read_text()
    assert ('("producer.compression.type", "lz4"),  # ASSUMED' in text) == (compression != "none"), text


def test_a_slip_in_the_options_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    alone = gate(tmp_path, "--like=orders")
    assert (alone.code, "--like makes a family for --scenarios: it needs" in alone.output) == (2, True)
    ours = gate(tmp_path, "--like=orders", f"--write-family={tmp_path}")
    assert (ours.code, "it needs --target FILE.toml" in ours.output) == (2, True)
