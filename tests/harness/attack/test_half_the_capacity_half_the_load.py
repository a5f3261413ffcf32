"""Capacity halved, the next night offered half of what it had offered, and the stored p99 was PASS."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.judge.rates import OTHER_RATE
from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.thresholds import load_profile
from perfgate.judge.wording import scenario_message
from perfgate.model import Load, Measurement, Outcome, Threshold, Verdict
from perfgate.report.proposal import Proposed, proposed, updated, worse
from perfgate.report.results import load_run
from tests.harness.build import measurement, profile, threshold
from tests.harness.build.recorded import RECORDED, night

FACTS = {"target": "embedded", "cores": "2", "cpu_model": "x", "tier": "smoke", "driver": "librdkafka", "kafka": "4.3"}
P99 = threshold("latency_ms.p99", 4.0, 0.5)
CPU = threshold("broker_cpu_us_per_record", 50.0, 0.1)


def at(rate: float, cpu_us: float = 50.0) -> Measurement:
    """Return a sound measurement of a paced load of this rate: p99 of 4 ms."""
    taken = measurement([rate] * 3, cpu_us=cpu_us)
    return replace(taken, scenario=replace(taken.scenario, load=Load(kind="paced", rate=rate, share_of_knee=0.5)))


def judged(rate: float, *held: Threshold, recorded_at: float = 4000.0, cpu_us: float = 50.0) -> Outcome:
    return judge_scenario(at(rate, cpu_us), profile(*(replace(one, rate=recorded_at) for one in held)))


def test_half_the_load_is_undecided_with_both_figures() -> None:
    assert judged(4000.0, P99, CPU).verdict is Verdict.PASS
    outcome = judged(2000.0, P99, CPU)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    message = scenario_message(outcome, at(2000.0), None)
    assert "offered 2,000 records/s, and the threshold was recorded at 4,000 (-50 %, at most 20 %)" in message


def test_however_far_the_limit_lies() -> None:
    assert judged(2000.0, threshold("latency_ms.p99", 4.0, 0.5, reach=9.0), CPU).verdict is Verdict.INCONCLUSIVE


def test_a_threshold_without_a_rate_is_held_as_ever() -> None:
    assert judged(2000.0, P99, CPU, recorded_at=0.0).verdict is Verdict.PASS


def test_more_load_is_no_regression_and_what_passes_it_passes() -> None:
    assert judged(8000.0, P99, CPU, cpu_us=90.0).verdict is Verdict.INCONCLUSIVE
    assert judged(8000.0, P99, CPU).verdict is Verdict.PASS
    assert judged(4000.0, P99, CPU, cpu_us=90.0).verdict is Verdict.REGRESSED


@given(st.floats(0.05, 20), st.floats(0.01, 0.9), st.floats(20, 5000))
def test_another_load_decides_nothing_but_what_it_does_not_explain(factor: float, reach: float, cpu_us: float) -> None:
    held = replace(CPU, tolerance=reach, reach=reach)
    found = judged(4000.0 * factor, P99, held, cpu_us=cpu_us)
    red = cpu_us / max(factor, 1 / factor) > held.limit
    if abs(cpu_us / max(factor, 1 / factor) - held.limit) < 1e-6:
        return
    if factor < 1 - min(reach, OTHER_RATE) - 1e-9:
        assert found.verdict is (Verdict.REGRESSED if red else Verdict.INCONCLUSIVE)
    elif factor > 1 + min(reach, OTHER_RATE) + 1e-9:
        assert (found.verdict is Verdict.REGRESSED) == red
    elif abs(factor - 1) < min(reach, OTHER_RATE) - 1e-9:
        assert found == judged(4000.0 * factor, P99, held, cpu_us=cpu_us, recorded_at=0.0)


def runs_at(*rates: float) -> list[dict[str, Any]]:
    """Return runs in which batch-1k was offered a share of a knee that came to these rates."""
    runs = []
    for number, rate in enumerate(rates, 1):
        run = night(load_run(RECORDED), number, 1.0)
        entry = next(e for e in run["scenarios"] if e["name"] == "batch-1k")
        entry["load"] |= {"kind": "paced", "rate": rate, "share_of_knee": 0.5}
        runs.append(run)
    return runs


def test_the_rate_is_stored_with_the_threshold_and_read_back(tmp_path: Path) -> None:
    found = [one for one in proposed(runs_at(4000, 4100, 3900)) if one.scenario in ("batch-1k", "batch-16k")]
    assert {one.rate for one in found if one.scenario == "batch-1k"} == {4000.0}
    path = tmp_path / "here.toml"
    path.write_text(updated("", FACTS, found, runs_at(4000, 4100, 3900)))
    held = load_profile(path).thresholds
    assert {one.rate for one in held["batch-1k"]} == {4000.0}
    assert {one.rate for one in held["batch-16k"]} == {0.0}, "its rate is declared"
    assert path.read_text().count("rate = 4000.0") == len(held["batch-1k"])


@pytest.mark.parametrize(("rate", "needs"), [(2000.0, True), (3150.0, True), (3900.0, False), (8000.0, False)])
def test_a_baseline_of_less_load_needs_a_reason(rate: float, needs: bool) -> None:
    stored = profile(replace(P99, rate=4000.0, spread=0.1, runs=6))
    new = Proposed(scenario="batch-1k", metric="latency_ms.p99", values=(3.9, 4.0, 4.1), rate=rate)
    found = worse([new], stored)
    assert bool(found) is needs
    if needs:
        assert found[new].endswith(f"recorded at {rate:,.0f} records/s, the stored baseline at 4,000")
