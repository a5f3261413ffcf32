"""Latency was held nowhere: p99 a hundred times as long, at the same rate, was green in every plain scenario."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from perfgate.catalogue.kafka import FAMILIES
from perfgate.judge.besides import NOT_THE_SAME_READ
from perfgate.judge.bounds_files import load_ratios
from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.thresholds import load_profile
from perfgate.model import Consumers, FaultScenario, Load, Measurement, Threshold, Verdict
from perfgate.model.loads import KINDS
from perfgate.report.proposal import Proposed, proposed, updated
from tests.harness.build import measurement, profile, threshold
from tests.harness.run_gate import ROOT

PACED_METRICS = ("latency_ms.p99", "broker_cpu_us_per_record")
P99 = replace(threshold("latency_ms.p99", 4.0, 0.5), scenario="paced-500")
RATE = threshold("records_per_s", 500.0)
CPU = replace(threshold("broker_cpu_us_per_record", 50.0), scenario="paced-500")


def paced(p99_ms: float) -> Measurement:
    """Return rounds of a paced row that kept its rate, with this p99."""
    made = measurement([500.0] * 5, "paced-500")
    rounds = tuple(
        replace(r, metrics={**r.metrics, "latency_ms.p99": p99_ms * (1 + 0.01 * r.index)}) for r in made.rounds
    )
    return replace(made, scenario=replace(made.scenario, load=Load(kind="paced", rate=500.0)), rounds=rounds)


@pytest.mark.parametrize(
    ("p99_ms", "verdict"),
    [
        (4, Verdict.PASS),
        (5.5, Verdict.PASS),
        (8, Verdict.REGRESSED),
        (400, Verdict.REGRESSED),
        (2.3, Verdict.IMPROVED),
        (1.5, Verdict.INCONCLUSIVE),  # less than half: as far off as 8 ms are, which is twice the limit's distance
        (0.01, Verdict.INCONCLUSIVE),
    ],
)
def test_a_paced_row_is_judged_by_its_latency(p99_ms: float, verdict: Verdict) -> None:
    assert judge_scenario(paced(p99_ms), profile(P99, CPU)).verdict is verdict


def test_a_paced_row_without_a_latency_threshold_is_missing() -> None:
    found = judge_scenario(paced(4), profile(CPU))
    assert found.verdict is Verdict.MISSING
    assert [j.metric for j in found.judgements if j.verdict is Verdict.MISSING] == ["latency_ms.p99"]


def test_the_shipped_catalogue_has_a_paced_row_in_every_tier() -> None:
    (rows,) = (one.scenarios for one in FAMILIES if one.name == "latency")
    assert [row.load.kind for row in rows] == ["paced"]
    assert not any(isinstance(row, FaultScenario) for row in rows), "rows without a fault are in every tier"


def test_thresholds_that_are_recorded_hold_its_latency(tmp_path: Path) -> None:
    found = [
        Proposed(scenario="paced-500", metric=metric, values=(4.0, 5.0, 4.4, 4.1, 4.8)) for metric in PACED_METRICS
    ]
    run = {"run_id": "r", "tier": {"name": "smoke", "rounds": 3, "window_s": 3}, "scenarios": []}
    text = updated("", {"target": "embedded", "kafka": "4.3"}, found, [run] * 5)
    (tmp_path / "mine.toml").write_text(text)
    held: tuple[Threshold, ...] = load_profile(tmp_path / "mine.toml").thresholds["paced-500"]
    assert {(t.metric.name, t.tolerance) for t in held} == {("latency_ms.p99", 0.5), ("broker_cpu_us_per_record", 0.1)}


def test_a_limit_above_a_noisy_latency_may_lie_at_more_than_twice_its_baseline(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        '[profile]\ntarget = "embedded"\n[paced-500]\n'
        '"latency_ms.p99" = { baseline = 4, tolerance = 0.5, spread = 0.4, runs = 10 }\n'
    )
    (held,) = load_profile(tmp_path / "mine.toml").thresholds["paced-500"]
    assert held.reach == pytest.approx(0.4 * 3.498, rel=0.01)


def test_an_outage_three_times_as_long_stays_red_however_noisy(tmp_path: Path) -> None:
    """The wider limit is the latency's alone."""
    (tmp_path / "mine.toml").write_text(
        '[profile]\ntarget = "embedded"\n[kill-leader]\n'
        '"outage_s.max" = { baseline = 8, tolerance = 0.1, spread = 0.4, runs = 5 }\n'
    )
    (held,) = load_profile(tmp_path / "mine.toml").thresholds["kill-leader"]
    assert held.reach == 0.9


