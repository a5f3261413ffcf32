"""Clusters that came up slow half of the time were green in three nights of four: the confirmation run was believed."""

import pytest

from perfgate.judge.claims.relation import judge_relation
from perfgate.judge.confirmation import second_look
from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.wording import scenario_message
from perfgate.model import Outcome, Verdict
from tests.harness.build import measurement, profile, relation, threshold

RATE = threshold("records_per_s", 1000.0, 0.1)
HELD = profile(RATE, threshold("broker_cpu_us_per_record", 50.0, 0.1))


def looks(first: list[float], second: list[float]) -> Outcome:
    """Return what the two looks come to."""
    return second_look(judge_scenario(measurement(first), HELD), judge_scenario(measurement(second), HELD))


SLOW = [600.0, 610.0, 590.0]


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        (SLOW, SLOW, Verdict.REGRESSED),
        (SLOW, [1000, 1010, 990], Verdict.INCONCLUSIVE),
        (SLOW, [1150, 1160, 1155], Verdict.INCONCLUSIVE),
        # A first look that scatters into the second says no more than that it scatters.
        ([845, 840, 935], [930, 960, 970], Verdict.PASS),
        (SLOW, [850, 900, 950], Verdict.INCONCLUSIVE),
    ],
)
def test_looks_that_contradict_each_other_are_no_green(
    first: list[float], second: list[float], verdict: Verdict
) -> None:
    outcome = looks(first, second)
    assert outcome.verdict is verdict
    assert outcome.first_look is not None
    assert outcome.first_look.verdict is Verdict.REGRESSED


def test_nor_are_they_where_another_metric_is_missing() -> None:
    found = [judge_scenario(measurement(rates), profile(RATE)) for rates in (SLOW, [1000.0, 1010.0, 990.0])]
    assert [one.verdict for one in found] == [Verdict.REGRESSED, Verdict.MISSING]
    assert second_look(found[0], found[1]).verdict is Verdict.INCONCLUSIVE


def test_both_looks_are_shown() -> None:
    good = measurement([1000, 1010, 990])
    outcome = second_look(judge_scenario(measurement(SLOW), HELD), judge_scenario(good, HELD))
    assert outcome.verdict is Verdict.INCONCLUSIVE
    message = scenario_message(outcome, good, HELD)
    assert "records_per_s 590 .. 610 then, 990 .. 1,010 now" in message
    assert "first measurement: " in message


def test_so_it_is_for_a_relation() -> None:
    slow = measurement([1000, 1000, 1000], "slow")
    found = [
        judge_relation(relation(1.5), {"fast": measurement(rates, "fast"), "slow": slow})
        for rates in ([1000, 1010, 990], [2000, 2010, 1990])
    ]
    assert second_look(found[0], found[1]).verdict is Verdict.INCONCLUSIVE
