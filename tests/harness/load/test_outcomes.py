"""Outcomes of a producer's records: their times, which window each counts in, and what is withdrawn."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from perfgate.load import producing
from perfgate.load.history import OUTCOME, SEND, outcomes_path, read_journal, sends_path
from perfgate.load.outcomes import Outcomes
from perfgate.load.schedule import Window
from perfgate.model.histogram import encode, figures_of, latency_metrics, lowest_of
from perfgate.systems.kafka.load.clib import ERR_PURGE_QUEUE, MESSAGE
from perfgate.systems.kafka.load.clib import TIMED_OUT as TIMED_OUT_CODES

UNDER_WAY = 1_000


@pytest.mark.parametrize("partitions", [1, 3, 8, 100])
def test_a_partition_that_stands_still_keeps_its_times(partitions: int) -> None:
    """All that may be under way waits in one of three partitions: the ring came round, and its p99 was too low."""
    spec = {"topics": ["t"], "partitions": partitions, "paced": True}
    outcomes = Outcomes(spec, 0, Window(), Mock(), UNDER_WAY)
    numbers = np.arange(partitions * UNDER_WAY, dtype=np.uint64)
    outcomes.note_due(numbers, numbers.astype(np.float64))
    waiting = numbers[::partitions]  # the others of each round have had their outcome
    assert (outcomes._due[waiting & outcomes._mask] == waiting).all()


def delays_ms(due: list[float], moment: float, *held: tuple[float, float, float]) -> Any:
    """Return how late records due then and handed over at `moment` are, after nothing could be meanwhile.

    The least first, in ms, as exactly as a histogram keeps them.
    """
    window, spec = Window(), {"topics": ["t"], "partitions": 1, "paced": True}
    window.set(0.0, 10.0)
    outcomes = Outcomes(spec, 0, window, Mock(), UNDER_WAY, clock=lambda: moment)
    numbers = np.arange(len(due), dtype=np.uint64)
    outcomes.note_due(numbers, np.array(due))
    messages = np.zeros(len(due), MESSAGE)
    messages["private"] = numbers
    for one in held:
        outcomes.held(*one)
    outcomes.handed_over(messages, moment)
    counts = outcomes.recorders()["schedule_delay"].counts()
    late_us = np.repeat(lowest_of(np.arange(len(counts))), counts)
    return pytest.approx((late_us / 1e3).tolist(), abs=0.3)


def test_what_nothing_could_be_handed_over_for_is_no_delay_and_the_rest_is() -> None:
    """Standing still until 1.2 s, a generator filled its own buffer for 20 ms: that excuses 20 ms, not all of it."""
    assert delays_ms([1.0, 1.15, 1.21, 1.3], 1.3, (1.2, 1.22, 1.0)) == [0.0, 80.0, 130.0, 280.0]


def test_a_buffer_that_fills_again_while_it_catches_up_is_full_all_the_time() -> None:
    brokers_stood_still = (1.0, 1.5, 1.0), (1.51, 1.6, 1.2)
    assert delays_ms([1.1, 1.4], 1.6, *brokers_stood_still) == [0.0, 0.0]
    apart = (1.0, 1.1, 1.0), (1.5, 1.6, 1.49)
    assert delays_ms([1.2, 1.55], 1.6, *apart) == [0.0, 300.0]


class Counted:
    """Stands in for a client: counts what fails."""

    PURGED, TIMED_OUT = ERR_PURGE_QUEUE, TIMED_OUT_CODES

    def __init__(self) -> None:
        self.failed: Counter[str] = Counter()

    def count_failure(self, code: int, records: int) -> None:
        self.failed[str(code)] += records


PURGED, TIMED_OUT, NOT_ENOUGH = -152, -192, 19


class Sent:
    """A producer's records in a window from 10 to 20 s: each is made, handed over and heard of as a test says."""

    def __init__(self, load: str, **spec: Any) -> None:
        self.window, self.client, self.moment = Window(), Counted(), 0.0
        self.window.set(10.0, 20.0)
        client: Any = self.client
        whole = {"topics": ["t"], "partitions": 2, "paced": load == "paced", **spec}
        self.outcomes = Outcomes(whole, 0, self.window, client, UNDER_WAY, clock=lambda: self.moment)
        self._made = 0

    def hand_over(self, at: float, due: Sequence[float]) -> np.ndarray:
        numbers = np.arange(self._made, self._made + len(due), dtype=np.uint64)
        self._made += len(due)
        messages = np.zeros(len(due), MESSAGE)
        messages["private"], messages["partition"], messages["len"] = numbers, numbers % 2, 100
        messages["offset"] = numbers
        self.outcomes.note_due(numbers, np.array(due))
        self.moment = at
        self.outcomes.hand_over(messages, 0, at)
        self.outcomes.handed_over(messages, at)
        return messages

    def hear(self, at: float, messages: np.ndarray, *errors: int) -> None:
        if errors:
            messages["err"] = errors
        self.outcomes.hear(messages, at)

    def told(self, *names: str) -> tuple[int, ...]:
        found = self.outcomes.counts()
        return tuple(found[name] for name in names)

    def p50_ms(self, name: str) -> float:
        found = latency_metrics([encode(self.outcomes.recorders()[name].histogram())])
        return found.get("latency_ms.p50", 0.0)