def test_a_latency_that_was_sent_late_is_no_baseline() -> None:
    def run(late: bool) -> dict[str, Any]:
        spoilt = [{"text": "sent late", "metrics": ["latency_ms"]}] if late else []
        metrics = {metric: {"rounds": [30.0 if late else 4.0] * 3} for metric in PACED_METRICS}
        entry = {
            "name": "paced-500",
            "verdict": "MISSING",
            "declared": {"fault": None},
            "load": {"kind": "paced"},
            "metrics": metrics,
            "rounds": [{"flaws": spoilt}, {"flaws": []}],
        }
        return {"scenarios": [entry]}

    found = {one.metric: one.values for one in proposed([run(False), run(True), run(False)])}
    assert found == {"latency_ms.p99": (4.0, 4.0), "broker_cpu_us_per_record": (4.0, 30.0, 4.0)}


END_TO_END = "end_to_end_latency_ms.p99"
READ = "received_records_per_s"


def read_along(kind: Literal["paced", "capped"], received: float) -> Measurement:
    """Return rounds of which producers feel nothing, whatever consumers wait for or miss."""
    made = paced(4) if kind == "paced" else measurement([500.0] * 5, "paced-500")
    name = made.scenario.load.readers_metric
    rounds = tuple(replace(r, metrics={**r.metrics, name: received * (1 + 0.01 * r.index)}) for r in made.rounds)
    return replace(made, scenario=replace(made.scenario, consumers=Consumers(membership="assigned")), rounds=rounds)


HELD = {
    "paced": (P99, CPU, replace(threshold(END_TO_END, 10.0, 0.5), scenario="paced-500")),
    "capped": (replace(RATE, scenario="paced-500"), CPU, replace(threshold(READ, 500.0), scenario="paced-500")),
}


@pytest.mark.parametrize(
    ("kind", "received", "verdict"),
    [
        ("paced", 10.0, Verdict.PASS),
        ("paced", 20.0, Verdict.REGRESSED),
        ("paced", 1000.0, Verdict.REGRESSED),
        ("capped", 495.0, Verdict.PASS),
        ("capped", 250.0, Verdict.REGRESSED),
    ],
)
def test_what_consumers_wait_for_is_judged(kind: Literal["paced", "capped"], received: float, verdict: Verdict) -> None:
    """A hundred times as long from send to receipt, or half as much read, was green: the producers felt nothing."""
    assert judge_scenario(read_along(kind, received), profile(*HELD[kind])).verdict is verdict


@pytest.mark.parametrize("kind", ["paced", "capped"])
def test_without_its_threshold_it_is_missing(kind: Literal["paced", "capped"]) -> None:
    assert judge_scenario(read_along(kind, 10.0), profile(*HELD[kind][:-1])).verdict is Verdict.MISSING


@pytest.mark.parametrize("kind", ["paced", "capped"])
def test_thresholds_that_are_recorded_hold_what_consumers_wait_for(kind: str) -> None:
    metrics = {name: {"rounds": [4.0] * 3} for name in ("latency_ms.p99", "records_per_s", END_TO_END, READ)}
    entry = {
        "name": "end-to-end-1k",
        "verdict": "MISSING",
        "declared": {"fault": None},
        "load": {"kind": kind},
        "metrics": metrics,
        "rounds": [{"flaws": []}],
    }
    found = {one.metric for one in proposed([{"scenarios": [entry]}] * 2)}
    assert KINDS[kind].readers_metric in found
    assert not found & set(NOT_THE_SAME_READ) - {KINDS[kind].readers_metric}


def test_a_reference_holds_it_too() -> None:
    held = {ratio.metric.name for ratio in load_ratios(ROOT / "perfgate" / "catalogue").default}
    assert set(NOT_THE_SAME_READ) <= held
