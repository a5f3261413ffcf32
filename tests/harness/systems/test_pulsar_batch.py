"""The compiled half of the Pulsar client: rows in and out, its rings, and what it makes of message ids and keys."""

import base64
import ctypes
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfgate.load.positions import NOWHERE, parts_of, position_of
from perfgate.systems.pulsar.load import clib, native
from perfgate.systems.pulsar.load.slow import key_text, parsed, partition_of
from tests.harness.build.fake_pulsar import FakePulsar, serialised

VALUE = np.frombuffer(b"a value of twenty-four b", np.uint8)


@pytest.fixture(scope="module", params=["compiled", "slow"])
def pulsar(request: pytest.FixtureRequest) -> FakePulsar:
    return FakePulsar(request.param)


@pytest.fixture(scope="module")
def compiled() -> Any:
    return FakePulsar().library


class Sending:
    """A sender of the library with the producers 100, 101, ..."""

    def __init__(self, pulsar: FakePulsar, slots: int, most_bytes: int = 1 << 40, partitions: int = 1) -> None:
        self.library, self._sender = pulsar.library, pulsar.library.kpg_sender_new(partitions, slots, most_bytes)
        for partition in range(partitions):
            self.library.kpg_sender_set(self._sender, partition, 100 + partition)

    def send(self, sequences: list[int], partition: int = 0, size: int = len(VALUE), key: bytes = b"") -> Any:
        rows = np.zeros(len(sequences), native.ROW)
        rows["payload"], rows["len"], rows["private"] = VALUE.ctypes.data, size, sequences
        keys = ctypes.create_string_buffer(key, max(1, len(key)))
        rows["key"], rows["key_len"] = ctypes.addressof(keys), len(key)
        self.taken = self.library.kpg_send(self._sender, rows.ctypes.data, len(rows), partition)
        return rows

    def take(self, most: int = 1_000) -> Any:
        rows = np.zeros(most, native.ROW)
        return rows[: self.library.kpg_take(self._sender, rows.ctypes.data, most)]

    def wait(self, seconds: float) -> float:
        begin = time.monotonic()
        self.library.kpg_sender_wait(self._sender, int(seconds * 1e9))
        return time.monotonic() - begin

    @property
    def under_way(self) -> int:
        return int(self.library.kpg_under_way(self._sender))

    def close(self) -> None:
        self.library.kpg_sender_free(self._sender)


def test_an_outcome_has_what_was_handed_over(pulsar: FakePulsar) -> None:
    sending = Sending(pulsar, slots=4, partitions=3)
    sending.send([7], partition=2, size=20)
    before = time.monotonic_ns()
    pulsar.answer(0, (5, 6, 7))
    (row,) = sending.take()
    assert (row["private"], row["partition"], row["len"], row["err"]) == (7, 2, 20, 0)
    assert row["offset"] == position_of(5, 6, 7)
    assert before <= row["at_ns"] <= time.monotonic_ns()
    assert sending.under_way == 0
    sending.close()


def test_values_go_to_their_partition_in_order(pulsar: FakePulsar) -> None:
    sending = Sending(pulsar, slots=4, partitions=3)
    pulsar.handed_over.clear()
    sending.send([1], partition=1, size=7)
    sending.send([2, 3], partition=0, size=4)
    assert pulsar.handed_over == [(101, b"a value", b""), (100, b"a va", b""), (100, b"a va", b"")]
    for _ in range(3):
        pulsar.answer(0, (1, 1, 1))
    sending.close()


def test_a_failed_one_says_why(pulsar: FakePulsar) -> None:
    sending = Sending(pulsar, slots=4)
    sending.send([7])
    pulsar.answer(3)
    (row,) = sending.take()
    assert (row["err"], row["offset"]) == (clib.TIMED_OUT, -1)
    sending.close()


def test_one_whose_id_fits_into_no_position_is_in_the_log_all_the_same(pulsar: FakePulsar) -> None:
    sending = Sending(pulsar, slots=4)
    sending.send([8])
    pulsar.answer(0, (1, 1 << 27, 0))
    (row,) = sending.take()
    assert (row["err"], row["offset"]) == (0, -1)
    sending.close()


