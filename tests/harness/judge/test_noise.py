"""Noise between runs and of the machine: how wide a limit is, when nothing can be said, what confirmation decides."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from perfgate.judge.confirmation import second_look
from perfgate.judge.gate_stop import GateStopRule
from perfgate.judge.limits import (
    FACTORS,
    FALSE_RED,
    LARGEST_FACTOR,
    METRICS_PER_SCENARIO,
    SCENARIOS,
    computed_factor,
    false_red,
    noise_factor,
    reach_of,
    runs_needed,
)
from perfgate.judge.noise import CANARY_OFF, disturbed, hopeless
from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.wording import scenario_message
from perfgate.measure.canary import ProcessCpu, busiest, processes_cpu_s, read_canary
from perfgate.model import CanaryReading, Outcome, Verdict
from tests.harness.build import measurement, profile, threshold

QUIET = CanaryReading(deflate_mib_per_s=1000.0, loopback_per_s=20_000.0, pressure=0.0, steal=0.0)
RATE, CPU = threshold("records_per_s", 1000.0, 0.1), threshold("broker_cpu_us_per_record", 50.0, 0.1)


def test_a_night_without_change_is_red_as_rarely_as_stated_by_simulation() -> None:
    """Of one metric, with an eased limit so that it can be counted: the integral against drawn baselines and looks."""
    rng, runs, factor, nights = np.random.default_rng(5), 6, 2.0, 400_000
    baselines = rng.normal(size=(nights, runs))
    limit = baselines.mean(axis=1) - factor * baselines.std(axis=1, ddof=1)
    red = (rng.normal(size=nights) < limit) & (rng.normal(size=nights) < limit)
    assert red.mean() == pytest.approx(false_red(factor, runs), rel=0.05)


@pytest.mark.parametrize("runs", FACTORS)
def test_the_stored_factors_are_the_computed_ones(runs: int) -> None:
    assert noise_factor(runs) == pytest.approx(computed_factor(runs), rel=1e-9)


@pytest.mark.parametrize("runs", FACTORS)
def test_one_look_is_red_by_chance_as_rarely_as_two(runs: int) -> None:
    """By Student's t, which is exact for one look. By the factor of two, one of 230 was red (of ten runs)."""
    factor = noise_factor(runs, looks=1)
    assert factor == pytest.approx(computed_factor(runs, looks=1), rel=1e-9)
    chance = special.stdtr(runs - 1, -factor / np.sqrt(1 + 1 / runs))
    assert chance == pytest.approx(FALSE_RED / (SCENARIOS * METRICS_PER_SCENARIO), rel=1e-3)
    assert reach_of(0.10, 0.05, runs, looks=1) == factor * 0.05


def test_one_look_at_nights_that_are_drawn_is_hardly_ever_red() -> None:
    """A baseline is the median, which scatters more than the mean that the factor is computed for."""
    rng, runs = np.random.default_rng(7), 10
    drawn, nights = 1 + 0.1 * rng.normal(size=(100_000, runs)), 1 + 0.1 * rng.normal(size=100_000)
    baselines, spreads = np.median(drawn, axis=1), drawn.std(axis=1, ddof=1)
    red = {looks: (nights > baselines + noise_factor(runs, looks) * spreads).mean() for looks in (1, 2)}
    assert red[1] <= 0.0005 < 0.003 < red[2]


def night(rows: int, runs: int) -> float:
    """Return the chance of any false red in a night of so many scenarios, by the factor that is in use."""
    one = false_red(noise_factor(runs), runs)
    return 1 - (1 - one) ** (rows * METRICS_PER_SCENARIO)


@settings(deadline=None, max_examples=20)
@given(st.integers(5, 60))
def test_the_factor_keeps_the_chance_for_all_rows_of_a_night(runs: int) -> None:
    assert night(SCENARIOS, runs) <= FALSE_RED
    assert night(SCENARIOS, runs) == pytest.approx(FALSE_RED, rel=0.05)
    assert night(5, runs) < night(SCENARIOS, runs)
    assert false_red(noise_factor(runs), runs) * SCENARIOS * METRICS_PER_SCENARIO == pytest.approx(FALSE_RED)