def test_a_record_is_acked_failed_withdrawn_or_unresolved_and_never_two_of_them() -> None:
    """What is withdrawn from the buffer never left: counted as a failed send it was one of the brokers."""
    one = Sent("capped")
    messages = one.hand_over(12.0, [12.0] * 8)
    one.hear(12.5, messages[:6].copy(), 0, PURGED, TIMED_OUT, PURGED, NOT_ENOUGH, 0)
    assert one.told("attempted", "acked", "withdrawn", "unresolved") == (8, 2, 2, 2)
    assert one.client.failed == {str(TIMED_OUT): 1, str(NOT_ENOUGH): 1}
    one.hear(12.6, messages[6:].copy(), PURGED, 0)
    assert one.told("attempted", "acked", "withdrawn", "unresolved") == (8, 3, 3, 0)
    assert one.outcomes.counts()["acked_by_partition"] == [1, 2]


@pytest.mark.parametrize(
    ("handed_over", "heard", "attempted", "acked"),
    [
        (9.9, 9.999, 0, 0),
        (9.999, 10.0, 0, 1),
        (10.0, 19.999, 1, 1),
        (19.999, 20.0, 1, 0),
        (20.0, 20.1, 0, 0),
    ],
)
def test_a_capped_record_counts_when_it_is_heard_of(
    handed_over: float, heard: float, attempted: int, acked: int
) -> None:
    one = Sent("capped")
    one.hear(heard, one.hand_over(handed_over, [0.0]))
    assert one.told("attempted", "acked") == (1, 1)
    assert one.told("attempted_in_window", "acked_in_window") == (attempted, acked)
    assert one.told("acked_bytes_in_window") == (100 * acked,)
    assert one.outcomes.recorders()["latency"].histogram().get_total_count() == acked
    if acked:
        assert one.p50_ms("latency") == pytest.approx(1e3 * (heard - handed_over), rel=0.02)


@pytest.mark.parametrize(("due", "counts"), [(9.999, 0), (10.0, 1), (15.0, 1), (19.999, 1), (20.0, 0)])
def test_a_paced_record_counts_when_it_was_due_and_waits_from_then(due: float, counts: int) -> None:
    one = Sent("paced")
    one.hear(due + 0.5, one.hand_over(due + 0.1, [due]))
    assert one.told("due_in_window") == (counts,)
    recorders = one.outcomes.recorders()
    assert {name: found.histogram().get_total_count() for name, found in recorders.items()} == dict.fromkeys(
        ("latency", "send_latency", "schedule_delay"), counts
    )
    if counts:
        found = [one.p50_ms(name) for name in ("latency", "send_latency", "schedule_delay")]
        assert found == pytest.approx([500.0, 400.0, 100.0], rel=0.02)


def test_of_a_paced_load_what_timed_out_is_told_of_what_was_due() -> None:
    one = Sent("paced")
    messages = one.hand_over(12.0, [9.0, 12.0, 12.0, 12.0, 21.0])
    one.hear(13.0, messages, TIMED_OUT, TIMED_OUT, NOT_ENOUGH, 0, TIMED_OUT)
    assert one.told("due_in_window", "timed_out_in_window") == (3, 1)
    one.hear(13.0, one.hand_over(12.0, [12.0, 12.0]), 7, PURGED)
    assert one.told("due_in_window", "timed_out_in_window") == (5, 2)
    assert one.told("attempted", "acked", "withdrawn", "unresolved") == (7, 1, 1, 0)