def test_a_row_that_is_refused_at_once_is_not_under_way(pulsar: FakePulsar) -> None:
    sending = Sending(pulsar, slots=4)
    pulsar.refusal = 28
    rows = sending.send([1, 2])
    pulsar.refusal = 0
    assert (sending.taken, sending.under_way, rows["err"].tolist()) == (0, 0, [28, 28])
    assert not len(sending.take())
    assert not sending.send([3])["err"].any()
    pulsar.answer(0, (1, 1, 1))
    assert sending.take()["private"].tolist() == [3]
    sending.close()


def test_rows_after_the_first_without_room_are_full(pulsar: FakePulsar) -> None:
    sending = Sending(pulsar, slots=3)
    rows = sending.send([1, 2, 3, 4, 5])
    assert sending.taken == 3
    assert rows["err"].tolist() == [0, 0, 0, native.FULL, native.FULL]
    pulsar.answer(0, (1, 1, 1))
    assert sending.send([4])["err"].tolist() == [native.FULL], "there is room once the outcome was taken"
    sending.take()
    assert sending.send([4])["err"].tolist() == [0]
    while pulsar.pending:
        pulsar.answer(0, (1, 1, 1))
    sending.close()


def test_bytes_are_bounded_too_but_never_below_one_record(pulsar: FakePulsar) -> None:
    sending = Sending(pulsar, slots=100, most_bytes=40)
    assert sending.send([1, 2, 3], size=20)["err"].tolist() == [0, 0, native.FULL]
    for _ in range(2):
        pulsar.answer(0, (1, 1, 1))
    sending.take()
    sending.close()
    sending = Sending(pulsar, slots=100, most_bytes=10)
    assert sending.send([1, 2], size=20)["err"].tolist() == [0, native.FULL]
    pulsar.answer(0, (1, 1, 1))
    sending.close()


STEPS = st.lists(st.tuples(st.sampled_from(["send", "answer", "take"]), st.integers(1, 6)), max_size=60)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(slots=st.integers(1, 9), steps=STEPS)
def test_each_is_heard_of_once_in_the_order_of_the_answers(pulsar: FakePulsar, slots: int, steps: Any) -> None:
    """The ring wraps again and again, whatever its size."""
    sending, next_, waiting, heard = Sending(pulsar, slots), 0, deque[int](), deque[int]()
    for step, count in steps:
        if step == "send":
            sending.send(list(range(next_, next_ + count)))
            assert sending.taken == min(count, slots - len(waiting) - len(heard))
            waiting += range(next_, next_ + sending.taken)
            next_ += sending.taken
        elif step == "answer":
            for _ in range(min(count, len(waiting))):
                pulsar.answer(0, (1, waiting[0], 0))
                heard.append(waiting.popleft())
        else:
            rows = sending.take(count)
            assert rows["private"].tolist() == [heard.popleft() for _ in range(min(count, len(heard)))]
            assert rows["offset"].tolist() == [position_of(1, private, 0) for private in rows["private"].tolist()]
        assert sending.under_way == len(waiting) + len(heard)
    while waiting:
        pulsar.answer(0, (1, waiting.popleft(), 0))
    sending.close()


