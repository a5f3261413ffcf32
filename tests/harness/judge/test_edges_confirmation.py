"""The confirmation run at its edges: intervals that touch, metrics that are better when lower, and how far is far."""

import math

import pytest

from perfgate.judge.confirmation import second_look, stands_alone, to_measure_again
from perfgate.model import Judgement, Outcome, Verdict
from tests.harness.build import measurement, profile, relation, threshold

RATE, CPU = "records_per_s", "broker_cpu_us_per_record"


def outcome(
    verdict: Verdict, metric: str = RATE, interval: tuple[float, float] | None = None, *, step: str = ""
) -> Outcome:
    judged = Judgement(verdict=verdict, metric=metric, interval=interval, step=step)
    return Outcome(name="batch-1k", verdict=verdict, judgements=(judged,))


@pytest.mark.parametrize("metric", [RATE, CPU])
@pytest.mark.parametrize(
    ("then", "now", "apart"),
    [
        ((40.0, 50.0), (51.0, 60.0), True),
        ((40.0, 50.0), (50.0, 60.0), False),
        ((40.0, 50.0), (45.0, 48.0), False),
        ((40.0, 50.0), (30.0, 40.0), False),
        ((40.0, 50.0), (30.0, 39.0), True),
    ],
)
@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.IMPROVED, Verdict.MISSING])
def test_intervals_that_lie_apart_contradict_one_another_in_either_direction(
    metric: str, then: tuple[float, float], now: tuple[float, float], apart: bool, verdict: Verdict
) -> None:
    """Of a cost the second one lies below the first, of a rate above it; what only touches is no contradiction."""
    found = second_look(outcome(Verdict.REGRESSED, metric, then), outcome(verdict, metric, now))
    assert found.verdict is (Verdict.INCONCLUSIVE if apart else verdict)
    assert ("contradicts the first" in found.reasons[-1]) is apart
    assert ("does not confirm the first" in found.reasons[-1]) is not apart


def test_only_what_was_red_contradicts_and_only_the_same_metric_and_step() -> None:
    low, high = (1.0, 2.0), (3.0, 4.0)
    red = outcome(Verdict.REGRESSED, RATE, low)
    for second in (
        outcome(Verdict.PASS, CPU, high),
        outcome(Verdict.PASS, RATE, high, step="a over b"),
        outcome(Verdict.PASS, RATE),
    ):
        assert second_look(red, second).verdict is Verdict.PASS
    green = Judgement(verdict=Verdict.PASS, metric=CPU, interval=low)
    both = Outcome(name="batch-1k", verdict=Verdict.REGRESSED, judgements=(green, *red.judgements))
    assert second_look(both, outcome(Verdict.PASS, CPU, high)).verdict is Verdict.PASS
    assert second_look(outcome(Verdict.REGRESSED), outcome(Verdict.PASS, RATE, high)).verdict is Verdict.PASS


def test_a_second_look_that_is_undecided_contradicts_nothing_and_one_that_is_red_confirms() -> None:
    red = outcome(Verdict.REGRESSED, RATE, (1.0, 2.0))
    undecided = second_look(red, outcome(Verdict.INCONCLUSIVE, RATE, (3.0, 4.0)))
    assert undecided.verdict is Verdict.INCONCLUSIVE
    assert "does not confirm" in undecided.reasons[-1]
    again = second_look(red, outcome(Verdict.REGRESSED, RATE, (3.0, 4.0)))
    assert again.verdict is Verdict.REGRESSED
    assert "confirms" in again.reasons[-1]
    assert again.first_look is red


@pytest.mark.parametrize(
    ("verdict", "wanted"),
    [(Verdict.REGRESSED, Verdict.REGRESSED), (Verdict.PASS, Verdict.INCONCLUSIVE), (Verdict.BROKEN, Verdict.BROKEN)],
)
def test_rounds_that_did_not_count_are_made_up_for_by_red_alone(verdict: Verdict, wanted: Verdict) -> None:
    red = outcome(Verdict.REGRESSED, RATE, (1.0, 2.0))
    found = second_look(red, outcome(verdict, RATE, (1.0, 2.0)), ["round 2: a flaw"])
    assert found.verdict is wanted
    assert found.first_look is red


