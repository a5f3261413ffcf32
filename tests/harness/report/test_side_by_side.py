"""Kafka and Pulsar side by side: what is set against each other, and how far it may be said to differ."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from perfgate.catalogue import kafka, pulsar
from perfgate.fixtures import side_by_side as command
from perfgate.fixtures.recorded import alive
from perfgate.model import Scenario, with_changes
from perfgate.model.errors import ConfigurationError
from perfgate.report.side_by_side import Pair, chosen, durability, not_comparable, ratio_of, rows
from tests.harness.build import measurement
from tests.harness.build.recorded import of_pulsar
from tests.harness.called import called
from tests.harness.run_gate import ROOT, hear_interrupts

KAFKA = {scenario.name: scenario for scenario in kafka.SCENARIOS}
PULSAR = {scenario.name: scenario for scenario in pulsar.SCENARIOS}
RATES = st.lists(st.floats(1.0, 1e6), min_size=2, max_size=9)


@pytest.mark.parametrize("name", ["batch-1k", "batch-16k", "cross-az", "paced-500", "end-to-end-1k", "rate-5k"])
def test_what_means_the_same_on_both_is_set_side_by_side(name: str) -> None:
    assert not_comparable(KAFKA[name], PULSAR[name]) == ""


@pytest.mark.parametrize(
    ("kafka", "pulsar_", "words"),
    [
        (KAFKA["partitions-3"], PULSAR["partitions-3"], "records: 1,000 B on Kafka, 1,024 B on Pulsar"),
        (KAFKA["batch-1k"], PULSAR["batch-16k"], ""),
        (KAFKA["batch-1k"], PULSAR["cross-az"], "link: same-zone on Kafka, cross-zone on Pulsar"),
        (KAFKA["batch-1k"], PULSAR["replicas-3"], "load: capped, 102,400 records/s on Kafka, capped, 200,000 records"),
        (KAFKA["acks-all"], PULSAR["ack-quorum-2"], ""),
        (KAFKA["replicas-3"], PULSAR["ack-quorum-2"], "acks=1 on Kafka with copies: what Pulsar acknowledges"),
        (KAFKA["paced-500"], PULSAR["end-to-end-1k"], "load: paced, 500 records/s on Kafka, paced, 1,000 records/s"),
        (
            with_changes(KAFKA["batch-1k"], [("topic.flush.messages", 1)]),
            PULSAR["batch-1k"],
            "durability: fsync on Kafka, page cache on Pulsar",
        ),
        (
            KAFKA["batch-1k"],
            with_changes(PULSAR["batch-1k"], [("bookie.journalSyncData", "true")]),
            "durability: page cache on Kafka, fsync on Pulsar",
        ),
        (KAFKA["consume-1"], PULSAR["consumers-1"], "records: 1,000 B"),
    ],
)
def test_what_differs_beyond_the_system_is_left_out_by_name(kafka: Scenario, pulsar_: Scenario, words: str) -> None:
    found = not_comparable(kafka, pulsar_)
    assert found.startswith(words) if words else not found


def test_a_flush_of_each_record_is_kafkas_fsync() -> None:
    flushed = with_changes(KAFKA["batch-1k"], [("topic.flush.messages", 1)])
    synced = with_changes(PULSAR["batch-1k"], [("bookie.journalSyncData", "true")])
    assert (durability(flushed), durability(synced)) == ("fsync", "fsync")
    assert not_comparable(flushed, synced) == ""


@given(RATES, RATES, st.floats(0.01, 100.0))
def test_a_ratio_scales_with_its_figures_and_lies_within_its_interval(
    kafka: list[float], other: list[float], by: float
) -> None:
    found, scaled = ratio_of(kafka, other), ratio_of(kafka, [by * value for value in other])
    turned = ratio_of(other, kafka)
    assert found is not None
    assert scaled is not None
    assert turned is not None
    assert scaled[0] == pytest.approx(by * found[0])
    assert turned[0] == pytest.approx(1 / found[0])
    low, high = found[1]
    assert low <= found[0] * (1 + 1e-9)
    assert found[0] <= high * (1 + 1e-9)


@given(RATES)
def test_a_system_beside_itself_is_not_told_apart(values: list[float]) -> None:
    found = ratio_of(values, values)
    assert found is not None
    low, high = found[1]
    assert low <= 1 + 1e-9
    assert high >= 1 - 1e-9


@given(RATES, RATES)
def test_an_interval_is_that_of_welch(kafka: list[float], other: list[float]) -> None:
    logs = [[math.log(value) for value in values] for values in (kafka, other)]
    assume(all(max(values) - min(values) > 1e-6 for values in logs))
    told = stats.ttest_ind(logs[1], logs[0], equal_var=False).confidence_interval(0.95)
    found = ratio_of(kafka, other)
    assert found is not None
    estimate, (low, high) = found
    assert math.log(estimate) == pytest.approx(fmean(logs[1]) - fmean(logs[0]), abs=1e-9)
    assert math.log(low) == pytest.approx(max(float(told.low), -700), rel=1e-6, abs=1e-6)
    assert math.log(high) == pytest.approx(min(float(told.high), 700), rel=1e-6, abs=1e-6)


def test_one_value_or_none_above_nought_has_no_ratio() -> None:
    assert ratio_of([1.0], [1.0, 2.0]) is None
    assert ratio_of([1.0, 0.0], [1.0, 2.0]) is None


def pair(kafka: list[float], other: list[float], rate: float = 1e6) -> Pair:
    sides = []
    for values, scenario in ((kafka, KAFKA["batch-1k"]), (other, PULSAR["batch-1k"])):
        scenario = replace(scenario, load=replace(scenario.load, rate=rate))
        sides.append(replace(measurement(values), scenario=scenario))
    return Pair(name="batch-1k", kafka=(sides[0],), pulsar=(sides[1],), why_not="")


def rate_row(one: Pair) -> tuple[str, ...]:
    return next(row for row in rows([one]) if row[1].startswith("records_per_s"))


@pytest.mark.parametrize(
    ("kafka", "other", "rate", "words"),
    [
        ([1000.0, 1010.0, 990.0], [2000.0, 2020.0, 1980.0], 1e6, "Pulsar more"),
        ([2000.0, 2020.0, 1980.0], [1000.0, 1010.0, 990.0], 1e6, "Pulsar less"),
        ([1000.0, 1500.0, 700.0], [1100.0, 1400.0, 900.0], 1e6, "not told apart"),
        ([1000.0, 1010.0, 990.0], [2000.0, 2020.0, 1999.0], 2000.0, "at the cap of the load: no comparison"),
    ],
)
def test_nothing_is_said_beyond_the_interval(kafka: list[float], other: list[float], rate: float, words: str) -> None:
    assert rate_row(pair(kafka, other, rate))[-1] == words


def test_a_pair_that_is_left_out_has_no_figures() -> None:
    assert rows([replace(pair([1.0, 2.0], [1.0, 2.0]), why_not="records")]) == []


def test_with_three_runs_a_side_their_scatter_counts() -> None:
    one = pair([1000.0, 1001.0, 1002.0], [1100.0, 1101.0, 1102.0])
    assert rate_row(one)[-1] == "Pulsar more"
    scattered = [pair([rate] * 3, [rate * 1.1] * 3) for rate in (500.0, 1000.0, 2000.0)]
    several = replace(
        one,
        kafka=tuple(each.kafka[0] for each in scattered),
        pulsar=tuple(each.pulsar[0] for each in scattered),
    )
    assert rate_row(several)[-1] == "not told apart"


def left(folder: Path, run: dict[str, Any]) -> Path:
    path = folder / str(run["run_id"]) / "run.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**run, "replay_of": None}))
    return path


def sides(document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    return document, of_pulsar(document, "20261128T000000Z-aaaa")


def test_the_newest_run_of_each_system_is_shown(
    tmp_path: Path, document: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for run in sides(document):
        left(tmp_path, run)
    assert called(command.command, "--recorded", "--results", tmp_path) == 0
    shown = capsys.readouterr().out
    assert f"Kafka 4.3.1: {document['run_id']}" in shown
    assert "Pulsar 4.0.8: 20261128T000000Z-aaaa" in shown
    assert "batch-1k: Kafka 1 replicas, acks=1, page cache; Pulsar 3/1/1, page cache" in shown
    assert "not told apart" in shown
    assert "Pulsar more" not in shown, "the same rounds"
    assert "left out: replicas-3: acks=1 on Kafka with copies" in shown


@pytest.mark.parametrize("lacking", ["kafka", "pulsar", "both", "machine"])
def test_without_a_run_of_each_on_one_machine_there_is_no_table(
    tmp_path: Path, document: dict[str, Any], capsys: pytest.CaptureFixture[str], lacking: str
) -> None:
    kafka, other = sides(document)
    if lacking == "machine":
        other["environment"] = {**other["environment"], "cores": 64}
    for run, system in ((kafka, "kafka"), (other, "pulsar")):
        if lacking not in (system, "both"):
            left(tmp_path, run)
    assert called(command.command, "--recorded", "--results", tmp_path) == 2
    words = "no recorded run" if lacking == "both" else "no run of"
    said = capsys.readouterr().err
    assert f"not side by side: {words}" in said
    assert ("is of another machine" in said) is (lacking == "machine")


def test_a_run_that_was_modified_is_passed_over(document: dict[str, Any]) -> None:
    kafka, other = sides({**document, "replay_of": None})
    changed = {**other, "run_id": "20261129T000000Z-aaaa", "modified": ["producer.batchingMaxBytes=1"]}
    found = chosen([kafka, other, changed])
    assert [run["run_id"] for run in found["pulsar"]] == [other["run_id"]]
    with pytest.raises(
        ConfigurationError, match=r"no run of Pulsar on the machine.*20261129T000000Z-aaaa was modified"
    ):
        chosen([kafka, changed])
    with pytest.raises(ConfigurationError, match=r"^no recorded run can stand here \(run 2.*was modified"):
        chosen([changed])


FAKE = """
import json, pathlib, sys
here = pathlib.Path(__file__).parents[1]
called, *words = sys.argv[1:]
assert called == "gate"
given = dict(word.partition("=")[::2] for word in words)
with (here / "log.txt").open("a") as log:
    print(*words, file=log)
