"""A peak that was never offered, or never taken, must not pass: the rest of the window hides it in every total."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.shaped import with_shape
from perfgate.model import Measurement, Round, Verdict
from tests.harness.build import measurement, profile, threshold
from tests.harness.build.shapes import SPIKE, SPIKED, over_time, shaped_result, shaped_round

HELD = profile(
    *(
        replace(threshold(metric, baseline, tolerance), scenario="spike-5x")
        for metric, baseline, tolerance in (
            ("peak_latency_ms.p99", 4.0, 0.5),
            ("p99_back_s", 1.5, 0.5),
            ("owed_records", 10.0, 0.5),
            ("broker_cpu_us_per_record", 50.0, 0.1),
        )
    )
)


def spikes(make: Callable[[int], Round]) -> Measurement:
    made = measurement([400.0], "spike-5x")
    rounds = tuple(make(index) for index in range(1, 6))
    return replace(made, scenario=replace(made.scenario, load=SPIKED), rounds=rounds)


def with_waits(p99_ms: Callable[[float], float], owed_s: float = 0.009) -> Callable[[int], Round]:
    over = over_time(SPIKE, p99_ms=p99_ms, acked_by=lambda at: at - owed_s)
    return lambda index: shaped_round(index, over)


def usual(at: float) -> float:
    return 4.0 if 7 <= at < 18 else 2.0


def test_a_spike_that_was_offered_and_taken_passes() -> None:
    outcome = judge_scenario(spikes(with_waits(usual)), HELD)
    assert outcome.verdict is Verdict.PASS, outcome
    assert {one.metric for one in outcome.judgements} >= {"peak_latency_ms.p99", "p99_back_s", "owed_records"}


@pytest.mark.parametrize(
    ("make", "metric"),
    [
        (with_waits(lambda at: 9.0 if 7 <= at < 18 else 2.0), "peak_latency_ms.p99"),
        (with_waits(lambda at: usual(at) if at < 18 or at > 22 else 9.0), "p99_back_s"),
        (with_waits(usual, owed_s=0.05), "owed_records"),
    ],
)
def test_each_figure_of_the_peak_is_red_by_itself(make: Callable[[int], Round], metric: str) -> None:
    outcome = judge_scenario(spikes(make), HELD)
    assert outcome.verdict is Verdict.REGRESSED
    assert [one.metric for one in outcome.judgements if one.verdict is Verdict.REGRESSED] == [metric]


def never_at_the_peak(at: float) -> float:
    """Of the peak's records most are handed over after it."""
    return 7.5 + (at - 7.5) / 5 if 7.5 <= at <= 17.5 else at


def test_a_generator_that_skips_the_peak_is_invalid() -> None:
    """All records were sent in the end, and in time by the schedule's p99, which is of all of them."""
    over = over_time(SPIKE, sent_by=never_at_the_peak, p99_ms=usual)
    outcome = judge_scenario(spikes(lambda index: shaped_round(index, over)), HELD)
    assert outcome.verdict is Verdict.INVALID
    assert any(
        "a phase of the load was not reached: 8.0 s of its records in the peak" in one for one in outcome.reasons
    )


def test_a_window_that_ends_before_the_shape_does_is_invalid() -> None:
    over = over_time(SPIKE, sent_by=lambda at: min(at, 18.0), p99_ms=usual)
    assert judge_scenario(spikes(lambda index: shaped_round(index, over)), HELD).verdict is Verdict.INVALID


def test_brokers_that_do_not_take_the_peak_are_red() -> None:
    over = over_time(SPIKE, sent_by=never_at_the_peak, p99_ms=usual)

    def full(index: int) -> Round:
        return shaped_round(index, over, pushback_s=8.0, pushback_in_window_s=8.0)

    outcome = judge_scenario(spikes(full), HELD)
    assert outcome.verdict is Verdict.REGRESSED
    assert any("the producers' buffers were full" in one.reason for one in outcome.judgements)


def test_a_p99_that_never_comes_back_is_red_whatever_the_threshold() -> None:
    """Without this a missing time until it is back would be no figure, so INVALID."""
    never = spikes(with_waits(lambda at: 2.0 if at < 7 else 4.1))
    wide = replace(HELD, thresholds={"spike-5x": tuple(replace(t, reach=9.0) for t in HELD.thresholds["spike-5x"])})
    outcome = judge_scenario(never, wide)
    assert outcome.verdict is Verdict.REGRESSED
    assert any("p99 was not back" in one.reason for one in outcome.judgements)


def test_a_round_of_another_load_is_left_as_it_is() -> None:
    result = shaped_result(over_time(SPIKE))
    plain = measurement([400.0]).rounds[0]
    assert with_shape(plain, replace(SPIKED, kind="paced", shape=None), result) is plain
