"""Runs of the gate on brokers that got much worse, and unchanged ones: ``python -m benchmarks.worse_brokers``.

Thresholds are recorded from unchanged runs of the same day; each case is then held against them by the whole gate, its
confirmation run included. Every run is a line of benchmarks/results/worse_brokers.jsonl. Started again it goes on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.compare_lines import note, recorded
from perfgate.fixtures.run import pytest_command
from perfgate.model.judged import ExitCode

ROOT = Path(__file__).parents[1]
RAW = Path(__file__).parent / "results" / "worse_brokers.jsonl"
SELECTED = "(acks-all or paced-500) and not acks-all-"
HELD = {
    "acks-all": {"records_per_s": 0.5, "broker_cpu_us_per_record": 0.95},
    "paced-500": {"latency_ms.p99": 0.9, "broker_cpu_us_per_record": 0.95},
}
"""The metrics that are held, and how far each may be off: all move by a third between runs on two shared cores. None
that the scenarios hold may be left out: what a named profile lacks is MISSING, which is red."""
USUAL = ("--tier=smoke", "--broker-warmup=30", "-q")
IN_TURNS = ("acks-all and not acks-all-", "paced-500")
"""Brokers that are worse are held by one of the two scenarios in each run, which takes half the time."""
HANG_BOUND_S = 1800


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """What is done to the brokers: by the plugin, or by options of the gate."""

    name: str
    worse: str = ""
    arguments: tuple[str, ...] = ()
    compared: bool = False
    """By a comparison of pairs of clusters, of which the candidate is worse."""


UNCHANGED = Case(name="unchanged")
CASES = (
    Case(name="interpreter", arguments=("--set", "cluster.jvm=-Xint")),
    Case(name="tenth-cpu", worse="tenth-cpu"),
    Case(name="stop-continue", worse="stop-continue"),
    Case(name="slow-disk", worse="slow-disk"),
    Case(name="small-heap", arguments=("--set", "cluster.jvm=-Xms40m -Xmx40m")),
    Case(name="never-ready", worse="never-ready", compared=True),
)


def run(case: Case, thresholds: Path, selected: str = SELECTED) -> dict[str, Any]:
    """Make one run of the scenarios `selected` (-k); return its line: exit code, verdicts, figures, how long it took.

    Raises RuntimeError where the gate refused it.
    """
    with tempfile.TemporaryDirectory() as folder:
        arguments = [*USUAL, "-k", selected, f"--results={folder}", f"--thresholds={thresholds}", *case.arguments]
        if case.worse:
            arguments += ["-p", "benchmarks.worse_cluster"]
        if case.compared:
            change = Path(folder) / "change.toml"
            change.write_text('name = "candidate"\n[cluster]\njvm = ["-Dcandidate=1"]\n')
            arguments += [f"--compare={change}", "--budget=4m"]
        else:
            arguments += [] if case is UNCHANGED and not (thresholds / "day.toml").exists() else ["--profile=day"]
        began = time.monotonic()
        done = subprocess.run(
            pytest_command(["-p", "no:hypothesispytest", *arguments]),
            cwd=ROOT,
            env={**os.environ, "WORSE": case.worse},
            capture_output=True,
            text=True,
            timeout=HANG_BOUND_S,
        )
        seconds = time.monotonic() - began
        if done.returncode == ExitCode.ENDED_EARLY or done.returncode not in set(ExitCode):
            raise RuntimeError(f"{case.name} was refused: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        found = sorted(Path(folder).glob("2*/run.json"))
        document = json.loads(found[-1].read_text()) if found else {}
    return {
        "case": case.name,
        "exit": done.returncode,
        "seconds": round(seconds),
        "verdicts": _verdicts(document),
        "figures": {name: _figures(document, name) for name in HELD},
        "reasons": {one["name"]: one["reasons"][:2] for one in document.get("scenarios", []) if one["reasons"]},
        "last": done.stdout.splitlines()[-3:] if done.returncode not in (0, 1) else [],
    }


def _verdicts(document: Mapping[str, Any]) -> dict[str, str]:
    scenarios = {one["name"]: one["verdict"] for one in document.get("scenarios", [])}
    return scenarios | {one["scenario"]: one["verdict"] for one in document.get("comparisons", [])}


def _figures(document: Mapping[str, Any], name: str) -> dict[str, float]:
    entry = next((one for one in document.get("scenarios", []) if one["name"] == name), None)
    metrics = entry["metrics"] if entry else {}
    return {metric: metrics[metric]["value"] for metric in HELD[name] if metric in metrics}


def record_thresholds(lines: list[dict[str, Any]], folder: Path) -> None:
    """Write the profile of the day: the median of the unchanged runs' figures."""
    tables = ["[profile]", 'description = "unchanged runs of the same day"', 'target = "embedded"', 'tier = "smoke"']
    for name, metrics in HELD.items():
        tables.append(f"\n[{name}]")
        for metric, tolerance in metrics.items():
            values = [line["figures"][name][metric] for line in lines if metric in line["figures"][name]]
            tables.append(f'"{metric}" = {{baseline = {statistics.median(values)}, tolerance = {tolerance}}}')
    (folder / "day.toml").write_text("\n".join(tables) + "\n")


def keep(line: dict[str, Any]) -> None:
    """Add a line, and print it."""
    note(line, RAW)
    found = ", ".join(f"{key} {line[key]}" for key in ("exit", "seconds", "verdicts", "figures"))
    print(f"{line['case']}: {found}", flush=True)


def main() -> int:
    """Record the day's thresholds, then make the runs that are missing, the cases in turns; print how they came out."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="of each case that is worse")
    parser.add_argument("--unchanged", type=int, default=10, help="unchanged runs")
    parser.add_argument("--baseline", type=int, default=3, help="unchanged runs that the thresholds are made of")
    parser.add_argument("--case", action="append", choices=[case.name for case in (*CASES, UNCHANGED)], help="only it")
    parser.add_argument("--minutes", type=float, default=600, help="begin no run later than this")
    given = parser.parse_args()
    ends = time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in ("relations.toml", "ratios.toml"):
            shutil.copy(ROOT / "perfgate" / "catalogue" / file, folder)
        while len(first := [line for line in recorded(RAW) if line["case"] == "baseline"]) < given.baseline:
            keep({**run(UNCHANGED, folder), "case": "baseline"})
        record_thresholds(first, folder)
        wanted = {case: given.unchanged if case is UNCHANGED else given.runs for case in (UNCHANGED, *CASES)}
        for turn in itertools.count(1):
            missing = [
                case
                for case, count in wanted.items()
                if (not given.case or case.name in given.case)
                and sum(line["case"] == case.name for line in recorded(RAW)) < min(turn, count)
            ]
            if turn > max(wanted.values()):
                break
            for case in missing:
                if time.monotonic() < ends:
                    keep(run(case, folder, SELECTED if case is UNCHANGED else IN_TURNS[turn % len(IN_TURNS)]))
    for case in (*CASES, UNCHANGED):
        of_case = [line for line in recorded(RAW) if line["case"] == case.name]
        exits = Counter(ExitCode(line["exit"]).name for line in of_case)
        verdicts = Counter(f"{name} {verdict}" for line in of_case for name, verdict in line["verdicts"].items())
        found = "; ".join(", ".join(f"{n} {what}" for what, n in of.most_common()) for of in (exits, verdicts))
        print(f"{case.name:<14}{found}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
