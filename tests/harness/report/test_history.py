"""The history of runs: a line each, drift as a note, pruning when asked; and thresholds made from recorded runs."""

import fcntl
import json
import sys
from dataclasses import asdict
from datetime import date
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import tomlkit

from perfgate.judge.thresholds import load_profile
from perfgate.model.command import command_line
from perfgate.model.summary import centre
from perfgate.model.usual import TIERS
from perfgate.report import history
from perfgate.report.proposal import Proposed, proposed, suggested_name, updated, why
from perfgate.report.proposal import command as propose
from perfgate.report.results import load_run
from tests.harness.build.recorded import RECORDED, night
from tests.harness.called import called
from tests.harness.forked import gate
from tests.harness.run_gate import ROOT


@pytest.fixture
def document() -> dict[str, Any]:
    return load_run(RECORDED)


def test_a_drift_is_found_with_its_date_and_a_flat_row_has_none(tmp_path: Path, document: dict[str, Any]) -> None:
    path = tmp_path / "shared" / "history.jsonl"
    noise = np.random.default_rng(1).normal(0, 0.01, 24)
    for number in range(1, 25):
        level = 0.85 if number >= 14 else 1.0
        history.append(path, night(document, number, level * (1 + noise[number - 1])))
    entries = history.load(path)
    found = history.drifts(entries, entries[-1])
    assert [(drift.scenario, drift.metric) for drift in found] == [("batch-1k", "records_per_s")]
    assert found[0].since == "2026-01-14"
    assert found[0].moved == pytest.approx(-0.15, abs=0.02)
    assert str(found[0]).startswith("batch-1k records_per_s -1")
    assert str(found[0]).endswith("% since 2026-01-14 (worse)")


