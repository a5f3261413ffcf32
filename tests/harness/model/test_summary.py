"""The value that the rounds of a measurement come to: laws of the Hodges-Lehmann centre, and what faults have."""

import math
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.catalogue.failover import SCENARIOS
from perfgate.model.summary import centre, metric_value
from tests.harness.build import measurement

RATES = st.lists(st.floats(1.0, 1e6), min_size=1, max_size=15)


@given(RATES)
def test_it_lies_among_the_rounds_and_does_not_depend_on_their_order(rates: list[float]) -> None:
    assert min(rates) <= centre(rates) * (1 + 1e-12)
    assert centre(rates) * (1 - 1e-12) <= max(rates)
    assert centre(sorted(rates)) == centre(rates)


@given(RATES, st.floats(0.01, 100.0))
def test_rounds_that_are_all_so_many_times_as_fast_have_a_centre_so_many_times_as_fast(
    rates: list[float], factor: float
) -> None:
    assert math.isclose(centre([rate * factor for rate in rates]), centre(rates) * factor, rel_tol=1e-9)


@given(RATES, st.integers(0, 14), st.floats(0.0, 1.0))
def test_a_round_that_is_slower_never_makes_it_faster(rates: list[float], place: int, share: float) -> None:
    slower = list(rates)
    slower[place % len(rates)] *= share
    assert centre(slower) <= centre(rates)


@pytest.mark.parametrize(("rounds", "wrong"), [(5, 1), (7, 2), (15, 4)])
def test_a_few_wrong_rounds_do_not_carry_it_away(rounds: int, wrong: int) -> None:
    right = [100.0 + place for place in range(rounds - wrong)]
    assert right[0] <= centre([*right, *[1e9] * wrong]) <= right[-1]


def test_three_slow_rounds_of_seven_show_where_the_median_hides_them() -> None:
    rates = [1000.0] * 4 + [500.0] * 3
    assert statistics.median(rates) == 1000
    assert centre(rates) == 750


def test_a_metric_of_faults_is_their_median() -> None:
    plain = measurement([10.0, 10.0, 40.0])
    assert metric_value(plain, "records_per_s") == 17.5
    assert metric_value(replace(plain, scenario=SCENARIOS[0]), "records_per_s") == 10
