"""Thresholds at their edges: scatter, unsteady rounds, noise of few runs, and the largest margin of a limit."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.thresholds import differences, for_one_look, load_profile, profile_facts
from perfgate.model import CanaryReading, Judgement, Load, Measurement, Verdict
from tests.harness.build import flawed, measurement, one_round, profile, threshold

RATE = threshold("records_per_s", 1000.0)
CPU = threshold("broker_cpu_us_per_record", 50.0)


def judged(rates: Sequence[float] = (1000.0,) * 3, cpu_us: Sequence[float] | None = None) -> dict[str, Judgement]:
    costs = cpu_us or [50.0] * len(rates)
    rounds = tuple(one_round(n, rate, cpu_us=us) for n, (rate, us) in enumerate(zip(rates, costs, strict=True), 1))
    outcome = judge_scenario(replace(measurement(rates), rounds=rounds), profile(RATE, CPU))
    return {one.metric: one for one in outcome.judgements}


def of_rate(*rates: float) -> Verdict:
    return judged(rates)["records_per_s"].verdict


def of_cpu(*cpu_us: float) -> Verdict:
    return judged((1000.0,) * len(cpu_us), cpu_us)["broker_cpu_us_per_record"].verdict


@pytest.mark.parametrize(
    ("off", "verdict"), [(0.0, Verdict.PASS), (124.0, Verdict.PASS), (127.0, Verdict.INCONCLUSIVE)]
)
def test_a_rate_whose_error_is_more_than_seven_tenths_of_the_limits_distance_is_not_green(
    off: float, verdict: Verdict
) -> None:
    """The centre is 1,060 and its error 0.59 of `off`: 73 or 75, and 0.7 x 10 % of 1,060 is 74."""
    assert of_rate(1060.0 - off, 1060.0, 1060.0 + off) is verdict


@pytest.mark.parametrize(("off", "verdict"), [(5.5, Verdict.PASS), (5.7, Verdict.INCONCLUSIVE)])
def test_so_it_is_with_a_cost(off: float, verdict: Verdict) -> None:
    assert of_cpu(47.0 - off, 47.0, 47.0 + off) is verdict


def test_equal_to_its_limit_without_scatter_is_kept_and_a_hair_beyond_is_red() -> None:
    assert of_rate(900.0, 900.0, 900.0) is Verdict.PASS
    assert of_rate(899.99, 899.99, 899.99) is Verdict.REGRESSED
    exact = profile(threshold("broker_cpu_us_per_record", 40.0, 0.25))  # 50 is 1.25 x 40 to the last bit
    for cpu_us, verdict in ((50.0, Verdict.PASS), (50.01, Verdict.REGRESSED)):
        outcome = judge_scenario(measurement([1000.0] * 3, cpu_us=cpu_us), exact)
        assert outcome.judgements[0].verdict is verdict


@pytest.mark.parametrize(
    ("rates", "verdict"),
    [
        ((905.0, 925.0, 945.0), Verdict.PASS),
        ((890.0, 910.0, 930.0), Verdict.INCONCLUSIVE),
        ((870.0, 890.0, 910.0), Verdict.INCONCLUSIVE),
        ((865.0, 885.0, 905.0), Verdict.REGRESSED),
    ],
)
def test_the_limit_within_one_error_of_the_centre_is_undecided_on_either_side(
    rates: tuple[float, ...], verdict: Verdict
) -> None:
    """The error of three rounds that are 20 apart is 11.8: the centre lies 25, 10, -10 and -15 off the limit."""
    assert of_rate(*rates) is verdict
    mirrored = tuple(55.0 - (rate - 900.0) / 20 for rate in rates)
    assert of_cpu(*mirrored) is verdict


@pytest.mark.parametrize(
    ("rates", "verdict"),
    [
        ((1100.0, 1100.0, 1100.0), Verdict.PASS),
        ((1101.0, 1101.0, 1101.0), Verdict.IMPROVED),
        ((1099.0, 1150.0, 1160.0), Verdict.PASS),
        ((1199.9, 1199.9, 1199.9), Verdict.IMPROVED),
        ((1201.0, 1201.0, 1201.0), Verdict.INCONCLUSIVE),
    ],
)
def test_better_by_more_than_the_limits_distance_is_improved_and_by_twice_that_too_good(
    rates: tuple[float, ...], verdict: Verdict
) -> None:
    assert of_rate(*rates) is verdict
    assert of_cpu(*(50.0 * 1000 / rate for rate in rates)) is verdict, "of a cost that is the baseline over the figure"


@pytest.mark.parametrize(("low", "verdict"), [(1, Verdict.PASS), (2, Verdict.INCONCLUSIVE)])
def test_two_of_six_rounds_beyond_the_limit_are_too_many(low: int, verdict: Verdict) -> None:
    """A median, and a centre, say nothing of brokers that are slow in every third round."""
    assert of_rate(*[890.0] * low, *[1000.0] * (6 - low)) is verdict
    assert of_rate(*[900.0] * low, *[1000.0] * (6 - low)) is Verdict.PASS, "equal to the limit is not beyond"


@pytest.mark.parametrize(
    ("unsteady", "growth", "verdict"),
    [
        (0, 1.2, Verdict.REGRESSED),
        (2, 1.2, Verdict.REGRESSED),
        (3, 1.2, Verdict.INCONCLUSIVE),
        (4, 1.2, Verdict.INCONCLUSIVE),
        (4, 1.0, Verdict.REGRESSED),
        (4, 1.05, Verdict.REGRESSED),
    ],
)
def test_rounds_that_began_unsteady_explain_a_loss_where_they_are_most(
    unsteady: int, growth: float, verdict: Verdict
) -> None:
    """Half of four rounds are not most of them. 800 is 0.8 of the baseline: a growth of 1.05 explains 1.076."""
    rounds = measurement([800.0, 801.0, 799.0, 800.0]).rounds
    rounds = tuple(replace(r, steady=r.index > unsteady, growth=growth) for r in rounds)
    outcome = judge_scenario(replace(measurement([800.0]), rounds=rounds), profile(RATE, CPU))
    assert outcome.judgements[0].verdict is verdict


def test_brokers_that_did_not_take_an_unsteady_load_are_not_excused_by_it() -> None:
    rounds = measurement([800.0, 801.0, 799.0, 800.0]).rounds
    short = tuple(replace(r, steady=False, growth=1.2, not_sustained="took 800 of 1,000") for r in rounds)
    outcome = judge_scenario(replace(measurement([800.0]), rounds=short), profile(RATE, CPU))
    assert outcome.verdict is Verdict.REGRESSED


def test_the_least_growth_of_the_unsteady_rounds_counts() -> None:
    """Where brokers stall, rates grow and fall by chance: one round that did not grow leaves nothing to explain."""
    rounds = measurement([800.0, 801.0, 799.0, 800.0]).rounds
    rounds = tuple(replace(r, steady=False, growth=1.0 if r.index == 2 else 1.3) for r in rounds)
    outcome = judge_scenario(replace(measurement([800.0]), rounds=rounds), profile(RATE, CPU))
    assert outcome.verdict is Verdict.REGRESSED


@pytest.mark.parametrize(("spoilt", "verdict"), [(0, Verdict.REGRESSED), (1, Verdict.REGRESSED), (2, Verdict.INVALID)])
def test_one_sound_round_is_too_few_to_be_red_and_two_are_enough(spoilt: int, verdict: Verdict) -> None:
    found = measurement([500.0, 501.0, 499.0])
    rounds = tuple(flawed(r, invalid=("a flaw",) if r.index <= spoilt else ()) for r in found.rounds)
    assert judge_scenario(replace(found, rounds=rounds), profile(RATE, CPU)).verdict is verdict


TABLE = """[profile]
target = "embedded"
[batch-1k]
"{metric}" = {{ baseline = 100, tolerance = 0.1, spread = {spread}, runs = {runs} }}
"""


def reaches(folder: Path, metric: str, spread: float, runs: int) -> tuple[float, float]:
    """Return how far the limit lies off its baseline for two looks, and for one."""
    (folder / "mine.toml").write_text(TABLE.format(metric=metric, spread=spread, runs=runs))
    (held,) = load_profile(folder / "mine.toml").thresholds["batch-1k"]
    return held.reach, for_one_look(held).reach


@pytest.mark.parametrize(
    ("runs", "spread", "two_looks", "one_look"),
    [
        (0, 0.0, 0.1, 0.1),
        (2, 0.0, 0.1, 0.1),
        (2, 0.001, 0.2, 0.2),
        (3, 0.01, 0.301, 0.577),
        (5, 0.01, 0.1, 0.1196),
        (20, 0.01, 0.1, 0.1),
        (20, 0.05, 0.1357, 0.2195),
    ],
)
def test_a_baseline_of_few_runs_has_a_limit_as_wide_as_their_noise(
    tmp_path: Path, runs: int, spread: float, two_looks: float, one_look: float
) -> None:
    """Two runs say next to nothing of their own scatter: 200 times what they showed, not nothing at all."""
    assert reaches(tmp_path, "records_per_s", spread, runs) == pytest.approx((two_looks, one_look), abs=1e-3)


@pytest.mark.parametrize(
    ("metric", "largest"),
    [
        ("records_per_s", 0.9),
        ("broker_cpu_us_per_record", 0.9),
        ("broker_cpu_cores.sum", 0.9),
        ("latency_ms.p99", 9.0),
        ("latency_ms.p50", 9.0),
        ("end_to_end_latency_ms.p99", 9.0),
        ("fetch_latency_ms.avg", 9.0),
        ("unloaded_latency_ms.p99", 9.0),
        ("latency_during_ms.p99", 0.9),
        ("outage_s.max", 0.9),
    ],
)
def test_no_noise_puts_a_limit_farther_off_than_a_tenth_of_a_rate_or_ten_times_a_latency(
    tmp_path: Path, metric: str, largest: float
) -> None:
    assert reaches(tmp_path, metric, 0.3, 2) == (largest, largest)


def test_what_noise_widened_is_green_within_the_tolerance_alone() -> None:
    """The limit is 30 % off; more than the tolerance of 10 % worse is neither red nor green."""
    wide = replace(RATE, spread=0.05, runs=5, reach=0.3)

    def verdict(rate: float) -> Verdict:
        found: Measurement = measurement([rate] * 3)
        return judge_scenario(found, profile(wide, CPU)).judgements[0].verdict

    rates = (899.0, 900.0, 700.0, 699.0)
    wanted = (Verdict.INCONCLUSIVE, Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.REGRESSED)
    assert tuple(map(verdict, rates)) == wanted


def test_what_is_worse_than_the_tolerance_is_said_in_percent() -> None:
    wide = replace(RATE, spread=0.05, runs=5, reach=0.3)
    (judgement, *_) = judge_scenario(measurement([800.0] * 3), profile(wide, CPU)).judgements
    assert judgement.reason.startswith("20.0 % worse than the baseline, more than the tolerance of 10 %")


def test_in_which_facts_a_run_is_none_of_a_profiles_is_said_of_both() -> None:
    held = replace(profile(RATE), facts={"target": "embedded", "tier": "nightly", "cores": "2", "kafka": "4.1"})
    here = {"target": "embedded", "tier": "smoke", "kafka": "4.3"}
    assert differences(held, here) == "tier nightly there, smoke here; cores 2 there, unknown here"
    assert differences(held, here, ["cores"]) == "cores 2 there, unknown here"
    assert differences(held, {**here, "tier": "nightly", "cores": "2"}) == "", "another Kafka is what is held"


@pytest.mark.parametrize(("high", "verdict"), [(1, Verdict.PASS), (2, Verdict.INCONCLUSIVE)])
def test_so_it_is_with_two_rounds_of_six_that_cost_a_little_more(high: int, verdict: Verdict) -> None:
    assert of_cpu(*[55.1] * high, *[50.0] * (6 - high)) is verdict


@pytest.mark.parametrize(("version", "line"), [("4.3.1", "4.3"), ("4.3", "4.3"), ("3.9.0-SNAPSHOT", "3.9")])
def test_a_profile_is_of_a_line_of_kafka(version: str, line: str) -> None:
    target = {"kind": "brokers", "name": "staging", "brokers": 3, "kafka_version": version}
    facts = profile_facts(target, {"cores": 2, "cpu_model": "x"}, {"name": "smoke"}, "librdkafka")
    assert (facts["kafka"], facts["cluster"], facts["brokers"]) == (line, "staging", "3")
    own = profile_facts({**target, "kind": "embedded"}, {"cores": 2, "cpu_model": "x"}, {"name": "smoke"}, "java")
    assert not {"cluster", "brokers"} & set(own)


@pytest.mark.parametrize(
    ("p99_ms", "verdict"), [(760.0, Verdict.INCONCLUSIVE), (775.0, Verdict.REGRESSED), (1500.0, Verdict.REGRESSED)]
)
def test_what_explains_a_rate_explains_the_queue_that_waited_meanwhile(p99_ms: float, verdict: Verdict) -> None:
    """A fifth of the processors was taken, so that 800 of 1,000 were: records of 3 s waited for a quarter of that."""
    quiet = CanaryReading(deflate_mib_per_s=1000.0, loopback_per_s=20_000.0, pressure=0.0, steal=0.0)
    found = measurement([800.0] * 3)
    rounds = tuple(
        replace(r, not_sustained="took 800 of 1,000", metrics={**r.metrics, "latency_ms.p99": p99_ms})
        for r in found.rounds
    )
    row = replace(found.scenario, load=Load(kind="paced", rate=1000.0))
    taken = replace(found, scenario=row, rounds=rounds, canary=(quiet, quiet, replace(quiet, steal=0.2)))
    held = profile(threshold("latency_ms.p99", 10.0, 0.5))
    assert judge_scenario(taken, held).judgements[0].verdict is verdict
    # A round that lacks the rate says nothing of the queue, and ends no judge in an error.
    first, *others = rounds
    lacking = replace(first, metrics={name: v for name, v in first.metrics.items() if name != "records_per_s"})
    assert judge_scenario(replace(taken, rounds=(lacking, *others)), held).judgements[0].verdict is verdict
