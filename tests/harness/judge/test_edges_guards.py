"""Guards at their edges: a machine that was busy, brokers that warm up or starve the load, and rounds too wild."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from perfgate.judge.gate_stop import GateStopRule
from perfgate.judge.noise import disturbed, hopeless, machine_doubts_by_round
from perfgate.judge.run_end import Judged, RunEnd, TestEnd, ending
from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.statistics import many, median_interval, spread
from perfgate.judge.warming import each_better, still_warming
from perfgate.model import CanaryReading, Measurement, Verdict
from perfgate.model.flaw import Flaw
from tests.harness.build import flawed, measurement, one_round, profile, threshold

QUIET = CanaryReading(
    deflate_mib_per_s=1000.0, loopback_per_s=20_000.0, pressure=0.0, steal=0.0, deflate_mib_per_cpu_s=500.0, others=0.5
)
"""Something else uses half of the processors, which slows nothing down as long as there are others."""
RATE, CPU = threshold("records_per_s", 1000.0), threshold("broker_cpu_us_per_record", 50.0)


def busy(**changes: float) -> bool:
    """Return whether one reading after the start says that the machine was not quiet."""
    return bool(disturbed([QUIET, QUIET, QUIET, replace(QUIET, **changes)], None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"steal": 0.10}, False),
        ({"steal": 0.101}, True),
        ({"deflate_mib_per_s": 600.0}, False),
        ({"deflate_mib_per_s": 599.0}, True),
        ({"loopback_per_s": 10_000.0}, False),
        ({"loopback_per_s": 9_999.0}, True),
        ({"deflate_mib_per_s": 400.0, "brokers": 0.3}, False),
        ({"deflate_mib_per_s": 400.0, "brokers": 0.29}, True),
        ({"deflate_mib_per_s": 500.0, "brokers": 0.2}, False),
        ({"deflate_mib_per_s": 500.0, "brokers": 0.16}, True),
        ({"deflate_mib_per_s": 500.0, "others": 0.1}, True),
        ({"deflate_mib_per_s": 500.0, "others": 0.09}, False),
        ({"deflate_mib_per_s": 500.0, "others": 0.0, "deflate_mib_per_cpu_s": 400.0}, False),
        ({"deflate_mib_per_s": 500.0, "others": 0.0, "deflate_mib_per_cpu_s": 399.0}, True),
    ],
)
def test_a_machine_was_quiet_to_the_percent(changes: dict[str, float], told: bool) -> None:
    """Brokers that took half of what it lost are the reason; what they took else is given back: 0.5 / 0.84 is 0.595."""
    assert busy(**changes) is told


@pytest.mark.parametrize(
    ("recorded", "told"), [(800.0, False), (799.0, True), (1333.0, False), (1334.0, True), (1000.0, False)]
)
def test_a_machine_is_another_one_that_is_a_quarter_off(recorded: float, told: bool) -> None:
    assert bool(disturbed([QUIET] * 4, {"deflate_mib_per_s": recorded})) is told
    assert not disturbed([QUIET] * 2, {"deflate_mib_per_s": 1.0}), "of two readings nothing is known"


def test_the_median_of_three_readings_before_the_start_is_what_is_quiet() -> None:
    quick = replace(QUIET, deflate_mib_per_s=5000.0)
    assert not disturbed([QUIET, quick, QUIET, replace(QUIET, deflate_mib_per_s=600.0)], {"deflate_mib_per_s": 1000.0})
    assert disturbed([quick, QUIET, quick, QUIET], None)


@pytest.mark.parametrize(
    ("rates", "steal", "verdict"),
    [
        ((800.0,) * 3, 0.2, Verdict.INCONCLUSIVE),
        ((720.0,) * 3, 0.2, Verdict.INCONCLUSIVE),
        ((719.0,) * 3, 0.2, Verdict.REGRESSED),
        ((800.0,) * 3, 0.1, Verdict.REGRESSED),
        ((1000.0,) * 3, 0.2, Verdict.INCONCLUSIVE),
    ],
)
def test_a_machine_explains_as_much_as_was_taken_of_it(rates: Sequence[float], steal: float, verdict: Verdict) -> None:
    """With a fifth gone 720 would have been 900, which is the limit."""
    found = replace(measurement(rates), canary=(QUIET, QUIET, replace(QUIET, steal=steal), QUIET))
    assert judge_scenario(found, profile(RATE)).judgements[0].verdict is verdict


def doubted(slow_at: int, rounds: int, between: int) -> list[int]:
    """Return which rounds are in doubt for one slow reading among those between the rounds."""
    readings = [QUIET] * (3 + between)
    readings[3 + slow_at] = replace(QUIET, deflate_mib_per_s=100.0)
    found = replace(measurement([1000.0] * rounds), canary=tuple(readings))
    return [number for number, doubts in machine_doubts_by_round(found, None).items() if doubts]


def test_a_reading_is_of_the_rounds_before_and_after_it() -> None:
    assert [doubted(at, 4, 5) for at in range(5)] == [[1], [1, 2], [2, 3], [3, 4], [4]]
    assert doubted(3, 4, 4) == [3, 4], "a failure that ended all has none after it"
    assert doubted(2, 4, 3) == [2, 3, 4], "and the last one is of the last round too"
    assert doubted(1, 4, 2) == [1, 2, 3, 4], "where others are missing it may be of any"


@pytest.mark.parametrize(
    ("speed", "verdict"), [(100.0, Verdict.INVALID), (101.0, Verdict.BROKEN), (None, Verdict.BROKEN)]
)
def test_a_machine_that_is_ten_times_slower_makes_brokers_late(speed: float | None, verdict: Verdict) -> None:
    late = ("3 of 1,000 sends failed",)
    found = measurement([1000.0] * 3)
    first = flawed(found.rounds[0], invalid=late, broken=late, perhaps_late=late)
    readings = [QUIET] * 7
    if speed is not None:
        readings[4] = replace(QUIET, deflate_mib_per_s=speed)
    taken = replace(found, rounds=(first, *found.rounds[1:]), canary=tuple(readings))
    assert judge_scenario(taken, profile(RATE, CPU)).verdict is verdict
    other = replace(taken, rounds=(*found.rounds[:2], replace(first, index=3)))
    assert judge_scenario(other, profile(RATE, CPU)).verdict is Verdict.BROKEN, "it was slow beside another round"
    certain = replace(taken, rounds=(flawed(first, perhaps_late=()), *found.rounds[1:]))
    assert judge_scenario(certain, profile(RATE, CPU)).verdict is Verdict.BROKEN, "it was not only late"


@pytest.mark.parametrize(("again", "verdict"), [(0, Verdict.PASS), (2, Verdict.PASS), (3, Verdict.INCONCLUSIVE)])
def test_rounds_that_count_are_no_ground_for_green_where_more_than_half_as_many_were_starved(
    again: int, verdict: Verdict
) -> None:
    found = measurement([1000.0] * 4)
    starved = replace(one_round(1, 500.0), flaws=(Flaw("no processor", whose="brokers", again=True),))
    own = replace(one_round(1, 500.0), flaws=(Flaw("its own", whose="load", again=True),))
    later = replace(starved, flaws=(Flaw("later", whose="brokers", again=True),))
    taken = replace(found, discarded=(*[starved] * (again - 1), *[own] * 9, *[later] * min(again, 1)))
    outcome = judge_scenario(taken, profile(RATE, CPU))
    assert outcome.verdict is verdict
    assert ("the generator lacked them (no processor)" in str(outcome.reasons)) is not verdict.green


@pytest.mark.parametrize(
    ("done", "rounds", "ends"), [(3, 4, False), (4, 8, True), (4, 9, False), (5, 9, True), (4, 4, True)]
)
def test_wild_rounds_end_a_scenario_from_the_fourth_on_and_from_half_of_them_on(
    done: int, rounds: int, ends: bool
) -> None:
    wild = [1000.0, 100.0, 1900.0, 500.0, 1500.0][:done]
    assert hopeless(wild, rounds, 0.1) is ends


@pytest.mark.parametrize(("reach", "ends"), [(0.0836, True), (0.0835, True), (0.0838, False)])
def test_rounds_are_wild_whose_centre_would_be_known_no_better_than_the_limit_lies_off(
    reach: float, ends: bool
) -> None:
    """They spread by 16.3 %: 1.023 x that over the root of four rounds is 8.36 %."""
    values = [1200.0, 900.0, 1000.0, 1000.0 + 200.0 / 3]
    width = spread(values)
    assert width is not None
    assert hopeless(values, 4, reach * width / 0.1634) is ends


def warm(shares: Sequence[float], rates: Sequence[float] = (1000.0, 1000.0, 1000.0)) -> Measurement:
    found = measurement(rates)
    rounds = tuple(
        replace(r, metrics={**r.metrics, "broker_compile_share.max": share})
        for r, share in zip(found.rounds, shares, strict=True)
    )
    return replace(found, rounds=rounds)


@pytest.mark.parametrize(
    ("shares", "cold"),
    [((0.1, 0.1, 0.1), False), ((0.1, 0.11, 0.11), True), ((0.0, 0.1, 0.9), False), ((0.9, 0.0, 0.0), False)],
)
def test_brokers_still_compile_where_their_median_share_is_more_than_a_tenth(
    shares: tuple[float, ...], cold: bool
) -> None:
    assert bool(still_warming({"a": warm(shares).rounds})) is cold


@pytest.mark.parametrize(
    ("share", "cores", "rate", "verdict"),
    [
        (0.3, 1.0, 640.0, Verdict.INCONCLUSIVE),
        (0.3, 1.0, 620.0, Verdict.REGRESSED),
        (0.3, 0.5, 775.0, Verdict.INCONCLUSIVE),
        (0.3, 0.5, 755.0, Verdict.REGRESSED),
        (0.3, 2.0, 640.0, Verdict.INCONCLUSIVE),
        (0.95, 1.0, 230.0, Verdict.INCONCLUSIVE),
        (0.95, 1.0, 220.0, Verdict.REGRESSED),
    ],
)
def test_compiling_explains_its_share_of_a_core_and_a_factor_of_four_at_the_most(
    share: float, cores: float, rate: float, verdict: Verdict
) -> None:
    """Of a limit of 900: 0.7 of it is 630, 0.85 is 765, a quarter 225."""
    found = warm((share,) * 3, (rate,) * 3)
    rounds = tuple(replace(r, metrics={**r.metrics, "broker_cpu_cores.max": cores}) for r in found.rounds)
    taken = replace(found, rounds=rounds, warming="still compiling")
    assert judge_scenario(taken, profile(RATE)).judgements[0].verdict is verdict


@pytest.mark.parametrize(
    ("rates", "better"),
    [
        ((1000.0, 1024.0, 1049.0), False),
        ((1000.0, 1026.0, 1052.0), True),
        ((1052.0, 1026.0, 1000.0), False),
        ((1000.0, 1030.0, 1030.0), False),
        ((1000.0, 1100.0), False),
        ((1000.0, 1010.0, 1020.0, 1015.0, 1040.0, 1060.0), True),
    ],
)
def test_rounds_get_better_by_more_than_a_twentieth_from_one_to_the_next_or_by_a_line(
    rates: tuple[float, ...], better: bool
) -> None:
    assert each_better(measurement(rates).rounds) is better
    costs = tuple(one_round(n, 1000.0, cpu_us=50.0 * 1000 / rate) for n, rate in enumerate(rates, 1))
    assert each_better(costs) is better, "a cost gets better when it falls"


@pytest.mark.parametrize(
    ("count", "ends"),
    [(2, (0, 1)), (5, (0, 4)), (6, (0, 5)), (8, (0, 7)), (9, (1, 7)), (11, (1, 9)), (12, (2, 9)), (15, (3, 11))],
)
def test_the_medians_interval_is_the_one_of_tables(count: int, ends: tuple[int, int]) -> None:
    """Hahn and Meeker's order statistics at 95 %: from nine values on the outermost two are left out."""
    assert median_interval([float(n) for n in range(count)]) == ends


