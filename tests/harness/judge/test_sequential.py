"""The group-sequential test: its boundaries against published tables, and the laws that a verdict must keep."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from perfgate.judge.sequential import (
    ERROR,
    INTERVAL_ERROR,
    MARGIN,
    Looks,
    boundaries,
    critical,
    detectable,
    estimate,
    looks_until,
    scheduled,
    units_needed,
    widening,
)
from tests.harness.build.units import judge_units

FIFTHS = (1, 2, 3, 4, 5)
UNITS = st.lists(st.floats(-0.5, 0.5, allow_nan=False), min_size=2, max_size=40)


def obrien_fleming_spending(error: float) -> tuple[float, ...]:
    """Lan and DeMets' spending function that resembles O'Brien and Fleming's bounds, as shares of the error."""
    level = stats.norm.isf(error / 2)
    return tuple(float(2 * stats.norm.sf(level / math.sqrt(n / 5)) / error) for n in FIFTHS)


def test_the_boundaries_are_those_of_published_tables() -> None:
    """Lan and DeMets, five equal looks, two-sided 5 %: 4.877, 3.357, 2.680, 2.290, 2.031."""
    found = boundaries(Looks(FIFTHS, obrien_fleming_spending(0.025)), 0.025)
    assert found == pytest.approx((4.877, 3.357, 2.680, 2.290, 2.031), abs=0.002)


def test_one_look_is_the_plain_test_with_a_widened_error() -> None:
    assert boundaries(Looks((7,), (1.0,)), 0.025) == pytest.approx((1.95996,), abs=1e-4)
    logs = [0.02, -0.01, 0.03, 0.01, 0.02]
    found = estimate(logs, looks_until(5, 5, last=True) if scheduled(5) == (5,) else Looks((5,), (1.0,)))
    low, high = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    wider = widening(5, found.correlation, found.skewness) * (high - low) / 2
    assert found.interval == pytest.approx((0.014 - wider, 0.014 + wider))
    assert found.skewness == pytest.approx(stats.skew(logs))


@pytest.mark.parametrize(
    ("units", "correlation", "skewness", "factor"),
    [
        (10, 0.5, 0.0, 3**0.5),
        (10, -0.5, 0.0, 1.0),
        (10, -0.9, 0.0, 1.0),
        (10**6, 0.0, 0.0, 1.0),
        (10**6, 0.5, 0.0, 3**0.5),
        (10**6, 0.99, 0.0, 3.0),
        (16, -0.9, 2.0, 2.0),
        (16, -0.9, -2.0, 2.0),
    ],
)
def test_the_error_is_widened_by_correlation_and_skewness(
    units: int, correlation: float, skewness: float, factor: float
) -> None:
    assert widening(units, correlation, skewness) == pytest.approx(factor, rel=1e-4)


@settings(deadline=None)
@given(UNITS, st.floats(1e-3, 1e3))
def test_the_interval_is_never_narrower_than_students_and_goes_by_scale_alone(logs: list[float], scale: float) -> None:
    looks = looks_until(len(logs), len(logs), last=True)
    found, scaled = estimate(logs, looks), estimate([scale * x for x in logs], looks)
    plain = critical(looks, INTERVAL_ERROR, len(logs) - 1) * found.spread / math.sqrt(len(logs))
    assert found.interval[0] <= found.mean - plain <= found.mean + plain <= found.interval[1]
    if found.spread > 1e-9:
        assert scaled.interval == pytest.approx([scale * x for x in found.interval], rel=1e-6, abs=1e-12)


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, -0.1, 0.1, 5e-324, 1e-162, 1e-9, 30.0]), min_size=2, max_size=30))
def test_no_units_are_too_odd_to_be_judged(logs: list[float]) -> None:
    _, found = judge_units(logs, len(logs), final=True)
    assert all(math.isfinite(x) for x in (found.error, *found.interval, detectable(found), units_needed(found)))


def test_units_that_are_all_alike_have_no_error() -> None:
    for log, decision in ((0.0, 0), (0.25, 1), (-0.25, -1)):
        found_decision, found = judge_units([log] * 6, 6, final=True)
        assert (found_decision, found.error, units_needed(found)) == (decision, 0.0, 4)


PLANS = st.lists(st.integers(4, 90), min_size=1, max_size=3, unique=True).map(sorted)
"""The plans that it grew from, and the last one."""


@settings(deadline=None, max_examples=30)
@given(PLANS)
def test_the_error_is_spent_once_over_all_looks(plans: list[int]) -> None:
    """By simulation: of sums of normal numbers that drift nowhere, the stated share crosses a boundary at some look."""
    *former, planned = plans
    looks = looks_until(planned, planned, last=True, former=former)
    bounds = boundaries(looks, 0.05)
    sums = np.random.default_rng(planned).normal(size=(20_000, planned)).cumsum(axis=1)
    crossed = np.zeros(len(sums), bool)
    for units, bound in zip(looks.units, bounds, strict=True):
        crossed |= sums[:, units - 1] / math.sqrt(units) > bound
    assert crossed.mean() == pytest.approx(0.05, abs=0.008)


