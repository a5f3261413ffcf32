"""Kafka's clients over several topics: partitions are numbered in one row, whatever their handles are."""

import numpy as np
import pytest

from perfgate.load.clients import BY_KEY, LoadClientError
from perfgate.systems.kafka.load import clib
from perfgate.systems.kafka.load import client as client_module
from perfgate.systems.kafka.load.sending import Producer

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}


def producer(topics: int, each: int) -> Producer:
    made = Producer(NOWHERE, [f"t-{number}" for number in range(topics)])
    made.number(topics * each)
    return made


@pytest.mark.parametrize(("topics", "each"), [(1, 3), (2, 1), (7, 4)])
def test_what_is_read_of_a_topic_has_its_number_over_all(topics: int, each: int) -> None:
    made = producer(topics, each)
    rows = np.zeros(topics * each, clib.MESSAGE)
    order = np.random.default_rng(1).permutation(len(rows))
    rows["topic"] = np.array(made.topic_handles, np.uint64)[order // each]
    rows["partition"] = order % each
    pointers = (rows.ctypes.data + np.arange(len(rows)) * rows.itemsize).astype(np.uint64)
    assert made.read(pointers)["partition"].tolist() == order.tolist()
    assert [made.place_of(number) for number in order.tolist()] == [divmod(number, each) for number in order.tolist()]


def test_records_go_to_the_topic_of_their_partition_and_those_with_keys_to_each_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = producer(3, 2)
    sent: list[tuple[int, int]] = []

    def produce_batch(handle: int, partition: int, _flags: int, _rows: int, count: int) -> int:
        sent.append((made.topic_handles.index(handle), partition))
        return count

    monkeypatch.setattr(clib.lib, "rd_kafka_produce_batch", produce_batch)
    rows = np.zeros(2, clib.MESSAGE)
    for partition in (0, 5, 2, BY_KEY, BY_KEY, BY_KEY, BY_KEY):
        assert made.send(rows, partition) == 2
    assert sent == [(0, 0), (2, 1), (1, 0), (0, -1), (1, -1), (2, -1), (0, -1)]


def test_topics_that_no_broker_tells_of_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "METADATA_TIMEOUT_MS", 200)
    with pytest.raises(LoadClientError, match="no metadata of t-0 and 2 more"):
        producer(3, 2).connect(6)
