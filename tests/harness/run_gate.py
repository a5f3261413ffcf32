"""Runs the gate as a user does, in a process of its own, and reads what it left."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfgate.fixtures.run import pytest_arguments

ROOT = Path(__file__).parents[2]
PROBES = "tests/probes"
NO_THRESHOLDS = ROOT / PROBES / "thresholds"
RECORDED_THRESHOLDS = ROOT / "tests" / "harness" / "data" / "thresholds"
"""Those of the recorded run, beside the shipped relations."""
UNDECIDED = 6
HANG_BOUND_S = 1800
"""A bound on a hang, not on a machine: the longest takes 2 min on two quiet cores."""
BEGUN_BOUND_S = 600
"""So long a run in the background may take to get where the test wants it, brokers' start included."""


@dataclass(frozen=True)
class Finished:
    """A gate run that has ended."""

    code: int
    output: str
    results: Path

    def __post_init__(self) -> None:
        """A report that fails costs no verdict, so that only this shows it."""
        assert "a report could not be written: Traceback" not in self.output, self.output

    @property
    def run(self) -> dict[str, Any]:
        """The run.json that it left (exactly one)."""
        found = list(self.results.glob("2*/run.json"))
        assert len(found) == 1, self.output
        document: dict[str, Any] = json.loads(found[0].read_text())
        return document

    @property
    def allure(self) -> dict[str, dict[str, Any]]:
        """The Allure results that it left, by the name of the row or relation."""
        loaded = [json.loads(path.read_text()) for path in self.results.glob("2*/allure-results/*-result.json")]
        return {
            parameter["value"]: result
            for result in loaded
            for parameter in result["parameters"]
            if parameter["name"] in ("scenario", "relation")
        }

    @property
    def measured(self) -> bool:
        """Whether every row was measured, and at most a machine that is too busy kept one from counting."""
        rows = self.run["scenarios"]
        reasons = [reason for entry in rows if entry["verdict"] == "INVALID" for reason in entry["reasons"]]
        return (
            bool(rows)
            and self.code in (0, UNDECIDED)
            and all(entry["rounds"] for entry in rows)
            and all("generator saturated" in reason for reason in reasons)
        )

    def scenario(self, name: str) -> dict[str, Any]:
        """Return one scenario's entry of run.json."""
        return next(entry for entry in self.run["scenarios"] if entry["name"] == name)


def gate_command(results: Path, *arguments: object) -> list[str]:
    """Return the command line of a gate run that leaves its results in `results`.

    Probes are held against no thresholds unless the arguments say so: with a profile, a machine that is not the
    profile's would be told to be too noisy, whatever the probe is to show.
    """
    replay = any(str(argument).startswith("--replay") for argument in arguments)
    folder = NO_THRESHOLDS if PROBES in arguments else RECORDED_THRESHOLDS if replay else None
    thresholds = [f"--thresholds={folder}"] if folder else []
    # Whoever runs the gate need not have Hypothesis, and its plugin takes as long to import as all the rest.
    plain = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest"]
    return [*plain, *pytest_arguments([f"--results={results}", *thresholds, *map(str, arguments)])]


def hear_interrupts() -> None:
    """Undo, in a new process, that a shell starts what it runs in the background deaf to SIGINT, nohup to SIGHUP."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def gate(
    results: Path, *arguments: object, environment: dict[str, str] | None = None, within_s: float = HANG_BOUND_S
) -> Finished:
    """Run the gate to its end."""
    done = subprocess.run(
        gate_command(results, *arguments),
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=within_s,
    )
    return Finished(code=done.returncode, output=done.stdout + done.stderr, results=results)