def test_more_runs_allow_a_narrower_limit_and_the_tolerance_stays_the_least() -> None:
    factors = [noise_factor(runs) for runs in (5, 8, 15, 40)]
    assert factors == sorted(factors, reverse=True)
    assert reach_of(0.10, 0.001, 5) == 0.10
    assert reach_of(0.10, 0.05, 5) > reach_of(0.10, 0.05, 15) > 0.10
    assert reach_of(0.10, 0.0, 0) == 0.10


def test_two_runs_bound_next_to_nothing_and_are_no_error() -> None:
    assert noise_factor(2) == LARGEST_FACTOR


def test_the_runs_that_are_needed_are_the_fewest_that_do() -> None:
    needed = runs_needed(0.10, 0.03)
    assert needed is not None
    assert noise_factor(needed) * 0.03 <= 0.10 < noise_factor(needed - 1) * 0.03
    assert runs_needed(0.10, 0.001) == 3, "of two the factor is not known"
    assert runs_needed(0.10, 0.05) is None


def test_a_quiet_machine_is_left_in_peace_and_a_disturbed_one_is_named() -> None:
    assert disturbed([QUIET] * 5, {"deflate_mib_per_s": 1000.0, "loopback_per_s": 20_000.0}) == ""
    assert disturbed([QUIET] * 5, None) == ""
    slow = replace(QUIET, deflate_mib_per_s=300.0)
    assert "ran at 30 % of its speed before the cluster started" in disturbed([QUIET, QUIET, QUIET, slow], None)
    idle_brokers = replace(QUIET, deflate_mib_per_s=800.0, loopback_per_s=45_000.0)
    assert disturbed([QUIET, QUIET, QUIET, idle_brokers], None) == "", "seen on a quiet machine"
    assert "steal" in disturbed([QUIET, QUIET, replace(QUIET, steal=0.3)], None)
    assert disturbed([QUIET, slow], None) == "", "two readings say nothing"
    assert "lies -70 % off its recorded 1,000" in disturbed([slow] * 4, {"deflate_mib_per_s": 1000.0})
    faster = replace(QUIET, deflate_mib_per_s=1000.0 * (1 + 2 * CANARY_OFF))
    assert "+50 %" in disturbed([faster] * 4, {"deflate_mib_per_s": 1000.0}), "a faster machine would hide a regression"


@pytest.mark.parametrize("rates", [[1000, 1010, 990], [500, 510, 505], [1500, 1510, 1505]])
def test_on_a_disturbed_machine_a_loss_that_it_explains_is_neither_red_nor_green(rates: list[float]) -> None:
    noisy = replace(measurement(rates), canary=(QUIET, QUIET, QUIET, replace(QUIET, loopback_per_s=5_000.0)))
    outcome = judge_scenario(noisy, profile(RATE, CPU))
    assert outcome.verdict is Verdict.INCONCLUSIVE
    message = scenario_message(outcome, noisy, profile(RATE, CPU))
    assert "the machine ran at 25 % of its speed before the cluster started (canary loopback_per_s" in message
    if rates[0] == 500:
        assert "which explains a factor of 4 of the 1.98 measured" in message


def test_a_loss_that_a_disturbed_machine_does_not_explain_is_red_and_says_so() -> None:
    """Brokers 18 times slower were INCONCLUSIVE, because the machine ran at half its speed for a moment."""
    readings = (QUIET, QUIET, QUIET, replace(QUIET, deflate_mib_per_s=500.0))
    slow = replace(measurement([55, 56, 54]), canary=readings)
    outcome = judge_scenario(slow, profile(RATE, CPU))
    assert outcome.verdict is Verdict.REGRESSED
    message = scenario_message(outcome, slow, profile(RATE, CPU))
    assert "which explains a factor of 2 of the 18.2 measured" in message
    halved = replace(measurement([500, 505, 495]), canary=readings)
    assert judge_scenario(halved, profile(RATE)).verdict is Verdict.INCONCLUSIVE


