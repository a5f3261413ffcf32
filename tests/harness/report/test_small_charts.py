"""Small charts: round numbers on the axis, points within the picture."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perfgate.report.small_charts import HEIGHT, MOST_TICKS, WIDTH, rounds_chart, sparkline, ticks

FIGURES = st.floats(0, 1e12)


@given(st.floats(1e-6, 1e12))
def test_ticks_are_round_numbers_that_fill_the_axis(top: float) -> None:
    found = ticks(top)
    assert found[0] == 0
    assert 1 <= len(found) - 1 <= MOST_TICKS
    assert found[-1] <= top * (1 + 1e-9)
    assert found[-1] >= top / 2, "half of the axis has no number"
    mantissa = f"{found[1]:.6e}".partition("e")[0].rstrip("0").rstrip(".")
    assert mantissa in ("1", "2", "2.5", "5")


def test_an_axis_of_nothing_has_zero_alone() -> None:
    assert ticks(0.0) == ticks(float("inf")) == [0.0]


@example(rounds=[5e-324], baseline=None, limit=None)  # below every decade
@given(st.lists(FIGURES, min_size=1, max_size=20), st.none() | FIGURES, st.none() | FIGURES)
def test_every_round_lies_in_the_picture(rounds: list[float], baseline: float | None, limit: float | None) -> None:
    drawn = rounds_chart(rounds, "records/s", baseline, limit)
    points = re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', drawn)
    assert len(points) == len(rounds)
    assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in points)
    assert ('class="limit"' in drawn) is (limit is not None)


def test_a_unit_makes_no_markup() -> None:
    assert "<b>" not in rounds_chart([1.0], "<b>", None, None)


@pytest.mark.parametrize(("values", "limit", "held"), [([1.0, 2.0], 1.5, True), ([1.0, 2.0], 3.0, False)])
def test_a_limit_out_of_sight_is_not_drawn(values: list[float], limit: float, held: bool) -> None:
    assert ('class="limit"' in sparkline(values, limit)) is held


def test_one_run_is_no_line() -> None:
    assert sparkline([1.0], None) == ""
    assert "2 runs, from 1 to 1, this one 1" in sparkline([1.0, 1.0], None)
