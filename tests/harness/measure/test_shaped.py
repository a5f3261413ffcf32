"""Figures of a shaped load: phases, the time until p99 is back, what was owed, CPU of each phase, a late generator."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from perfgate.judge.units_case import primary_metric
from perfgate.measure.comparing import cannot_be_compared
from perfgate.measure.shaped import cores, not_reached, shape_figures
from perfgate.model import AS_USUAL, Change, Comparison
from tests.harness.build.comparing import comparing
from tests.harness.build.rounds import histogram, scenario
from tests.harness.build.shapes import SPIKE, SPIKED, over_time, records_by, shaped_round

PEAK_BEGINS, PEAK_ENDS = SPIKE.phases["peak"]


def in_peak(before: float, peak: float) -> Callable[[float], float]:
    return lambda at: peak if int(PEAK_BEGINS) <= at < PEAK_ENDS else before


def test_each_phase_has_its_p99_and_its_cpu() -> None:
    metrics = shaped_round(1, over_time(SPIKE, p99_ms=in_peak(2.0, 9.0))).metrics
    assert metrics["before_peak_latency_ms.p50"] == pytest.approx(2.0, rel=0.01)
    assert metrics["peak_latency_ms.p99"] == pytest.approx(9.0, rel=0.01)
    assert metrics["after_peak_latency_ms.p99"] == pytest.approx(9.0, rel=0.01), "the second in which the peak ends"
    assert metrics["broker_cpu_before_peak_cores"] == pytest.approx(0.1)
    assert metrics["broker_cpu_peak_cores"] == pytest.approx((0.5 * 9.5 + 0.1 * 0.5) / 10)
    assert metrics["broker_cpu_after_peak_cores"] == pytest.approx((0.1 * 22 + 0.5 * 0.5) / 22.5)


@pytest.mark.parametrize(
    ("slow_until", "back_s"),
    [(0, 1.5), (18, 1.5), (20, 3.5), (36, 19.5), (37, 20.5), (38, None), (40, None)],
)
def test_p99_is_back_with_the_first_of_three_good_seconds(slow_until: int, back_s: float | None) -> None:
    """The peak ends at 17.5 s; the shape at 40."""
    p99 = over_time(SPIKE, p99_ms=lambda at: 9.0 if PEAK_BEGINS <= at < slow_until else 2.0)
    r = shaped_round(1, p99)
    assert r.metrics.get("p99_back_s") == back_s
    assert ("p99 was not back at 2 x that before the peak within the 22.5 s after it" in r.not_sustained) is (
        not back_s
    )


def test_one_slow_second_later_is_none_of_the_peaks() -> None:
    r = shaped_round(1, over_time(SPIKE, p99_ms=lambda at: 9.0 if at == 30 else 2.0))
    assert r.metrics["p99_back_s"] == 1.5


def test_what_was_owed_at_most_is_what_was_due_and_not_acknowledged() -> None:
    """Brokers stand still from 10 to 12 s, then take all at once: 2,000 records of the peak."""
    still = over_time(SPIKE, acked_by=lambda at: 10.0 if 10 < at <= 12 else at)
    figures, metrics = shape_figures(SPIKE, still)
    assert metrics["owed_records"] == pytest.approx(2000, abs=2)
    assert metrics["unsent_records"] <= 1
    assert figures.owed[10:12] == pytest.approx((1000, 2000), abs=2)
    assert figures.offered[5] == pytest.approx(200, abs=1)
    assert figures.offered[7] == pytest.approx(600, abs=1)
    assert figures.achieved[10:13] == pytest.approx((0, 0, 3000), abs=4)
    assert sum(figures.offered) == pytest.approx(records_by(SPIKE, 40), abs=2)


def test_what_was_not_counted_since_the_window_was_not_known_is_not_owed() -> None:
    """It was heard of 0.05 s late, so that 10 records went uncounted; as many that were never taken are owed."""
    whole = over_time(SPIKE)
    late = replace(whole, acked=[whole.acked[0] - 10, *whole.acked[1:]])
    assert shape_figures(SPIKE, late)[1]["owed_records"] == pytest.approx(10, abs=1)
    assert shape_figures(SPIKE, late, 0.05)[1]["owed_records"] <= 1
    assert shape_figures(SPIKE, late, 0.02)[1]["owed_records"] == pytest.approx(6, abs=1)
    assert shape_figures(SPIKE, whole, 0.05)[1]["owed_records"] <= 1


@pytest.mark.parametrize(("late_s", "missed"), [(0.5, {}), (1.2, {}), (1.3, {"peak": 1.04}), (5.0, {"peak": 4.0})])
def test_a_phase_is_reached_with_nine_tenths_of_its_records(late_s: float, missed: dict[str, float]) -> None:
    """Of those at its end as many are late as in so long, and at its begin come late those of the base rate."""
    late = over_time(SPIKE, sent_by=lambda at: at - late_s if 7.5 <= at < 20 else at)
    found = {name: seconds for name, seconds in not_reached(SPIKE, late).items() if name == "peak"}
    assert found == {name: pytest.approx(seconds, abs=0.01) for name, seconds in missed.items()}


def test_cpu_that_was_read_over_half_a_phase_is_not_its_own() -> None:
    assert cores({"1": ((5.0, 1.0),), "2": ((10.0, 0.5),)}, 0, 10) is None
    assert cores({"1": ((9.0, 1.0),), "2": ((10.0, 0.5),)}, 0, 10) == 1.5
    assert cores({}, 0, 10) is None


def test_a_late_generator_makes_every_phase_doubtful() -> None:
    late = shaped_round(1, over_time(SPIKE), schedule_delay=histogram([0.05] * 100))
    (flaw,) = late.flaws
    for metric in ("peak_latency_ms.p99", "p99_back_s", "owed_records"):
        assert late.spoilt(metric) == flaw.text
        assert any(doubt.touches(metric) and (doubt.factor is None or doubt.offset) for doubt in late.doubts)
    assert not late.spoilt("records_per_s")


def test_it_is_compared_in_whole_rounds_by_the_p99_of_its_peak() -> None:
    row = replace(scenario("spike-5x"), load=SPIKED)
    change = Change(name="more", changes=(("producer.linger.ms", 5),))
    compared = comparing(change, row)
    assert cannot_be_compared(row, change, compared.setup, AS_USUAL, against=False) is None
    begun = compared._begun(row, pairs=False)
    assert begun.method == "rounds"
    assert [begun.sides[side].load for side in "AB"] == [SPIKED, SPIKED]
    sides = [SimpleNamespace(scenario=row, rounds=())] * 2
    compared_so = cast("Comparison", SimpleNamespace(scenario=row, sides=sides))
    assert primary_metric(compared_so).name == "peak_latency_ms.p99"


def test_a_driver_that_tells_nothing_over_time_has_no_figures() -> None:
    whole = shaped_round(1, over_time(SPIKE))
    assert replace(whole, shape=None) != whole
