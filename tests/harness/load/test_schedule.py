"""Schedules, the target's limit while one catches up, and the window: their edges, to the record."""

from pathlib import Path

import numpy as np
import pytest

from perfgate.load.history import (
    KINDS,
    OUTCOME,
    RECEIPT,
    SEND,
    Journal,
    accepts_path,
    outcomes_path,
    read_journal,
    receipts_path,
    sends_path,
)
from perfgate.load.schedule import OWED_S, Limit, Schedule, Window, now

RATE = 100.0


def test_a_record_is_due_at_its_moment_and_not_before() -> None:
    schedule = Schedule(10.0, RATE)
    assert [schedule.due_at(index) for index in (0, 1, 100)] == [10.0, 10.01, 11.0]
    assert [schedule.due_by(at) for at in (9.0, 9.9999, 10.0, 10.005, 10.01, 11.0)] == [0, 0, 1, 1, 2, 101]


def handed_over(*moments: float) -> list[int]:
    """Return how many records may be handed over at each of these moments, all of them each time."""
    limit, done, counts = Limit(RATE), 0, []
    for moment in moments:
        allowed = limit.by(moment, done)
        counts.append(allowed - done)
        done = allowed
    return counts


def test_a_load_that_stood_still_catches_up_what_one_second_owes_and_no_more() -> None:
    """101: those of a second, and the one that is due now. After 0.5 s it owes half of that, after 10 s all of it."""
    assert handed_over(0.0) == [101]
    assert handed_over(0.0, 0.5) == [101, 50]
    assert handed_over(0.0, 0.5, 10.0) == [101, 50, 101]
    assert handed_over(0.0, 0.5, 2.0, 3.0) == [101, 50, 101, 100]
    assert handed_over(0.0, 0.015, 0.025, 0.035) == [101, 1, 1, 1]


def test_who_is_behind_by_less_than_that_owes_all_of_it() -> None:
    limit = Limit(RATE)
    done = limit.by(0.0, 0)
    assert limit.by(0.9, done) == done + 90, "nothing was handed over for 0.9 s"
    assert limit.by(0.9, done + 40) == done + 90, "nor does handing over a part change what is allowed"


def test_the_next_record_may_be_handed_over_when_the_limit_has_room_again() -> None:
    limit = Limit(RATE)
    done = limit.by(5.0, 0)
    assert limit.next_at(done) == pytest.approx(5.01)
    assert limit.by(5.009, done) == done
    assert limit.by(5.0101, done) == done + 1
    assert OWED_S == 1.0


def test_a_window_holds_its_opening_and_not_its_end() -> None:
    window = Window()
    assert not window.holds(0.0)
    window.set(10.0, 20.0)
    assert [window.holds(at) for at in (9.999, 10.0, 19.999, 20.0, 25.0)] == [False, True, True, False, False]


@pytest.mark.parametrize(
    ("begin", "end", "seconds"),
    [(0, 10, 0), (0, 12, 2), (12, 15, 3), (18, 30, 2), (0, 30, 10), (20, 30, 0), (21, 30, 0), (15, 15, 0)],
)
def test_what_of_an_interval_lies_in_the_window(begin: float, end: float, seconds: float) -> None:
    window = Window()
    window.set(10.0, 20.0)
    assert window.share_of(begin, end) == seconds


@pytest.mark.parametrize("ago_s", [-60.0, 0.0, 0.75])
def test_a_window_that_becomes_known_after_it_opened_says_by_how_much(ago_s: float) -> None:
    window = Window()
    assert window.late_s == 0.0
    opens = now() - ago_s
    window.set(opens, opens + 10.0)
    assert max(0.0, ago_s) <= window.late_s <= max(0.0, now() - opens)


@pytest.mark.parametrize("kind", [SEND, OUTCOME, RECEIPT])
def test_rows_that_were_cut_off_are_left_out_and_no_others(tmp_path: Path, kind: "np.dtype[np.void]") -> None:
    path = tmp_path / "a.journal"
    assert len(read_journal(path, kind)) == 0, "there is no file"
    rows = np.zeros(5, kind)
    rows["at"] = np.arange(5)
    journal = Journal(str(path))
    journal.write(rows[:2])
    journal.write(rows[2:])
    journal.close()
    assert read_journal(path, kind)["at"].tolist() == [0, 1, 2, 3, 4]
    whole = path.read_bytes()
    for cut, count in ((len(whole) - 1, 4), (kind.itemsize, 1), (kind.itemsize - 1, 0), (0, 0)):
        path.write_bytes(whole[:cut])
        assert len(read_journal(path, kind)) == count
    again = Journal(str(path))
    again.write(rows)
    again.close()
    assert len(read_journal(path, kind)) == 5, "a journal is appended to"


def test_each_client_has_a_file_of_its_own_for_each_kind_of_row(tmp_path: Path) -> None:
    paths = [of(tmp_path, 3) for of in (sends_path, outcomes_path, receipts_path, accepts_path)]
    assert [path.name for path in paths] == [
        "producer-3.sends",
        "producer-3.outcomes",
        "consumer-3.receipts",
        "consumer-3.accepts",
    ]
    assert {path.suffix for path in paths} == set(KINDS)
    assert {path.parent for path in paths} == {tmp_path}