if {"--list-scenarios", "--dry-run"} & given.keys():
    print("of", given["--system"])
    sys.exit(2 * (given["--system"] == REFUSES))
run = json.loads((here / (given["--system"] + ".json")).read_text())
path = pathlib.Path(given["--results"], run["run_id"], "run.json")
path.parent.mkdir(parents=True)
path.write_text(json.dumps(run))
if (here / "other.json").exists():
    other = json.loads((here / "other.json").read_text())
    pathlib.Path(given["--results"], other["run_id"], "run.json").write_text(json.dumps(other))
sys.exit(CODE)
"""
Gate = Callable[..., Path]


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Return a function that has a stand-in for the gate in the working folder; it returns the log of its calls.

    It refuses the system `refuses`, or leaves the run in <system>.json and ends with the exit code `code`.
    """

    def given(*, code: int = 0, refuses: str = "") -> Path:
        (package := tmp_path / "perfgate").mkdir()
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(f"CODE, REFUSES = {code}, {refuses!r}\n{FAKE}")
        monkeypatch.chdir(tmp_path)
        return tmp_path / "log.txt"

    return given


@pytest.mark.parametrize(("code", "ends"), [(6, 0), (0, 0), (2, 2)])
def test_both_systems_are_measured_one_after_the_other(
    tmp_path: Path, document: dict[str, Any], capfd: pytest.CaptureFixture[str], gate: Gate, code: int, ends: int
) -> None:
    for run, system in zip(sides({**document, "replay_of": None}), ("kafka", "pulsar"), strict=True):
        (tmp_path / f"{system}.json").write_text(json.dumps(run))
    log = gate(code=code)
    assert called(command.command, "--tier=smoke", f"--results={tmp_path / 'results'}", "--rounds=5") == ends
    asked = [line for line in log.read_text().splitlines() if not line.endswith(" --list-scenarios")]
    assert len(asked) == (1 if ends else 2), "a run that was refused ends it"
    assert "--system=kafka --tier=smoke" in asked[0]
    assert "--family latency" in asked[0]
    assert asked[0].endswith("-m smoke --rounds=5")
    shown = capfd.readouterr()
    assert ("batch-1k" in shown.out) is not ends
    assert ("ended with exit code 2" in shown.err) is bool(ends)


