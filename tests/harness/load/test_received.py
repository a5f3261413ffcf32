"""Records that a consumer client received: foreign and damaged ones, times, and the edges of the window."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.load.consuming import CRC_EVERY, Receipts
from perfgate.load.history import RECEIPT, read_journal, receipts_path
from perfgate.load.payload import HEADER
from perfgate.load.schedule import Window
from perfgate.model.histogram import encode, latency_metrics

RUN, BODY = 77, b"the body"


def receipts(*, new: int | None = None, opens: float = 10.0, closes: float = 20.0, **spec: Any) -> Receipts:
    """Return those of a client in a window; of each batch so many are `new`, or all."""
    window = Window()
    window.set(opens, closes)
    return Receipts(
        {"run": RUN, "producers": 2, **spec}, 3, window, lambda producers, *_: len(producers) if new is None else new
    )


def give(
    to: Receipts,
    heard: float,
    sent: list[float],
    *,
    runs: list[int] | None = None,
    producers: list[int] | None = None,
    bad: list[int] | None = None,
    lengths: list[int] | None = None,
) -> None:
    """Give the client a batch of records that were sent at these times; the bodies at the indices `bad` are damaged."""
    count = len(sent)
    headers = np.zeros(count, HEADER)
    headers["run"] = runs or [RUN] * count
    headers["producer"] = producers or [0] * count
    headers["sequence"] = np.arange(count)
    headers["time_ns"] = np.round(np.array(sent) * 1e9)
    headers["crc"] = zlib.crc32(BODY)
    numbers = np.arange(count)
    sizes = np.array(lengths or [100] * count)
    damaged = set(bad or ())
    to.take(headers, numbers % 3, numbers, sizes, lambda at: b"damaged" if at in damaged else BODY, heard)


@pytest.mark.parametrize("batch", [1, 5, 10, 63, 64, 65, 200, 640])
def test_of_every_64_records_one_body_is_checked_however_they_come(batch: int) -> None:
    """Batches of ten would otherwise have their first one checked each time, or none but the very first."""
    found = receipts()
    for begin in range(0, 640, batch):
        count = min(batch, 640 - begin)
        give(found, 12.0, [11.0] * count, bad=list(range(count)))
    assert found.result()["corrupt"] == 640 / CRC_EVERY


@given(st.lists(st.integers(1, 150), min_size=1, max_size=12), st.sets(st.integers(0, 1000)))
def test_a_damaged_body_is_found_where_it_is_looked_at_and_nowhere_else(sizes: list[int], bad: set[int]) -> None:
    found, begin = receipts(), 0
    for size in sizes:
        give(found, 12.0, [11.0] * size, bad=[number - begin for number in bad if begin <= number < begin + size])
        begin += size
    assert found.corrupt == sum(1 for number in bad if number < begin and number % CRC_EVERY == 0)


def test_foreign_records_are_counted_and_nothing_of_them_is_believed() -> None:
    """Another run's, and those of a producer that this run has not."""
    found = receipts()
    give(
        found, 12.0, [11.0] * 5, runs=[RUN, 1, RUN, RUN, RUN], producers=[0, 0, 1, 2, 0], bad=[1, 3], lengths=[100] * 5
    )
    assert (found.foreign, found.received, found.corrupt) == (2, 3, 0)
    assert (found.received_in_window, found.received_bytes_in_window) == (3, 300)
    assert found.latency.histogram().get_total_count() == 3
    give(found, 12.0, [11.0] * 2, runs=[1, 1])
    assert (found.foreign, found.received) == (4, 3)


def test_the_next_body_that_is_checked_is_counted_over_own_records_alone() -> None:
    found = receipts()
    give(found, 12.0, [11.0] * 40, runs=[RUN] + [1] * 39, bad=list(range(40)))
    give(found, 12.0, [11.0] * 63, bad=list(range(63)))
    assert found.corrupt == 1
    give(found, 12.0, [11.0], bad=[0])
    assert found.corrupt == 2, "the 65th of its own"


def p50_ms(found: Receipts) -> float:
    return latency_metrics([encode(found.latency.histogram())])["latency_ms.p50"]


@pytest.mark.parametrize("ahead_s", [0.0, 0.25, -0.25])
def test_a_clock_that_is_ahead_makes_no_record_late(ahead_s: float) -> None:
    """Sent at 12.000 s of the run's clock and heard 20 ms later, which is 12.270 s of one that is 0.25 s ahead."""
    found = receipts(ahead_s=ahead_s)
    give(found, 12.02 + ahead_s, [12.0])
    assert p50_ms(found) == pytest.approx(20.0, rel=0.02)
    assert found.result()["negative_latencies"] == 0


def test_so_the_window_is_of_the_clock_of_the_host() -> None:
    """It opens at 10.0 s here; what was sent at 9.8 s of the run's clock was sent at 10.05 s of a host 0.25 s ahead."""
    found = receipts(ahead_s=0.25)
    give(found, 12.0, [9.7, 9.8, 19.7, 19.8])
    assert found.latency.histogram().get_total_count() == 2


@pytest.mark.parametrize(
    ("heard", "received", "timed"),
    [(9.999, 0, 0), (10.0, 1, 1), (19.999, 1, 1), (20.0, 0, 1), (25.0, 0, 1)],
)
def test_a_record_counts_in_the_window_in_which_it_is_heard_and_is_timed_to_its_end(
    heard: float, received: int, timed: int
) -> None:
    found = receipts()
    give(found, heard, [10.0] if heard >= 10 else [9.9])
    assert found.received == 1
    assert found.received_in_window == received
    assert found.latency.histogram().get_total_count() == timed


@pytest.mark.parametrize(("sent", "timed"), [(9.999, 0), (10.0, 1), (19.999, 1), (20.0, 0)])
def test_a_record_is_timed_that_was_sent_in_the_window(sent: float, timed: int) -> None:
    found = receipts()
    give(found, 20.5, [sent])
    assert found.latency.histogram().get_total_count() == timed


def test_what_is_given_again_counts_no_bytes() -> None:
    found = receipts(new=1)
    give(found, 12.0, [11.0] * 4, lengths=[100, 200, 300, 400])
    assert (found.received, found.received_in_window, found.received_bytes_in_window) == (1, 1, 250)


def test_every_record_is_written_down_with_whose_it_is(tmp_path: Path) -> None:
    found = receipts(history=str(tmp_path))
    give(found, 12.0, [11.0] * 3, runs=[RUN, 1, RUN], producers=[1, 1, 5])
    found.close()
    rows = read_journal(receipts_path(tmp_path, 3), RECEIPT)
    assert rows["producer"].tolist() == [1, -1, -1]
    assert rows["sequence"].tolist() == rows["offset"].tolist() == rows["partition"].tolist() == [0, 1, 2]
    assert rows["at"].tolist() == [12.0] * 3