def test_a_reading_tells_of_the_rounds_beside_it_alone() -> None:
    """One slow reading after ten rounds excused all of them, by a factor of 20."""
    slow = replace(QUIET, deflate_mib_per_s=50.0)
    found = measurement([60.0] * 10)
    after_all = replace(found, canary=(*([QUIET] * 13), slow))
    assert judge_scenario(after_all, profile(RATE)).verdict is Verdict.REGRESSED
    throughout = replace(found, canary=(*([QUIET] * 3), *([slow] * 11)))
    assert judge_scenario(throughout, profile(RATE)).verdict is Verdict.INCONCLUSIVE
    unchanged = replace(measurement([1000.0] * 10), canary=after_all.canary)
    assert judge_scenario(unchanged, profile(RATE, CPU)).verdict is Verdict.INCONCLUSIVE, "no ground for green"


def test_a_slow_reading_beside_which_nothing_ran_is_no_reason() -> None:
    """The brokers themselves had slowed it down, in bursts that the reading's average did not show."""
    quiet = replace(QUIET, deflate_mib_per_cpu_s=500.0)
    slow = replace(quiet, deflate_mib_per_s=400.0)
    assert disturbed([quiet, quiet, quiet, slow], None) == ""
    other = replace(slow, others=0.4, busiest="backup")
    assert "backup and others used 40 % of its processors" in disturbed([quiet, quiet, quiet, other], None)
    shared = replace(slow, deflate_mib_per_cpu_s=200.0)
    assert "did 40 % as much in a second of their time" in disturbed([quiet, quiet, quiet, shared], None)


def test_the_process_that_took_the_processors_is_named_and_none_of_the_run() -> None:
    before = {1: ProcessCpu("init", 0, 5), 7: ProcessCpu("pytest", 1, 100), 8: ProcessCpu("java", 7, 50)}
    after = {
        1: ProcessCpu("init", 0, 5),
        7: ProcessCpu("pytest", 1, 140),
        8: ProcessCpu("java", 7, 90),
        9: ProcessCpu("gzip -9 (x)", 1, 30),
    }
    assert busiest(before, after, 7) == "gzip -9 (x)"
    assert busiest(after, after, 7) == ""


def test_processes_are_read_with_any_name(tmp_path: Path) -> None:
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "stat").write_text("42 (a) b (c)) S 7 42 42 0 -1 4194304 1 0 0 0 30 12 0 0 20 0 1 0 5 1 1 1")
    (tmp_path / "43").mkdir()
    assert processes_cpu_s(tmp_path) == {42: ProcessCpu("a) b (c)", 7, 42)}
    assert os.getpid() in processes_cpu_s()


def test_no_round_at_all_is_invalid_on_a_disturbed_machine_too() -> None:
    none = replace(measurement([]), canary=(QUIET, replace(QUIET, steal=0.5), QUIET))
    assert judge_scenario(none, profile(RATE, CPU)).verdict is Verdict.INVALID


def test_rounds_too_wild_to_be_judged_end_early_and_others_do_not() -> None:
    wild = [1000.0, 200.0, 1800.0, 600.0]
    assert hopeless(wild, 7, 0.1)
    assert not hopeless(wild[:3], 7, 0.1), "not before half of the rounds"
    assert not hopeless([1000.0, 1010.0, 990.0, 1000.0], 7, 0.1)


def test_the_canary_reads_this_machine() -> None:
    reading = read_canary()
    assert reading.deflate_mib_per_s > 0
    assert reading.loopback_per_s > 0
    assert 0 <= reading.steal <= 1
    assert reading.pressure >= 0