def test_the_run_of_another_process_that_still_goes_on_is_not_taken(
    tmp_path: Path, document: dict[str, Any], capfd: pytest.CaptureFixture[str], gate: Gate
) -> None:
    """Its run.json so far, of another tier perhaps, was the newest: both runs were made, and no table was shown."""
    for run, system in zip(sides({**document, "replay_of": None}), ("kafka", "pulsar"), strict=True):
        (tmp_path / f"{system}.json").write_text(json.dumps(run))
    other = {
        **document,
        "replay_of": None,
        "run_id": "20991231T000000Z-aaaa",
        "tier": {**document["tier"], "rounds": 9},
    }
    (tmp_path / "other.json").write_text(json.dumps(other))
    gate()
    with alive(tmp_path / "results" / other["run_id"]):
        assert called(command.command, f"--results={tmp_path / 'results'}") == 0
    shown = capfd.readouterr().out
    assert "batch-1k" in shown
    assert other["run_id"] not in shown


def test_what_one_system_refuses_is_measured_of_neither(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], gate: Gate
) -> None:
    """Kafka was measured first, and then Pulsar refused an option of Kafka."""
    log = gate(refuses="pulsar")
    assert called(command.command, f"--results={tmp_path}", "--kafka-version=4.2.0") == 2
    assert all(line.endswith(" --list-scenarios") for line in log.read_text().splitlines())
    assert capfd.readouterr().err.endswith("of pulsar\nnot side by side: no run of pulsar can be made so\n")


