"""The pure parts of the load: schedule, warm-up, histograms, payloads, validity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.histogram import LatencyRecorder, latency_metrics, merged
from fixtures.load.payload import HEADER, Payloads, time_of
from fixtures.load.schedule import Schedule
from fixtures.load.steady import Progress, has_grown, has_stopped_growing, is_steady
from fixtures.load.validity import accounting_of, flaws
from fixtures.model import Load
from tests.harness.build import accounting, histogram, load_result

CAPPED = Load(kind="capped", rate=1000.0)
PACED = Load(kind="paced", rate=1000.0)


@given(
    start=st.floats(0, 1e6),
    rate=st.floats(1, 1e6),
    elapsed=st.floats(0, 100),
)
def test_due_by_counts_exactly_the_slots_that_have_come(start: float, rate: float, elapsed: float) -> None:
    schedule = Schedule(start, rate)
    now = start + elapsed
    due = schedule.due_by(now)
    assert due == 0 or schedule.due_at(due - 1) <= now
    assert schedule.due_at(due) > now


@given(rate=st.floats(1, 1e5), a=st.floats(0, 50), b=st.floats(0, 50))
def test_due_by_never_falls(rate: float, a: float, b: float) -> None:
    schedule = Schedule(0.0, rate)
    assert schedule.due_by(min(a, b)) <= schedule.due_by(max(a, b))


def test_nothing_is_due_before_the_start() -> None:
    assert Schedule(10.0, 5.0).due_by(9.999) == 0
    assert Schedule(10.0, 5.0).due_by(10.0) == 1


def progress(at: float, acked: int) -> Progress:
    return Progress(at=at, attempted=acked, acked=acked, failed=0, pushback_s=0.0)


def test_an_even_rate_is_steady_and_a_rising_one_is_not() -> None:
    even = [progress(t / 10, 100 * t) for t in range(21)]
    rising = [progress(t / 10, 5 * t * t) for t in range(21)]
    assert is_steady(even, 0.0)
    assert not is_steady(rising, 0.0)


def test_nothing_is_steady_without_acknowledgements_or_too_early() -> None:
    assert not is_steady([progress(t / 10, 0) for t in range(30)], 0.0)
    assert not is_steady([progress(t / 10, 100 * t) for t in range(9)], 0.0)
    assert not is_steady([], 0.0)


def test_one_slice_without_growth_is_not_the_end_of_a_warm_up() -> None:
    assert not has_stopped_growing([201, 572, 797, 800])
    assert has_stopped_growing([201, 4900, 4906, 4800])
    assert not has_stopped_growing([100, 100])
    assert has_stopped_growing([1000, 1090, 1095]), "a step on the way looks like the end"
    assert has_grown([1000, 1090, 1095], [1000, 1090, 1095, 3000]), "so a later pass has to confirm it"
    assert not has_grown([5200, 5100], [5200, 5100, 5300])


@given(st.lists(st.lists(st.floats(1e-6, 100), min_size=1, max_size=40), min_size=1, max_size=4))
def test_merged_percentiles_are_those_of_the_pooled_samples(processes: list[list[float]]) -> None:
    pooled = [value for samples in processes for value in samples]
    together = latency_metrics(histogram(samples) for samples in processes)
    assert together == latency_metrics([histogram(pooled)])
    assert merged(histogram(samples) for samples in processes).get_total_count() == len(pooled)


def test_percentiles_keep_three_digits() -> None:
    metrics = latency_metrics([histogram([i / 1000 for i in range(1, 1001)])])
    assert metrics["latency_ms.p50"] == pytest.approx(500, rel=2e-3)
    assert metrics["latency_ms.p99"] == pytest.approx(990, rel=2e-3)
    assert metrics["latency_ms.max"] == pytest.approx(1000, rel=2e-3)


def test_no_latency_gives_no_percentile_instead_of_zero() -> None:
    assert latency_metrics([LatencyRecorder().encoded()]) == {}
    assert latency_metrics([""]) == {}


@given(sequence=st.integers(0, 2**40), time_s=st.floats(0, 1e6))
def test_a_value_has_the_size_asked_for_and_carries_its_time(sequence: int, time_s: float) -> None:
    value = Payloads(run_id=b"12345678", producer=0, record_bytes=100, seed=1).value(sequence, time_s)
    assert len(value) == 100
    assert time_of(value) == pytest.approx(time_s, abs=1e-8)


def test_a_record_too_small_for_its_header_is_refused() -> None:
    with pytest.raises(ValueError, match="record_bytes is 10; a record needs at least 28"):
        Payloads(run_id=b"12345678", producer=0, record_bytes=10, seed=1)
    assert HEADER.size == 28


def test_a_sound_round_has_no_flaw() -> None:
    assert flaws(CAPPED, load_result(), accounting(3000)) == ()


def test_failed_sends_are_a_flaw_with_code_and_count() -> None:
    result = load_result(acked=2990, failed={"MSG_SIZE_TOO_LARGE": 10}, errors={"MSG_SIZE_TOO_LARGE": "too large"})
    (flaw,) = flaws(CAPPED, result, accounting_of(result, offset_delta=2990))
    assert flaw.reason == "10 of 3,000 sends failed: 10 x MSG_SIZE_TOO_LARGE (too large)"
    assert not flaw.generator


def test_unresolved_records_are_a_flaw() -> None:
    result = load_result(acked=2995, unresolved=5)
    assert [f.reason for f in flaws(CAPPED, result, accounting_of(result, offset_delta=2995))] == [
        "5 of 3,000 records had no outcome when the wait ended"
    ]


@pytest.mark.parametrize("delta", [2999, 3001])
def test_end_offsets_that_disagree_with_the_acknowledgements_are_a_flaw(delta: int) -> None:
    (flaw,) = flaws(CAPPED, load_result(), accounting_of(load_result(), offset_delta=delta))
    assert "records unaccounted: 3,000 acknowledged" in flaw.reason
    assert f"({delta - 3000:+,})" in flaw.reason


def test_a_sum_that_does_not_add_up_is_a_flaw() -> None:
    (flaw,) = flaws(CAPPED, load_result(), accounting(3000, attempted=3001))
    assert "attempted 3,001, but acked 3,000 + failed 0 + unresolved 0 = 3,000" in flaw.reason


def test_a_capped_load_below_its_cap_without_push_back_was_limited_by_the_generator() -> None:
    slow = load_result(attempted_in_window=1900)
    (flaw,) = flaws(CAPPED, slow, accounting(3000))
    assert flaw.generator
    assert "generator saturated: it offered 950 records/s of the cap of 1,000" in flaw.reason


def test_a_capped_load_below_its_cap_with_push_back_was_limited_by_the_brokers() -> None:
    assert flaws(CAPPED, load_result(attempted_in_window=500, pushback_s=1.5), accounting(3000)) == ()


def test_a_paced_load_sent_late_without_push_back_was_limited_by_the_generator() -> None:
    late = load_result(schedule_delay=histogram([0.02] * 100))
    (flaw,) = flaws(PACED, late, accounting(3000))
    assert flaw.generator
    assert "p99 of the schedule delay is 20.0 ms (limit 10 ms)" in flaw.reason
    assert flaws(PACED, load_result(schedule_delay=histogram([0.001] * 100)), accounting(3000)) == ()


def test_a_window_without_an_acknowledgement_is_a_flaw() -> None:
    reasons = [f.reason for f in flaws(CAPPED, load_result(acked_in_window=0), accounting(3000))]
    assert "no record was acknowledged in the window" in reasons
