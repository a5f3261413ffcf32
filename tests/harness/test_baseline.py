"""make baseline with a stand-in for the gate: counting, going on, giving up, being interrupted; no Kafka."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fixtures.baseline import main
from perfgate.host.environment import environment_facts
from perfgate.judge.thresholds import load_profiles, match_profile
from perfgate.report.results import load_run
from tests.harness.run_gate import ROOT, hear_interrupts

RECORDED = Path(__file__).parent / "data" / "run.json"
GATE = """
import json, pathlib, sys, time
here = pathlib.Path(__file__).parent
arguments = dict(a.lstrip("-").partition("=")[::2] for a in sys.argv[1:])
with (here / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
number = len((here / "calls.jsonl").read_text().splitlines())
plan = json.loads((here / "plan.json").read_text())
does = plan.get(str(number), {})
print("[1 s] round 1/3 batch-1k: measuring", flush=True)
if "sleep" in does:
    time.sleep(does["sleep"])
if "says" in does:
    print(does["says"])
if not does.get("leaves_nothing"):
    run = json.loads((here / "run.json").read_text())
    run["run_id"] = f"20260101T0000{number:02d}Z-0000"
    for entry in run["scenarios"]:
        entry["verdict"] = "MISSING"
        entry["metrics"]["records_per_s"]["value"] *= 1 + 0.01 * number
    if "-k" in sys.argv:
        run["scenarios"] = [entry for entry in run["scenarios"] if entry["name"] == "batch-1k"]
    run.update(does.get("run", {}))
    for name, verdict in does.get("verdicts", {}).items():
        entry = next(e for e in run["scenarios"] if e["name"] == name)
        entry.update(verdict=verdict, reasons=["a broker died\\n--- its log"])
    folder = pathlib.Path(arguments["results"]) / run["run_id"]
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(run))
sys.exit(does.get("code", 0))
"""


class StandIn:
    """A gate that leaves the recorded run again and again, as the plan says."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.results, self.thresholds = folder, folder / "results", folder / "thresholds"
        (folder / "gate.py").write_text(GATE)
        run = load_run(RECORDED)
        run["environment"] |= {key: environment_facts()[key] for key in ("cpu_model", "cores")}
        run |= {"replay_of": None, "started": "2026-01-01T00:00:00+00:00", "finished": "2026-01-01T00:03:00+00:00"}
        (folder / "run.json").write_text(json.dumps(run))
        self.thresholds.mkdir()
        (self.thresholds / "relations.toml").write_text((ROOT / "thresholds" / "relations.toml").read_text())
        self.plan()

    @property
    def command(self) -> list[str]:
        return [sys.executable, str(self.folder / "gate.py")]

    @property
    def options(self) -> list[str]:
        return [f"--results={self.results}", f"--thresholds={self.thresholds}"]

    def plan(self, **numbered: object) -> None:
        """Say what the calls do, by number: call_3={"code": 6}."""
        plan = {name.partition("_")[2]: does for name, does in numbered.items()}
        (self.folder / "plan.json").write_text(json.dumps(plan))

    def calls(self) -> list[list[str]]:
        path = self.folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def orders(self) -> list[str]:
        return [next(a.partition("=")[2] for a in call if a.startswith("--order=")) for call in self.calls()]

    def record(self, *more: str) -> int:
        return main([*self.options, *more], self.command)


@pytest.fixture
def stand_in(tmp_path: Path) -> StandIn:
    return StandIn(tmp_path)


def test_the_missing_runs_are_made_in_alternating_order_and_the_proposal_is_shown(
    stand_in: StandIn, capfd: pytest.CaptureFixture[str]
) -> None:
    assert stand_in.record("--runs=5") == 0
    shown = capfd.readouterr().out
    assert stand_in.orders() == ["declared", "reversed", "declared", "reversed", "declared"]
    assert "5 runs of the gate (--target=embedded --tier=smoke), none of them there yet" in shown
    assert "run 1 of 5: order declared\n" in shown
    assert "run 2 of 5: order reversed; about " in shown, "the time left is known from the first run on"
    assert "nothing was written; to write it: make baseline RUNS=5 ACCEPT=1" in shown
    assert list(stand_in.thresholds.iterdir()) == [stand_in.thresholds / "relations.toml"]


def test_the_stored_thresholds_have_no_part_in_it(stand_in: StandIn) -> None:
    stand_in.record("--runs=5")
    given = [argument for argument in stand_in.calls()[0] if argument.startswith("--thresholds=")]
    assert len(given) == 1
    assert given[0] != f"--thresholds={stand_in.thresholds}"


