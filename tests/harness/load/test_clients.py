"""The protocols of clients: what any system plugs in is loaded, timed and accounted for as librdkafka's is."""

import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.load.checks import Distinct
from perfgate.load.clients import (
    BY_KEY,
    ClientModule,
    Hear,
    LoadClientError,
    Moments,
    ReadingClient,
    Rows,
    SendingClient,
    Transactions,
    UnansweredError,
)
from perfgate.load.consuming import Reader, Receipts
from perfgate.load.history import RECEIPT, Journal, read_journal, receipts_path
from perfgate.load.payload import HEADER, Values
from perfgate.load.producing import Sender
from perfgate.load.schedule import Window, now
from perfgate.model import Payload
from perfgate.systems.kafka.load import clients as kafka

KAFKA: ClientModule = kafka
ROW = np.dtype(
    [
        ("private", "<u8"),
        ("err", "<i4"),
        ("partition", "<i4"),
        ("offset", "<i8"),
        ("payload", "<u8"),
        ("len", "<u4"),
        ("key_len", "<u4"),
        ("key", "<u8"),
    ]
)
FULL, PURGED, TIMED_OUT, TOO_LARGE = 1, 2, 3, 4


class Common:
    """What both kinds of client have."""

    NO_ANSWER = "Timeout"

    def __init__(self) -> None:
        self.errors: dict[str, str] = {}
        self.failed: Counter[str] = Counter()
        self.throttled_ms = 0

    def wait(self, seconds: float) -> None:
        time.sleep(max(0.0, min(seconds, 0.001)))

    def count_failure(self, code: int, records: int) -> None:
        self.failed[str(code)] += records
        self.errors.setdefault(str(code), f"error {code}")


class Echo(Common):
    """A producer of no brokers: each record is acknowledged `after_s` its hand-over, at its own moment."""

    row, FULL, PURGED, TIMED_OUT = ROW, FULL, PURGED, (TIMED_OUT,)

    def __init__(self, room: int, after_s: float, refuses: Sequence[int] = ()) -> None:
        super().__init__()
        self._room, self._after_s, self._refuses = room, after_s, refuses
        self._taken = np.zeros(0, ROW)
        self._known = np.zeros(0)
        self.withdraws = 0

    def connect(self, partitions: int) -> None:
        self._partitions = partitions

    def send(self, rows: Rows, partition: int) -> int:
        rows["err"][np.isin(rows["private"], self._refuses)] = TOO_LARGE
        room = self._room - len(self._taken)
        good = np.flatnonzero(rows["err"] == 0)
        rows["err"][good[room:]] = FULL
        taken = rows[good[:room]].copy()
        taken["partition"] = taken["private"] % self._partitions if partition == BY_KEY else partition
        self._taken = np.append(self._taken, taken)
        # Each a little later than the one before: as many moments as records.
        self._known = np.append(self._known, now() + self._after_s + 1e-9 * np.arange(len(taken)))
        return len(taken)

    def under_way(self) -> int:
        return len(self._taken)

    def withdraw(self) -> None:
        self.withdraws += 1
        self._taken["err"] = PURGED
        self._known[:] = now()

    def take(self, hear: Hear, most_s: float) -> int:
        come = self._known <= now()
        rows, moments = self._taken[come], self._known[come]
        self._taken, self._known = self._taken[~come], self._known[~come]
        if len(rows):
            hear(rows, moments)
        return len(rows)

    def rotate(self) -> None:
        raise AssertionError("it lingers")

    def transactions(self, open_s: float, acked_by_partition: npt.NDArray[np.int64]) -> Transactions:
        raise LoadClientError("it has no transactions")


SENDS = {
    "topics": ["t"],
    "partitions": 3,
    "paced": True,
    "drain_s": 5.0,
    "records": 0,
    "rate": 2_000.0,
    "of": 1,
    "payload": {},
    "keys": {},
    "run": 7,
    "seed": 1,
    "record_bytes": 100,
    "compressed": False,
    "lingers": True,
    "buffer_bytes": 1 << 20,
    "buffer_records": 10_000,
    "transaction_ms": 0,
}


def sent(client: Echo, **spec: Any) -> tuple[dict[str, Any], Sender]:
    """Run a sender for half a second, of which the last 0.3 s count; return its result, too."""
    told: SendingClient = client
    window = Window()
    one = Sender({**SENDS, **spec}, 0, window, told)
    one.connect()
    start = now()
    window.set(start + 0.2, start + 0.5)
    one.run(start)
    found = one.result()
    assert found["attempted"] == found["acked"] + found["withdrawn"] + sum(found["failed"].values())
    assert (found["unresolved"], found["unsent"]) == (0, 0)
    return found, one


