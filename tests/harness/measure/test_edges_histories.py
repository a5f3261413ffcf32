"""Recorded histories of a fault at their edges: copies elsewhere, gaps, seconds, phases, and where each record went."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfgate.judge.scenario_case import judge_scenario
from perfgate.load.history import OUTCOME
from perfgate.measure.faults.analysis import analyse, recovered, without_integrity
from perfgate.measure.faults.history import Written
from perfgate.measure.faults.integrity import ACKED, UNKNOWN, UNSENT, Integrity, Log, Sends, check_integrity
from perfgate.measure.faults.outage import Bins, bins, common, in_spite_of_s, kept, outage, recovery, shares
from perfgate.model import Verdict
from perfgate.model.target import State
from tests.harness.build.faults import END, FAULT, OUTAGE, RATE, START, faulty, history, measured, state

Entry = tuple[int, int, int]
"""Of a log: offset, producer and sequence."""


def sends(*records: tuple[int, int, int]) -> Sends:
    """Return what a producer knows: outcome, partition and offset of each record."""
    outcome, partition, offset = zip(*records, strict=True)
    return Sends(
        outcome=np.array(outcome, np.int8), partition=np.array(partition, np.int16), offset=np.array(offset, np.int64)
    )


def log(*entries: Entry) -> Log:
    offset, producer, sequence = zip(*entries, strict=True) if entries else ((), (), ())
    return Log(
        offset=np.array(offset, np.int64), producer=np.array(producer, np.int32), sequence=np.array(sequence, np.int64)
    )


def checked(*producers: Sends, logs: Sequence[Log]) -> Integrity:
    return check_integrity(producers, dict(enumerate(logs)))


def found(of: Integrity) -> dict[str, dict[int, int]]:
    return {kind: dict(finding.by_partition) for kind, finding in of.faults.items() if finding.total}


def test_a_copy_in_another_partition_is_one_beyond_the_first() -> None:
    """A partitioner that sent it again elsewhere: each partition by itself has it once."""
    one = sends((ACKED, 0, 0), (ACKED, 1, 0))
    both = checked(one, logs=[log((0, 0, 0)), log((0, 0, 1), (1, 0, 0))])
    assert found(both) == {"duplicated": {1: 1}}
    assert both.duplicated.first == ("record 0/0, again at 1:1",)
    three = checked(one, logs=[log((0, 0, 0), (1, 0, 0)), log((0, 0, 1), (1, 0, 0))])
    assert found(three) == {"duplicated": {0: 1, 1: 1}}


def test_the_same_number_of_another_producer_is_no_copy() -> None:
    one, other = sends((ACKED, 0, 0)), sends((ACKED, 0, 1))
    assert found(checked(one, other, logs=[log((0, 0, 0), (1, 1, 0))])) == {}


def test_a_copy_is_not_behind_a_later_one_and_one_that_comes_late_is() -> None:
    """1, 3, 2 of one producer: 2 is late. A second 1 behind them is a copy, and nothing else."""
    one = sends((ACKED, 0, 0), (ACKED, 0, 2), (ACKED, 0, 1))
    late = checked(one, logs=[log((0, 0, 0), (1, 0, 2), (2, 0, 1), (3, 0, 0))])
    assert found(late) == {"duplicated": {0: 1}, "reordered": {0: 1}, "regressed": {0: 1}}
    assert late.reordered.first == ("record 0/1 at 0:2, behind a later one",)


def test_what_ended_in_an_error_may_be_there_once_or_not_at_all() -> None:
    one = sends((UNKNOWN, 0, -1), (UNKNOWN, -1, -1), (ACKED, 0, 1))
    once = checked(one, logs=[log((0, 0, 0), (1, 0, 2))])
    assert found(once) == {}
    assert (once.unknown, once.appeared, once.acknowledged, once.in_log) == (2, 1, 1, 2)
    twice = checked(one, logs=[log((0, 0, 0), (1, 0, 2), (2, 0, 0))])
    assert found(twice) == {"duplicated": {0: 1}}
    assert twice.appeared == 1, "each counts once"


def test_what_was_never_handed_over_is_a_phantom_and_what_lies_beyond_the_last_number_too() -> None:
    one = sends((UNSENT, -1, -1), (ACKED, 0, 1))
    strange = checked(one, logs=[log((0, 0, 0), (1, 0, 1), (2, 0, 2), (3, 0, -1), (4, 1, 0), (5, -1, 7))])
    assert found(strange) == {"phantom": {0: 5}}
    assert strange.phantom.first[0] == "0:0 holds record 0/0, which was never sent"
    assert strange.phantom.first[-1] == "0:5 holds a record that is not this run's, which was never sent"


@pytest.mark.parametrize(
    ("entries", "divergent"),
    [
        ([(0, 0, 0), (1, 0, 1)], 0),
        ([(0, 0, 0)], 1),
        ([(0, 0, 0), (2, 0, 1)], 1),
        ([(0, 0, 1), (1, 0, 0)], 2),
        ([(1, 0, 1), (2, 0, 0)], 1),
    ],
)
def test_an_offset_holds_what_was_acknowledged_at_it(entries: list[Entry], divergent: int) -> None:
    one = sends((ACKED, 0, 0), (ACKED, 0, 1))
    assert checked(one, logs=[log(*entries)]).divergent.total == divergent


def test_an_offset_that_nobody_said_diverges_from_nothing() -> None:
    one = sends((ACKED, 0, -1), (ACKED, 0, -1))
    assert found(checked(one, logs=[log((5, 0, 0), (6, 0, 1))])) == {}


def test_offsets_rise_within_each_partition() -> None:
    one = sends((ACKED, 0, 5), (ACKED, 1, 2), (ACKED, 0, 6), (ACKED, 1, 2), (ACKED, 0, 4))
    assert dict(checked(one, logs=[log(), log()]).regressed.by_partition) == {0: 1, 1: 1}


def test_losses_are_of_the_partition_to_which_they_were_sent() -> None:
    one = sends((ACKED, 0, 0), (ACKED, 2, 7), (ACKED, 2, 8))
    lost = checked(one, logs=[log((0, 0, 0)), log(), log()]).lost
    assert lost.by_partition == {2: 2}
    assert lost.first == ("record 0/1, acknowledged at 2:7", "record 0/2, acknowledged at 2:8")


def with_errors(failed: int, unheard: int) -> Written:
    """Return a history of which some records failed, 12 s after the fault, and others were not heard of."""
    written = history(down=False)
    rows = written.outcomes[0].copy()
    rows["error"][np.arange(len(rows)) < (END - START - 20) * RATE] = 0
    begin = int((FAULT + 12 - START) * RATE)
    rows["error"][begin : begin + failed] = 19
    kept_rows = np.ones(len(rows), bool)
    kept_rows[begin + 100 : begin + 100 + unheard] = False
    return replace(written, outcomes=[rows[kept_rows]])


@pytest.mark.parametrize(("failed", "unheard"), [(0, 0), (7, 0), (0, 5), (7, 5)])
def test_records_are_acked_failed_or_unresolved_and_add_up(failed: int, unheard: int) -> None:
    failover, metrics, accounting = analyse(with_errors(failed, unheard))
    assert (accounting.attempted, accounting.failed_total, accounting.unresolved) == (12_000, failed, unheard)
    assert accounting.acked == 12_000 - failed - unheard
    assert accounting.attempted == accounting.acked + accounting.failed_total + accounting.unresolved
    assert metrics["unknown_records"] == failed + unheard
    assert metrics["vanished_records"] == 0, "all of them are in the log"
    assert (failover.integrity["failed"], failover.integrity["timed_out"]) == (failed, 0)
    assert failover.integrity["appeared"] == failed + unheard


def test_what_was_never_acknowledged_and_is_not_there_has_vanished() -> None:
    written = with_errors(7, 0)
    begin = int((FAULT + 12 - START) * RATE)
    gone = replace(written, log=np.delete(written.log, np.arange(begin, begin + 3)))
    metrics = analyse(gone)[1]
    assert (metrics["unknown_records"], metrics["vanished_records"], metrics["lost_records"]) == (7, 3, 0)


def test_a_log_that_was_not_read_to_its_end_says_nothing_of_losses() -> None:
    failover, metrics, _ = analyse(replace(with_errors(7, 0), log=history(lose=4).log))
    assert metrics["lost_records"] > 0
    left, known = without_integrity(failover, metrics)
    assert left.integrity == {**dict.fromkeys(failover.integrity, 0), "failed": 7, "timed_out": 0}
    assert left.findings == {}
    gone = {"lost_records", "duplicated_records", "reordered_records", "unknown_records", "vanished_records"}
    assert set(metrics) - set(known) == gone


def test_a_send_counts_as_at_once_within_a_second_and_in_the_end_whenever_it_comes() -> None:
    """The eighth of a phase of 8 s whose records waited for its end: those due in its last second."""
    failover, _, _ = analyse(history())
    assert failover.shares["no leader"]["0"] == 1.0
    assert failover.shares_at_once["no leader"]["0"] == pytest.approx(1 / OUTAGE, abs=0.005)
    assert failover.shares_at_once["before"]["0"] == pytest.approx(1.0, abs=0.005)


@pytest.mark.parametrize(
    ("full_at", "phases"),
    [
        (20.0, {"shrunken ISR": (OUTAGE, 20.0), "restored": (20.0, 40.0)}),
        (5.0, {"shrunken ISR": (OUTAGE, 15.0), "restored": (15.0, 40.0)}),
        (None, {"shrunken ISR": (OUTAGE, 40.0), "restored": (40.0, 40.0)}),
    ],
)
def test_replicas_are_in_sync_again_after_the_last_thing_that_was_done(
    full_at: float | None, phases: dict[str, Any]
) -> None:
    """The broker is started again 15 s after the fault: what looked whole before was before it was seen to be gone."""
    states: list[State] = [state(START, 1, (1, 2, 3), (1, 2, 3)), state(FAULT + 2, 3, (2, 3), (2, 3))]
    if full_at is not None:
        states.append(state(FAULT + full_at, 1, (1, 2, 3), (1, 2, 3)))
    failover, metrics, _ = analyse(replace(history(), states=states))
    for name, span in phases.items():
        assert failover.phases[name] == pytest.approx(span, abs=0.05)
    if full_at is None:
        assert "full_isr_s" not in metrics
        assert "preferred_leaders_s" not in metrics
    else:
        assert metrics["full_isr_s"] == metrics["preferred_leaders_s"] == pytest.approx(max(15.0, full_at))


def test_a_record_that_the_fault_caught_under_way_is_not_of_before() -> None:
    written = history()
    rows = written.outcomes[0].copy()
    slow = int((FAULT - 1 - START) * RATE) + 1  # of the partition that goes on
    rows["at"][slow] = FAULT + 5
    metrics = analyse(replace(written, outcomes=[rows]))[1]
    assert metrics["latency_before_ms.max"] == pytest.approx(4.0, rel=0.02)
    assert "latency_during_ms.max" in metrics


def test_a_load_has_recovered_since_it_was_as_before_for_ten_seconds() -> None:
    written = history()

    def at(now: float, since: float = FAULT) -> bool:
        heard = [rows[rows["at"] < now] for rows in written.outcomes]
        return recovered(written.start, written.rate, written.sends, heard, FAULT, now, since=since)

    assert [at(FAULT + now) for now in (9.0, 18.0, 19.5, 30.0)] == [False, False, True, True]
    assert not at(FAULT + 30.0, since=FAULT + 25.0)


def test_brokers_that_never_serve_a_record_again_are_down_to_the_end() -> None:
    """Of no second with a record its p99 was asked for: the run ended in an error of its own, and not in red."""
    written = history(down=False)
    heard = [rows[rows["at"] < FAULT] for rows in written.outcomes]
    assert not recovered(written.start, written.rate, written.sends, heard, FAULT, FAULT + 10, since=FAULT)
    assert not recovered(written.start, written.rate, written.sends, heard, FAULT, FAULT + 0.5, since=FAULT)
    dead = replace(written, outcomes=heard)
    failover, metrics, _ = analyse(dead)
    assert metrics["outage_s.max"] == pytest.approx(END - FAULT, abs=0.02)
    assert metrics["outage_all_s"] == pytest.approx(END - FAULT, abs=0.02)
    assert not {"recovery_s", "rate_recovery_s", "latency_after_ms.p99"} & set(metrics)
    assert failover.p99_ms[-1] is None
    assert failover.down["1"][0] == pytest.approx((0.0, END - FAULT), abs=0.02)
    assert sum(failover.acknowledged["0"][10:]) == 0
    assert judge_scenario(measured(faulty(), dead), None).verdict is Verdict.REGRESSED


def served(*gaps: tuple[float, float], end: float = 60.0) -> np.ndarray:
    times = np.arange(0.0, end, 0.01)
    for begin, over in gaps:
        times = times[(times <= begin) | (times >= over)]
    return times


@pytest.mark.parametrize(
    ("before_s", "gap_s", "down"),
    [(0.01, 0.09, False), (0.01, 0.11, True), (0.3, 0.59, False), (0.3, 0.62, True)],
)
def test_a_partition_is_down_in_a_gap_of_twice_the_longest_before_and_of_a_tenth_of_a_second(
    before_s: float, gap_s: float, down: bool
) -> None:
    found_ = outage({0: served((10.0, 10.0 + before_s), (30.0, 30.0 + gap_s))}, 5.0, 20.0, 60.0)
    assert found_.max_s == pytest.approx(gap_s, abs=0.011)
    assert bool(found_.affected) is down
    assert found_.partition_seconds == pytest.approx(gap_s if down else 0.0, abs=0.011)


def test_the_gap_that_the_fault_falls_into_counts_from_the_last_service_before_it() -> None:
    found_ = outage({0: served((19.0, 25.0))}, 5.0, 20.0, 60.0)
    assert found_.max_s == pytest.approx(6.0, abs=0.01)
    assert found_.partitions[0].down[0] == pytest.approx((19.0, 25.0), abs=0.01)


def test_what_is_normal_is_known_from_the_begin_to_the_fault() -> None:
    """A gap of 2 s before that is not of the load as it was, and what comes at the fault itself is after it."""
    found_ = outage({0: served((3.0, 4.99), (30.0, 31.0))}, 5.0, 20.0, 60.0)
    assert found_.affected == 1
    assert found_.resolution_s == pytest.approx(0.01)
    with pytest.raises(ValueError, match="2 records before the fault"):
        outage({0: np.array([5.0, 6.0, 20.0, 21.0])}, 5.0, 20.0, 60.0)
    assert outage({0: np.array([5.0, 6.0, 7.0, 20.0])}, 5.0, 20.0, 30.0).max_s == 13.0


def test_the_median_and_the_coarsest_partition_are_told() -> None:
    found_ = outage(
        {0: served((20.0, 22.0)), 1: served((20.0, 26.0)), 2: served((20.0, 21.0), (8.0, 8.5))}, 5.0, 20.0, 60.0
    )
    assert (found_.max_s, found_.median_s) == pytest.approx((6.0, 2.0), abs=0.02)
    assert found_.partition_seconds == pytest.approx(8.0, abs=0.03), "1 s is no longer than twice the 0.5 s before"
    assert found_.all_down_s == 0.0


def test_intervals_that_touch_have_nothing_in_common() -> None:
    assert common([[(0.0, 2.0)], [(2.0, 3.0)]]) == []
    assert common([[(0.0, 2.0), (5.0, 9.0)], [(1.0, 6.0)]]) == [(1.0, 2.0), (5.0, 6.0)]
    assert common([[(0.0, 2.0)]]) == [(0.0, 2.0)]
    assert common([]) == []


@pytest.mark.parametrize(
    ("late", "left_s"),
    [
        ((), 6.0),
        (((26.0, 2.0),), 4.0),
        (((26.0, 9.0),), 0.01),
        (((24.0, 2.0),), 4.0),
        (((21.0, 9.0),), 5.0),
        (((40.0, 2.0),), 6.0),
        (((22.0, 1.0), (26.0, 3.0)), 3.0),
    ],
)
def test_late_sends_explain_of_a_gap_what_of_it_they_were_late_in(
    late: tuple[tuple[float, float], ...], left_s: float
) -> None:
    """A gap from 20 to 26 s; of sends at a moment that were so late, the longest part counts once."""
    times = served((20.0, 26.0))
    sent, by = (np.array([one[n] for one in late]) for n in (0, 1))
    assert in_spite_of_s(times, sent, by, 20.0, 60.0) == pytest.approx(left_s, abs=0.03)


def test_seconds_are_whole_and_of_their_own_records() -> None:
    at = np.array([9.99, 10.0, 10.99, 11.0, 12.99, 13.0, 13.4])
    found_ = bins(at, np.array([9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 10.0, 13.5)
    assert found_.rate.tolist() == [2.0, 1.0, 1.0]
    assert found_.p99_s.tolist() == pytest.approx([1.99, 3.0, 4.0])
    assert len(bins(at, at, 13.0, 10.0).rate) == 0


GOOD = 0.01


@pytest.mark.parametrize(
    ("rates", "p99s", "recovered_s"),
    [
        ([95.0] * 10, [0.015] * 10, 0.0),
        ([94.9] + [95.0] * 10, [GOOD] * 11, 1.0),
        ([95.0] * 10, [0.0151] + [GOOD] * 9, None),
        ([95.0] * 9, [GOOD] * 9, None),
        ([100.0] * 9 + [0.0] + [100.0] * 9, [GOOD] * 19, None),
        ([100.0] * 9 + [0.0] + [100.0] * 10, [GOOD] * 20, 10.0),
    ],
)
def test_as_before_is_ten_seconds_of_95_percent_of_the_rate_at_one_and_a_half_times_the_p99(
    rates: list[float], p99s: list[float], recovered_s: float | None
) -> None:
    after = Bins(rate=np.array(rates), p99_s=np.array(p99s))
    assert recovery(after, 100.0, GOOD) == recovered_s


@pytest.mark.parametrize(
    ("missing_s", "is_kept"),
    [((55.0, 60.0), True), ((54.4, 60.0), False), ((50.0, 50.45), True), ((48.0, 49.0), True), ((40.0, 60.0), False)],
)
def test_a_rate_is_kept_that_lacks_no_more_than_the_last_five_seconds(
    missing_s: tuple[float, float], is_kept: bool
) -> None:
    """Ten seconds that end within the last five have 95 %: half a second of them may lack."""
    assert kept(served(missing_s), 100.0, 60.0) is is_kept


def test_a_rate_of_95_percent_is_kept_and_one_of_94_is_not() -> None:
    assert kept(np.arange(0.0, 60.0, 1 / 95.5), 100.0, 60.0)
    assert not kept(np.arange(0.0, 60.0, 1 / 94.0), 100.0, 60.0)


def test_shares_are_of_what_was_due_from_the_begin_of_a_phase_to_before_its_end() -> None:
    due, partition = np.array([0.0, 1.0, 1.0, 2.0]), np.array([0, 0, 1, 1])
    acknowledged = np.array([True, False, True, True])
    found = shares(due, partition, acknowledged, {"first": (0.0, 1.0), "second": (1.0, 2.0)})
    assert found == {"first": {"0": 1.0, "1": 1.0}, "second": {"0": 0.0, "1": 1.0}}


def test_a_history_without_outcomes_of_a_producer_is_all_unknown() -> None:
    written = history(down=False)
    metrics = analyse(replace(written, outcomes=[written.outcomes[0][: int(39 * RATE)]]))[1]
    assert metrics["unknown_records"] == len(written.sends[0]) - 39 * RATE
    assert np.zeros(0, OUTCOME)["error"].sum() == 0


def test_a_gap_that_ended_before_the_fault_is_none_of_it() -> None:
    found_ = outage({0: served((17.0, 19.99))}, 5.0, 20.0, 60.0)
    assert found_.max_s == pytest.approx(0.01, abs=0.001)
    assert found_.partitions[0].down == ()


def test_a_second_without_a_record_comes_first_as_well_as_last() -> None:
    found_ = bins(np.array([11.5, 11.6, 13.5]), np.array([1.0, 1.0, 4.0]), 10.0, 15.0)
    assert found_.rate.tolist() == [0.0, 2.0, 0.0, 1.0, 0.0]
    assert found_.p99_s.tolist() == [np.inf, 1.0, np.inf, 4.0, np.inf]
