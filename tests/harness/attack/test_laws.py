"""Laws of the judge, for any rounds."""

import math

from hypothesis import given
from hypothesis import strategies as st

from perfgate.judge.claims.relation import judge_relation
from perfgate.judge.claims.threshold import judge_threshold
from perfgate.model import Verdict
from tests.harness.build import measurement, relation, threshold

RATES = st.lists(st.floats(100, 2000), min_size=2, max_size=15)
REACH = st.floats(0.02, 0.5)
TROUBLE = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.just(0.0), st.floats(-10, 0))


@given(rounds=RATES, reach=REACH, factor=st.floats(0.1, 0.999))
def test_a_rate_made_worse_never_gets_a_better_verdict(rounds: list[float], reach: float, factor: float) -> None:
    held = threshold("records_per_s", 1000.0, reach)
    before, after = judge_threshold(rounds, held), judge_threshold([value * factor for value in rounds], held)
    if not before.reason.startswith("too good"):
        assert after.verdict is not Verdict.IMPROVED or before.verdict is Verdict.IMPROVED
        assert not after.verdict.green or before.verdict.green
    if before.verdict is Verdict.REGRESSED:
        assert after.verdict is Verdict.REGRESSED


@given(rounds=RATES, reach=REACH, worse=st.floats(0.0, 1.0))
def test_a_round_added_that_is_worse_than_all_never_turns_red_into_green(
    rounds: list[float], reach: float, worse: float
) -> None:
    held = threshold("records_per_s", 1000.0, reach)
    before, after = judge_threshold(rounds, held), judge_threshold([*rounds, min(rounds) * worse], held)
    assert not (before.verdict is Verdict.REGRESSED and after.verdict.green)


@given(rounds=RATES, reach=REACH, power=st.integers(-20, 20))
def test_the_unit_does_not_matter(rounds: list[float], reach: float, power: int) -> None:
    here = judge_threshold(rounds, threshold("records_per_s", 1000.0, reach))
    unit = 2.0**power
    there = judge_threshold([value * unit for value in rounds], threshold("records_per_s", 1000.0 * unit, reach))
    assert there.verdict is here.verdict


@given(rounds=RATES, ends=st.tuples(st.floats(0.1, 1.0), st.floats(1.01, 20.0)))
def test_a_relation_and_its_inverse_agree_on_green(rounds: list[float], ends: tuple[float, float]) -> None:
    """The median of an even number of ratios, and its error, are not the same upside down: so not beyond green."""
    slow = measurement([500.0] * len(rounds), "slow")
    held = relation(ends[0], at_most=ends[1])
    outcome = judge_relation(held, {"fast": measurement(rounds, "fast"), "slow": slow})
    if outcome.verdict is Verdict.PASS:
        ratios = sorted(outcome.rounds)
        assert ends[0] <= ratios[len(ratios) // 2]
        assert ratios[(len(ratios) - 1) // 2] <= ends[1]


@given(rounds=st.lists(st.one_of(st.floats(100, 2000), TROUBLE), min_size=2, max_size=9), reach=REACH)
def test_nothing_raises_and_no_trouble_is_green(rounds: list[float], reach: float) -> None:
    found = judge_threshold(rounds, threshold("records_per_s", 1000.0, reach))
    if any(not math.isfinite(value) for value in rounds):
        assert not found.verdict.green
