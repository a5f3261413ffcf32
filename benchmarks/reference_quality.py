"""Runs of the smoke tier against a reference, unchanged and slowed, and what is said of them.

``python -m benchmarks.reference_quality`` makes what is missing of each series by turns, each as a user makes it
(``--reference`` with an empty change, so that both sides take turns on the same brokers), and appends what was found to
benchmarks/results/reference_quality.jsonl at once; started again it goes on. ``--report`` prints the tables.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.compare_lines import columns, note, recorded
from perfgate.fixtures.run import pytest_command
from perfgate.model.judged import JUDGED, ExitCode
from perfgate.report.results import load_run

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "results" / "reference-quality"
RAW = Path(__file__).parent / "results" / "reference_quality.jsonl"
BUDGET_MIN = 45
REFERENCE = 'name = "as it is"\n'
LAST_LINES = 15


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """Runs of one kind; `slowed` as benchmarks/slowed_candidate.py says, over links of these milliseconds."""

    name: str
    runs: int
    slowed: str = ""
    link_ms: int = 0
    farther_ms: int = 0

    @property
    def plugin(self) -> tuple[str, ...]:
        """The plugin that slows the candidate."""
        return ("-p", "benchmarks.slowed_candidate") if self.slowed else ()

    @property
    def environment(self) -> dict[str, str]:
        """What the plugin is told."""
        told = {"LINK_MS": str(self.link_ms), "FARTHER_MS": str(self.farther_ms)} if self.link_ms else {}
        return {**told, **({"SLOWED": self.slowed} if self.slowed else {})}


ALL = (
    Series(name="unchanged", runs=4),
    Series(name="half-cpu", runs=3, slowed="half-cpu"),
    Series(name="link", runs=3, slowed="link", link_ms=8, farther_ms=9),
)


def made(series: Series, entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the recorded runs of a series that came to their end."""
    return [entry for entry in entries if entry["series"] == series.name and "failed" not in entry]


def record(series: Series, budget_min: int) -> dict[str, Any]:
    """Make one run; return its entry, or what was printed last as "failed"."""
    folder = FOLDER / series.name
    before, began, load = set(folder.glob("2*/run.json")), time.monotonic(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="reference-quality-") as work:
        reference = Path(work) / "reference.toml"
        reference.write_text(REFERENCE, encoding="utf-8")
        measured = (f"--reference={reference}", f"--budget={budget_min}m", f"--results={folder}")
        command = pytest_command(["-q", *series.plugin, "--tier=smoke", *measured])
        environment = {**os.environ, **series.environment}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    entry: dict[str, Any] = {
        "series": series.name,
        "budget_min": budget_min,
        "exit": done.returncode,
        "took_min": round((time.monotonic() - began) / 60, 2),
        "load_before": round(load, 2),
    }
    new = sorted(set(folder.glob("2*/run.json")) - before)
    document = load_run(new[-1]) if new and done.returncode in JUDGED else None
    if document is None or not document["references"]:
        return {**entry, "failed": done.stdout.splitlines()[-LAST_LINES:]}
    return {**entry, **facts(document)}