def test_a_record_is_timed_by_the_moment_that_its_client_states() -> None:
    """However late the thread was that took it: 0.1 s after it was handed over, and not when it was heard of."""
    client = Echo(10_000, 0.1)
    hearing = client.take

    def late(hear: Hear, most_s: float) -> int:
        return hearing(hear, most_s) if now() % 0.2 > 0.15 else 0

    client.take = late  # type: ignore[method-assign]
    found, one = sent(client)
    assert found["acked"] == pytest.approx(1_000, abs=3)
    assert found["acked_by_partition"] == pytest.approx([found["acked"] / 3] * 3, abs=300)
    sending = one.recorders()["send_latency"].histogram()
    assert sending.get_total_count() == found["due_in_window"] == pytest.approx(600, abs=3)
    assert sending.get_min_value() == pytest.approx(100_000, rel=0.01)
    # The thread may be kept waiting between its own look at the clock and the client's.
    assert sending.get_value_at_percentile(50) == pytest.approx(100_000, rel=0.02), "heard of, it were 0.18 s"


def test_what_finds_no_room_is_offered_again_and_what_is_refused_has_failed() -> None:
    found, _ = sent(Echo(50, 0.05, refuses=[3, 30, 31]), keys={"kind": "random"})
    assert found["failed"] == {str(TOO_LARGE): 3}
    assert found["pushback_s"] > 0.1, "1,000 records/s find room, and 2,000 are due"
    assert found["attempted"] == pytest.approx(1_000, abs=3)


def test_what_waits_at_the_end_of_a_capped_load_is_withdrawn_where_the_client_can() -> None:
    client = Echo(5_000, 2.0)
    found, _ = sent(client, paced=False, rate=1e9)
    assert client.withdraws == 1
    assert found["withdrawn"] == found["attempted"] == 5_000
    assert found["failed"] == {}


@given(
    moments=st.lists(st.floats(0.0, 30.0), min_size=1, max_size=50),
    edges=st.tuples(st.floats(1.0, 15.0), st.floats(15.0, 29.0)),
)
def test_each_of_many_rows_counts_by_its_own_moment_as_it_would_alone(
    moments: list[float], edges: tuple[float, float]
) -> None:
    window = Window()
    window.set(*edges)
    together = np.zeros(len(moments), np.bool_)
    together[window.index_of(np.array(moments))] = True
    alone = [len(np.arange(1)[window.index_of(moment)]) == 1 for moment in moments]
    assert together.tolist() == alone == [window.holds(moment) for moment in moments]


class Shelf(Common):
    """A consumer of batches that lie ready: of each record partition, offset and value, and of each batch moments."""

    AT_END = 99

    def __init__(self, *batches: tuple[Sequence[tuple[int, int, bytes]], Moments]) -> None:
        super().__init__()
        self._batches = list(batches)
        self.fetches = self.redelivered = self.accepts = 0
        self.fetch_ms = 0.0
        self.rests: list[bool] = []
        self.rewound: list[int] = []
        self.closed = False
        self.empty = threading.Event()

    def connect(self, partitions: int) -> None:
        pass

    def assignment(self) -> int:
        return 0

    def take(self, hear: Hear) -> int:
        if not self._batches:
            self.empty.set()
            return 0
        records, moments = self._batches.pop(0)
        values = [np.frombuffer(value + b" ", np.uint8) for _, _, value in records]
        rows = np.zeros(len(records), ROW)
        rows["partition"], rows["offset"] = [one[0] for one in records], [one[1] for one in records]
        rows["payload"] = [value.ctypes.data for value in values]
        rows["len"] = [len(one[2]) for one in records]
        rows["err"] = [0 if one[2] else self.AT_END for one in records]
        hear(rows, moments)
        return len(rows)

    def rest(self, rests: bool) -> None:
        self.rests.append(rests)

    def rewind(self, partition: int) -> None:
        self.rewound.append(partition)

    def close(self) -> None:
        self.closed = True


READS = {
    "topics": ["t"],
    "partitions": 2,
    "producers": 1,
    "run": 7,
    "assigned": [[0, 1]],
    "followed": True,
    "laps": True,
    "compact_bytes": 0,
    "share": False,
}


def values(count: int, first: int = 0, at: float = 15.0) -> list[bytes]:
    """Return the values of records of the run 7 that were sent at this time."""
    made = Values(Payload(), run=7, producer=0, record_bytes=64, seed=1, compressed=False)
    found = []
    for number in range(first, first + count):
        made.stamp(0, np.array([number], np.uint64), np.array([at]))
        found.append(made.data[int(made.offsets[0]) :][:64].tobytes())
    return found


def read(client: Shelf, given_: Distinct | None = None, **spec: Any) -> tuple[dict[str, Any], Reader]:
    """Have a reader with a window from 10 to 20 s read all that lies ready; return its result, too."""
    told: ReadingClient = client
    window, resting = Window(), threading.Event()
    window.set(10.0, 20.0)
    one = Reader({**READS, **spec}, 0, window, told, resting, given=given_)
    one.connect()
    thread = threading.Thread(target=one.run, args=(0.0,))
    thread.start()
    try:
        assert client.empty.wait(20)
        resting.set()
        while not client.rests:
            time.sleep(0.001)
    finally:
        one.stop()
        thread.join()
    assert client.closed
    assert client.rests == [True]
    return one.result(), one