def test_accepted_thresholds_are_a_new_profile_of_this_machine(stand_in: StandIn) -> None:
    assert stand_in.record("--runs=5", "--accept") == 0
    run = json.loads((stand_in.folder / "run.json").read_text())
    facts = {"target": "embedded", "cores": str(run["environment"]["cores"]), "tier": "smoke", "driver": "librdkafka"}
    profiles = load_profiles(stand_in.thresholds)
    profile = match_profile(profiles, {**facts, "cpu_model": run["environment"]["cpu_model"]})
    assert profile is not None
    assert profile.name.startswith(f"embedded-{facts['cores']}c-")
    assert all(t.runs == 5 for thresholds in profile.thresholds.values() for t in thresholds)


def test_a_second_time_goes_on_where_it_stopped(stand_in: StandIn, capfd: pytest.CaptureFixture[str]) -> None:
    stand_in.record("--runs=5")
    assert stand_in.record("--runs=7") == 0
    assert (
        "7 runs of the gate (--target=embedded --tier=smoke), 5 of them there already; about " in capfd.readouterr().out
    )
    assert stand_in.orders()[5:] == ["reversed", "declared"]
    assert stand_in.record("--runs=7", "--accept") == 0
    assert len(stand_in.calls()) == 7, "all are there: it only writes"


def test_runs_of_a_plain_gate_count_and_those_of_some_rows_or_another_kind_do_not(stand_in: StandIn) -> None:
    run = json.loads((stand_in.folder / "run.json").read_text())

    def leave(number: int, **changes: object) -> None:
        folder = stand_in.results / f"20251231T0000{number:02d}Z-0000"
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps({**run, "run_id": folder.name, **changes}))

    leave(1)
    leave(2, scenarios=run["scenarios"][:1])
    leave(3, modified=["producer.linger.ms=5"])
    leave(4, tier={**run["tier"], "rounds": 9})
    leave(5, environment={**run["environment"], "cores": 96})
    leave(6, driver="java")
    assert stand_in.record("--runs=5") == 0
    assert len(stand_in.calls()) == 4


def test_runs_of_some_rows_are_a_baseline_of_those_alone(stand_in: StandIn) -> None:
    assert stand_in.record("--runs=5", "-k", "batch-1k") == 0
    assert stand_in.record("--runs=5", "-k", "batch-1k") == 0
    assert len(stand_in.calls()) == 5
    assert stand_in.record("--runs=5") == 0
    assert len(stand_in.calls()) == 10


@pytest.mark.parametrize("verdict", ["INVALID", "INCONCLUSIVE"])
def test_a_run_that_says_nothing_is_said_and_made_again_in_the_same_order(
    stand_in: StandIn, capfd: pytest.CaptureFixture[str], verdict: str
) -> None:
    stand_in.plan(call_2={"code": 6, "verdicts": {"batch-1k": verdict}})
    assert stand_in.record("--runs=5") == 0
    shown, folder = capfd.readouterr().out, stand_in.results / "20260101T000002Z-0000"
    assert f"run 2 of 5: does not count: {folder}: batch-1k {verdict}: a broker died\n" in shown
    assert stand_in.orders()[:3] == ["declared", "reversed", "reversed"]
    assert len(stand_in.calls()) == 6


def test_a_run_on_a_disturbed_machine_does_not_count_even_without_thresholds(
    stand_in: StandIn, capfd: pytest.CaptureFixture[str]
) -> None:
    run = json.loads((stand_in.folder / "run.json").read_text())
    quiet = {"deflate_mib_per_s": 60.0, "loopback_per_s": 20000.0, "pressure": 0.0, "steal": 0.0}
    for entry in run["scenarios"]:
        entry["canary"] = [quiet, quiet, quiet, {**quiet, "steal": 0.5}]
    stand_in.plan(call_1={"run": {"scenarios": run["scenarios"]}})
    assert stand_in.record("--runs=5") == 0
    assert "does not count: " in (shown := capfd.readouterr().out)
    assert "the host took 50 % of the processors' time away" in shown


def test_a_red_run_does_not_count(stand_in: StandIn, capfd: pytest.CaptureFixture[str]) -> None:
    """Without thresholds a row is red that the brokers did not sustain."""
    stand_in.plan(call_1={"code": 1, "verdicts": {"batch-1k": "REGRESSED"}})
    assert stand_in.record("--runs=5") == 0
    assert "does not count: " in capfd.readouterr().out
    assert len(stand_in.calls()) == 6