@pytest.mark.parametrize(
    ("second", "wanted"),
    [
        (Verdict.PASS, Verdict.INCONCLUSIVE),  # apart: brokers come up in more than one state
        (Verdict.INVALID, Verdict.REGRESSED),
        (Verdict.INCONCLUSIVE, Verdict.REGRESSED),
        (Verdict.MISSING, Verdict.REGRESSED),
        (Verdict.REGRESSED, Verdict.REGRESSED),
    ],
)
def test_what_stands_alone_is_taken_back_by_green_alone(second: Verdict, wanted: Verdict) -> None:
    red = outcome(Verdict.REGRESSED, RATE, (1.0, 2.0))
    assert second_look(red, outcome(second, RATE, (3.0, 4.0)), alone=True).verdict is wanted


def alone(metric: str, measured: float | None, *, reach: float = 0.1, verdict: Verdict = Verdict.REGRESSED) -> bool:
    judged = Judgement(verdict=verdict, metric=metric, measured=measured, limit=90.0)
    held = profile(threshold(metric, 100.0, reach=reach))
    return stands_alone(Outcome(name="batch-1k", verdict=verdict, judgements=(judged,)), held)


@pytest.mark.parametrize(
    ("reach", "times"), [(0.1, 2.0), (0.4, 2.0), (0.6, 2.2), (0.9, 2.8)]
)  # twice the limit's distance, and a factor of 2 at the least
def test_a_figure_stands_alone_where_it_is_twice_as_far_off_as_noise_puts_it(reach: float, times: float) -> None:
    for metric, worse in ((CPU, 100.0 * times), (RATE, 100.0 / times)):
        assert alone(metric, worse * (1.001 if metric == CPU else 0.999), reach=reach)
        assert not alone(metric, worse * (0.999 if metric == CPU else 1.001), reach=reach)


def test_a_rate_of_nothing_stands_alone_and_what_was_not_red_does_not() -> None:
    assert alone(RATE, 0.0)
    assert not alone(RATE, 1.0, verdict=Verdict.INCONCLUSIVE)
    assert not alone(RATE, None)
    assert not alone(RATE, -1.0)


@pytest.mark.parametrize(("ratio", "far"), [(0.51, False), (0.5, True), (1.99, False), (2.0, True)])
def test_a_ratio_stands_alone_by_its_bound(ratio: float, far: bool) -> None:
    judged = Judgement(verdict=Verdict.REGRESSED, metric=RATE, measured=ratio, limit=1.0)
    found = Outcome(name="family-rate", verdict=Verdict.REGRESSED, judgements=(judged,))
    assert stands_alone(found, None) is far


@pytest.mark.parametrize(
    ("fast", "slow", "again"),
    [
        (2000.0, 1000.0, set[str]()),
        (1400.0, 1000.0, {"fast", "slow"}),
        (1500.0, 1000.0, set[str]()),
    ],
)
def test_a_relation_that_is_red_measures_both_of_its_scenarios_again(fast: float, slow: float, again: set[str]) -> None:
    measured = {"fast": measurement([fast] * 3, "fast"), "slow": measurement([slow] * 3, "slow")}
    assert to_measure_again(measured, None, [relation(1.5)]) == again
    del measured["slow"]
    assert to_measure_again(measured, None, [relation(1.5)]) == set(), "one side alone is no relation"


def test_a_relation_is_held_on_what_its_own_family_measured() -> None:
    measured = {"fast": measurement([2000.0] * 3, "fast"), "slow": measurement([1000.0] * 3, "slow")}
    slower = measurement([1900.0] * 3, "slow")
    assert to_measure_again(measured, None, [relation(1.5)], {("family", "slow"): slower}) == {"fast", "slow"}
    assert to_measure_again(measured, None, [relation(1.5)], {("other", "slow"): slower}) == set()


def test_no_factor_is_far_for_a_limit_that_is_no_number() -> None:
    assert not alone(RATE, math.nan)
