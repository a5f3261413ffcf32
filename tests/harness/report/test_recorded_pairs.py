"""A/A pairs of recorded runs: which runs count, and that a profile gets them by an explicit command alone."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from perfgate.fixtures.book import Book, recorded_pairs
from perfgate.judge.claims.same import judge_comparison
from perfgate.judge.thresholds import load_profile
from perfgate.judge.units import unit_logs
from perfgate.model import Comparison, Profile
from perfgate.model.command import command_line
from perfgate.model.usual import TIERS
from perfgate.report.recorded_pairs import command, of_nothing
from perfgate.report.results import comparison_entry, load_run, recorded_comparisons, recorded_measurements
from tests.harness.called import called
from tests.harness.judge.test_recorded_pairs import recorded
from tests.harness.run_gate import ROOT


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = load_run(ROOT / "tests/harness/data/run.json")
    return found


def compared(document: dict[str, Any], method: Any = "pairs") -> Comparison:
    one, other = list(recorded_measurements(document).values())[:2]
    return Comparison(
        change="nothing",
        baseline=one,
        candidate=replace(other, scenario=one.scenario),
        method=method,
        rounds_per_unit=1,
        planned_units=3,
        orders=("ABBA BAAB",) * 3,
        minutes=1.5,
    )


def written(folder: Path, number: int, document: dict[str, Any], change: dict[str, Any], **others: Any) -> None:
    found = compared(document, others.pop("method", "pairs"))
    run_id = f"2026112{number}T000000Z-0000"
    entry = comparison_entry(found, judge_comparison(found))
    run = {**document, "run_id": run_id, "change": change, "comparisons": [entry], "scenarios": [], **others}
    (folder / run_id).mkdir(parents=True)
    (folder / run_id / "run.json").write_text(json.dumps(run))


AA = {"name": "nothing, on pairs of clusters", "budget_s": 600, "pairs": True}


def test_recorded_pairs_survive_the_way_through_run_json(document: dict[str, Any]) -> None:
    found = replace(compared(document), recorded=(recorded(),))
    again = json.loads(json.dumps(comparison_entry(found, judge_comparison(found)), allow_nan=False))
    read = recorded_comparisons({**document, "comparisons": [again]})[found.scenario.name]
    assert read.recorded == found.recorded
    assert judge_comparison(read) == judge_comparison(found)


def test_pairs_are_written_when_they_are_accepted_and_only_then(
    tmp_path: Path, document: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    results, thresholds = tmp_path / "results", tmp_path / "thresholds"
    thresholds.mkdir()
    asked = [f"--results={results}", f"--thresholds={thresholds}"]
    assert called(command, *asked) == 2
    assert f"{command_line('compare', 'changes/nothing-on-pairs.toml')} makes one" in capsys.readouterr().err
    name = compared(document).scenario.name
    effects = [round(x, 5) for x in unit_logs(compared(document), "records_per_s")]
    written(results, 1, document, AA)
    assert called(command, *asked, "--accept") == 1
    assert "too few: 5 are needed" in capsys.readouterr().out
    written(results, 2, document, AA)
    written(results, 3, document, {**AA, "producer": {"linger.ms": "5"}})
    written(results, 4, document, AA, modified=["producer.linger.ms=5"])
    written(results, 5, document, AA, driver="java")
    (results / "20261125T000000Z-0000").rename(results / "20261101T000000Z-0000")  # older than those that it is unlike
    run = json.loads((results / "20261101T000000Z-0000" / "run.json").read_text())
    (results / "20261101T000000Z-0000" / "run.json").write_text(json.dumps({**run, "run_id": "20261101T000000Z-0000"}))
    assert called(command, *asked) == 0
    said = capsys.readouterr().out
    assert "2 run(s): " in said
    assert f"{2 * len(effects):>4} pairs" in said
    assert "nothing was written; to write " in said
    assert not list(thresholds.iterdir())
    assert called(command, *asked, "--accept") == 0
    (path,) = thresholds.iterdir()
    stored = {one.metric: one for one in load_profile(path).pairs[name]}
    assert list(stored["records_per_s"].effects) == effects * 2
    assert stored["records_per_s"].window_s == document["tier"]["window_s"]
    before = path.read_text().replace("[pairs.", "# a remark\n[pairs.", 1)
    path.write_text(before)
    assert called(command, *asked, "--accept") == 0
    assert load_profile(path).pairs[name] == tuple(stored.values()), "replaced, not added to"
    assert "# a remark" in path.read_text()


@pytest.mark.parametrize(
    ("window_s", "here_s", "used"),
    [(2.0, 2.0, True), (2.0, 5.0, False), (5.0, 5.0, True), (None, None, True), (None, 5.0, False), (5.0, None, False)],
)
def test_pairs_are_used_with_the_window_that_they_were_recorded_with(
    document: dict[str, Any], window_s: float | None, here_s: float | None, used: bool
) -> None:
    """Windows of 1 s scatter more than those of 5 s: pairs of these made noise of the former a SLOWER."""
    usual_s = TIERS[document["tier"]["name"]].window_s  # of older entries, which state none
    run = {**document, "tier": {**document["tier"], "window_s": here_s or usual_s}}
    facts = {"target": "embedded"}
    pairs = {"batch-1k": (replace(recorded(), window_s=window_s),)}
    held = Profile(name="here", facts=facts, thresholds={}, path="here.toml", pairs=pairs)
    book = Book(tier=run["tier"], driver=run["driver"], target=run["target"], environment=run["environment"])
    config: Any = Mock(profiles={"here": held})
    assert recorded_pairs(config, book) == (pairs if used else {})


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (AA, True),
        (None, False),
        ({"name": "nothing", "budget_s": 600}, False),
        ({**AA, "commands": {"apply": "true"}}, False),
        ({**AA, "link": "cross-zone"}, False),
    ],
)
def test_only_nothing_on_pairs_counts(change: dict[str, Any] | None, counts: bool) -> None:
    assert of_nothing({"change": change, "modified": [], "replay_of": None}) is counts