def test_records_are_timed_each_by_its_own_moment_and_counted_in_the_window_that_holds_it() -> None:
    here = values(6)
    batch = [(number % 2, number // 2, value) for number, value in enumerate(here)]
    moments = np.array([9.0, 15.1, 15.2, 15.3, 19.9, 20.5])
    found, one = read(Shelf(([*batch[:2], (0, 1, b"not of this run")], moments[:3]), (batch[2:], moments[2:])))
    assert (found["read"], found["received"], found["foreign"], found["corrupt"]) == (7, 6, 1, 0)
    assert (found["received_in_window"], found["received_bytes_in_window"]) == (4, 4 * 64)
    assert (found["duplicated"], found["reordered"], found["redelivered"]) == (0, 0, 0)
    latency = one.recorders()["latency"].histogram()
    assert latency.get_max_value() == pytest.approx(5.5e6, rel=0.01)


def test_what_is_reported_as_read_is_in_the_journal(tmp_path: Path) -> None:
    """A run that hears that all was read ends the process at once: what the journal lacked then was lost records."""
    reported = []

    class Watched(Journal):
        def write(self, rows: Rows) -> None:
            reported.append(one.progress()["attempted"])
            super().write(rows)
            reported.append(one.progress()["attempted"])

    client = Shelf(([(0, number, value) for number, value in enumerate(values(3))], 12.0))
    one = Reader({**READS, "history": str(tmp_path)}, 0, Window(), client, threading.Event())
    one._receipts.close()
    one._receipts._journal = Watched(str(receipts_path(tmp_path, 0)))
    one._take()
    assert (*reported, one.progress()["attempted"]) == (0, 0, 3)
    one._receipts.close()
    assert len(read_journal(receipts_path(tmp_path, 0), RECEIPT)) == 3


def test_no_more_records_fail_than_are_reported_as_read() -> None:
    """Own brokers were stopped for a failed fetch before the first record: 1 of 0."""
    one = Reader({**READS}, 0, Window(), Shelf(), threading.Event())
    one.client.count_failure(TOO_LARGE, 1)
    assert one.progress() == {"attempted": 1, "done": 0, "failed": 1}


def test_the_end_of_a_partition_begins_a_lap_after_the_records_before_it() -> None:
    here = values(3)
    lap = [(0, 0, here[0]), (0, 1, here[1]), (0, 3, b"")]
    client = Shelf((lap, 12.0), ([(0, 0, here[0])], 13.0))
    found, _ = read(client)
    assert client.rewound == [0]
    assert (found["received"], found["missed"], found["redelivered"]) == (3, 1, 0), "of three offsets it was given two"
    found, _ = read(unlapped := Shelf((lap, 12.0)), laps=False)
    assert (unlapped.rewound, found["failed"]) == ([], {})


def test_where_each_record_goes_to_any_client_offsets_say_nothing_of_its_order() -> None:
    here, given_ = values(4), Distinct(1)
    first, _ = read(Shelf(([(0, 7, here[3]), (1, 2, here[0])], 12.0)), given_, assigned=[[0]], followed=False)
    again = Shelf(([(0, 3, here[3]), (0, 1, here[1])], 12.0))
    again.redelivered = 1
    second, _ = read(again, given_, assigned=[[0]], followed=False)
    assert [found["received"] for found in (first, second)] == [2, 1]
    assert [found["redelivered"] for found in (first, second)] == [0, 1]
    assert all(found[name] == 0 for found in (first, second) for name in ("duplicated", "reordered", "missed"))


def test_a_group_that_gives_no_partition_is_told_with_the_clients_words() -> None:
    client = Shelf()
    client.errors["X"] = "no such subscription"
    one = Reader({**READS, "assigned": None}, 0, Window(), client, threading.Event(), group_timeout_s=0.1)
    with pytest.raises(UnansweredError, match=r"the group gave no partition within 0.1 s no such subscription") as told:
        one.connect()
    assert told.value.code == "Timeout"


def test_of_a_batch_that_repeats_records_the_window_has_its_share() -> None:
    """Two of four come again, three are heard of in the window: three quarters of the two new ones."""
    window = Window()
    window.set(10.0, 20.0)
    found = Receipts({"run": 7, "producers": 1}, 0, window, lambda *_: 2)
    headers = np.frombuffer(b"".join(value[:32] for value in values(4)), HEADER)
    numbers = np.arange(4)
    found.take(headers, numbers, numbers, np.full(4, 64), lambda _: b"", np.array([9.0, 11.0, 12.0, 13.0]))
    assert (found.received, found.received_in_window, found.received_bytes_in_window) == (2, 1, 96)
