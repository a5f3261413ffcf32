"""Thresholds proposed from recorded runs, and published references beside them."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from perfgate.judge.thresholds import load_profile
from perfgate.model.errors import ConfigurationError
from perfgate.report.proposal import show
from perfgate.report.runs_alike import runs_alike
from tests.harness.build import flaw_entry
from tests.harness.build.recorded import RECORDED, night, verdicts
from tests.harness.forked import gate
from tests.harness.run_gate import RECORDED_THRESHOLDS, ROOT, Finished


def test_a_proposal_is_written_beside_the_run_and_loads_as_a_profile(tmp_path: Path) -> None:
    stored = {path: path.read_text() for path in (ROOT / "thresholds").iterdir()}
    done = gate(tmp_path, f"--replay={RECORDED}", "--record-thresholds")
    (path,) = tmp_path.glob("2*/thresholds-proposal.toml")
    text = path.read_text()
    assert "NOT ENOUGH RUNS: 1 of 5" in text
    assert "[batch-1k]" in text
    assert done.code == 0
    assert {path: path.read_text() for path in (ROOT / "thresholds").iterdir()} == stored


def test_a_proposal_counts_each_run_once(tmp_path: Path, document: dict[str, Any]) -> None:
    """results/latest is one of the runs under another name."""
    (tmp_path / document["run_id"]).mkdir()
    (tmp_path / document["run_id"] / "run.json").write_text(json.dumps(document))
    (tmp_path / "latest").symlink_to(document["run_id"])
    other = {**document, "run_id": "20261119T000000Z-aaaa"}
    assert [run["run_id"] for run in runs_alike(other, tmp_path)] == [other["run_id"], document["run_id"]]
    modified = {**document, "run_id": "20261118T000000Z-bbbb", "modified": ["producer.linger.ms=5"]}
    (tmp_path / "modified").mkdir()
    (tmp_path / "modified" / "run.json").write_text(json.dumps(modified))
    assert len(runs_alike(other, tmp_path)) == 2, "a modified run says nothing about thresholds"


@pytest.mark.parametrize(
    ("place", "value", "alike"),
    [
        (("environment", "librdkafka"), "2.11.0", False),
        (("scenarios", 0, "declared", "record_bytes"), 512, False),
        (("scenarios", 0, "load", "rate"), 512.0, False),
        (("scenarios", 0, "declared", "cluster", "version"), "4.3.0", True),
        (("environment", "commit"), "abcdef123456", True),
    ],
)
def test_a_baseline_is_made_of_runs_of_one_client_and_declaration(
    tmp_path: Path, document: dict[str, Any], place: tuple[Any, ...], value: object, alike: bool
) -> None:
    """Runs from before a scenario was declared otherwise were mixed with those since."""
    other = {**json.loads(json.dumps(document)), "run_id": "20261119T000000Z-aaaa"}
    within = other
    for key in place[:-1]:
        within = within[key]
    within[place[-1]] = value
    (tmp_path / other["run_id"]).mkdir()
    (tmp_path / other["run_id"] / "run.json").write_text(json.dumps(other))
    others = [run for run in runs_alike(document, tmp_path) if run["run_id"] == other["run_id"]]
    name = document["scenarios"][0]["name"]
    assert any(entry["name"] == name for run in others for entry in run["scenarios"]) is alike
    if place[0] == "scenarios":
        assert len(others[0]["scenarios"]) == len(document["scenarios"]) - (not alike), "the others are as good"


@pytest.mark.parametrize("stored", [True, False])
def test_a_threshold_is_not_made_of_the_few_runs_that_measured_its_metric_soundly(
    tmp_path: Path, document: dict[str, Any], capsys: pytest.CaptureFixture[str], stored: bool
) -> None:
    """One of eight runs was overwritten by one of two: five runs were enough, whatever each had of a metric."""
    results, thresholds = tmp_path / "results", tmp_path / "thresholds"
    thresholds.mkdir()
    if stored:
        shutil.copy(RECORDED_THRESHOLDS / "embedded-2c.toml", thresholds)
    for number in range(1, 7):
        run = night(document, number, 0.5)
        entry = next(one for one in run["scenarios"] if one["name"] == "batch-1k")
        if number > 2:
            entry["rounds"][0]["flaws"] = [flaw_entry("sent late", metrics=("records_per_s",))]
        (results / run["run_id"]).mkdir(parents=True)
        (results / run["run_id"] / "run.json").write_text(json.dumps(run))
    assert show(run, results, thresholds, accept=True, accept_by="", because="another disk") == 0
    kept = "kept" if stored else "not written"
    assert f"\n{kept}: batch-1k records_per_s: 2 of 5 values; more runs add some\n" in capsys.readouterr().out
    (path,) = thresholds.iterdir()
    runs = {threshold.metric.name: threshold.runs for threshold in load_profile(path).thresholds["batch-1k"]}
    assert runs == {"broker_cpu_us_per_record": 6, **({"records_per_s": 8} if stored else {})}


def test_a_file_that_begins_with_a_mark_of_its_encoding_is_written_too(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    """Profiles are read so, and --accept ended in a traceback."""
    results, thresholds = tmp_path / "results", tmp_path / "thresholds"
    thresholds.mkdir()
    path = thresholds / "embedded-2c.toml"
    path.write_text("\ufeff" + (RECORDED_THRESHOLDS / path.name).read_text(), encoding="utf-8")
    for number in range(1, 7):
        run = night(document, number, 0.5)
        (results / run["run_id"]).mkdir(parents=True)
        (results / run["run_id"] / "run.json").write_text(json.dumps(run))
    assert show(run, results, thresholds, accept=True, accept_by="", because="another disk") == 0
    runs = {threshold.metric.name: threshold.runs for threshold in load_profile(path).thresholds["batch-1k"]}
    assert runs["records_per_s"] == 6


@pytest.fixture(scope="session")
def beside_published(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The recorded run, with the shipped profiles beside it."""
    return gate(tmp_path_factory.mktemp("published"), f"--replay={RECORDED}", f"--thresholds={ROOT / 'thresholds'}")


