"""The search for the knee finds it for any true one, whatever is known before, in a bounded number of steps."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.judge.claims.threshold import required
from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.assembly import Finished
from perfgate.measure.ramp import BELOW, RESOLUTION, TRIES, Known, find_knee, known_after, ramp_round
from perfgate.model import Consumers, Reading, Round, Scenario, Verdict, with_changes
from perfgate.report.plots import knee_curve_figure
from perfgate.report.results import recorded_measurement, scenario_entry
from tests.harness.build import accounting, profile, threshold
from tests.harness.build.knee import LEAST, MOST, RAMP, brokers, of, step

READING = Reading(
    read=1000, received=1000, foreign=0, corrupt=0, duplicated=0, reordered=0, redelivered=0, negative_latencies=0
)


@given(true=st.floats(LEAST * 1.2, MOST * 2), about=st.none() | st.floats(LEAST, MOST))
def test_the_knee_is_found_to_its_resolution(true: float, about: float | None) -> None:
    tried: list[float] = []

    def meets(rate: float, _part: str) -> bool:
        tried.append(rate)
        return rate <= true

    knee = find_knee(meets, MOST, about)
    assert knee is not None
    assert min(true, MOST) / RESOLUTION * 0.999 <= knee <= min(true, MOST)
    assert min(tried) >= LEAST
    assert max(tried) <= MOST
    assert BELOW * knee in tried
    assert tried.count(knee) >= 2 or knee == MOST
    assert len(tried) <= 32


@given(answers=st.lists(st.booleans(), min_size=200, max_size=200))
def test_whatever_the_steps_say_the_search_ends(answers: Sequence[bool]) -> None:
    asked: list[tuple[float, str]] = []

    def meets(rate: float, part: str) -> bool:
        asked.append((rate, part))
        return answers[len(asked) - 1]

    knee = find_knee(meets, MOST)
    assert len(asked) < 50
    assert (knee is None) == (not answers[0])
    if knee is not None and knee > LEAST:
        assert knee <= MOST
        assert (knee, "confirmation") in asked
        told = dict(zip(asked, answers, strict=False))
        assert told[knee, "confirmation"]
        assert told[BELOW * knee, "below"]


def test_brokers_that_miss_the_first_step_have_no_knee() -> None:
    assert find_knee(lambda _rate, _part: False, MOST) is None


def test_a_rate_that_does_not_hold_twice_is_no_knee() -> None:
    def meets(_rate: float, part: str) -> bool:
        return part != "confirmation"

    assert find_knee(meets, MOST) == LEAST


def test_a_step_that_noise_misses_does_not_make_the_knee_a_third_lower() -> None:
    """Each time 90 % of a rate was missed by chance the search went down by twice as much, and stayed there: 4,810."""
    below: list[float] = []

    def meets(rate: float, part: str) -> bool:
        below.extend([rate] if part == "below" else [])
        return rate <= 10_000 and not (part == "below" and len(below) < 5)

    knee = find_knee(meets, MOST)
    assert knee is not None
    assert 10_000 / RESOLUTION**10 < knee < 10_000 / RESOLUTION**7, "just below the last rate that was missed"


def test_brokers_that_take_the_first_step_alone_have_a_low_knee() -> None:
    """A collapse is a figure that a threshold sees, and no invalid load."""
    assert find_knee(lambda rate, _part: rate <= LEAST, MOST) == LEAST
    found = ramp_round(brokers(LEAST), RAMP, 1, own_brokers=True).round
    assert found.metrics["knee_records_per_s"] == LEAST
    outcome = judge_scenario(of(found), profile(threshold("knee_records_per_s", 30_000, name="knee")))
    assert outcome.verdict is Verdict.REGRESSED


def test_a_round_holds_the_whole_curve_and_the_metrics_at_the_knee() -> None:
    found = ramp_round(brokers(30_000), RAMP, 3, own_brokers=True).round
    knee = found.metrics["knee_records_per_s"]
    assert found.index == 3
    assert 30_000 / RESOLUTION <= knee <= 30_000
    assert found.metrics["records_per_s"] == knee
    assert found.accounting.attempted == 1000 * len(found.steps)
    assert found.accounting.acked == found.accounting.offset_delta
    assert {one.part for one in found.steps} == {"unloaded", "step", "bisection", "confirmation", "below"}
    assert all((one.rate <= 30_000) == (not one.missed) for one in found.steps)
    assert "more than the 20.0 ms" in next(one.missed for one in found.steps if one.missed)


def test_markers_of_transactions_are_accounted_for_over_all_steps() -> None:
    def measure(row: Scenario, _doing: str) -> Finished:
        found = replace(step(row.load.rate, 2.0), accounting=replace(accounting(1000, offset_delta=1006), markers=6))
        return Finished(round=found, repeatable=False)

    found = ramp_round(measure, RAMP, 1, own_brokers=True).round
    assert found.accounting.markers == 6 * len(found.steps)
    assert found.accounting.offset_delta == found.accounting.acked + found.accounting.markers


def test_sends_that_fail_beyond_the_knee_are_part_of_the_curve() -> None:
    reason = "3 of 1,003 sends failed: 3 x _MSG_TIMED_OUT"
    lossy = replace(accounting(1000, attempted=1003), failed={"_MSG_TIMED_OUT": 3})
    beyond = step(1.0, 2.0, invalid=(reason,), broken=(reason,), perhaps_late=(reason,), accounting=lossy)
    found = ramp_round(brokers(30_000, beyond), RAMP, 1, own_brokers=True).round
    assert not found.invalid
    assert found.metrics["knee_records_per_s"] <= 30_000
    assert found.accounting.failed["_MSG_TIMED_OUT"] >= 3


def test_a_record_lost_at_any_rate_ends_the_ramp_red() -> None:
    reason = "records unaccounted: 1,000 acknowledged, but the partitions' end offsets moved by 999 (-1)"
    beyond = step(1.0, 2.0, invalid=(reason,), broken=(reason,), accounting=accounting(1000, offset_delta=999))
    found = ramp_round(brokers(30_000, beyond), RAMP, 1, own_brokers=True).round
    assert found.broken == (reason,)
    assert judge_scenario(of(found), None).verdict is Verdict.BROKEN


@pytest.mark.parametrize(
    "wrong",
    [
        {"reading": replace(READING, corrupt=1)},
        {"reading": replace(READING, duplicated=1)},
        {"accounting": replace(accounting(1000), partitions=((500, 501), (500, 499)))},
        {"broken": ("3 of 1,003 sends failed", "2 records whose content is not what was sent")},
    ],
)
def test_a_send_that_failed_excuses_no_loss(wrong: dict[str, Any]) -> None:
    late = ("3 of 1,003 sends failed",)
    lossy = replace(accounting(1000, attempted=1003), failed={"_MSG_TIMED_OUT": 3})
    changes = {"invalid": late, "broken": late, "perhaps_late": late, "accounting": lossy, **wrong}
    found = ramp_round(brokers(30_000, step(1.0, 2.0, **changes)), RAMP, 1, own_brokers=True).round
    assert found.invalid
    assert "knee_records_per_s" not in found.metrics


@pytest.mark.parametrize(("groups", "received"), [(1, 990), (3, 2990)])
def test_consumers_that_fall_behind_are_part_of_the_curve(groups: int, received: int) -> None:
    reason = "records unaccounted: 1,000 acknowledged, 990 received (-10)"
    beyond = step(1.0, 2.0, invalid=(reason,), reading=replace(READING, received=received))
    read = replace(RAMP, consumers=Consumers(membership="assigned", groups=groups))
    found = ramp_round(brokers(30_000, beyond), read, 1, own_brokers=True).round
    assert 30_000 / RESOLUTION <= found.metrics["knee_records_per_s"] <= 30_000


def test_a_pause_now_and_then_does_not_move_the_knee() -> None:
    """One step in seven has a p99 that is far too high, whatever its rate."""
    chance = random.Random(5)

    def paused(row: Scenario, doing: str) -> Finished:
        found: Finished = brokers(30_000)(row, doing)
        if chance.random() < 1 / 7 and "unloaded" not in doing:
            return replace(found, round=step(row.load.rate, 500.0))
        return found

    knees = [ramp_round(paused, RAMP, 1, own_brokers=True).round.metrics["knee_records_per_s"] for _ in range(200)]
    assert sum(knee < 0.9 * 30_000 for knee in knees) < 0.2 * len(knees)
    assert max(knees) <= 30_000


def test_a_rate_that_is_not_taken_is_not_tried_again() -> None:
    found = ramp_round(brokers(30_000, step(1.0, 2.0, not_sustained="took half")), RAMP, 1, own_brokers=True).round
    missed = [one.rate for one in found.steps if one.missed]
    assert len(missed) == len(set(missed))


def test_a_slow_first_step_raises_no_service_level() -> None:
    """Neither within a run nor, by its own threshold, from one run to the next."""
    known = known_after(ramp_round(brokers(30_000), RAMP, 1, own_brokers=True).round, Known())
    assert known.unloaded_ms == (2.0, 2.0, 2.0)
    assert known.knee == pytest.approx(30_000, rel=RESOLUTION - 1)

    def paused(row: Scenario, _doing: str) -> Finished:
        return Finished(round=step(row.load.rate, 20.0 if row.load.rate <= 30_000 else 150.0), repeatable=False)

    alone = ramp_round(paused, RAMP, 2, own_brokers=True).round
    beside = ramp_round(paused, RAMP, 2, known, own_brokers=True).round
    assert alone.metrics["knee_records_per_s"] == MOST, "150 ms are no ten times 20 ms"
    assert beside.metrics["knee_records_per_s"] <= 30_000
    assert beside.metrics["unloaded_latency_ms.p99"] == 2.0
    assert alone.metrics["unloaded_latency_ms.p99"] == 20.0
    held = profile(threshold("unloaded_latency_ms.p99", 2.0, 0.5, name="knee"))
    assert judge_scenario(of(alone), held).verdict is Verdict.REGRESSED
    assert ("unloaded_latency_ms.p99",) in required(RAMP)


def test_the_rounds_of_a_run_are_held_to_one_level() -> None:
    """Rounds with 3.7, 4.5 and 3.0 ms unloaded had knees of 12,800, 11,900 and 9,700: the curve is flat there."""
    unloaded = iter([3.7, 90.0, 3.0, 3.0, 5.0])

    def flat(row: Scenario, doing: str) -> Finished:
        p99_ms = next(unloaded) if "unloaded" in doing else 33.0 if row.load.rate <= 30_000 else 150.0
        return Finished(round=step(row.load.rate, p99_ms), repeatable=False)

    rounds, known = [], Known()
    for index in (1, 2, 3):
        rounds.append(ramp_round(flat, RAMP, index, known, own_brokers=True).round)
        known = known_after(rounds[-1], known)
    levels = [one.metrics["unloaded_latency_ms.p99"] for one in rounds]
    assert levels == pytest.approx([3.7, 3.35, 3.7]), "the middle of all first steps so far"
    assert known.unloaded_ms == (3.7, 90.0, 3.0, 3.0, 5.0)
    knees = [one.metrics["knee_records_per_s"] for one in rounds]
    assert 30_000 / RESOLUTION**2 <= min(knees) <= max(knees) <= 30_000


def test_a_level_that_is_stated_is_held_whatever_the_first_step_took() -> None:
    def found(level_ms: float) -> Round:
        stated = with_changes(RAMP, [("load.level-p99-ms", level_ms)])
        return ramp_round(brokers(30_000), stated, 1, own_brokers=True).round

    assert found(21.5).metrics["knee_records_per_s"] == MOST, "21 ms are quick enough"
    assert found(20).metrics["knee_records_per_s"] <= 30_000
    assert "more than the 20.0 ms that are stated" in next(one.missed for one in found(20).steps if one.missed)
    assert found(1).metrics["knee_records_per_s"] == LEAST, "2 ms at every rate: if there is one it is no higher"
    assert "p99 2.0 ms, more than the 1.0 ms that are stated" in found(1).invalid[0]
    assert judge_scenario(of(found(1)), None).verdict is Verdict.INVALID


def test_a_knee_that_the_generator_bounds_is_not_judged() -> None:
    late = step(1.0, 150.0, invalid_metrics={"latency_ms": "sent late: p99 of the schedule delay is 12.0 ms"})
    found = ramp_round(brokers(30_000, late, repeatable=True), RAMP, 1, own_brokers=True).round
    assert "the generator was the limit" in found.spoilt("knee_records_per_s")
    assert next(one for one in found.steps if one.missed).by_generator
    held = profile(threshold("knee_records_per_s", 29_000, name="knee"))
    outcome = judge_scenario(of(found), held)
    assert outcome.verdict is Verdict.INVALID


def test_a_step_that_was_sent_late_and_is_quick_enough_all_the_same_is_met() -> None:
    """Lateness is part of the latency: it can only have been longer for it."""
    late = step(1.0, 2.0, invalid_metrics={"latency_ms": "sent late: p99 of the schedule delay is 1.6 ms"})
    found = ramp_round(brokers(30_000, late, repeatable=True), RAMP, 1, own_brokers=True).round
    assert found.metrics["knee_records_per_s"] == MOST
    assert not found.spoilt("knee_records_per_s")
    assert found.spoilt("latency_ms.p99"), "that figure is the generator's"


def test_a_step_that_the_generator_spoilt_is_measured_again() -> None:
    tries: list[float] = []

    def measure(row: Scenario, _doing: str) -> Finished:
        tries.append(row.load.rate)
        late = tries.count(row.load.rate) < TRIES and row.load.rate == LEAST
        return Finished(round=step(row.load.rate, 2.0), repeatable=late)

    found = ramp_round(measure, RAMP, 1, own_brokers=True).round
    assert tries[:TRIES] == [LEAST] * TRIES
    assert found.metrics["knee_records_per_s"] == MOST


def test_a_first_step_that_the_generator_spoils_breaks_no_brokers() -> None:
    """Of three the second: the first one, which had met the level, was taken for the reason."""
    tries = iter([False, *[True] * TRIES])
    spoilt = "the generators stood still for 1.00 of the window's 3.00 s"

    def measure(row: Scenario, _doing: str) -> Finished:
        still = next(tries)
        return Finished(round=step(row.load.rate, 2.0, invalid=(spoilt,) if still else ()), repeatable=still)

    found = ramp_round(measure, RAMP, 1, own_brokers=True).round
    assert not found.broken
    assert found.invalid[0].endswith(spoilt)


@pytest.mark.parametrize(("own_brokers", "verdict"), [(True, Verdict.BROKEN), (False, Verdict.INVALID)])
def test_own_brokers_that_take_no_rate_at_all_are_broken(own_brokers: bool, verdict: Verdict) -> None:
    refused = step(LEAST, 2.0, not_sustained="not sustained: the brokers took 10 of 1,000 records/s")
    found = ramp_round(brokers(1.0, refused), RAMP, 1, own_brokers=own_brokers).round
    assert "no knee" in found.invalid[0]
    assert judge_scenario(of(found), None).verdict is verdict


@pytest.mark.parametrize(("knee", "verdict"), [(30_000, Verdict.PASS), (20_000, Verdict.REGRESSED)])
def test_the_knee_is_held_against_its_threshold(knee: float, verdict: Verdict) -> None:
    found = ramp_round(brokers(knee), RAMP, 1, own_brokers=True).round
    limits = profile(
        threshold("knee_records_per_s", 30_000, name="knee"),
        threshold("unloaded_latency_ms.p99", 2.0, 0.5, name="knee"),
        threshold("broker_cpu_us_per_record", 50.0, name="knee"),
    )
    outcome = judge_scenario(of(found), limits)
    assert outcome.verdict is verdict
    assert required(RAMP)[0] == ("knee_records_per_s",)


def test_a_ramp_is_recorded_whole_and_read_back() -> None:
    measured = of(ramp_round(brokers(30_000), RAMP, 1, own_brokers=True).round)
    assert recorded_measurement(scenario_entry(measured, None)) == measured


def test_the_curve_shows_every_step_and_the_knee() -> None:
    found = ramp_round(brokers(30_000), RAMP, 1, own_brokers=True).round
    taken, latency, cpu = knee_curve_figure("knee, round 1", found).axes
    assert sum(len(np.atleast_1d(line.get_xdata())) for line in taken.lines[:2]) == len(found.steps)
    ends = {line.get_label(): line for line in taken.lines}
    assert len(np.atleast_1d(ends["of all attempted, acknowledged"].get_xdata())) == len(found.steps)
    assert "of these, received" not in ends, "without consumers nothing was"
    read = replace(found, steps=tuple(replace(one, received=one.accounting.acked // 2) for one in found.steps))
    (line,) = (one for one in knee_curve_figure("knee", read).axes[0].lines if one.get_label() == "of these, received")
    assert np.nanmax(np.atleast_1d(line.get_ydata()).astype(float)) == pytest.approx(50, abs=1)
    assert "log" in (latency.get_yscale(), latency.get_xscale())
    assert any("knee: " in text.get_text() for text in cpu.get_legend().get_texts())  # type: ignore[union-attr]
    assert all("/s" in axes.get_xlabel() or "," in axes.get_ylabel() for axes in (taken, latency, cpu))