def test_an_installation_without_the_drifts_library_says_so_and_goes_on(
    tmp_path: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It cannot be asked for by the package's requirements, since it pins an old numpy."""
    monkeypatch.setitem(sys.modules, "otava.analysis", None)
    path = tmp_path / "history.jsonl"
    for number in range(1, 25):
        history.append(path, night(document, number, 0.8 if number >= 14 else 1.0))
    entries = history.load(path)
    assert history.drifts(entries, entries[-1]) == []
    assert capsys.readouterr().err.count("pip install --no-deps apache-otava\n") == 1


def test_brokers_that_took_nothing_for_nights_have_no_drift_and_no_traceback(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    path = tmp_path / "history.jsonl"
    for number in range(1, 25):
        history.append(path, night(document, number, 1.0 if number >= 13 else 0.0))
    entries = history.load(path)
    assert history.drifts(entries, entries[-1]) == []


def test_a_baseline_is_made_of_what_is_judged(document: dict[str, Any]) -> None:
    """One round with a pause of a second rules the p99 of all records together, and no figure that is held."""
    run = json.loads(json.dumps(document))
    paced = next(e for e in run["scenarios"] if e["name"] == "batch-1k")
    paced["load"]["kind"], paced["verdict"] = "paced", "PASS"
    paced["metrics"]["latency_ms.p99"] |= {"value": 300.0, "rounds": [10.0] * 6 + [900.0]}
    found = {(one.scenario, one.metric): one.values for one in proposed([run] * 2)}
    assert found[paced["name"], "latency_ms.p99"] == (10.0, 10.0)


def test_a_run_that_was_continued_counts_once(tmp_path: Path, document: dict[str, Any]) -> None:
    """Both its lines counted: what it had measured before it was interrupted stood in the drift twice."""
    path = tmp_path / "history.jsonl"
    interrupted, continued = night(document, 1, 1.0), night(document, 2, 1.0)
    for run in (interrupted, {**continued, "resumed_from": interrupted["run_id"]}, night(document, 3, 1.0)):
        history.append(path, run)
    assert [entry["run_id"][:8] for entry in history.load(path)] == ["20260102", "20260103"]
    assert len(path.read_text().splitlines()) == 3


def test_runs_of_another_kind_and_modified_ones_say_nothing(tmp_path: Path, document: dict[str, Any]) -> None:
    path = tmp_path / "history.jsonl"
    for number in range(1, 25):
        run = night(document, number, 0.5 if number >= 14 else 1.0)
        if number >= 14:
            run["modified"] = ["producer.linger.ms=5"]
        history.append(path, run)
    entries = history.load(path)
    assert history.drifts(entries, entries[0]) == []
    assert history.drifts(entries, {**entries[0], "tier": "full"}) == []


def test_too_few_runs_are_no_drift_and_a_torn_line_is_left_out(tmp_path: Path, document: dict[str, Any]) -> None:
    path = tmp_path / "history.jsonl"
    for number in range(1, 9):
        history.append(path, night(document, number, 0.5 if number > 4 else 1.0))
    with path.open("a") as lines:
        lines.write('{"run_id": "cut of')
    entries = history.load(path)
    assert len(entries) == 8
    assert history.drifts(entries, entries[-1]) == []


def test_a_history_that_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder of the runs, given instead of the file in it, ended in a traceback."""
    assert called(history.command, f"--history={tmp_path}") == 2
    said = capsys.readouterr().err
    assert said.startswith("no history: ")
    assert str(tmp_path) in said


def test_pruning_removes_what_is_older_and_nothing_else(tmp_path: Path, document: dict[str, Any]) -> None:
    path = tmp_path / "history.jsonl"
    for number in range(1, 11):
        history.append(path, night(document, number, 1.0))
    assert history.prune(path, date(2026, 1, 4)) == 3
    assert [entry["started"][:10] for entry in history.load(path)] == [f"2026-01-{n:02d}" for n in range(4, 11)]


def test_pruning_leaves_what_is_not_older_even_where_nobody_reads_it(tmp_path: Path, document: dict[str, Any]) -> None:
    """Runs that another one continued, and lines that are none, went with the first pruning, whatever their date."""
    path = tmp_path / "history.jsonl"
    for number in range(1, 5):
        history.append(path, night(document, number, 1.0))
    first, *_, continued, last = path.read_text().splitlines()
    last = json.dumps({**json.loads(last), "resumed_from": json.loads(continued)["run_id"]})
    kept = [continued, last, '{"run_id": "cut of']
    path.write_text("\n".join([first, *kept]))
    assert len(history.load(path)) == 2
    assert history.prune(path, date(2026, 1, 2)) == 1
    assert path.read_text().splitlines() == kept
    history.append(path, night(document, 9, 1.0))
    assert len(history.load(path)) == 2, "it does not continue the line that was cut off"


def test_a_run_that_ends_while_the_history_is_pruned_stays_in_it(
    tmp_path: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its line went into the file that was about to be replaced."""
    path = tmp_path / "history.jsonl"
    for number in (1, 2):
        history.append(path, night(document, number, 1.0))
    other = Thread(target=history.append, args=(path, night(document, 3, 1.0)))
    replace = Path.replace

    def late(part: Path, target: Path) -> Path:
        other.start()
        other.join(0.2)
        return replace(part, target)

    monkeypatch.setattr(Path, "replace", late)
    assert history.prune(path, date(2026, 1, 2)) == 1
    other.join()
    assert [entry["run_id"][:8] for entry in history.load(path)] == ["20260102", "20260103"]


def test_a_run_waits_until_another_has_written_its_line(tmp_path: Path, document: dict[str, Any]) -> None:
    """A line of more than 8 KiB was written in parts, with those of other runs between them."""
    path = tmp_path / "history.jsonl"
    history.append(path, night(document, 1, 1.0))
    line = path.read_bytes()
    other = Thread(target=history.append, args=(path, night(document, 2, 1.0)))
    with path.open("ab", buffering=0) as lines:
        fcntl.flock(lines, fcntl.LOCK_EX)
        lines.write(line[:100])
        other.start()
        other.join(0.2)
        lines.write(line[100:])
    other.join()
    assert [entry["run_id"][:8] for entry in history.load(path, pytest.fail)] == ["20260101", "20260101", "20260102"]


def results_of(tmp_path: Path, document: dict[str, Any], runs: int) -> Path:
    results = tmp_path / "results"
    for number in range(1, runs + 1):
        run = night(document, number, 1 + 0.01 * number)
        (results / run["run_id"]).mkdir(parents=True)
        (results / run["run_id"] / "run.json").write_text(json.dumps(run))
    (results / "latest").symlink_to(run["run_id"])
    return results


@pytest.fixture
def thresholds(tmp_path: Path, document: dict[str, Any]) -> Path:
    folder = tmp_path / "thresholds"
    folder.mkdir()
    facts = f'target = "embedded"\ncores = {document["environment"]["cores"]}\n'
    (folder / "mine.toml").write_text(
        f"# why this file is\n\n[profile]\n{facts}\n[batch-1k]\n# a person wrote this\n"
        "records_per_s = { baseline = 1000, tolerance = 0.20 } # old runs\n"
    )
    return folder


def run_propose(*arguments: object) -> int:
    return called(propose, *arguments)


def test_old_new_and_why_are_shown_and_nothing_is_written_unasked(
    tmp_path: Path, document: dict[str, Any], thresholds: Path, capsys: Any
) -> None:
    results = results_of(tmp_path, document, 5)
    before = (thresholds / "mine.toml").read_text()
    assert run_propose("--results", results, "--thresholds", thresholds) == 0
    shown = capsys.readouterr().out
    assert "5 run(s) like 20260105T000000Z-0000" in shown
    again = command_line("thresholds", "--results", str(results), "--thresholds", str(thresholds), "--accept")
    assert f"nothing was written; to write it: {again}" in shown
    (line,) = (line for line in shown.splitlines() if line.startswith("batch-1k      records_per_s"))
    assert "1,000" in line
    assert (thresholds / "mine.toml").read_text() == before


def test_accepted_baselines_keep_tolerance_and_comments_and_load(
    tmp_path: Path, document: dict[str, Any], thresholds: Path
) -> None:
    results = results_of(tmp_path, document, 5)
    assert run_propose("--results", results, "--thresholds", thresholds, "--accept") == 0
    text = (thresholds / "mine.toml").read_text()
    assert text.startswith("# why this file is\n")
    assert "# a person wrote this" in text
    assert "5 runs, tier smoke" in text
    profile = load_profile(thresholds / "mine.toml")
    rate = next(t for t in profile.thresholds["batch-1k"] if t.metric.name == "records_per_s")
    measured = next(e for e in document["scenarios"] if e["name"] == "batch-1k")["metrics"]["records_per_s"]
    recorded = centre(measured["rounds"])
    assert (rate.tolerance, rate.runs) == (0.20, 5)
    assert rate.baseline == pytest.approx(1.03 * recorded, rel=1e-3)
    assert set(profile.thresholds) == {entry["name"] for entry in document["scenarios"]}
    assert run_propose("--results", results, "--thresholds", thresholds, "--accept") == 0
    assert load_profile(thresholds / "mine.toml").thresholds == profile.thresholds


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, document: dict[str, Any], capsys: Any) -> None:
    """A folder of another user ended in a traceback. In /proc root makes no files either."""
    results = results_of(tmp_path, document, 5)
    assert run_propose("--results", results, "--thresholds", "/proc", "--accept") == 2
    said = capsys.readouterr().err
    assert said.startswith("no proposal: [Errno ")
    assert "/proc/" in said


def test_fewer_than_five_runs_are_not_accepted(
    tmp_path: Path, document: dict[str, Any], thresholds: Path, capsys: Any
) -> None:
    before = (thresholds / "mine.toml").read_text()
    nightly = {**document, "tier": asdict(TIERS["nightly"])}
    results = results_of(tmp_path, nightly, 4)
    assert run_propose("--results", results, "--thresholds", thresholds, "--accept") == 1
    where = ("--results", str(results), "--thresholds", str(thresholds))
    again = command_line("baseline", "--tier", "nightly", *where)
    assert f"too few runs: 4 of 5; {again} does the rest" in capsys.readouterr().out
    assert (thresholds / "mine.toml").read_text() == before


def test_a_new_machine_gets_a_file_of_its_own_with_its_facts(
    tmp_path: Path, document: dict[str, Any], capsys: Any
) -> None:
    results, folder = results_of(tmp_path, document, 5), tmp_path / "mine"
    folder.mkdir()
    options = ("--results", results, "--thresholds", folder)
    assert run_propose(*options) == 0
    assert "embedded-2c-amd-epyc.toml (new: no stored profile is of this target and machine)" in capsys.readouterr().out
    assert list(folder.iterdir()) == [], "nothing is written unasked"
    taken = '[profile]\ntarget = "embedded"\ncores = 2\ntier = "nightly"\n'
    (folder / "embedded-2c-amd-epyc.toml").write_text(taken)
    assert run_propose(*options, "--accept") == 0
    assert (folder / "embedded-2c-amd-epyc.toml").read_text() == taken, "of other facts: it stays"
    profile = load_profile(folder / "embedded-2c-amd-epyc-smoke.toml")
    assert profile.facts == {
        "target": "embedded",
        "cores": "2",
        "cpu_model": "AMD EPYC",
        "tier": "smoke",
        "driver": "librdkafka",
        "kafka": "4.3",
    }


@pytest.mark.parametrize(
    ("model", "slug"),
    [
        ("Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz", "intel-xeon-platinum-8375c"),
        ("AMD EPYC 7R13 48-Core Processor", "amd-epyc-7r13"),
        ("aarch64", "aarch64"),
        ("", ""),
    ],
)
def test_a_new_profile_is_named_after_its_facts(model: str, slug: str) -> None:
    facts = {"target": "embedded", "cores": "8", "cpu_model": model, "kafka": "4.3"}
    name = f"embedded-8c-{slug}".rstrip("-")
    assert suggested_name(facts, ()) == name
    assert suggested_name(facts, {name}) == f"{name}-kafka-4-3"
    assert suggested_name(facts, {name, f"{name}-kafka-4-3"}) == f"{name}-kafka-4-3-2"


def test_it_says_how_many_more_runs_narrow_a_limit_or_that_none_does() -> None:
    def rests(scatter: float, runs: int, metric: str = "records_per_s") -> str:
        values = tuple(1000 * (1 + scatter * (-1) ** n) for n in range(runs))
        return why(Proposed(scenario="batch-1k", metric=metric, values=values), None)

    assert rests(0.01, 8).endswith("the tolerance")
    assert rests(0.025, 6).endswith("spread 2.7 %; 10 % with 4 more runs")
    assert rests(0.025, 6, "recovery_s").endswith("the spread alone asks for 10.1 %"), "a fault has one look"
    assert rests(0.1, 8).endswith("not 10 % by more runs: the spread alone asks for 24.4 %")
    assert "90.0 %" in rests(0.1, 2), "a limit is never wider than that"


def test_runs_that_are_no_baseline_are_left_out_and_named(
    tmp_path: Path, document: dict[str, Any], thresholds: Path, capsys: Any
) -> None:
    results = results_of(tmp_path, document, 6)
    path = results / "20260102T000000Z-0000" / "run.json"
    run = json.loads(path.read_text())
    run["scenarios"][1] |= {"verdict": "INCONCLUSIVE", "reasons": ["too noisy"]}
    path.write_text(json.dumps(run))
    assert run_propose("--results", results, "--thresholds", thresholds) == 0
    shown = capsys.readouterr().out
    assert "5 run(s) like" in shown
    assert f"left out: 20260102T000000Z-0000: {run['scenarios'][1]['name']} INCONCLUSIVE: too noisy" in shown


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"modified": ["producer.linger.ms=5"]}, "was modified"),
        ({"change": {"name": "linger 5"}}, "compared a change"),
        ({"replay_of": "another"}, "is a replay"),
    ],
)
def test_nothing_is_proposed_from_a_run_of_another_kind(
    tmp_path: Path,
    document: dict[str, Any],
    capsys: Any,
    changes: dict[str, Any],
    words: str,
) -> None:
    results = results_of(tmp_path, {**document, **changes}, 5)
    if "replay_of" in changes:
        newest = results / "latest" / "run.json"
        newest.write_text(json.dumps({**json.loads(newest.read_text()), **changes}))
    assert run_propose("--results", results, "--thresholds", ROOT / "thresholds") == 2
    assert words in capsys.readouterr().err


