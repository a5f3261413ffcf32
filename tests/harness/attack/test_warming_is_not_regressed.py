"""Rounds of brokers that still warmed up (.30 .45 .675 of the baseline) were REGRESSED."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.judge.claims.threshold import judge_threshold
from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.warming import still_growing
from perfgate.model import Verdict
from tests.harness.build import measurement, profile, threshold

RATE = threshold("records_per_s", 1000.0, 0.1)
CPU = threshold("broker_cpu_us_per_record", 50.0, 0.1)


@pytest.mark.parametrize(
    ("rounds", "verdict"),
    [
        ([300, 450, 675], Verdict.INCONCLUSIVE),
        ([300, 550, 675], Verdict.INCONCLUSIVE),
        ([300, 400, 390, 500, 560, 640, 700], Verdict.INCONCLUSIVE),
        ([700, 705, 710], Verdict.REGRESSED),
        ([675, 450, 300], Verdict.REGRESSED),
        ([690, 760, 700], Verdict.REGRESSED),
        ([600, 600, 600, 600, 600, 600, 600], Verdict.REGRESSED),
        ([300, 700], Verdict.REGRESSED),
        ([900, 950, 1000, 1050, 1100], Verdict.PASS),
    ],
)
def test_growth_beyond_the_limits_distance_is_no_regression(rounds: list[float], verdict: Verdict) -> None:
    found = judge_threshold(rounds, RATE)
    if rounds == [300, 700]:
        assert not found.verdict.green, "two rounds tell no trend"
        return
    assert found.verdict is verdict
    assert ("warming up" in found.reason) == (verdict is Verdict.INCONCLUSIVE)


def test_cpu_that_still_falls_is_no_regression_either() -> None:
    assert judge_threshold([120, 90, 66], CPU).verdict is Verdict.INCONCLUSIVE
    assert judge_threshold([66, 90, 120], CPU).verdict is Verdict.REGRESSED


@pytest.mark.parametrize(
    ("steady", "growth", "verdict"),
    [
        (3, 1.5, Verdict.REGRESSED),
        (2, 1.5, Verdict.REGRESSED),
        (1, 1.5, Verdict.INCONCLUSIVE),
        (0, 1.5, Verdict.INCONCLUSIVE),
        (0, 1.05, Verdict.REGRESSED),
        (0, 0.5, Verdict.REGRESSED),
    ],
)
def test_a_warm_up_that_was_cut_off_in_most_rounds_is_no_regression_as_far_as_it_goes(
    steady: int, growth: float, verdict: Verdict
) -> None:
    """Brokers that stalled for 1.9 of every 2 s were never steady, and INCONCLUSIVE at 20 times the loss."""
    taken = measurement([600, 610, 605])
    rounds = tuple(replace(r, steady=number < steady, growth=growth) for number, r in enumerate(taken.rounds))
    outcome = judge_scenario(replace(taken, rounds=rounds), profile(RATE, CPU))
    assert outcome.verdict is verdict


@given(st.lists(st.floats(1, 1000), min_size=3, max_size=9), st.floats(0.01, 0.5))
def test_what_grows_does_not_fall(values: list[float], least: float) -> None:
    if still_growing(values, "higher", least):
        assert not still_growing(values, "lower", least)
        assert not still_growing(values[::-1], "higher", least)


@pytest.mark.parametrize(
    ("count", "noise", "at_most"), [(3, 0.04, 0.04), (7, 0.04, 0.01), (7, 0.08, 0.02), (15, 0.15, 0.02)]
)
def test_it_seldom_takes_scatter_for_growth(count: int, noise: float, at_most: float) -> None:
    draws = 700 * np.exp(np.random.default_rng(1).normal(0, noise, (2000, count)))
    taken_for_growth = np.mean([bool(still_growing(row.tolist(), "higher", 0.1)) for row in draws])
    assert taken_for_growth <= at_most