@given(PLANS, st.integers(1, 90))
def test_looks_rise_to_the_plan_and_spend_no_more_than_there_is(plans: list[int], units: int) -> None:
    *former, planned = plans
    looks = scheduled(planned, former=former)
    assert list(looks) == sorted(set(looks))
    assert looks[-1] == planned
    assert not {*looks} & {*former}
    until = looks_until(planned, planned, last=True, former=former)
    assert until.units == looks
    assert list(until.spent) == sorted(set(until.spent))
    assert until.spent[-1] == 1.0
    now = looks_until(min(units, planned), planned, last=False, former=former)
    assert len(now.units) == len(now.spent)
    assert list(now.spent) == sorted(set(now.spent))


def test_what_a_smaller_plan_was_looked_at_stays_when_it_grows() -> None:
    """Were those looks forgotten, their share of the error would be spent twice."""
    assert scheduled(40, former=[20])[: len(scheduled(20)) - 1] == scheduled(20)[:-1]
    before = looks_until(16, 20, last=False)
    assert looks_until(16, 40, last=False, former=[20]) == before
    clear = [-0.3, -0.31, -0.29, -0.3, -0.32, -0.28, *([0.3] * 14)]
    assert judge_units(clear, 20, final=False)[0] == judge_units([*clear, 0.1], 40, final=False, former=[20])[0] == -1


@settings(deadline=None)
@given(UNITS)
def test_the_verdict_is_symmetric_in_a_and_b(logs: list[float]) -> None:
    there, found = judge_units(logs, len(logs), final=True)
    back, mirrored = judge_units([-x for x in logs], len(logs), final=True)
    assert (there is None) == (back is None)
    assert there is None or back == -there
    assert mirrored.interval == pytest.approx((-found.interval[1], -found.interval[0]))


@settings(deadline=None)
@given(UNITS)
def test_the_order_of_units_counts_for_their_correlation_alone(logs: list[float]) -> None:
    looks = looks_until(len(logs), len(logs), last=True)
    found, backwards, rising = (estimate(x, looks) for x in (logs, logs[::-1], sorted(logs)))
    assert backwards.interval == pytest.approx(found.interval, abs=1e-9)
    assert rising.mean == pytest.approx(found.mean, abs=1e-12)
    if found.spread > 1e-9:
        assert rising.skewness == pytest.approx(found.skewness, abs=1e-6)


def test_a_drift_is_less_certain_than_the_same_units_by_turns() -> None:
    looks = looks_until(10, 10, last=True)
    drifting, by_turns = (estimate(x, looks) for x in ([-0.1] * 5 + [0.2] * 5, [-0.1, 0.2] * 5))
    assert drifting.error > 2 * by_turns.error


@settings(deadline=None)
@given(UNITS, st.floats(0, 1))
def test_a_better_candidate_never_gets_a_worse_last_look(logs: list[float], gain: float) -> None:
    """Looked at once: below, same or nothing, above, in this order as all units rise by the same."""
    rank = {-1: 0, None: 1, 0: 1, 1: 2}
    once = Looks((len(logs),), (1.0,))
    before, after = (estimate([x + shift for x in logs], once) for shift in (0.0, gain))
    level = before.level
    assert after.mean >= before.mean
    worse = [-1 if e.mean < -level * e.error else 1 if e.mean > level * e.error else None for e in (before, after)]
    if before.error == pytest.approx(after.error):
        assert rank[worse[0]] <= rank[worse[1]]


def test_what_is_certain_but_within_the_margin_is_the_same() -> None:
    logs = [-0.030, -0.031, -0.029, -0.030, -0.0305, -0.0295, -0.030, -0.030]
    assert judge_units(logs, 8, final=True)[0] == 0
    assert judge_units([2 * x for x in logs], 8, final=True)[0] == -1


def test_fewer_units_than_a_spread_needs_are_refused() -> None:
    with pytest.raises(ValueError, match="a spread needs two"):
        judge_units([0.1], 4, final=True)


def test_a_look_that_is_not_scheduled_decides_only_at_the_end() -> None:
    logs = [-0.40, -0.41, -0.39]
    planned = 70
    assert scheduled(planned)[0] == 4
    assert judge_units(logs, planned, final=False)[0] is None
    assert judge_units(logs, planned, final=True)[0] == -1


def test_a_decision_made_at_a_look_stays_when_the_run_is_judged_again() -> None:
    """The run stopped at its look; judged as final, the same look must give the same answer."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        logs, planned = list(rng.normal(rng.choice([-0.06, -0.04, 0, 0.05]), 0.03, 40)), 40
        for units in scheduled(planned):
            decision, _ = judge_units(logs[:units], planned, final=False)
            if decision is not None:
                assert judge_units(logs[:units], planned, final=True)[0] == decision
                break


def test_more_noise_needs_more_units_and_shows_only_larger_differences() -> None:
    quiet, loud = (
        estimate(list(np.random.default_rng(3).normal(0, spread, 20)), looks_until(20, 20, last=True))
        for spread in (0.02, 0.2)
    )
    assert detectable(quiet) < detectable(loud)
    assert units_needed(quiet) < units_needed(loud)
    assert math.log1p(MARGIN) > 0 and ERROR < INTERVAL_ERROR  # noqa: PT018 - one statement of how they stand


def test_false_alarms_are_as_rare_as_stated() -> None:
    """2 x ERROR of comparisons where nothing differs: 4 expected of 2,000; 15 would be one in a hundred thousand."""
    rng = np.random.default_rng(11)
    wrong = sum(judge_units(list(rng.normal(0, 0.1, 40)), 40, final=True)[0] in (-1, 1) for _ in range(2000))
    assert wrong < 15
