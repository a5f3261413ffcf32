"""p99, CPU and memory that grew three times in half an hour, consumers that never caught up again: both were PASS."""

from dataclasses import replace

import pytest

from perfgate.faults.time import GROWN
from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.faults.growth import growth
from perfgate.model import Consumers, Fault, FaultScenario, Measurement, Verdict, settings
from tests.harness.build import profile, threshold
from tests.harness.build.faults import END, FAULT, faulty, history, measured, one_fault
from tests.harness.measure.test_growth import LEVEL, going_on, taken

PLAIN = profile(LEVEL)
"""What every long load is held against, so that only what a test is about is missing or grows."""


def grown(metric: str, *times: float) -> Measurement:
    (one,) = taken(going_on()).rounds
    rounds = tuple(replace(one, index=i, metrics={**one.metrics, metric: t}) for i, t in enumerate(times, 1))
    return replace(taken(going_on()), rounds=rounds)


@pytest.mark.parametrize("metric", GROWN)
@pytest.mark.parametrize("place", range(4))
def test_what_grows_with_time_alone_is_not_green(metric: str, place: int) -> None:
    doubtful, limit = GROWN[metric]
    times, verdict = [
        (0.5, Verdict.PASS),
        (doubtful, Verdict.PASS),
        (limit, Verdict.INCONCLUSIVE),
        (limit * 1.01, Verdict.REGRESSED),
    ][place]
    assert judge_scenario(grown(metric, times), PLAIN).verdict is verdict
    assert judge_scenario(grown(metric, 0.9, times, times), PLAIN).verdict is verdict, "the median of the rounds"


def test_a_stored_threshold_holds_less() -> None:
    held = profile(LEVEL, threshold("memory_growth", 1.0, 0.1, name="kill-leader"))
    assert judge_scenario(grown("memory_growth", 1.2), PLAIN).verdict is Verdict.PASS
    assert judge_scenario(grown("memory_growth", 1.2), held).verdict is Verdict.REGRESSED


@pytest.mark.parametrize(
    ("baseline", "times", "verdict"),
    [
        (1.0, 1.2, Verdict.PASS),
        (1.0, 1.4, Verdict.INCONCLUSIVE),
        (1.0, 1.6, Verdict.REGRESSED),
        (1.3, 1.4, Verdict.PASS),  # what is usual there was stored with a reason
    ],
)
def test_one_that_noise_made_wide_holds_no_more(baseline: float, times: float, verdict: Verdict) -> None:
    """Memory 1.6 times as much was PASS with a threshold, and REGRESSED without."""
    held = profile(LEVEL, threshold("memory_growth", baseline, 0.1, name="kill-leader", reach=0.9))
    assert judge_scenario(grown("memory_growth", times), held).verdict is verdict


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        ([None], Verdict.INCONCLUSIVE),
        ([1.0, None, 1.0], Verdict.INCONCLUSIVE),
        ([1.3, None, 1.3], Verdict.REGRESSED),
        ([1.0, 1.0, 1.0], Verdict.PASS),
    ],
)
def test_growth_that_nobody_told_breaks_no_threshold(times: list[float | None], verdict: Verdict) -> None:
    """It "never got there", and was red."""
    held = profile(LEVEL, threshold("cpu_per_record_growth", 1.0, 0.1, name="kill-leader"))
    found = taken(going_on())
    (one,) = found.rounds
    others = {name: value for name, value in one.metrics.items() if name != "cpu_per_record_growth"}
    told = [({}, {"CPU": "no answer"}) if x is None else ({"cpu_per_record_growth": x}, {}) for x in times]
    rounds = tuple(replace(one, index=i, metrics={**others, **x}, untold=why) for i, (x, why) in enumerate(told, 1))
    outcome = judge_scenario(replace(found, rounds=rounds), held)
    assert outcome.verdict is verdict
    if verdict is Verdict.INCONCLUSIVE:
        assert outcome.reasons == ("cpu_per_record_growth: no answer: whether it grew is not known",)


@pytest.mark.parametrize("values", [[1.0, 1.0, 50.0], [0.01, 0.1, 10.0, 5000.0], [1.0, 2.0, 4.0, 8.0, 16.0]])
def test_growth_that_bends_upwards_has_an_answer(values: list[float]) -> None:
    """A straight line through them begins below zero: there was no figure then, and nothing to be judged."""
    found = growth(values)
    assert found is not None
    assert found > 5


@pytest.mark.parametrize("kind", ["kill-leader", "consumer-kill", "time"])
@pytest.mark.parametrize(
    ("behind", "verdict"),
    [
        ([False, False, False], Verdict.PASS),
        ([True, False, False], Verdict.INCONCLUSIVE),
        ([True, True, False], Verdict.REGRESSED),
        ([True], Verdict.REGRESSED),
    ],
)
def test_consumers_that_never_catch_up_are_not_green(kind: str, behind: list[bool], verdict: Verdict) -> None:
    well = history(down=kind == "kill-leader")  # one that costs nothing is no kill
    slow = well.receipts[0].copy()
    fell = slow["at"] >= FAULT
    slow["at"][fell] = FAULT + (slow["at"][fell] - FAULT) * 1.5  # a third slower than what is written, to the end
    group = Consumers(membership="group", config=settings({"session.timeout.ms": "6000"}))
    row = replace(faulty(kind=kind), fault=Fault(kind=kind, hold_s=20.0), consumers=group)
    stored = PLAIN if kind == "time" else None
    outcome = judge_scenario(measured(row, *(replace(well, receipts=[slow]) if b else well for b in behind)), stored)
    assert outcome.verdict is verdict
    assert any("had not caught up" in reason for reason in outcome.reasons) is (verdict is not Verdict.PASS)


def test_one_pause_at_the_very_end_is_no_lag() -> None:
    well = history(down=False)
    paused = well.receipts[0].copy()
    last = paused["at"] > END - 0.5
    paused["at"][last] = END
    row = FaultScenario.of(faulty(), Fault(kind="time", hold_s=20.0))
    assert one_fault(replace(well, receipts=[paused])).metrics["lag_drained_s"] > 0
    assert judge_scenario(measured(row, replace(well, receipts=[paused])), PLAIN).verdict is Verdict.PASS
