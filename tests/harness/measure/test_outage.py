"""Outages: what a fault cost, on histories whose answer is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.measure.faults.outage import Bins, bins, common, outage, recovery, shares

RATE = 100.0


def served(gap: tuple[float, float] | None, end: float = 60.0) -> np.ndarray:
    """Times at 100 per second from 0 to `end`, none inside `gap`."""
    times = np.arange(0.0, end, 1 / RATE)
    return times if gap is None else times[(times <= gap[0]) | (times >= gap[1])]


def test_a_gap_is_found_with_its_length_and_who_had_it() -> None:
    found = outage({0: served((20.0, 28.5)), 1: served((20.0, 24.0)), 2: served(None)}, 5.0, 20.0, 60.0)
    assert found.max_s == pytest.approx(8.5, abs=0.02)
    assert found.median_s == pytest.approx(4.0, abs=0.02)
    assert found.affected == 2
    assert found.partition_seconds == pytest.approx(12.5, abs=0.04)
    assert found.all_down_s == 0
    assert found.resolution_s == pytest.approx(0.01)
    assert found.partitions[2].down == ()


def test_when_all_are_down_is_the_overlap() -> None:
    found = outage({0: served((20.0, 28.0)), 1: served((22.0, 30.0))}, 5.0, 20.0, 60.0)
    assert found.all_down_s == pytest.approx(6.0, abs=0.02)


def test_a_partition_that_is_never_served_again_is_down_to_the_end() -> None:
    found = outage({0: served((20.0, 99.0))}, 5.0, 20.0, 60.0)
    assert found.max_s == pytest.approx(40.0, abs=0.02)


def test_gaps_before_the_fault_do_not_count() -> None:
    found = outage({0: served((8.0, 9.0))}, 5.0, 20.0, 60.0)
    assert found.affected == 0
    assert found.max_s == pytest.approx(0.01, abs=0.001)


def test_too_little_before_the_fault_is_no_measure() -> None:
    with pytest.raises(ValueError, match="do not say what is normal"):
        outage({0: np.array([1.0, 30.0])}, 0.0, 20.0, 60.0)


@given(length=st.floats(0.5, 20.0), shift=st.floats(-1e4, 1e6), partitions=st.integers(1, 6), down=st.integers(0, 6))
def test_the_clocks_zero_does_not_matter_and_longer_gaps_cost_more(
    length: float, shift: float, partitions: int, down: int
) -> None:
    def cost(of: float, by: float) -> tuple[float, float, int]:
        one = {n: served((20.0, 20.0 + of) if n < down else None) + by for n in range(partitions)}
        found = outage(one, 5.0 + by, 20.0 + by, 60.0 + by)
        return found.max_s, found.partition_seconds, found.affected

    here, there, longer = cost(length, 0.0), cost(length, shift), cost(length + 1.0, 0.0)
    assert here == pytest.approx(there, abs=1e-3)
    assert here[2] == min(down, partitions)
    assert longer[0] >= here[0]
    assert longer[1] >= here[1]


@given(st.lists(st.lists(st.integers(0, 40), min_size=2, max_size=8, unique=True), min_size=1, max_size=4))
def test_what_intervals_have_in_common_is_what_each_second_says(ends: list[list[int]]) -> None:
    sequences = []
    for marks in ends:
        marks = sorted(marks)[: len(marks) // 2 * 2]
        sequences.append([(float(a), float(b)) for a, b in zip(marks[::2], marks[1::2], strict=True)])
    seconds = [s for s in range(41) if all(any(a <= s < b for a, b in one) for one in sequences)]
    assert sum(end - begin for begin, end in common(sequences)) == len(seconds)


def test_bins_count_and_rank() -> None:
    at = np.array([0.1, 0.2, 0.9, 2.5])
    found = bins(at, np.array([1.0, 3.0, 2.0, 9.0]), 0.0, 3.9)
    assert found.rate.tolist() == [3.0, 0.0, 1.0]
    assert found.p99_s[0] == pytest.approx(2.98)
    assert found.p99_s[1] == np.inf
    assert found.p99_s[2] == 9.0


def test_recovery_needs_ten_good_seconds_in_a_row() -> None:
    rate = np.array([0.0] * 5 + [100.0] * 4 + [50.0] + [96.0] * 10)
    good = Bins(rate=rate, p99_s=np.full(20, 0.01))
    assert recovery(good, 100.0, 0.01) == 10.0
    assert recovery(Bins(rate=rate[:-1], p99_s=np.full(19, 0.01)), 100.0, 0.01) is None
    assert recovery(Bins(rate=rate, p99_s=np.full(20, 0.0151)), 100.0, 0.01) is None, "too slow"


def test_a_load_whose_answers_come_in_bursts_is_as_before_when_it_comes_in_bursts_again() -> None:
    """Recorded on a slow machine, p99 1.4 s: no 10 seconds before the fault would have counted as before."""
    before = np.array([328.0, 680.0, 490.0, 796.0, 552.0, 615.0, 490.0, 285.0, 935.0, 810.0])
    bursts = Bins(rate=before, p99_s=np.full(10, 1.5))
    assert recovery(bursts, before.mean()) is None
    assert recovery(bursts, before.mean(), single=(before.min(), before.max())) == 0.0
    caught_up = np.array([100.0 * share for share in [0.67] * 6 + [3.0] + [1.0] * 3])
    outage_of_one = Bins(rate=caught_up, p99_s=np.full(10, 1.0))
    assert recovery(outage_of_one, 100.0, single=(66.0, 120.0)) is None, "the outage's own records make up for nothing"
    half = Bins(rate=np.tile(before / 2, 3), p99_s=np.full(30, 1.5))
    assert recovery(half, before.mean(), single=(before.min(), before.max())) is None
    dips = Bins(rate=np.maximum(before * 0.8, before.min()), p99_s=np.full(10, 1.5))
    assert recovery(dips, before.mean(), single=(before.min(), before.max())) is None, (
        "no second is worse, but their mean is"
    )


def test_shares_are_of_what_was_due() -> None:
    due, partition = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0, 1, 0, 1])
    acknowledged = np.array([True, True, False, True])
    found = shares(due, partition, acknowledged, {"before": (0.0, 2.0), "after": (2.0, 9.0), "never": (9.0, 10.0)})
    assert found["before"] == {"0": 1.0, "1": 1.0}
    assert found["after"] == {"0": 0.0, "1": 1.0}
    assert found["never"] == {"0": 1.0, "1": 1.0}