def test_answers_may_come_from_several_threads(pulsar: FakePulsar) -> None:
    sending, count = Sending(pulsar, slots=2_000), 2_000
    sending.send(list(range(count)))
    threads = [threading.Thread(target=_answer_all, args=(pulsar,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    heard = list[int]()
    deadline = time.monotonic() + 30
    while len(heard) < count and time.monotonic() < deadline:
        sending.wait(0.1)
        heard += sending.take(100)["private"].tolist()
    for thread in threads:
        thread.join()
    assert sorted(heard) == list(range(count))
    sending.close()


class Together(FakePulsar):
    """Two threads are in the call that hands a message over at the same time."""

    def __init__(self, kind: str) -> None:
        self._both = threading.Barrier(2)
        super().__init__(kind)

    def producer_send_async(self, producer: int, message: int, callback: Any, context: int) -> None:
        self._both.wait(5.0)
        super().producer_send_async(producer, message, callback, context)


@pytest.mark.parametrize("kind", ["compiled", "slow"])
def test_clients_of_several_threads_do_not_take_one_anothers_messages_for_refused(kind: str) -> None:
    """The slow client took a message that was handed over for refused, and waited for its drain at the round's end."""
    sendings = [Sending(pulsar, slots=4) for pulsar in [Together(kind)] for _ in range(2)]
    threads = [threading.Thread(target=sending.send, args=([1],)) for sending in sendings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(sending.taken, sending.under_way) for sending in sendings] == [(1, 1)] * 2


def _answer_all(pulsar: FakePulsar) -> None:
    while True:
        try:
            pulsar.answer(0, (1, 1, 1))
        except IndexError:
            return


def test_a_wait_ends_with_an_outcome_or_its_time(pulsar: FakePulsar) -> None:
    sending = Sending(pulsar, slots=4)
    assert sending.wait(0.02) >= 0.02
    sending.send([1])
    threading.Timer(0.05, lambda: pulsar.answer(0, (1, 1, 1))).start()
    assert sending.wait(20) < 10
    assert len(sending.take()) == 1
    assert sending.wait(0.02) >= 0.02, "what was taken wakes no more"
    sending.send([2, 3])
    pulsar.answer(0, (1, 1, 1))
    pulsar.answer(0, (1, 1, 1))
    assert len(sending.take(1)) == 1
    assert sending.wait(20) < 10, "one is left"
    sending.close()


@given(ledger=st.integers(0, 1 << 62), entry=st.integers(0, 1 << 40), index=st.integers(-1, 1 << 20))
def test_positions_are_the_same_in_c(compiled: Any, ledger: int, entry: int, index: int) -> None:
    expected = position_of(ledger, entry, index)
    assert compiled.kpg_position(ledger, entry, index) == expected
    data = serialised(ledger, entry, index)
    assert compiled.kpg_position_of(data, len(data)) == expected
    assert parsed(data) == expected


IDS = st.tuples(st.integers(0, (1 << 22) - 1), st.integers(0, (1 << 27) - 1), st.integers(0, (1 << 14) - 1))


@given(one=IDS, other=IDS)
def test_positions_keep_the_order_of_the_log(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    assert (position_of(*one) < position_of(*other)) == (one < other)
    assert parts_of(position_of(*one)) == one
    assert position_of(*one) >= 0


def test_an_id_that_does_not_fit_has_no_position() -> None:
    assert position_of(1, 1 << 27, 0) == position_of(1, 1, 1 << 14) == position_of(-1, -1, -1) == NOWHERE
    assert position_of((1 << 22) + 5, 1, 1) == position_of(5, 1, 1)
    assert position_of(1, 1, -1) == position_of(1, 1, 0)


def test_a_set_of_acknowledged_ones_behind_the_numbers_does_not_matter(compiled: Any) -> None:
    data = serialised(9, 8, 7) + b"\x2a\x02\xff\xff"
    assert compiled.kpg_position_of(data, len(data)) == parsed(data) == position_of(9, 8, 7)


@given(st.binary(max_size=60))
def test_no_bytes_of_an_id_are_read_beyond_its_end(compiled: Any, data: bytes) -> None:
    assert compiled.kpg_position_of(data, len(data)) == parsed(data)


@pytest.mark.parametrize(("key", "code"), [(b"hello", 99162322), (b"key-000000000001", None), (b"", 0)])
def test_partitions_are_those_of_the_java_client(compiled: Any, key: bytes, code: int | None) -> None:
    hashed = 0
    for byte in key:
        hashed = (hashed * 31 + byte) & 0xFFFFFFFF
    assert code in (None, hashed)
    assert compiled.kpg_partition_of(key, 7) == partition_of(key, 7) == (hashed & 0x7FFFFFFF) % 7


@given(st.binary(max_size=40))
def test_keys_are_text_as_of_the_java_client(compiled: Any, key: bytes) -> None:
    text = ctypes.create_string_buffer(100)
    assert compiled.kpg_key_text(key, len(key), text) == len(text.value)
    plain = all(32 < byte < 127 for byte in key)
    assert text.value == key_text(key) == (key if plain else base64.b64encode(key))


def test_a_key_chooses_the_partition(pulsar: FakePulsar) -> None:
    sending = Sending(pulsar, slots=9, partitions=5)
    pulsar.handed_over.clear()
    rows = sending.send([1], partition=-1, key=b"hello")
    assert rows["partition"].tolist() == [99162322 % 5]
    assert pulsar.handed_over == [(100 + 99162322 % 5, VALUE.tobytes(), b"hello")]
    pulsar.answer(0, (1, 1, 1))
    sending.close()


class Reading:
    """A reader of the library; the consumer of partition p is 200 + p."""

    def __init__(self, pulsar: FakePulsar, partitions: int = 1, end: int = -1) -> None:
        self.pulsar, self.library = pulsar, pulsar.library
        self.reader = self.library.kpg_reader_new(partitions)
        self._parts = [self.library.kpg_reader_part(self.reader, partition) for partition in range(partitions)]
        for partition in range(partitions):
            self.library.kpg_reader_set(self.reader, partition, 200 + partition, end)

    def put(self, partition: int, *entries: int) -> None:
        for entry in entries:
            self.pulsar.deliver(self._parts[partition], b"value %d" % entry, (1, entry, -1))

    def take(self, acknowledge: int = 1, most: int = 100) -> list[tuple[int, str]]:
        rows = np.zeros(most, native.ROW)
        rows = rows[: self.library.kpg_receive(self.reader, rows.ctypes.data, most)]
        found = [
            (int(row["partition"]), ctypes.string_at(int(row["payload"]), int(row["len"])).decode())
            if not row["err"]
            else (int(row["partition"]), str(row["err"]))
            for row in rows
        ]
        self.offsets, self.at_ns = rows["offset"].tolist(), rows["at_ns"].tolist()
        self.library.kpg_done(self.reader, rows.ctypes.data, len(rows), acknowledge)
        return found

    def wait(self, seconds: float) -> float:
        begin = time.monotonic()
        self.library.kpg_reader_wait(self.reader, int(seconds * 1e9))
        return time.monotonic() - begin


@pytest.fixture
def clean(pulsar: FakePulsar) -> Iterator[FakePulsar]:
    pulsar.acknowledged.clear()
    pulsar.contents.clear()
    pulsar.sought.clear()
    yield pulsar
    assert not pulsar.contents, "every message was freed"
    assert len(pulsar.ids) == 1, "and every id"


def test_received_messages_are_rows(clean: FakePulsar) -> None:
    reading, before = Reading(clean, partitions=2), time.monotonic_ns()
    reading.put(0, 1, 2)
    reading.put(1, 5)
    assert reading.take() == [(0, "value 1"), (0, "value 2"), (1, "value 5")]
    assert reading.offsets == [position_of(1, entry, 0) for entry in (1, 2, 5)]
    assert before <= min(reading.at_ns) <= max(reading.at_ns) <= time.monotonic_ns()
    assert sorted(clean.acknowledged) == [("all", 200, (1, 2, -1)), ("all", 201, (1, 5, -1))]
    assert reading.take() == []


def test_each_is_acknowledged_where_others_read_too(clean: FakePulsar) -> None:
    reading = Reading(clean)
    reading.put(0, 1, 2)
    reading.take(acknowledge=2)
    assert sorted(clean.acknowledged) == [("one", 200, (1, 1, -1)), ("one", 200, (1, 2, -1))]
    reading.put(0, 3)
    reading.take(acknowledge=0)
    assert len(clean.acknowledged) == 2


def test_of_partitions_that_alternate_each_last_one_is_acknowledged(clean: FakePulsar) -> None:
    reading = Reading(clean, partitions=2)
    for entry in range(4):
        reading.put(entry % 2, entry)
    reading.take()
    assert sorted(clean.acknowledged) == [("all", 200, (1, 2, -1)), ("all", 201, (1, 3, -1))]


@pytest.mark.parametrize("most", [1, 3, 4_096])
def test_the_ring_wraps(clean: FakePulsar, most: int) -> None:
    reading, count = Reading(clean), 20_000 if most > 100 else 300
    found, put = list[tuple[int, str]](), 0
    while len(found) < count:
        for _ in range(min(count - put, 3 * most, 8_192 - (put - len(found)))):
            reading.put(0, put)
            put += 1
        found += reading.take(most=most)
    assert found == [(0, f"value {entry}") for entry in range(count)]


def test_a_listener_waits_for_room(clean: FakePulsar) -> None:
    reading, count = Reading(clean), 9_000
    thread = threading.Thread(target=reading.put, args=(0, *range(count)))
    thread.start()
    thread.join(1.5)
    assert thread.is_alive(), "the ring has 8,192 places"
    found, deadline = list[tuple[int, str]](), time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        found += reading.take(most=1_000)
    thread.join()
    assert found == [(0, f"value {entry}") for entry in range(count)]


def test_a_listener_gives_up_when_reading_ends(clean: FakePulsar) -> None:
    reading = Reading(clean)
    thread = threading.Thread(target=reading.put, args=(0, *range(8_193)))
    thread.start()
    thread.join(1.5)
    reading.library.kpg_reader_close(reading.reader)
    thread.join(10)
    assert not thread.is_alive()
    assert len(reading.take(most=9_000)) == 8_192


def test_a_wait_for_messages_ends_with_one(clean: FakePulsar) -> None:
    reading = Reading(clean)
    assert reading.wait(0.02) >= 0.02
    threading.Timer(0.05, reading.put, (0, 1)).start()
    assert reading.wait(20) < 10
    assert reading.take() == [(0, "value 1")]
    assert reading.wait(0.02) >= 0.02


def test_a_backlog_has_an_end_and_begins_again(clean: FakePulsar) -> None:
    reading = Reading(clean, end=position_of(1, 2, 0))
    reading.put(0, 1, 2)
    assert reading.take() == [(0, "value 1"), (0, "value 2"), (0, str(native.AT_END))]
    assert reading.offsets[-1] == position_of(1, 2, 0)
    reading.library.kpg_rewind(reading.reader, 0)
    ((consumer, callback, context),) = clean.sought
    assert consumer == 200
    callback(0, context)
    assert reading.take() == []
    reading.put(0, 1, 2)
    assert [text for _, text in reading.take()] == ["value 1", "value 2", str(native.AT_END)]


def test_a_message_whose_id_fits_into_no_position_is_an_error(clean: FakePulsar) -> None:
    reading = Reading(clean)
    reading.put(0, 1 << 27)
    assert reading.take() == [(0, str(native.STRANGE))]


def test_a_partition_that_cannot_be_rewound_says_so(clean: FakePulsar) -> None:
    reading = Reading(clean, partitions=2)
    reading.library.kpg_rewind(reading.reader, 1)
    ((_, callback, context),) = clean.sought
    callback(5, context)
    assert reading.take() == [(1, "5")]


def test_what_was_written_after_the_end_gives_it_once(clean: FakePulsar) -> None:
    reading = Reading(clean, end=position_of(1, 2, 0))
    reading.put(0, 2, 3)
    assert [text for _, text in reading.take()] == ["value 2", str(native.AT_END), "value 3"]


def test_the_last_position_of_a_partition(clean: FakePulsar) -> None:
    position = ctypes.c_int64()
    clean.last[200] = (4, 5, 6)
    assert clean.library.kpg_last_position(200, ctypes.byref(position)) == 0
    assert position.value == position_of(4, 5, 6)
    clean.last[200] = (4, -1, -1)
    clean.library.kpg_last_position(200, ctypes.byref(position))
    assert position.value == NOWHERE