def test_it_gives_up_after_three_runs_that_do_not_count(stand_in: StandIn, capfd: pytest.CaptureFixture[str]) -> None:
    bad = {"code": 6, "verdicts": {"batch-1k": "INVALID"}}
    stand_in.plan(call_2=bad, call_4=bad, call_5=bad)
    assert stand_in.record("--runs=5") == 6
    shown = capfd.readouterr().out
    assert "stopped: 3 runs did not count; 2 of 5 are there" in shown
    assert "the same command goes on where it stopped: make baseline RUNS=5" in shown
    assert len(stand_in.calls()) == 5


@pytest.mark.parametrize(
    ("does", "code", "words"),
    [
        ({"code": 2, "leaves_nothing": True, "says": "unknown family 'x'"}, 2, "unknown family 'x'"),
        ({"code": 1, "leaves_nothing": True, "says": "Traceback"}, 2, "left no run.json"),
        ({"code": 3, "says": "internal error"}, 3, "exit code 3"),
    ],
)
def test_a_gate_that_does_not_work_ends_it_at_once_with_its_last_words(
    stand_in: StandIn, capfd: pytest.CaptureFixture[str], does: dict[str, Any], code: int, words: str
) -> None:
    stand_in.plan(call_2=does)
    assert stand_in.record("--runs=5") == code
    assert words in capfd.readouterr().out
    assert len(stand_in.calls()) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "producer.linger.ms=5"], "--set makes a run that is none of the gate as it stands"),
        (["--compare=changes/linger-5.toml"], "--compare makes a run"),
        (["--replay", "run.json"], "--replay makes a run"),
        (["--order=reversed"], "--order makes a run"),
        (["--runs=4"], "RUNS='4' must be a whole number from 5 to 1000"),
        (["--runs=many"], "RUNS='many' must be a whole number"),
        (["--tier=huge"], "unknown tier 'huge'; legal: smoke, nightly, full"),
        (["--thresholds=nowhere"], "thresholds folder nowhere holds no relations.toml"),
    ],
)
def test_what_makes_no_baseline_is_refused_before_anything_runs(
    stand_in: StandIn, capfd: pytest.CaptureFixture[str], arguments: Sequence[str], words: str
) -> None:
    assert stand_in.record(*arguments) == 2
    assert words in capfd.readouterr().err
    assert stand_in.calls() == []


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ({"modified": ["producer.linger.ms=5"]}, "was modified"),
        ({"change": {"name": "linger 5"}, "scenarios": []}, "compared a change"),
    ],
)
def test_a_run_that_turns_out_modified_or_a_comparison_is_refused(
    stand_in: StandIn, capfd: pytest.CaptureFixture[str], run: dict[str, Any], words: str
) -> None:
    stand_in.plan(call_1={"run": run})
    assert stand_in.record("--runs=5") == 2
    assert words in capfd.readouterr().err
    assert len(stand_in.calls()) == 1


@pytest.mark.parametrize("how", ["ctrl-c", "ctrl-c for this process alone", "sigterm"])
def test_interrupted_it_ends_the_gate_and_says_how_to_go_on(stand_in: StandIn, how: str) -> None:
    stand_in.plan(call_2={"sleep": 60})
    program = (
        "import sys; from fixtures import baseline, gate_process; gate_process.GRACE_S = 1.0; "
        f"sys.exit(baseline.main({[*stand_in.options, '--runs=5']!r}, {stand_in.command!r}))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True, preexec_fn=hear_interrupts,
        start_new_session=True,
    ) as run:  # fmt: skip
        _wait_for(lambda: len(stand_in.calls()) == 2)
        if how == "ctrl-c":
            os.killpg(run.pid, signal.SIGINT)
        else:
            run.send_signal(signal.SIGTERM if how == "sigterm" else signal.SIGINT)
        output = run.communicate(timeout=30)[0]
    assert run.returncode == 2
    assert f"interrupted: 1 of 5 runs are there, in {stand_in.results}; to go on: make baseline RUNS=5" in output
    with pytest.raises(ProcessLookupError):
        os.killpg(run.pid, 0)  # of its group nothing is left
    stand_in.plan()
    assert stand_in.record("--runs=5") == 0
    assert len(stand_in.calls()) == 6, "four were missing"


def _wait_for(holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to that within 30 s")