def test_a_new_file_can_be_made_from_nothing(document: dict[str, Any]) -> None:
    runs = [night(document, number, 1 + 0.01 * number) for number in range(1, 7)]
    text = updated("", {"target": "embedded", "cores": "2"}, proposed(runs), runs)
    parsed = tomlkit.parse(text)
    assert parsed["profile"] == {"target": "embedded", "cores": 2}
    assert parsed["batch-1k"]["records_per_s"]["runs"] == 6


def test_a_row_with_a_fault_is_held_to_its_outage_and_recovery(document: dict[str, Any]) -> None:
    def value(of: float) -> dict[str, object]:
        return {"value": of, "unit": "s"}

    runs = [night(document, number, 1.0) for number in range(1, 7)]
    for number, run in enumerate(runs):
        entry = run["scenarios"][0]
        entry["declared"]["fault"] = {"kind": "kill-leader", "hold_s": 15.0, "repeats": 5}
        entry["metrics"] |= {"outage_s.max": value(9.0 + number / 10), "recovery_s": value(0.0)}
    found = {new.metric: new.baseline for new in proposed(runs) if new.scenario == runs[0]["scenarios"][0]["name"]}
    assert found == {"outage_s.max": 9.25}, "not the rate, which is declared, and nothing of which there is no share"