def test_a_third_of_the_rounds_are_many_and_two_at_the_least() -> None:
    assert [many(rounds) for rounds in (1, 2, 3, 6, 7, 9, 10, 12, 13)] == [2, 2, 2, 2, 3, 3, 4, 4, 5]


@pytest.mark.parametrize(("held", "noted"), [(False, True), (True, False)])
def test_a_latency_that_is_not_valid_is_a_note_where_nothing_is_held_against_it(held: bool, noted: bool) -> None:
    found = measurement([1000.0] * 3)
    spoilt = replace(found, rounds=tuple(flawed(r, invalid_metrics={"latency_ms": "sent late"}) for r in found.rounds))
    more = [threshold("latency_ms.p99", 4.0)] if held else []
    outcome = judge_scenario(spoilt, profile(RATE, CPU, *more))
    assert outcome.verdict is (Verdict.INVALID if held else Verdict.PASS)
    note = "latency_ms is not valid: round 1: sent late (3 of 3 rounds)"
    assert (note in outcome.reasons) is noted


@pytest.mark.parametrize(
    ("rates", "ends"),
    [((1000.0, 650.0, 1000.0, 650.0), True), ((100.0, 50.0, 10.0, 400.0), False), ((1000.0, 910.0) * 2, False)],
)
def test_rounds_far_beyond_a_limit_scatter_no_farther_than_twice_its_distance(
    rates: tuple[float, ...], ends: bool
) -> None:
    rule = GateStopRule(profile=profile(RATE), rounds=4)
    assert rule.hopeless(measurement(rates).scenario, measurement(rates).rounds) is ends


@pytest.mark.parametrize(("status", "code"), [(0, 0), (5, 0), (6, 6), (1, 6)])
def test_a_session_without_tests_of_its_own_is_a_whole_one(status: int, code: int) -> None:
    green = Judged(name="a", result=Verdict.PASS, test=TestEnd.PASSED)
    assert ending(RunEnd(judged=(green,), status=status)).code == code
