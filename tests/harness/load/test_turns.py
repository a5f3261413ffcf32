"""Turns of two loads: their schedules, and that what falls due just before one closes goes out."""

import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.load.producing import chunk_of
from perfgate.load.schedule import LARGEST_GAP_S, SIDES, Window, now, pace, timetable
from perfgate.model import KIB, Scenario, with_settings
from perfgate.model.load import Pace
from perfgate.systems.kafka.load.librdkafka import KafkaInstructions
from tests.harness.build import scenario
from tests.harness.build.transactions import TRANSACTED, brokers, request, sender


def paced(sides: list[Scenario], rate: float) -> Pace:
    """The pace of these sides with Kafka's clients."""
    return pace(sides, [KafkaInstructions().batching(side) for side in sides], rate)


PACE = paced([scenario(), scenario()], 10_000)
GAP_S = 2.0
"""A machine that does not let a thread run for longer loses a whole turn, which is no matter of the last record."""
TURNS = [[at, at + 0.1, at + 0.4] for at in (0.0, 0.4 + GAP_S, 0.8 + 2 * GAP_S)]


@given(st.lists(st.sampled_from(("ABBA", "BAAB")), min_size=1, max_size=6), st.floats(0, 1e6))
def test_turns_never_overlap_and_both_sides_get_the_same(quads: list[str], begin: float) -> None:
    turns = timetable(" ".join(quads), begin, PACE)
    for earlier, later in pairwise(turns):
        assert earlier.closes <= later.starts + 1e-9
        assert later.opens - later.starts >= 0
    measured = [turn for turn in turns if turn.closes > turn.opens]
    assert "".join(turn.side for turn in measured) == "".join(quads)
    assert [sum(turn.side == side for turn in measured) for side in SIDES] == [2 * len(quads)] * 2
    assert [turn.side for turn in turns if turn.closes == turn.opens] == list(quads[0][:2])


@given(st.lists(st.sampled_from(("ABBA", "BAAB")), min_size=1, max_size=6))
def test_the_mirrored_order_is_the_same_with_the_sides_exchanged(quads: list[str]) -> None:
    """Else one side would have more turns that follow its own, which are faster."""
    order = " ".join(quads)
    mirrored = timetable(order.translate(str.maketrans("AB", "BA")), 0.0, PACE)
    exchanged = [replace(turn, side="AB"["BA".index(turn.side)]) for turn in timetable(order, 0.0, PACE)]
    assert list(mirrored) == exchanged


@given(st.floats(1, 1e6), st.sampled_from((1, 16, 256)), st.integers(0, 200))
def test_the_gap_lets_a_buffer_drain(rate: float, batch_kib: int, linger_ms: int) -> None:
    row = scenario()
    other = replace(row, producer=with_settings(row.producer, {"batch.size": batch_kib * KIB, "linger.ms": linger_ms}))
    at = paced([row, other], rate)
    assert at.gap_s <= LARGEST_GAP_S
    assert at.gap_s == LARGEST_GAP_S or at.gap_s >= 2 * linger_ms / 1e3
    drained = at.buffer_kib * KIB / (rate * row.record_bytes)
    assert at.gap_s == LARGEST_GAP_S or drained <= at.gap_s
    assert at.buffer_kib >= min(32 * KIB, 2 * 3 * batch_kib * 6)


@given(st.integers(16, 1 << 20), st.integers(40, 4096), st.integers(1, 100))
def test_a_buffer_never_holds_one_partition_only(buffer_kib: int, record_bytes: int, partitions: int) -> None:
    """With chunks as large as the buffer, one partition at a time was served: 40 % of the rate over a slow link."""
    chunk = chunk_of(buffer_kib * KIB, record_bytes, partitions)
    assert 1 <= chunk <= 256
    assert chunk == 1 or chunk * partitions * record_bytes <= buffer_kib * KIB / 8


@given(st.floats(100, 1e6), st.integers(1, 16), st.integers(1, 16))
def test_the_buffers_of_all_clients_drain_in_the_gap(rate: float, few: int, many: int) -> None:
    """Each client has a buffer: eight of them held what one was to hold, and every turn was late."""
    sides = [replace(scenario(), threads=threads) for threads in (few, many)]
    at, clients = paced(sides, rate), max(few, many)
    drained = clients * at.buffer_kib * KIB / (rate * sides[0].record_bytes)
    assert at.gap_s >= min(LARGEST_GAP_S, drained)


class WokenLate:
    """A client that is woken `late_s` after what it waits for."""

    def __init__(self, client: Any, late_s: float) -> None:
        self._client, self._late_s = client, late_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def wait(self, seconds: float) -> None:
        self._client.wait(seconds)
        time.sleep(self._late_s)


@pytest.mark.parametrize("late_s", [0.0, 0.012])
def test_no_record_of_a_turn_is_given_up_because_its_thread_was_woken_late(late_s: float) -> None:
    """300 records/s, one every 3.3 ms."""

    def late(client: Any) -> Any:
        return WokenLate(client, late_s)

    window = Window()
    with brokers(1) as addresses:
        told = request(replace(TRANSACTED, transaction_ms=0), addresses)
        one = sender({**told, "turns": TURNS, "gap_s": GAP_S}, 0, window, through=late)
        one.connect()
        one.run(now())
    found = one.result()
    assert found["unsent"] == 0
    assert found["acked"] == found["attempted"] == pytest.approx(3 * 0.4 * 300, abs=3)