@pytest.mark.parametrize("selected", ["-k paced-500", "-kpaced-500", "-mlatency", "--family=latency"])
def test_what_is_selected_is_measured_and_nothing_else(tmp_path: Path, gate: Gate, selected: str) -> None:
    """-kNAME, in one word, was taken within the usual families and the tier's scenarios alone."""
    log = gate(refuses="kafka")
    assert called(command.command, f"--results={tmp_path}", *selected.split()) == 2
    usual = f"--system=kafka --tier=smoke --results={tmp_path}"
    assert log.read_text() == f"{usual} {selected} --list-scenarios\n"


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--set record.bytes=512", "--set makes a run that is none of the gate as it stands: leave it out"),
        ("--relations-only", "--relations-only makes a run"),
        ("--broker-cpus=2", "--broker-cpus makes a run"),
        ("--target=staging.toml", "the brokers of staging.toml are of one system: --target embedded starts both here"),
    ],
)
def test_what_cannot_stand_side_by_side_is_refused_before_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], gate: Gate, option: str, words: str
) -> None:
    """Both systems were measured, and no run of these could be shown."""
    log = gate()
    assert called(command.command, f"--results={tmp_path}", *option.split()) == 2
    assert f"not side by side: {words}" in capsys.readouterr().err
    assert not log.exists()


@pytest.mark.parametrize("option", ["--dry-run", "--list-scenarios"])
def test_a_look_shows_no_recorded_runs_as_its_result(
    tmp_path: Path, document: dict[str, Any], capfd: pytest.CaptureFixture[str], gate: Gate, option: str
) -> None:
    """The table of the newest recorded runs followed, as if it were of this command."""
    for run in sides(document):
        left(tmp_path, run)
    gate()
    assert called(command.command, f"--results={tmp_path}", option) == 0
    shown = capfd.readouterr().out
    assert "of kafka\nof pulsar\n" in shown
    assert "nothing was measured" in shown
    assert "batch-1k" not in shown


@pytest.mark.parametrize("how", ["ctrl-c", "sigterm"])
def test_an_interrupted_gate_has_the_time_to_put_back_what_it_has_changed(tmp_path: Path, how: str) -> None:
    """Ctrl-C killed it a quarter of a second later; SIGTERM ended this command alone, and the gate went on."""
    (package := tmp_path / "gate").mkdir()
    (package / "perfgate").mkdir()
    (package / "perfgate" / "__init__.py").touch()
    (package / "perfgate" / "__main__.py").write_text(
        "import pathlib, signal, sys, time\n"
        "if '--list-scenarios' in sys.argv:\n    sys.exit(0)\n"
        f"here = pathlib.Path({str(tmp_path)!r})\n"
        "def end(*_):\n    time.sleep(1.0)\n    (here / 'put-back').touch()\n    sys.exit(2)\n"
        "signal.signal(signal.SIGINT, end)\nsignal.signal(signal.SIGTERM, end)\n"
        "(here / 'runs').touch()\ntime.sleep(30)\n"
    )
    program = (
        "import os, sys; from perfgate.fixtures import side_by_side; "
        f"os.environ['PYTHONPATH'] = {str(package)!r}; os.chdir({str(package)!r}); "
        f"sys.exit(side_by_side.command.main(['--results={tmp_path}'], standalone_mode=False))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=hear_interrupts,
        start_new_session=True,
    ) as run:
        ends = time.monotonic() + 30
        while not (tmp_path / "runs").exists() and time.monotonic() < ends:
            time.sleep(0.05)
        os.killpg(run.pid, signal.SIGINT) if how == "ctrl-c" else run.terminate()
        output = run.communicate(timeout=30)[0]
    assert (tmp_path / "put-back").exists(), output
    assert run.returncode == 2
    assert output.endswith("not side by side: the run of kafka was interrupted\n")


def test_every_family_that_is_measured_is_of_both_systems() -> None:
    for families in (kafka.FAMILIES, pulsar.FAMILIES):
        assert set(command.FAMILIES) <= {family.name for family in families}
