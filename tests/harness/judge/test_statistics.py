"""Laws of the statistics that verdicts rest on."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.judge.statistics import median_interval, median_of, spread

VALUES = st.lists(st.floats(1, 1e6), min_size=2, max_size=40)


@given(VALUES)
def test_the_interval_holds_the_median_and_lies_within_the_values(values: list[float]) -> None:
    low, high = median_interval(values)
    assert min(values) <= low <= statistics.median(values) <= high <= max(values)


@given(VALUES, st.floats(0.01, 100))
def test_scale_does_not_matter(values: list[float], factor: float) -> None:
    scaled = [value * factor for value in values]
    assert spread(scaled) == pytest.approx(spread(values), rel=1e-6, abs=1e-9)
    assert median_interval(scaled) == pytest.approx([end * factor for end in median_interval(values)])
    assert median_of(scaled).error == pytest.approx(median_of(values).error * factor, rel=1e-6, abs=1e-6)


@given(VALUES, st.randoms())
def test_order_does_not_matter(values: list[float], random: object) -> None:
    shuffled = sorted(values, key=lambda _: random.random())  # type: ignore[attr-defined]
    assert median_interval(shuffled) == median_interval(values)
    assert spread(shuffled) == pytest.approx(spread(values))


@pytest.mark.parametrize(("count", "depth"), [(3, 1), (5, 1), (6, 1), (7, 1), (8, 1), (9, 2), (15, 4)])
def test_the_interval_takes_the_order_statistics_that_cover_95_percent(count: int, depth: int) -> None:
    values = [float(value) for value in range(1, count + 1)]
    assert median_interval(values) == (depth, count - depth + 1)
    outside = 2 * sum(math.comb(count, hits) for hits in range(depth)) / 2**count
    assert outside <= 0.05 or depth == 1


def test_spread_is_the_coefficient_of_variation() -> None:
    assert spread([90.0, 100.0, 110.0]) == pytest.approx(0.1)
