"""Units that were alike in turn, or lay far off to one side, were called SLOWER or FASTER ten times as often as stated.

The figures by many more draws: benchmarks/unit_errors.py and docs/verdict-quality.md.
"""

import math
from statistics import median

import numpy as np
import pytest

from benchmarks.unit_errors import drawn
from perfgate.judge.sequential import POWER, chance_of_answer, estimate, looks_until, units_needed
from tests.harness.build.units import judge_units

DRAWS = 2000


@pytest.mark.parametrize(
    ("kind", "planned", "most"),
    [
        # most: in 1,000 comparisons in which nothing differs, both sides together; behind it what it was
        ("independent", 40, 3.0),
        ("correlated by 0.3", 9, 5.0),  # 12
        ("correlated by 0.3", 40, 8.0),  # 28
        ("correlated by 0.3", 85, 8.0),  # 30
        ("correlated by 0.5", 9, 9.0),  # 40
        ("correlated by 0.5", 40, 17.0),  # 98
        ("correlated by 0.5", 85, 15.0),  # 113
        ("exponential", 9, 13.0),  # 31
        ("exponential, mirrored", 9, 13.0),  # 31
        ("exponential", 40, 10.0),  # 27
        ("exponential, mirrored", 40, 10.0),  # 27
        ("exponential", 85, 7.0),  # 21
        ("lognormal", 9, 5.0),  # 11
        ("lognormal", 85, 5.0),  # 9
    ],
)
def test_false_alarms_stay_rare(kind: str, planned: int, most: float) -> None:
    draws = drawn(kind, DRAWS, planned, np.random.default_rng(planned)) / 2
    wrong = sum(judge_units(units, planned, final=True)[0] in (-1, 1) for units in draws)
    assert wrong * 1000 / DRAWS <= most


@pytest.mark.parametrize(("effect", "spread", "planned", "least"), [(-0.052, 0.09, 85, 0.9), (-0.105, 0.1, 40, 0.95)])
def test_independent_units_still_show_what_they_did(effect: float, spread: float, planned: int, least: float) -> None:
    draws = np.random.default_rng(5).normal(math.log1p(effect), spread, (400, planned))
    assert np.mean([judge_units(units, planned, final=True)[0] == -1 for units in draws]) > least


WORLDS = [(0.0, 0.05), (0.02, 0.05), (-0.105, 0.1), (-0.054, 0.09), (0.08, 0.04), (-0.3, 0.1)]


def units_that_would_tell(mean: float, spread: float) -> int:
    """Return the number by the truth, not by a few units."""
    ends = [mean - spread, mean + spread] * 500
    found = estimate(np.random.default_rng(1).permutation(ends).tolist(), looks_until(1000, 1000, last=True))
    assert found.mean == pytest.approx(mean)
    return units_needed(found)


@pytest.mark.parametrize(("mean", "spread"), WORLDS)
def test_as_many_units_as_are_said_to_be_needed_tell_in_eight_of_ten(mean: float, spread: float) -> None:
    needed = units_that_would_tell(mean, spread)
    draws = np.random.default_rng(2).normal(mean, spread, (500, needed))
    told = np.mean([judge_units(units, needed, final=True)[0] is not None for units in draws])
    assert 0.7 < told < 0.95


@pytest.mark.parametrize("units", [5, 9, 20])
@pytest.mark.parametrize(("mean", "spread"), [(-0.105, 0.1), (-0.105, 0.2), (0.08, 0.1)])
def test_few_units_say_how_many_would_tell_within_a_factor_of_two(mean: float, spread: float, units: int) -> None:
    draws = np.random.default_rng(units).normal(mean, spread, (200, units))
    looks = looks_until(units, units, last=True)
    ratio = median(units_needed(estimate(few, looks)) for few in draws) / units_that_would_tell(mean, spread)
    assert 0.5 < ratio < 2


def test_units_needed_is_the_first_number_that_is_likely_to_tell() -> None:
    found = estimate([-0.2, 0.1, -0.05, -0.1, 0.02, -0.12], looks_until(6, 6, last=True))
    likely = [planned for planned in range(4, 400) if chance_of_answer(found, planned) >= POWER]
    assert likely == list(range(units_needed(found), 400))