def facts(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of a run against a reference: its machine, and of each scenario verdict and raw rounds."""
    environment = document["environment"]
    beside = {entry["scenario"]: entry for entry in document["references"]}
    return {
        "run": document["run_id"],
        "started": document["started"],
        "machine": {key: environment[key] for key in ("cpu_model", "cores", "memory_mib", "kernel", "commit")},
        "scenarios": {
            one["name"]: {
                "verdict": one["verdict"],
                "ratios": [
                    [j["metric"], j["verdict"], j["measured"], j["baseline"], j["interval"], j["limit"]]
                    for j in one["judgements"]
                ],
                "units": len(beside[one["name"]]["orders"]),
                "minutes": round(beside[one["name"]]["minutes"], 2),
                "method": beside[one["name"]]["method"],
                "rounds": {
                    "reference": columns(beside[one["name"]]["measured"]["rounds"]),
                    "candidate": columns(one["rounds"]),
                },
            }
            for one in document["scenarios"]
            if one["name"] in beside
        },
    }


def collect(wanted: Mapping[str, int], minutes: float, budget_min: int) -> None:
    """Make what is missing, the series by turns; begin none after so many minutes."""
    deadline = time.monotonic() + 60 * minutes
    failed = Counter[str]()
    while time.monotonic() < deadline:
        left = {
            series: len(made(series, recorded(RAW)))
            for series in ALL
            if len(made(series, recorded(RAW))) < wanted.get(series.name, series.runs) and failed[series.name] < 2
        }
        if not left:
            break
        series = min(left, key=lambda one: left[one] / one.runs)
        entry = record(series, budget_min)
        failed[series.name] += "failed" in entry
        note(entry, RAW)
        print(f"{time.strftime('%T')} {series.name}: exit {entry['exit']}, {entry['took_min']:.1f} min", flush=True)
        for line in entry.get("failed", ()):
            print(f"  {line}")
        for name, found in entry.get("scenarios", {}).items():
            print(f"  {name:<12}{found['verdict']:<14}{_ratios(found)}, {found['minutes']:.1f} min", flush=True)


def _ratios(found: Mapping[str, Any]) -> str:
    told = []
    for metric, verdict, here, reference, interval, _ in found["ratios"]:
        if here is not None and reference and interval:
            low, high = (end / reference for end in interval)
            told.append(f"{metric} {here / reference:.3f} ({low:.3f} .. {high:.3f}) {verdict}")
    return "; ".join(told)


def report(entries: Sequence[Mapping[str, Any]]) -> None:
    """Print a line for each series and scenario."""
    print("| series | scenario | runs | red | green | undecided | records/s: ratios | units | minutes |")
    print(f"|{'---|' * 9}")
    for series in ALL:
        runs = made(series, entries)
        for name in dict.fromkeys(name for run in runs for name in run["scenarios"]):
            mine = [run["scenarios"][name] for run in runs if name in run["scenarios"]]
            verdicts = Counter(
                "red" if one["verdict"] in ("REGRESSED", "BROKEN")
                else "green" if one["verdict"] in ("PASS", "IMPROVED") else "undecided"
                for one in mine
            )  # fmt: skip
            rates = [
                here / reference
                for one in mine
                for metric, _, here, reference, _, _ in one["ratios"]
                if metric == "records_per_s" and here and reference
            ]
            cells = [
                *(series.name, name, str(len(mine)), *(str(verdicts[key]) for key in ("red", "green", "undecided"))),
                f"{min(rates):.3f} .. {max(rates):.3f}" if rates else "-",
                f"{min(one['units'] for one in mine)} .. {max(one['units'] for one in mine)}",
                f"{min(one['minutes'] for one in mine):.1f} .. {max(one['minutes'] for one in mine):.1f}",
            ]
            print(f"| {' | '.join(cells)} |")
        if runs:
            lasted = [run["took_min"] for run in runs]
            print(f"| {series.name} | whole runs | {len(runs)} | {sum(run['exit'] == ExitCode.RED for run in runs)} | "
                  f"{sum(run['exit'] == ExitCode.GREEN for run in runs)} | "
                  f"{sum(run['exit'] == ExitCode.UNDECIDED for run in runs)} |  |  | "
                  f"{min(lasted):.1f} .. {max(lasted):.1f} |")  # fmt: skip


def main() -> int:
    """Make what is missing, or print the tables; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", action="append", default=[], metavar="SERIES=N", help="how many runs to have")
    parser.add_argument("--minutes", type=float, default=600, help="begin no run later than this")
    parser.add_argument("--budget", type=int, default=BUDGET_MIN, metavar="MINUTES", help="of a run")
    parser.add_argument("--report", action="store_true", help="print the tables of what is recorded")
    asked = parser.parse_args()
    if asked.report:
        report(recorded(RAW))
        return 0
    wanted = {name: int(count) for name, count in (text.split("=") for text in asked.runs)}
    collect(wanted, asked.minutes, asked.budget)
    return 0


if __name__ == "__main__":
    sys.exit(main())
