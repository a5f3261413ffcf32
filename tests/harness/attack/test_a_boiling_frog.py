"""Thresholds that follow a slow loss: red runs became baselines, and many small steps down were never red."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perfgate.judge.thresholds import load_profile
from perfgate.report.proposal import command as propose
from perfgate.report.results import load_run
from tests.harness.build.recorded import RECORDED, night
from tests.harness.called import called

RUNS = 6


class Nights:
    """A folder of thresholds, and weeks of runs that are proposed from."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._week = folder, 0
        self.thresholds = folder / "thresholds"
        self.thresholds.mkdir()
        self.document = load_run(RECORDED)

    def accept(self, factor: float, *arguments: str, **changes: Any) -> int:
        """Record a week of runs with batch-1k's rate times `factor` (1 % of scatter) and accept them."""
        self._week += 1
        results = self._folder / f"week-{self._week}"
        for number in range(1, RUNS + 1):
            run = night(self.document, number, factor * (1 + 0.01 * (-1) ** number))
            next(e for e in run["scenarios"] if e["name"] == "batch-1k").update(changes)
            for name in (run["run_id"], *(["latest"] if number == RUNS else [])):
                (results / name).mkdir(parents=True)
                (results / name / "run.json").write_text(json.dumps(run))
        return called(propose, f"--results={results}", f"--thresholds={self.thresholds}", "--accept", *arguments)

    def anchors(self) -> dict[tuple[str, str], float | None]:
        """Return the stored anchors by scenario and metric."""
        (path,) = self.thresholds.glob("*.toml")
        thresholds = load_profile(path).thresholds
        return {(name, t.metric.name): t.anchor for name, held in thresholds.items() for t in held}

    @property
    def baseline(self) -> float:
        """The stored baseline of batch-1k's rate, as a multiple of the recorded run's."""
        (path,) = self.thresholds.glob("*.toml")
        (held,) = (t for t in load_profile(path).thresholds["batch-1k"] if t.metric.name == "records_per_s")
        entry = next(e for e in self.document["scenarios"] if e["name"] == "batch-1k")
        return held.baseline / float(entry["metrics"]["records_per_s"]["value"])


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    found = Nights(tmp_path)
    assert found.accept(1.0) == 0
    return found


def test_a_worse_baseline_needs_a_reason(nights: Nights, capsys: Any) -> None:
    assert nights.accept(0.92) == 1
    shown = capsys.readouterr().out
    assert "worse: batch-1k records_per_s: 8.0 % worse than the stored baseline, more than its error of" in shown
    assert "--because 'TEXT'" in shown
    assert nights.baseline == pytest.approx(1.0, rel=0.01)
    assert nights.accept(0.92, "--because", "TLS was\nswitched on") == 0
    assert nights.baseline == pytest.approx(0.92, rel=0.01)
    (path,) = nights.thresholds.glob("*.toml")
    assert "# because: TLS was switched on (batch-1k records_per_s)" in path.read_text()


def test_a_better_one_needs_none(nights: Nights) -> None:
    assert nights.accept(1.08) == 0
    assert nights.baseline == pytest.approx(1.08, rel=0.01)


def test_small_steps_add_up_against_the_anchor(nights: Nights, capsys: Any) -> None:
    """Each of 0.5 % lies within the error of six runs: 12 of them are 6 %, 40 were 18 %."""
    accepted = 0
    while nights.accept(0.995 ** (accepted + 1)) == 0:
        accepted += 1
        assert accepted < 40, "never stopped"
    assert 0.895 < nights.baseline < 0.92
    assert "worse than its anchor" in capsys.readouterr().out


@pytest.mark.parametrize(
    "red",
    [
        {"verdict": "REGRESSED"},
        {"verdict": "PASS", "first_look": {"verdict": "REGRESSED", "judgements": []}},
    ],
)
def test_red_runs_are_no_baseline_confirmed_or_not(nights: Nights, capsys: Any, red: dict[str, Any]) -> None:
    assert nights.accept(0.5, **red) == 1
    shown = capsys.readouterr().out
    assert shown.count("left out: ") == RUNS
    assert "batch-1k red" in shown
    assert nights.baseline == pytest.approx(1.0, rel=0.01)
    assert nights.accept(0.5, "--because", "half of the brokers were given back", **red) == 0
    assert nights.baseline == pytest.approx(0.5, rel=0.01)


def test_the_anchor_moves_up_with_a_gain(nights: Nights, read: Callable[[], float]) -> None:
    assert nights.accept(1.2) == 0
    assert read() == pytest.approx(1.2, rel=0.01)
    assert nights.accept(1.2 * 0.85, "--because", "a new disk") == 0
    assert read() == pytest.approx(1.02, rel=0.01)


def test_a_reason_moves_the_anchors_that_needed_it_and_no_others(nights: Nights, read: Callable[[], float]) -> None:
    """It reset all of them: of a metric that sank within its error the steps began anew."""

    def sunk(document: dict[str, Any], share: float) -> None:
        for entry in document["scenarios"]:
            if entry["name"] == "acks-all":
                rate = entry["metrics"]["records_per_s"]
                rate["rounds"] = [value * share for value in rate["rounds"]]

    anchors_before = nights.anchors()
    sunk(nights.document, 0.9995)
    assert nights.accept(0.8, "--because", "TLS was switched on") == 0
    after = nights.anchors()
    assert read() == pytest.approx(0.8, rel=0.01)
    moved = {key for key, anchor in after.items() if anchor != anchors_before[key]}
    assert moved == {("batch-1k", "records_per_s")}
    (path,) = nights.thresholds.glob("*.toml")
    held = {t.metric.name: t for t in load_profile(path).thresholds["acks-all"]}
    held_rate = held["records_per_s"]
    assert held_rate.anchor is not None
    assert held_rate.baseline < held_rate.anchor


@pytest.fixture
def read(nights: Nights) -> Callable[[], float]:
    def anchor() -> float:
        (path,) = nights.thresholds.glob("*.toml")
        (held,) = (t for t in load_profile(path).thresholds["batch-1k"] if t.metric.name == "records_per_s")
        assert held.anchor is not None
        return nights.baseline * held.anchor / held.baseline

    return anchor
