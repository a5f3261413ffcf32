"""One bad byte in the history, or in any older run, ended every later run: what cannot be read is skipped and named."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfgate.fixtures.baseline import Asked, Series
from perfgate.host.environment import environment_facts
from perfgate.model.errors import ConfigurationError
from perfgate.report import history
from perfgate.report.html import build_and_print
from perfgate.report.proposal import canary_of, proposed
from perfgate.report.recorded_pairs import command as record_pairs
from perfgate.report.results import load_run, recorded_runs, run_files
from perfgate.report.runs_alike import run_before, runs_alike, unsound
from tests.harness.build.recorded import RECORDED, night
from tests.harness.called import called
from tests.harness.examples import examples
from tests.harness.forked import gate

TEXT = RECORDED.read_bytes()
BAD = b"\xff"


def left(results: Path, number: int, damage: bytes | None = None) -> dict[str, Any]:
    """Leave the recorded run as of another night; `damage` stands for its text."""
    run = night(load_run(RECORDED), number, 1.0)
    (results / run["run_id"]).mkdir(parents=True)
    text = json.dumps(run, indent=1).encode()
    (results / run["run_id"] / "run.json").write_bytes(text if damage is None else damage)
    return run


def test_a_line_with_a_bad_byte_is_skipped_and_named(tmp_path: Path) -> None:
    path, notes = tmp_path / "history.jsonl", list[str]()
    for number in (1, 2, 3):
        history.append(path, night(load_run(RECORDED), number, 1.0))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1].replace(b"smoke", BAD) + lines[2])
    assert [entry["run_id"][:8] for entry in history.load(path, notes.append)] == ["20260101", "20260103"]
    assert len(notes) == 1
    assert f"skipped {path}, line 2: 'utf-8' codec can't decode byte 0xff" in notes[0]
    assert history.prune(path, date(2026, 1, 2)) == 1
    assert path.read_bytes() == lines[1].replace(b"smoke", BAD) + lines[2], "what cannot be read is not removed"


@pytest.mark.parametrize(
    ("was", "damaged"),
    [
        ('"started": "', '"startet": "'),
        ('"rows": {', '"rows": [], "r": {'),
        ('"verdict": ', '"verdikt": '),
        ('"relations": {', '"relations": [], "r": {'),
        ('"records_per_s": ', '"records_per_s": NaN, "r": '),
        ('"modified": ', '"modifiet": '),
    ],
)
def test_so_is_a_line_that_lacks_what_is_read_of_it(tmp_path: Path, was: str, damaged: str) -> None:
    path, notes = tmp_path / "history.jsonl", list[str]()
    history.append(path, night(load_run(RECORDED), 1, 1.0))
    text = path.read_text()
    assert was in text
    path.write_text(text + text.replace(was, damaged).replace("20260101T", "20260102T"))
    entries = history.load(path, notes.append)
    assert [entry["run_id"][:8] for entry in entries] == ["20260101"]
    assert f"skipped {path}, line 2: " in notes[0]


@given(st.binary(max_size=200))
def test_whatever_stands_in_the_history_it_is_read(tmp_path_factory: pytest.TempPathFactory, noise: bytes) -> None:
    path = tmp_path_factory.mktemp("history") / "history.jsonl"
    path.write_bytes(noise + b"\n")
    history.append(path, night(load_run(RECORDED), 1, 1.0))
    assert [entry["run_id"][:8] for entry in history.load(path, lambda note: None)] == ["20260101"]


@pytest.mark.parametrize(
    "damage", [BAD, b"", b"\0" * 100, b"{", b"[]", b"[" * 100_000, TEXT.replace(b'"tier"', b'"tief"')]
)
def test_a_damaged_run_is_skipped_and_named(tmp_path: Path, damage: bytes) -> None:
    whole, newest = left(tmp_path, 1), left(tmp_path, 3)
    left(tmp_path, 2, damage)
    notes: list[str] = []
    alike = runs_alike(newest, tmp_path, notes.append)
    assert [run["run_id"] for run in alike] == [newest["run_id"], whole["run_id"]]
    assert run_before(newest, tmp_path, notes.append) == whole
    assert len(set(notes)) == 1
    assert "skipped " in notes[0]
    assert "20260102T000000Z-0000/run.json" in notes[0]


def test_so_is_an_older_one_whose_tables_are_none(tmp_path: Path) -> None:
    """A text where a table belongs ended in a traceback before its keys were read."""
    older = json.loads(TEXT)
    older["scenarios"][0]["declared"]["cluster"] = ""
    assert older["schema"] < 6, "it is brought to the present one"
    path, notes = tmp_path / "run.json", list[str]()
    path.write_text(json.dumps(older))
    assert list(recorded_runs([path], notes.append)) == []
    assert len(notes) == 1
    assert f"skipped {path} is damaged: " in notes[0]


def test_one_of_another_schema_is_skipped_without_a_word(tmp_path: Path) -> None:
    left(tmp_path, 1, TEXT.replace(b'"schema": 4', b'"schema": 2'))
    notes: list[str] = []
    assert not list(recorded_runs(run_files(tmp_path), notes.append))
    assert not notes


def test_the_line_of_a_bad_byte_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(b"{\n\n" + BAD)
    with pytest.raises(ConfigurationError, match=r"--replay .*run.json, line 3: 'utf-8' codec"):
        load_run(path)


@given(st.integers(0, len(TEXT) - 1), st.integers(1, 255))
@settings(max_examples=examples(200))
def test_whatever_byte_of_a_run_is_damaged_others_are_read(
    tmp_path_factory: pytest.TempPathFactory, place: int, flipped: int
) -> None:
    tmp_path = tmp_path_factory.mktemp("results")
    whole, newest = left(tmp_path, 1), left(tmp_path, 3)
    damaged = bytearray(json.dumps(night(load_run(RECORDED), 2, 1.0), indent=1).encode())
    damaged[place % len(damaged)] ^= flipped
    left(tmp_path, 2, bytes(damaged))
    alike = runs_alike(newest, tmp_path, lambda note: None)
    assert {whole["run_id"], newest["run_id"]} <= {run["run_id"] for run in alike}
    sound = [run for run in alike if not unsound(run)]
    proposed(sound)
    canary_of(sound)
    run_before(newest, tmp_path, lambda note: None)
    history.append(tmp_path / "history.jsonl", newest)
    for run in alike:
        history.entry_of(run)


def test_a_baseline_goes_on_beside_damaged_runs_and_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left(tmp_path, 1, BAD)
    run = left(tmp_path, 2)
    folder, here = tmp_path / run["run_id"], environment_facts()
    run["environment"] |= {key: here[key] for key in ("cpu_model", "cores")}  # of another machine none counts
    (folder / "run.json").write_text(json.dumps(run))
    (mark := folder / "baseline-arguments.json").write_bytes(BAD)
    asked = Asked(
        runs="5",
        target="embedded",
        tier="smoke",
        system="kafka",
        results=tmp_path,
        thresholds=tmp_path,
        accept=False,
        because="",
        rest=(),
    )
    series = Series(asked)
    assert series.counted() == series.counted() == []
    said = capsys.readouterr().err
    assert said.count("20260101T000000Z-0000/run.json, line 1") == 1
    assert f"skipped {mark}: " in said


def test_pairs_are_made_of_what_can_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = {
        **load_run(RECORDED),
        "run_id": "20260101T000000Z-0000",
        "replay_of": None,
        "change": {"name": "nothing", "pairs": True},
    }
    run["comparisons"] = [{"scenario": "batch-1k", "verdict": "SAME"}]
    left(tmp_path, 1, json.dumps(run).encode())
    assert called(record_pairs, f"--results={tmp_path}") == 2
    assert "skipped run 20260101T000000Z-0000: run.json is damaged: KeyError('baseline')" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (BAD, ", line 1: 'utf-8' codec"),
        (b'{"name": "another tool\'s"}', ": schema None is not a run.json"),
        (b'{"schema": 7, "scenarios": []}', " is damaged: run_id: Field required"),
    ],
)
def test_a_report_of_a_damaged_run_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: bytes, said: str
) -> None:
    """One that lacks what is read of it ended in a traceback."""
    (tmp_path / "allure-results").mkdir()
    (tmp_path / "allure-results" / "one-result.json").write_text("{}")
    (tmp_path / "run.json").write_bytes(damage)
    assert build_and_print(tmp_path) == 1
    assert capsys.readouterr().err.startswith(f"no report: cannot read {tmp_path / 'run.json'}{said}")


def test_a_run_beside_damaged_ones_ends_as_ever_and_names_them(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_bytes(BAD + b"\n")
    left(tmp_path, 1, BAD)
    done = gate(tmp_path, f"--replay={RECORDED}")
    assert done.code == 0, done.output
    assert f"note: skipped {tmp_path / 'history.jsonl'}, line 1: 'utf-8' codec" in done.output
