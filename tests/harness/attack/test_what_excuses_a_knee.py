"""A knee 20 times lower was INVALID: below the first step, or where the generator was late just above it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.assembly import Finished
from perfgate.measure.ramp import Known, known_after, ramp_round
from perfgate.model import Measurement, Round, Scenario, Verdict, with_changes
from perfgate.model.flaw import Doubt
from perfgate.report.proposal import proposed
from perfgate.report.results import recorded_measurement, scenario_entry
from tests.harness.build import flawed, profile, threshold
from tests.harness.build.knee import LEAST, MOST, RAMP, brokers, of, step

HELD = profile(threshold("knee_records_per_s", 30_000, name="knee"))
STATED = with_changes(RAMP, [("load.level-p99-ms", 20.0)])


def late(p99_ms: float, delay_ms: float, **changes: Any) -> Round:
    """Return a step that was sent late by so much."""
    text = f"sent late: p99 of the schedule delay is {delay_ms} ms"
    doubt = Doubt(kind="late", whose="load", text=text, offset=delay_ms, metrics=("latency_ms",))
    return step(1.0, p99_ms, invalid_metrics={"latency_ms": text}, doubts=(doubt,), **changes)


def slow_above(knee: float, *, late_up_to: float, p99_ms: float = 150.0) -> Any:
    """Return what measures brokers of this knee, and a generator that is late above it, up to a rate."""
    sound, spoilt = brokers(knee), late(p99_ms, 145.0)

    def measure(row: Scenario, doing: str) -> Finished:
        if knee < row.load.rate <= late_up_to:
            return Finished(round=spoilt, repeatable=True)
        found: Finished = sound(row, doing)
        return found

    return measure


@pytest.mark.parametrize(
    ("p99_ms", "stored", "verdict"),
    [(400.0, True, Verdict.REGRESSED), (21.0, True, Verdict.REGRESSED), (400.0, False, Verdict.INVALID)],
)
def test_no_knee_where_one_is_stored_is_red(p99_ms: float, stored: bool, verdict: Verdict) -> None:
    """It lies at the first step's rate at the most; where none is stored the stated level may be the wrong one."""

    def measure(_row: Scenario, _doing: str) -> Finished:
        return Finished(round=step(LEAST, p99_ms), repeatable=False)

    found = ramp_round(measure, STATED, 1, own_brokers=True).round
    assert "no knee" in found.invalid[0]
    taken = replace(of(found), scenario=STATED)
    outcome = judge_scenario(taken, HELD if stored else None)
    assert outcome.verdict is verdict, outcome.reasons
    assert known_after(found, Known(knee=30_000.0)).knee == 30_000, "a bound is no place to look for the next"
    entry = scenario_entry(taken, outcome)
    assert recorded_measurement(entry).rounds == taken.rounds
    assert not [one for one in proposed([{"scenarios": [entry]}] * 2) if one.metric == "knee_records_per_s"]


def test_a_first_step_that_the_generator_spoilt_bounds_no_knee() -> None:
    def measure(_row: Scenario, _doing: str) -> Finished:
        return Finished(round=late(400.0, 395.0), repeatable=True)

    found = ramp_round(measure, STATED, 1, own_brokers=True).round
    assert judge_scenario(replace(of(found), scenario=STATED), HELD).verdict is Verdict.INVALID


def test_one_round_without_a_knee_of_three_is_not_red() -> None:
    def measure(_row: Scenario, _doing: str) -> Finished:
        return Finished(round=step(LEAST, 400.0), repeatable=False)

    none = ramp_round(measure, STATED, 3, own_brokers=True).round
    good = [ramp_round(brokers(30_000), RAMP, index, own_brokers=True).round for index in (1, 2)]
    taken = Measurement(scenario=STATED, rounds=(*good, none), rtt_ms={})
    assert judge_scenario(taken, HELD).verdict is Verdict.INVALID


@pytest.mark.parametrize(
    ("beyond", "verdict"),
    [
        # 12 ms explain no 150 ms where 20 ms are allowed.
        (late(150.0, 12.0), Verdict.REGRESSED),
        (late(150.0, 145.0, not_sustained="the brokers took half"), Verdict.REGRESSED),
        (late(150.0, 145.0), Verdict.INVALID),
    ],
)
def test_a_late_generator_explains_its_lateness_alone(beyond: Round, verdict: Verdict) -> None:
    found = ramp_round(brokers(1500.0, beyond, repeatable=True), RAMP, 1, own_brokers=True).round
    assert judge_scenario(of(found), HELD).verdict is verdict
    unchanged = ramp_round(brokers(30_000.0, beyond, repeatable=True), RAMP, 1, own_brokers=True).round
    assert not judge_scenario(of(unchanged), HELD).verdict.red


@pytest.mark.parametrize(
    ("knee", "late_up_to", "verdict"),
    [
        (1500.0, 3000.0, Verdict.REGRESSED),
        (1500.0, 12_000.0, Verdict.REGRESSED),
        # The generator never sent more in time: nobody knows.
        (1500.0, MOST, Verdict.INVALID),
        # It may be as high as the limit.
        (20_000.0, 40_000.0, Verdict.INVALID),
        (29_900.0, 60_000.0, Verdict.INVALID),
    ],
)
def test_a_knee_is_no_higher_than_the_next_rate_that_brokers_missed(
    knee: float, late_up_to: float, verdict: Verdict
) -> None:
    found = ramp_round(slow_above(knee, late_up_to=late_up_to), RAMP, 1, own_brokers=True).round
    assert "the generator was the limit" in found.spoilt("knee_records_per_s")
    outcome = judge_scenario(of(found), HELD)
    assert outcome.verdict is verdict, outcome.reasons
    if verdict is Verdict.REGRESSED:
        assert "it sent in time, and brokers missed the level" in outcome.reasons[0]
        assert "which explains a factor of" in outcome.reasons[0]


def test_a_rate_that_holds_above_a_late_one_is_no_bound() -> None:
    """The generator was late at a few rates, and brokers took more than those."""

    def measure(row: Scenario, _doing: str) -> Finished:
        if 1500 < row.load.rate <= 3000:
            return Finished(round=late(150.0, 145.0), repeatable=True)
        found: Finished = brokers(30_000.0)(row, _doing)
        return found

    found = ramp_round(measure, RAMP, 1, own_brokers=True).round
    assert judge_scenario(of(found), HELD).verdict is Verdict.INVALID


def test_a_lost_record_that_a_probe_meets_is_red() -> None:
    reason = "records unaccounted: 1,000 acknowledged, but the partitions' end offsets moved by 999 (-1)"

    def measure(row: Scenario, doing: str) -> Finished:
        found: Finished = slow_above(1500.0, late_up_to=3500.0)(row, doing)
        if row.load.rate > 3500:
            return replace(found, round=flawed(found.round, invalid=(reason,), broken=(reason,)), repeatable=False)
        return found

    found = ramp_round(measure, RAMP, 1, own_brokers=True).round
    assert judge_scenario(of(found), HELD).verdict is Verdict.BROKEN


def rates(found: Round) -> Sequence[float]:
    return [one.rate for one in found.steps]


def test_a_sound_knee_needs_no_probe() -> None:
    found = ramp_round(brokers(30_000.0), RAMP, 1, own_brokers=True).round
    assert max(rates(found)) <= 2.2 * 30_000