def test_published_figures_stand_beside_the_measured_ones_everywhere(beside_published: Finished) -> None:
    found = beside_published.scenario("batch-16k")["published"]
    assert [(one["profile"], one["metric"], one["value"]) for one in found] == [
        ("dms-c6-large-2", "records_per_s", 102_399),
        ("dms-c6-large-2", "broker_cpu_cores.sum", 1.448),
    ]
    assert re.search(r"^batch-16k +records_per_s +102,399 records/s +[\d,]+ +3 x 2 vCPU", beside_published.output, re.M)
    assert "102,399 records/s" in beside_published.allure["batch-16k"]["descriptionHtml"]
    assert set(verdicts(beside_published.run).values()) == {"MISSING", "PASS"}, "none is held against them"


def test_no_run_is_recorded_as_a_reference(tmp_path: Path, document: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="published-benchmark is a reference: no run replaces"):
        show(document, tmp_path, ROOT / "thresholds", profile="published-benchmark", accept=True, accept_by="")


def test_a_reference_is_judged_when_it_is_named_and_what_it_lacks_is_not_red(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    thresholds = tmp_path / "thresholds"
    shutil.copytree(RECORDED_THRESHOLDS, thresholds)
    (thresholds / "elsewhere.toml").write_text(
        '[profile]\nreference = true\nhardware = "another"\n'
        "[batch-1k]\nrecords_per_s = { baseline = 1000000, tolerance = 0.6 }\n"
    )
    done = gate(tmp_path / "none", f"--replay={RECORDED}", f"--thresholds={thresholds}")
    assert verdicts(done.run)["batch-1k"] == "PASS", "not chosen unasked"
    named = gate(tmp_path / "named", f"--replay={RECORDED}", f"--thresholds={thresholds}", "--profile=elsewhere")
    assert named.code == 1
    assert verdicts(named.run)["batch-1k"] == "REGRESSED"
    assert verdicts(named.run)["batch-16k"] == "MISSING"
    assert named.allure["batch-16k"]["status"] == "skipped"
