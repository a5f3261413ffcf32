"""Red needed every round beyond the limit, so that more rounds made a slowdown less red; and medians hid every second
round."""

import pytest

from perfgate.judge.claims.threshold import judge_threshold
from perfgate.judge.statistics import many
from perfgate.model import Verdict
from tests.harness.build import threshold

RATE = threshold("records_per_s", 1000.0, 0.1)
CPU = threshold("broker_cpu_us_per_record", 50.0, 0.1)


@pytest.mark.parametrize(
    ("rounds", "verdict"),
    [
        # A true loss of 20 % with one lucky round was INCONCLUSIVE, however many rounds said so.
        ([800, 790, 905], Verdict.REGRESSED),
        ([800, 790, 810, 805, 795, 780, 905], Verdict.REGRESSED),
        ([800, 790, 810, 805, 795, 780, 905] * 2, Verdict.REGRESSED),
        ([640, 700, 610, 650, 600, 690, 1010], Verdict.REGRESSED),
        # At the limit nobody can tell.
        ([900, 910, 890], Verdict.INCONCLUSIVE),
        ([895, 905, 899, 902, 897, 903, 896], Verdict.INCONCLUSIVE),
        ([950, 960, 955], Verdict.PASS),
    ],
)
def test_red_is_a_median_beyond_the_limit_by_its_own_error(rounds: list[float], verdict: Verdict) -> None:
    assert judge_threshold(rounds, RATE).verdict is verdict


@pytest.mark.parametrize(
    ("rounds", "verdict"),
    [
        ([60, 61, 53], Verdict.REGRESSED),
        ([60, 61, 60, 62, 59, 61, 54], Verdict.REGRESSED),
        ([51, 50, 52], Verdict.PASS),
    ],
)
def test_so_it_is_for_what_should_be_low(rounds: list[float], verdict: Verdict) -> None:
    assert judge_threshold(rounds, CPU).verdict is verdict


@pytest.mark.parametrize(
    "rounds",
    [
        [1000, 1000, 1000, 1000, 500, 500, 500],
        [1000, 1005, 995, 1000, 890, 885, 895],
        [1000, 990, 1010, 880, 885, 1000],
        [980, 890, 970, 890, 975],
        [1000] * 10 + [860] * 5,
    ],
)
def test_every_second_or_third_round_beyond_the_limit_is_not_green(rounds: list[float]) -> None:
    found = judge_threshold(rounds, threshold("records_per_s", 1000.0, 0.1))
    assert not found.verdict.green
    wide = judge_threshold(rounds, threshold("records_per_s", 1000.0, 0.6))
    assert wide.verdict is Verdict.PASS or any(value < 400 for value in rounds), "the limit decides, not the shape"


def test_one_round_of_three_is_left_to_the_spread() -> None:
    assert [many(rounds) for rounds in (2, 3, 4, 6, 7, 15)] == [2, 2, 2, 2, 3, 5]
    assert judge_threshold([980, 985, 895], RATE).verdict is Verdict.PASS
    assert judge_threshold([980, 985, 700], RATE).verdict is Verdict.INCONCLUSIVE