def test_what_was_due_in_an_earlier_turn_counts_when_its_outcome_comes_in_a_later_one() -> None:
    one = Sent("paced")
    messages = one.hand_over(12.0, [12.0, 19.0, 25.0, 32.0])
    one.hear(12.1, messages[:1].copy())
    one.outcomes.next_turn()
    one.window.set(30.0, 40.0)
    one.hear(29.0, messages[1:3].copy())
    assert one.told("acked", "due_in_window", "acked_in_window") == (3, 2, 1)
    one.hear(33.0, messages[3:].copy())
    assert one.told("acked", "due_in_window", "acked_in_window") == (4, 3, 2)
    found = one.outcomes.recorders()["latency"].histogram()
    assert found.get_total_count() == 3
    assert found.get_max_value() == pytest.approx(10e6, rel=0.02), "due at 19 s, heard of at 29 s"


def test_of_a_capped_load_what_comes_between_two_turns_counts_in_neither() -> None:
    one = Sent("capped")
    messages = one.hand_over(19.5, [0.0, 0.0])
    one.outcomes.next_turn()
    one.window.set(30.0, 40.0)
    one.hear(25.0, messages[:1].copy())
    assert one.told("acked", "acked_in_window") == (1, 0)
    one.hear(30.0, messages[1:].copy())
    assert one.told("acked", "acked_in_window") == (2, 1)


def test_what_a_producer_writes_down_is_what_it_handed_over_and_heard(tmp_path: Path) -> None:
    one = Sent("paced", history=str(tmp_path))
    one.hear(12.5, one.hand_over(12.0, [12.0, 12.0, 12.0])[1:].copy(), 0, TIMED_OUT)
    one.outcomes.close()
    sends = read_journal(sends_path(tmp_path, 0), SEND)
    assert [row.tolist() for row in sends] == [(12.0, 0, 3, 0)]
    heard = read_journal(outcomes_path(tmp_path, 0), OUTCOME)
    assert [row.tolist() for row in heard] == [(12.5, 1, 1, 1, 0), (12.5, 2, 2, 0, TIMED_OUT)]


@pytest.mark.parametrize(
    ("waiting", "acked", "withdrawn"), [(0, 0, False), (1, 0, True), (50, 1000, False), (51, 1000, True)]
)
def test_at_the_end_what_brokers_need_more_than_half_a_second_for_is_withdrawn(
    waiting: int, acked: int, withdrawn: bool
) -> None:
    """1,000 were acknowledged in the window of 10 s: 50 more take half a second."""
    client, window = Mock(), Window()
    client.under_way.return_value = waiting
    window.set(10.0, 20.0)
    producing.Withdrawing(client, window, Mock(acked_in_window=acked), 0.0).at_the_end()
    assert client.withdraw.called is withdrawn


def test_in_a_gap_what_is_left_is_withdrawn_once_when_three_quarters_of_it_have_gone() -> None:
    client, window = Mock(), Window()
    client.under_way.return_value = 5
    window.set(10.0, 20.0)
    one = producing.Withdrawing(client, window, Mock(), 2.0)

    def calls(*moments: float) -> int:
        for moment in moments:
            one.in_gap(moment)
        return int(client.withdraw.call_count)

    assert calls(15.0, 20.0, 21.5) == 0
    assert calls(21.51, 21.6, 22.0) == 1, "once a turn"
    window.set(30.0, 40.0)
    assert calls(30.0, 41.5) == 1
    client.under_way.return_value = 0
    assert calls(41.6) == 1, "nothing is left of this one"
    client.under_way.return_value = 5
    assert calls(41.7) == 1, "what came since has all of the gap"
    never = producing.Withdrawing(client, window, Mock(), 0.0)
    never.in_gap(99.0)
    assert client.withdraw.call_count == 1, "without turns"


@pytest.mark.parametrize(("topics", "partitions", "rows"), [(1, 102, 0), (2, 102, 2), (51, 102, 51), (2, 100, 0)])
def test_of_too_many_partitions_latencies_are_kept_by_topic(topics: int, partitions: int, rows: int) -> None:
    several = {"topics": [f"t-{n}" for n in range(topics)], "partitions": partitions}
    one = Sent("paced", **several)
    messages = one.hand_over(11.0, [11.0, 11.0, 11.0])
    messages["partition"] = [0, 50, 99]
    one.hear(11.5, messages)
    found = one.outcomes.counts()
    apart = [records for records, _ in figures_of(found["latency_by_topic"])]
    where = [partition // (partitions // topics) for partition in (0, 50, 99)]
    assert apart == np.bincount(where, minlength=rows).tolist()[:rows]
    assert len(figures_of(found["latency_by_partition"])) == (partitions if partitions <= 100 else 0)
