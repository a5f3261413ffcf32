"""Kafka's clients over several topics: partitions are numbered in one row, whatever their handles are."""

import numpy as np
import pytest

from perfgate.load.clients import BY_KEY, LoadClientError, Moments, Rows
from perfgate.load.schedule import now
from perfgate.systems.kafka.load import clib
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


def test_records_go_to_the_topic_of_their_partition_and_those_with_keys_to_each_in_turn() -> None:
    """No broker takes them: they are reported as they were handed over."""
    made, came = producer(3, 2), dict[int, tuple[int, int]]()

    def hear(rows: Rows, _heard: Moments) -> None:
        for row in rows:  # a partition that is not known yet is -1, counted from its topic's first one
            topic = made.topic_handles.index(int(row["topic"]))
            came[int(row["private"])] = topic, int(row["partition"]) - 2 * topic

    for number, partition in enumerate((0, 5, 2, BY_KEY, BY_KEY, BY_KEY, BY_KEY)):
        rows = np.zeros(2, clib.MESSAGE)
        rows["private"] = 2 * number, 2 * number + 1
        assert made.send(rows, partition) == 2
    made.withdraw()
    until = now() + 10
    while len(came) < 14 and now() < until:
        made.take(hear, 0.1)
    where = [(0, 0), (2, 1), (1, 0), (0, -1), (1, -1), (2, -1), (0, -1)]
    assert came == {2 * number + one: place for number, place in enumerate(where) for one in (0, 1)}


def test_topics_that_no_broker_tells_of_are_named() -> None:
    with pytest.raises(LoadClientError, match="no metadata of t-0 and 2 more"):
        producer(3, 2).connect(6, timeout_ms=200)
