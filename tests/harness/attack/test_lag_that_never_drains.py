"""Consumers that should keep up and do not are red; those that cannot by declaration are a figure, and not INVALID."""

from dataclasses import replace

import pytest

from perfgate.judge.claims.threshold import required
from perfgate.judge.scenario_case import judge_scenario
from perfgate.load.processes import lag_of
from perfgate.measure.assembly import round_of
from perfgate.model import Consumers, Load, Measurement, Round, Verdict
from perfgate.model.flaw import Flaw, Part
from perfgate.model.load import Lag
from perfgate.report.proposal import proposed
from perfgate.report.results import recorded_measurement, scenario_entry
from perfgate.report.scenario_plots import scenario_pictures
from perfgate.report.terminal import lag_notes
from tests.harness.build import accounting, load_result, profile, received, scenario, sent, threshold

WORKS = Consumers(membership="group", processes=2, work_ms=1.0)
ROW = replace(scenario(), load=Load(kind="paced", rate=1_000), consumers=WORKS)
BEHIND = replace(ROW, consumers=replace(WORKS, work_ms=4.0))


def a_round(index: int, lag: Lag) -> Round:
    result = replace(load_result(sent=sent(), received=received()), lag=lag)
    return round_of(index, result, accounting(3000), {"broker_cpu_us_per_record": 10.0}, (), "", own_brokers=True)


def lag(drained_s: float | None, growth: float = 0.0) -> Lag:
    return lag_of([(n / 10, 20 + growth * n / 10) for n in range(100)], 0.0, 10.0, drained_s)


def taken(*drained_s: float | None, row: object = ROW, growth: float = 0.0) -> Measurement:
    rounds = tuple(a_round(index, lag(one, growth)) for index, one in enumerate(drained_s, start=1))
    return Measurement(scenario=row, rounds=rounds, rtt_ms={})  # type: ignore[arg-type]  # a Scenario


def verdict_of_drain(measurement: Measurement) -> Verdict | None:
    outcome = judge_scenario(measurement, None)
    return next((one.verdict for one in outcome.judgements if one.metric == "drain_s"), None)


@pytest.mark.parametrize(
    ("drained_s", "expected"),
    [
        ((1.0, 2.0, 1.0), None),
        ((1.0, None, 1.0), Verdict.INCONCLUSIVE),
        ((None, None, 1.0), Verdict.REGRESSED),
        ((None, None, None), Verdict.REGRESSED),
    ],
)
def test_lag_that_never_drains_is_red(drained_s: tuple[float | None, ...], expected: Verdict | None) -> None:
    found = taken(*drained_s, growth=500.0)
    assert verdict_of_drain(found) is expected
    if expected is Verdict.REGRESSED:
        outcome = judge_scenario(found, None)
        assert outcome.verdict is Verdict.REGRESSED
        assert "though they can take 2,000 records/s of 1,000" in " ".join(outcome.reasons)


def test_a_doubt_that_explains_a_part_of_it_excuses_no_lag_without_an_end() -> None:
    found = taken(None, None, None)
    slow = Flaw("slow", explains=(Part(factor=3.0),), metrics=("drain_s",))
    doubted = replace(found, rounds=tuple(replace(r, flaws=(slow,)) for r in found.rounds))
    assert verdict_of_drain(doubted) is Verdict.REGRESSED


def test_consumers_that_cannot_keep_up_by_declaration_are_a_figure() -> None:
    found = taken(None, None, None, row=BEHIND, growth=500.0)
    outcome = judge_scenario(found, None)
    assert verdict_of_drain(found) is None
    assert outcome.verdict is Verdict.MISSING, outcome.reasons
    (note,) = lag_notes({"behind": found})
    assert note == (
        "note: behind: its consumers were up to 4,970 records behind, 500 more each second: they take 500 of 1,000 "
        "records/s by declaration"
    )
    (kept,) = lag_notes({"kept": taken(1.0, 2.0)})
    assert kept == "note: kept: its consumers were up to 20 records behind, and worked off the rest in 1.5 s"
    assert lag_notes({"plain": replace(found, rounds=())}) == []


def test_how_far_behind_they_are_needs_a_threshold_and_is_held_to_it() -> None:
    assert ("lag_records.max",) in required(ROW)
    assert ("lag_growth_records_per_s",) in required(BEHIND)
    assert ("end_to_end_latency_ms.p99",) not in required(BEHIND), "it is as long as the load has lasted"
    assert ("lag_records.max",) not in required(replace(ROW, consumers=replace(WORKS, work_ms=0.0)))
    stored = profile(threshold("lag_records.max", 20.0, tolerance=0.5))
    for growth, expected in ((0.0, Verdict.PASS), (500.0, Verdict.REGRESSED)):
        judged = judge_scenario(taken(1.0, 1.0, 1.0, growth=growth), stored).judgements
        assert next(one.verdict for one in judged if one.metric == "lag_records.max") is expected


def test_it_is_recorded_drawn_and_proposed_as_a_threshold() -> None:
    found = taken(1.0, 2.0, 1.0)
    entry = scenario_entry(found, None)
    assert recorded_measurement(entry).rounds == found.rounds
    assert recorded_measurement(entry).scenario == ROW
    assert "lag" in scenario_pictures(found, None, {})
    assert "lag" not in scenario_pictures(replace(found, rounds=()), None, {})
    runs = [{"scenarios": [entry]}, {"scenarios": [entry]}]
    assert "lag_records.max" in {one.metric for one in proposed(runs)}
