"""Runs the gate until enough alike runs are there to make thresholds of: ``python -m perfgate.report.baseline``.

Each run is a process of its own with a cluster of its own; every other one takes the scenarios in reverse order. What
was stopped goes on where it was: the alike runs in the results folder count. The stored thresholds have no part in it,
so that they decide neither how long a row is measured nor whether a run counts.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from fixtures.options import TARGETS, TIERS, USAGE_EXIT
from perfgate.host.environment import environment_facts
from perfgate.judge.thresholds import MOST_RUNS, RELATIONS_FILE
from perfgate.model import DEFAULT_KAFKA_VERSION
from perfgate.model.errors import ConfigurationError
from perfgate.report.commands import USUAL_TARGET, USUAL_TIER, baseline_command
from perfgate.report.gate_process import Interrupted, run_gate, sigterm_is_ctrl_c
from perfgate.report.proposal import BECAUSE_HELP, ENOUGH_RUNS, plain, runs_alike, show, unsound
from perfgate.report.results import load_run
from perfgate.report.terminal import duration

GATE = (sys.executable, "-m", "pytest")
USUAL_RUNS = 10
MOST_FAILED = 3
"""So many runs that do not count end it: something has to be put right first."""
MARK = "baseline-arguments.json"
"""Beside run.json: what this module gave the gate, so that it finds its own runs again."""
REFUSED = (
    "--set", "--compare", "--replay", "--controllers", "--broker-cpus", "--broker-memory", "--dry-run",
    "--list-scenarios", "--collect-only", "--co", "--order",
)  # fmt: skip
"""With these a run is none of the gate as it stands."""
INTERRUPTED_EXIT = 2
UNDECIDED_EXIT = 6


@dataclass
class Series:
    """The runs that are made, and those that are there."""

    arguments: tuple[str, ...]
    """Of the gate: target, tier and what was asked for besides."""
    target: str
    tier: str
    results: Path
    usual: bool
    """Whether nothing but target and tier was asked for, so that runs of a plain `make gate` count too."""
    like: dict[str, Any] | None = None
    """The newest run that counts; the others must be like it."""
    walls_s: list[float] = field(default_factory=list)
    """How long each run took that was made here."""

    def counted(self) -> list[Mapping[str, Any]]:
        """Return the runs that count: alike, sound, with all rows that the newest has."""
        if self.like is None:
            self.like = self._newest()
        if self.like is None:
            return []
        rows = {entry["name"] for entry in self.like["scenarios"]}
        alike = runs_alike(self.like, self.results)
        return [run for run in alike if rows <= {e["name"] for e in run["scenarios"]} and not unsound(run)]

    def left_s(self, counted: Sequence[Mapping[str, Any]], missing: int) -> float | None:
        """Return how long the missing runs take, going by those that are there."""
        walls = self.walls_s or [_seconds(run) for run in counted]
        return statistics.median(walls) * missing if walls else None

    def _newest(self) -> dict[str, Any] | None:
        """Return the newest sound run of this machine that the same arguments made, or would have made."""
        here, found = environment_facts(), []
        for path in self.results.glob("2*/run.json"):
            try:
                run = load_run(path)
            except ConfigurationError:
                continue
            machine = all(run["environment"].get(key) == here[key] for key in ("cpu_model", "cores"))
            if machine and not plain(run) and not unsound(run) and self._made(path.parent, run):
                found.append(run)
        # A plain run of some rows alone (-k) is none of all of them.
        return max(found, key=lambda run: (len(run["scenarios"]), run["run_id"]), default=None)

    def _made(self, folder: Path, run: Mapping[str, Any]) -> bool:
        if (folder / MARK).exists():
            made: list[str] = json.loads((folder / MARK).read_text())
            return made == list(self.arguments)
        target = run["target"]
        return (
            self.usual
            and not run["not_run"]
            and (target.get("kind"), target.get("kafka_version")) == (self.target, DEFAULT_KAFKA_VERSION)
            and (run["driver"], run["tier"]) == ("librdkafka", asdict(TIERS[self.tier]))
        )


def main(argv: Sequence[str] | None = None, gate: Sequence[str] = GATE) -> int:
    """Make the runs that are missing, then show or write the thresholds that they make; return the exit code."""
    parser = argparse.ArgumentParser(description="Make the runs that thresholds need; all else goes to pytest.",
                                     allow_abbrev=False)  # fmt: skip
    parser.add_argument("--runs", default=str(USUAL_RUNS), help=f"how many there shall be (default: {USUAL_RUNS})")
    parser.add_argument("--target", default=USUAL_TARGET)
    parser.add_argument("--tier", default=USUAL_TIER)
    parser.add_argument("--results", default="results", type=Path, help="folder of the runs (default: results)")
    parser.add_argument("--thresholds", default="thresholds", type=Path, help="folder of the threshold files")
    parser.add_argument("--accept", action="store_true", help="write the thresholds; without it they are shown")
    parser.add_argument("--because", default="", metavar="TEXT", help=BECAUSE_HELP)
    asked, rest = parser.parse_known_args(argv)
    try:
        return _record(asked, tuple(rest), gate)
    except ConfigurationError as error:
        print(f"no baseline: {error}", file=sys.stderr)
        return USAGE_EXIT


def _record(asked: argparse.Namespace, rest: tuple[str, ...], gate: Sequence[str]) -> int:
    wanted = _checked(asked, rest)
    series = Series(
        arguments=(f"--target={asked.target}", f"--tier={asked.tier}", *rest), target=asked.target, tier=asked.tier,
        results=asked.results, usual=not rest and asked.target in TARGETS,
    )  # fmt: skip
    again = baseline_command(
        asked.target, asked.tier, ARGS=shlex.join(rest), RUNS=str(wanted) if wanted != USUAL_RUNS else ""
    )
    try:
        with tempfile.TemporaryDirectory() as folder, sigterm_is_ctrl_c():
            # Relations are judged, thresholds are not.
            shutil.copy(asked.thresholds / RELATIONS_FILE, folder)
            code = _make_runs(series, wanted, [*gate, f"--thresholds={folder}"])
    except (Interrupted, KeyboardInterrupt):
        there = len(series.counted())
        print(f"\ninterrupted: {there} of {wanted} runs are there, in {asked.results}; to go on: {again}", flush=True)
        return INTERRUPTED_EXIT
    if code:
        print(f"when that is put right, the same command goes on where it stopped: {again}")
        return code
    assert series.like is not None
    return show(series.like, asked.results, asked.thresholds, accept=asked.accept, accept_by=f"{again} ACCEPT=1",
                because=asked.because)  # fmt: skip


def _checked(asked: argparse.Namespace, rest: Sequence[str]) -> int:
    """Return how many runs are wanted. Raises ConfigurationError for what no baseline can be made of."""
    for argument in rest:
        if argument.partition("=")[0] in REFUSED:
            raise ConfigurationError(
                f"{argument.partition('=')[0]} makes a run that is none of the gate as it stands: leave it out"
            )
    if asked.tier not in TIERS:
        raise ConfigurationError(f"unknown tier {asked.tier!r}; legal: {', '.join(TIERS)}")
    if not (asked.thresholds / RELATIONS_FILE).is_file():
        raise ConfigurationError(f"thresholds folder {asked.thresholds} holds no {RELATIONS_FILE}")
    if not asked.runs.isdecimal() or not ENOUGH_RUNS <= int(asked.runs) <= MOST_RUNS:
        raise ConfigurationError(f"RUNS={asked.runs!r} must be a whole number from {ENOUGH_RUNS} to {MOST_RUNS}")
    return int(asked.runs)


def _make_runs(series: Series, wanted: int, gate: Sequence[str]) -> int:
    """Make runs until as many count as are wanted; return 0, or why not as an exit code."""
    counted, failed = series.counted(), 0
    there = f"{min(len(counted), wanted)} of them there already" if counted else "none of them there yet"
    print(f"{wanted} runs of the gate ({' '.join(series.arguments)}), {there}{_left(series, counted, wanted)}")
    if series.target not in TARGETS:
        print(f"the brokers of {series.target} are not started anew for each run")
    while len(counted) < wanted:
        order = "reversed" if len(counted) % 2 else "declared"
        name = f"run {len(counted) + 1} of {wanted}"
        print(f"{datetime.now():%H:%M:%S} {name}: order {order}{_left(series, counted, wanted)}", flush=True)
        begun = time.monotonic()
        reason, code = _make_run(series, [*gate, *series.arguments, f"--order={order}"], name)
        if reason and code not in (0, 1, UNDECIDED_EXIT):
            print(f"{name}: {reason}")
            return code
        if reason:
            failed += 1
            print(f"{name}: does not count: {reason}", flush=True)
            if failed == MOST_FAILED:
                print(f"stopped: {failed} runs did not count; {len(counted)} of {wanted} are there")
                return UNDECIDED_EXIT
            continue
        series.walls_s.append(time.monotonic() - begun)
        counted = series.counted()
        print(f"{name}: {duration(series.walls_s[-1])}, counts{_left(series, counted, wanted)}", flush=True)
    return 0


def _make_run(series: Series, command: Sequence[str], name: str) -> tuple[str, int]:
    """Make one run; return why it does not count (empty: it does), and the gate's exit code.

    Raises ConfigurationError when it was none of the gate as it stands.
    """
    before = set(series.results.glob("2*/run.json"))
    code, tail = run_gate([*command, f"--results={series.results}"], name)
    found = sorted(set(series.results.glob("2*/run.json")) - before)
    last_words = "\n".join(f"    {line}" for line in tail)
    if code not in (0, 1, UNDECIDED_EXIT):
        return f"the gate ended with exit code {code}:\n{last_words}", code or 1
    if not found:
        return f"the gate ended with exit code {code} and left no run.json:\n{last_words}", USAGE_EXIT
    run = load_run(found[-1])
    if reason := plain(run):
        raise ConfigurationError(f"{reason}: no thresholds can be made from it; leave out what makes it so")
    if reason := unsound(run):
        return f"{found[-1].parent}: {reason}", code
    (found[-1].parent / MARK).write_text(json.dumps(series.arguments))
    first, series.like = series.like, run
    if first is not None and first["run_id"] not in {other["run_id"] for other in series.counted()}:
        print(f"{name}: is not like {first['run_id']} (other rows or software), which no longer counts")
    return "", code


def _left(series: Series, counted: Sequence[Mapping[str, Any]], wanted: int) -> str:
    left_s = series.left_s(counted, max(0, wanted - len(counted)))
    return f"; about {duration(left_s)} left" if left_s else ""


def _seconds(run: Mapping[str, Any]) -> float:
    return (datetime.fromisoformat(run["finished"]) - datetime.fromisoformat(run["started"])).total_seconds()


if __name__ == "__main__":
    sys.exit(main())
