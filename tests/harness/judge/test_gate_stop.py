"""Rounds that are enough: where all that is claimed of a scenario is kept by far, and nowhere else."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.judge.claims.relation import judge_relation
from perfgate.judge.claims.threshold import judge_threshold
from perfgate.judge.gate_stop import FEWEST_SURE, GateStopRule, kept_by_far
from perfgate.judge.scenario_case import judge_scenario
from perfgate.model import Load, Measurement, Profile, Verdict
from tests.harness.build import flawed, measurement, profile, relation, threshold

RATE, CPU = threshold("records_per_s", 1000.0, 0.15), threshold("broker_cpu_us_per_record", 50.0, 0.15)
P99 = threshold("latency_ms.p99", 20.0, 0.5)
HELD = profile(RATE, CPU)
QUIET = (1000.0, 1004.0, 996.0, 1001.0)
FAST, SLOW = "batch-16k", "batch-1k"
RATIO = replace(relation(1.2), of=FAST, over=SLOW)


def sure(rates: tuple[float, ...] = QUIET, held: Profile | None = HELD, **changes: object) -> bool:
    found = replace(measurement(rates), **changes)  # type: ignore[arg-type]
    return GateStopRule(profile=held, rounds=7).sure(found.scenario, {found.scenario.name: found})


def test_four_quiet_rounds_within_all_limits_are_enough() -> None:
    assert sure()
    assert not sure(QUIET[:3]), "the error of three is hardly known"


@pytest.mark.parametrize(
    "rates",
    [
        (860.0, 880.0, 852.0, 861.0),  # within its error of the limit of 850, PASS after all rounds
        (1000.0, 1004.0, 996.0, 840.0),  # one beyond it
        (1000.0, 1300.0, 900.0, 1100.0),  # scattered
        (600.0, 604.0, 596.0, 601.0),  # red
        (1000.0, 985.0, 962.0, 941.0),  # gets worse
        (1000.0, 1004.0, 996.0, math.nan),
    ],
)
def test_what_is_near_its_limit_or_scatters_goes_on(rates: tuple[float, ...]) -> None:
    assert not sure(rates)


def test_each_of_the_metrics_that_are_held_must_be_sure() -> None:
    assert not sure(held=profile(RATE, replace(CPU, baseline=43.4)))
    assert not sure(held=profile(RATE)), "CPU, which must be held, has no limit"


def test_without_limits_of_this_machine_nothing_ends() -> None:
    assert not sure(held=None), "runs from which thresholds are recorded are whole"
    assert not sure(held=replace(HELD, reference=True))
    assert not sure(held=profile(replace(RATE, scenario="other")))


def test_a_flaw_of_any_round_keeps_it_going() -> None:
    found = measurement(QUIET)
    doubted = flawed(found.rounds[0], invalid_metrics={"latency_ms": "sent late"})
    assert not sure(rounds=(doubted, *found.rounds[1:]))


def test_a_rate_that_was_not_taken_in_any_round_keeps_it_going() -> None:
    """Green after four rounds by what may be a stall at a window's end; in the next three it was seen to be none."""
    found = measurement((1001.0, 994.0, 1002.0, 1003.0))
    paced = replace(found.scenario, load=Load(kind="paced", rate=1000.0))
    whole = tuple(replace(r, metrics={**r.metrics, P99.metric.name: 20.0}) for r in found.rounds)
    short = (whole[0], replace(whole[1], not_sustained="not sustained: 994 of 1,000"), *whole[2:])
    held = profile(RATE, CPU, P99)
    assert judge_scenario(replace(found, scenario=paced, rounds=short), held).verdict is Verdict.PASS
    assert sure(scenario=paced, rounds=whole, held=held)
    assert not sure(scenario=paced, rounds=short, held=held)


def test_rounds_that_still_get_better_go_on() -> None:
    assert not sure((900.0, 960.0, 1040.0, 1100.0))


def block(fast: float, slow: tuple[float, ...] = QUIET) -> dict[str, Measurement]:
    return {SLOW: measurement(slow), FAST: measurement([fast * rate for rate in reversed(slow)], FAST)}


@pytest.mark.parametrize(("fast", "enough"), [(1.5, True), (1.23, True), (1.204, False), (1.0, False)])
def test_a_relation_of_the_scenario_must_be_sure_too(fast: float, enough: bool) -> None:
    rule = GateStopRule(profile=HELD, rounds=7, relations=(RATIO,))
    found = block(fast)
    assert rule.sure(found[SLOW].scenario, found) is enough


def test_a_relation_with_a_scenario_of_another_block_is_judged_on_all_rounds() -> None:
    rule = GateStopRule(profile=HELD, rounds=7, relations=(RATIO,))
    found = block(1.5)
    assert not rule.sure(found[SLOW].scenario, {SLOW: found[SLOW]})


def test_a_relation_is_judged_on_the_rounds_of_the_side_that_had_enough() -> None:
    """It was said to scatter too much: any side with fewer rounds had been given up."""
    slow = replace(measurement(QUIET), enough="4 of 7 rounds were enough: all its limits are kept by far")
    fast = measurement([1500.0, 1506.0, 1494.0, 1501.0, 1400.0, 1600.0, 1500.0], FAST)
    assert judge_relation(RATIO, {SLOW: slow, FAST: fast}).verdict is Verdict.PASS
    given_up = judge_relation(RATIO, {SLOW: replace(slow, enough=""), FAST: fast})
    assert given_up.verdict is Verdict.INCONCLUSIVE
    assert "4 of 7 rounds: it scattered too much" in given_up.reasons[0]


def test_a_green_scenario_says_that_fewer_rounds_were_enough() -> None:
    found = replace(measurement(QUIET), enough="4 of 7 rounds were enough")
    outcome = judge_scenario(found, HELD)
    assert outcome.verdict is Verdict.PASS
    assert outcome.reasons == ("4 of 7 rounds were enough",)


@given(st.lists(st.floats(845.0, 1100.0), min_size=1, max_size=15))
def test_what_is_kept_by_far_is_green_too(rates: list[float]) -> None:
    if not kept_by_far(rates, RATE):
        return
    assert len(rates) >= FEWEST_SURE
    assert min(rates) >= RATE.limit
    assert judge_threshold(rates, RATE).verdict is Verdict.PASS


@given(st.lists(st.floats(850.0, 1100.0), min_size=4, max_size=15), st.floats(0.0, 200.0))
def test_better_rounds_are_no_less_sure(rates: list[float], gain: float) -> None:
    """But for rounds that fall by more than 5 %, which a gain can hide or show."""
    assert not kept_by_far(rates, RATE) or kept_by_far([rate * (1 + gain / 1000) for rate in rates], RATE)
