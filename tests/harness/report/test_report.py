"""The HTML report, built by the real Allure from a replayed run and read back out of its single file."""

import base64
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from perfgate.report import html
from perfgate.report.html import ALLURE, HISTORY_NAME, ReportError, build_report
from tests.harness.build.recorded import RECORDED
from tests.harness.forked import gate
from tests.harness.run_gate import RECORDED_THRESHOLDS


def carried_by(report: Path) -> dict[str, dict[str, Any]]:
    """Return the tests that Allure's single file carries, by title; it is the report itself without answers."""
    report = allure if (allure := report.with_name(ALLURE)).exists() else report
    files = re.findall(r'd\("data/test-results/[0-9a-f]+\.json"\s*,\s*"([A-Za-z0-9+/=]+)"', report.read_text())
    found = [json.loads(base64.b64decode(text)) for text in files]
    return {test["name"]: test for test in found}


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a replayed run in which batch-1k has regressed."""
    folder = tmp_path_factory.mktemp("report")
    thresholds = folder / "thresholds"
    shutil.copytree(RECORDED_THRESHOLDS, thresholds)
    path = thresholds / "embedded-2c.toml"
    path.write_text(re.sub(r"(\[batch-1k\][^\[]*?baseline = )[\d.]+", r"\g<1>90000", path.read_text()))
    gate(folder / "results", f"--replay={RECORDED}", f"--thresholds={thresholds}", pictures=True)
    (run,) = (folder / "results").glob("2*")
    return run


def test_the_report_is_one_file_with_rows_numbers_relations_and_what_went_red(run_dir: Path) -> None:
    report = build_report(run_dir)
    assert report == run_dir / "report" / "index.html"
    allure = report.with_name(ALLURE)
    assert "<script" not in report.read_text()
    assert "<script src=" not in allure.read_text(), "all of it is in the one file"
    assert "googletagmanager" not in allure.read_text(), "nobody counts who opens it"
    assert "#of=" not in report.read_text(), "each link leads to a test"
    tests = carried_by(report)
    rows = json.loads((run_dir / "run.json").read_text())
    for entry in rows["scenarios"]:
        (title,) = [title for title in tests if title.startswith(f"{entry['name']}: ")]
        assert f"{entry['metrics']['records_per_s']['value']:,.0f} records/s" in title
    for entry in rows["relations"]:
        assert [title for title in tests if title.startswith(f"{entry['name']}: PASS, {entry['ratio']:.3g} x")]
    (red,) = [test for title, test in tests.items() if title.startswith("batch-1k: REGRESSED")]
    assert red["status"] == "failed"
    assert "broker log tail" in json.dumps(red)
    size = sum(path.stat().st_size for path in (run_dir / "allure-results").iterdir())
    assert size / len(rows["scenarios"]) < 130_000, "70 scenarios with more than twice the rounds in less than 15 MB"
    assert [category["name"] for category in red["categories"]] == ["Regressed"]
    (entry,) = [entry for entry in rows["scenarios"] if entry["name"] == "batch-1k"]
    rate = entry["judgements"][0]
    held = f"<td>90,000</td><td>35.0 %</td><td>{rate['limit']:,.0f}</td><td>-67.2 %</td><td>-</td><td>REGRESSED</td>"
    assert held in red["descriptionHtml"], "expected, tolerance, limit, off and what was published in one row"
    assert red["descriptionHtml"].startswith("<p>REGRESSED batch-1k sends 67.2 % fewer")


def test_a_changed_setting_does_not_break_a_scenarios_history(run_dir: Path, tmp_path: Path) -> None:
    """The history id held the values: after a change of the declared rate the trend began anew."""
    changed = tmp_path / "run.json"
    document = json.loads(RECORDED.read_text())
    for entry in document["scenarios"]:
        entry["load"]["rate"] *= 2
    changed.write_text(json.dumps(document))
    gate(tmp_path / "results", f"--replay={changed}")
    (other,) = (tmp_path / "results").glob("2*")
    before, after = (carried_by(build_report(run)) for run in (run_dir, other))

    def of(tests: dict[str, dict[str, Any]]) -> dict[str, Any]:
        return next(test for title, test in tests.items() if title.startswith("batch-1k: "))

    def load_of(test: dict[str, Any]) -> str:
        (found,) = [one["value"] for one in test["parameters"] if one["name"] == "load"]
        return str(found)

    assert load_of(of(before)) != load_of(of(after)), "shown all the same"
    assert of(before)["historyId"] == of(after)["historyId"]


def test_an_error_of_the_suite_is_told_apart_from_every_verdict(run_dir: Path, tmp_path: Path) -> None:
    again = tmp_path / run_dir.name
    shutil.copytree(run_dir / "allure-results", again / "allure-results")
    path = next(path for path in again.glob("allure-results/*-result.json") if '"batch-16k: ' in path.read_text())
    result = json.loads(path.read_text())
    result["status"], result["statusDetails"] = "broken", {"message": "KeyError: 'x'\nREGRESSED", "trace": "none"}
    path.write_text(json.dumps(result))
    (found,) = [test for title, test in carried_by(build_report(again)).items() if title.startswith("batch-16k: ")]
    assert [category["name"] for category in found["categories"]] == ["The suite itself failed: no verdict"]


def test_a_run_counts_once_in_the_history_however_often_its_report_is_built(run_dir: Path) -> None:
    for _ in range(2):
        build_report(run_dir)
        assert len((run_dir.parent / HISTORY_NAME).read_text().splitlines()) == 1


def test_a_run_whose_report_is_built_meanwhile_stays_in_the_history(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that ended last wrote what it had begun from."""
    again, common = tmp_path / run_dir.name, tmp_path / HISTORY_NAME
    shutil.copytree(run_dir / "allure-results", again / "allure-results")
    node = html._node

    def beside_another(arguments: list[object], timeout_s: float, doing: str) -> None:
        node(arguments, timeout_s, doing)
        common.write_text('{"uuid": "another"}\n')

    monkeypatch.setattr(html, "_node", beside_another)
    build_report(again)
    assert len(common.read_text().splitlines()) == 2
    assert '{"uuid": "another"}\n' in common.read_text()


def test_a_report_that_could_not_be_built_does_not_cost_the_run_its_place_in_the_history(
    run_dir: Path, tmp_path: Path
) -> None:
    again = tmp_path / run_dir.name
    shutil.copytree(run_dir / "allure-results", again / "allure-results")
    with pytest.raises(ReportError, match="generating the report took more than"):
        build_report(again, timeout_s=0.001)
    build_report(again)
    assert len((tmp_path / HISTORY_NAME).read_text().splitlines()) == 1


def test_a_report_that_could_not_be_built_again_leaves_the_former_one(run_dir: Path) -> None:
    former = build_report(run_dir)
    with pytest.raises(ReportError, match="generating the report took more than"):
        build_report(run_dir, timeout_s=0.001)
    assert former.is_file()


def test_a_run_that_was_killed_has_a_report_of_what_there_is(run_dir: Path, tmp_path: Path) -> None:
    """Allure's categories are written at the end of a run alone."""
    killed = tmp_path / run_dir.name
    shutil.copytree(run_dir, killed, ignore=shutil.ignore_patterns("report", "categories.json", "run.json"))
    assert carried_by(build_report(killed))


def test_a_folder_without_results_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="holds no allure-results; a run of the gate leaves them"):
        build_report(tmp_path)