def looks(first: list[float], second: list[float]) -> Outcome:
    held = profile(RATE, CPU)
    return second_look(judge_scenario(measurement(first), held), judge_scenario(measurement(second), held))


@pytest.mark.parametrize(
    ("second", "verdict", "word"),
    [
        ([700, 705, 695], Verdict.REGRESSED, "confirms the first, which was red"),
        ([930, 935, 895], Verdict.PASS, "does not confirm the first, which was red"),
        ([1000, 1005, 995], Verdict.INCONCLUSIVE, "contradicts the first, which was red"),
        ([880, 901, 905], Verdict.INCONCLUSIVE, "does not confirm the first"),
        ([], Verdict.INCONCLUSIVE, "was not valid: no round was measured"),
    ],
)
def test_red_counts_when_a_second_look_is_red_too(second: list[float], verdict: Verdict, word: str) -> None:
    outcome = looks([710, 700, 897], second)
    assert outcome.verdict is verdict
    assert word in outcome.reasons[-1]
    assert outcome.first_look is not None
    assert outcome.first_look.verdict is Verdict.REGRESSED
    message = scenario_message(outcome, measurement(second), profile(RATE, CPU))
    assert "first measurement: records_per_s 754 (at least 900)" in message


def test_a_second_look_that_is_red_by_another_metric_confirms_nothing() -> None:
    """The limits count two looks at one metric; chance finds another one the next time."""
    held = profile(RATE, CPU)
    slow, costly = measurement([700, 705, 695]), measurement([1000, 1005, 995], cpu_us=100)
    first, second = (judge_scenario(one, held) for one in (slow, costly))
    assert first.verdict is second.verdict is Verdict.REGRESSED
    outcome = second_look(first, second)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert "red too, but by broker_cpu_us_per_record: neither is confirmed" in outcome.reasons[-1]
    both = judge_scenario(measurement([700, 705, 695], cpu_us=100), held)
    assert second_look(first, both).verdict is Verdict.REGRESSED
    spited = replace(second, judgements=tuple(replace(j, reason="in spite of a doubt") for j in second.judgements))
    assert second_look(first, spited).verdict is Verdict.INCONCLUSIVE, "a doubt makes it no redder"
    refused = replace(costly, rounds=tuple(replace(r, not_sustained="not sustained: 9 of 10") for r in costly.rounds))
    assert second_look(first, judge_scenario(refused, held)).verdict is Verdict.REGRESSED, "which is not by chance"


def test_a_metric_that_some_rounds_lack_does_not_end_a_scenario_early() -> None:
    """A Prometheus that was down for a round scattered by infinity: four of seven rounds were judged."""
    rule = GateStopRule(profile=profile(RATE, CPU), rounds=7)
    found = measurement([1000.0, 1001.0, 999.0, 1000.0])
    first, *others = found.rounds
    less = replace(first, metrics={"records_per_s": 1000.0})
    assert not rule.hopeless(found.scenario, [less, *others])


@pytest.mark.parametrize(
    ("rates", "ends"), [([400.0, 650.0, 850.0, 990.0], False), ([1500.0, 400.0, 1900.0, 1000.0], True)]
)
def test_rounds_on_brokers_that_get_faster_do_not_end_a_scenario_early(rates: list[float], ends: bool) -> None:
    """They are the warm-up of the rounds that follow, which were never measured."""
    rule = GateStopRule(profile=profile(RATE, CPU), rounds=7)
    found = measurement(rates)
    assert rule.hopeless(found.scenario, found.rounds) is ends


def test_a_limit_that_noise_widened_says_so() -> None:
    wide = replace(RATE, spread=0.05, runs=5, reach=0.3)
    outcome = judge_scenario(measurement([600, 610, 590]), profile(wide, CPU))
    message = scenario_message(outcome, measurement([600, 610, 590]), profile(wide, CPU))
    assert "tolerance 10.0 %, widened to 30.0 % by the noise between runs: at least 700" in message