def test_no_run_to_start_from_is_one_error(tmp_path: Path, capsys: Any) -> None:
    assert run_propose("--results", tmp_path, "--thresholds", ROOT / "thresholds") == 2
    path = tmp_path / "latest" / "run.json"
    said = capsys.readouterr().err
    assert said.startswith(f"no proposal: --run {path}: no such file; a run is recorded in results/<run-id>/run.json")
    path.parent.mkdir()
    path.write_text("{")
    assert run_propose("--results", tmp_path, "--thresholds", ROOT / "thresholds") == 2
    assert capsys.readouterr().err.startswith(f"no proposal: --run {path}: "), "--replay was said, which it has not"


def test_former_values_are_of_sound_unmodified_runs_of_the_same_kind_before_this_one(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    path = tmp_path / "history.jsonl"
    for number in range(1, 20):
        run = night(document, number, float(number))
        if number == 15:
            run["modified"] = ["producer.linger.ms=5"]
        if number == 16:
            next(e for e in run["scenarios"] if e["name"] == "batch-1k")["verdict"] = "INVALID"
        if number == 17:
            run["environment"]["cpu_model"] = "Another One"
        history.append(path, run)
    entries = history.load(path)
    found = history.former_values(entries, entries[0], "20260119")["batch-1k"]["records_per_s"]
    rate = next(e for e in document["scenarios"] if e["name"] == "batch-1k")["metrics"]["records_per_s"]["value"]
    assert [round(value / rate) for value in found] == [7, 8, 9, 10, 11, 12, 13, 14, 18], (
        "ten runs, one of them unsound"
    )
    assert history.former_values(entries, entries[0], "20260101") == {}
    ever = history.former_values(entries, entries[0], "20260119", latest=0)["batch-1k"]["records_per_s"]
    assert round(ever[0] / rate) == 1, "a rate that was taken once counts however long ago that was"


def test_a_replay_draws_the_runs_before_it(tmp_path: Path, document: dict[str, Any]) -> None:
    with_history, without = tmp_path / "with", tmp_path / "without"
    for number in range(1, 4):
        history.append(with_history / "history.jsonl", night(document, number, 0.5))
    drawn = []
    for results in (with_history, without):
        assert gate(results, f"--replay={RECORDED}", pictures=True).code == 0
        (picture,) = results.glob("2*/pictures/batch-1k-rounds.svg")
        drawn.append(picture.read_bytes())
    assert drawn[0] != drawn[1]


def test_since_when_a_verdict_is_what_it_is() -> None:
    def run(number: int, verdict: str) -> history.Verdicts:
        return history.Verdicts(run_id=f"R{number}", commit=f"c{number}", of={"batch-1k": verdict})

    def told(*before: str) -> str:
        document = {"scenarios": [{"name": "batch-1k", "verdict": "REGRESSED"}], "relations": []}
        return history.since([run(n, each) for n, each in enumerate(before)], document).get("batch-1k", "")

    assert told() == "", "nothing is known"
    assert told("PASS") == "New in this run: it was PASS in run R0 (commit c0)."
    assert told("PASS", "REGRESSED", "REGRESSED") == (
        "REGRESSED in 3 runs in a row, since run R1 (commit c1); it was PASS in run R0 (commit c0)."
    )
    assert told("REGRESSED") == "REGRESSED in 2 runs in a row, since run R0 (commit c0), the first that is known."
