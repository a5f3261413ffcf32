"""Runs of the gate, unchanged and slowed, and what it says of them: ``python -m benchmarks.gate_quality``.

Makes runs of the gate, unchanged and slowed in known ways, and keeps them in results/gate-quality; then judges each
by its replay, against thresholds that the product's own commands make of the unchanged runs (an unchanged run's own
figures left out). The confirmation run of a red run is not in it. Started again it goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.half_speed import one_broker_at_half_speed
from perfgate.fixtures.run import pytest_command
from perfgate.report.proposal import ENOUGH_RUNS

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "results" / "gate-quality"
RAW = Path(__file__).parent / "results" / "gate_quality.jsonl"
ONE_LINK = "cross-az and not cross-az-2ms and not cross-az-10ms"


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """Runs of one kind."""

    name: str
    baseline: str
    """The series that its thresholds are made of."""
    arguments: tuple[str, ...]
    half_cpu: bool = False
    """Whether broker 1 is stopped for half of the time."""
    link_ms: int | None = None
    """What the link to the other zone adds to a round trip, instead of what is shipped."""


ALL = (
    Series(name="unchanged", baseline="unchanged", arguments=("--tier=smoke",)),
    Series(name="half-cpu", baseline="unchanged", arguments=("--tier=smoke",), half_cpu=True),
    *(
        Series(name=f"link-{ms}-ms", baseline="link-8-ms", arguments=("--tier=nightly", "-k", ONE_LINK), link_ms=ms)
        for ms in (8, 9, 10, 11)
    ),
)


def runs_of(series: Series) -> list[Path]:
    """Return the run folders of a series, the oldest first."""
    return sorted(path.parent for path in (FOLDER / series.name).glob("2*/run.json"))


def gate(*arguments: object, environment: dict[str, str] | None = None, half_cpu: bool = False) -> int:
    """Run the gate; return its exit code."""
    command = pytest_command(["-q", *map(str, arguments)])
    with (
        subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **(environment or {})}, stdout=subprocess.DEVNULL
        ) as process,
        one_broker_at_half_speed(process.pid) if half_cpu else nullcontext(),
    ):
        return process.wait()


@contextmanager
def relations_alone() -> Iterator[Path]:
    """Make a thresholds folder without a profile, for as long as the block."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(ROOT / "perfgate" / "catalogue" / "relations.toml", folder)
        yield Path(folder)


def slowed_enough(series: Series, run: Mapping[str, Any]) -> bool:
    """Tell whether the run measured the link of its series on the way to the brokers; one of no scenario did not."""
    rtts_ms = [entry["link"]["rtt_ms"] for entry in run["scenarios"]]
    return series.link_ms is None or min(rtts_ms, default=0.0) >= series.link_ms


def record(series: Series) -> None:
    """Make one run of the series."""
    environment = {}
    plugin: tuple[str, ...] = ()
    if series.link_ms is not None:
        plugin, environment = ("-p", "benchmarks.longer_link"), {"LINK_MS": str(series.link_ms)}
    began = time.monotonic()
    with relations_alone() as thresholds:
        code = gate(
            *plugin,
            *series.arguments,
            f"--results={FOLDER / series.name}",
            f"--thresholds={thresholds}",
            environment=environment,
            half_cpu=series.half_cpu,
        )
    made = runs_of(series)
    print(f"{series.name}: run {len(made)}, exit {code}, {time.monotonic() - began:.0f} s", flush=True)
    if made and not slowed_enough(series, json.loads((made[-1] / "run.json").read_text())):
        sys.exit(f"{series.name}: the link of {made[-1]} was not {series.link_ms} ms long")


def judged(run: Path, others: Sequence[Path]) -> dict[str, Any] | None:
    """Return what the gate says of a run by thresholds made of the others: exit code, verdicts by name.

    None when these make no thresholds: too few of them are sound.
    """
    with tempfile.TemporaryDirectory() as folder, relations_alone() as thresholds:
        recorded = Path(folder) / "recorded"
        recorded.mkdir()
        for other in others:
            (recorded / other.name).symlink_to(other)
        (recorded / "latest").symlink_to(others[-1])
        propose = [
            sys.executable,
            "-m",
            "perfgate",
            "thresholds",
            f"--results={recorded}",
            f"--thresholds={thresholds}",
            "--accept",
        ]
        proposed = subprocess.run(propose, cwd=ROOT, capture_output=True, text=True)
        if proposed.returncode:
            print(f"{run.name}: no thresholds from the {len(others)} other runs:\n{proposed.stdout}{proposed.stderr}")
            return None
        replayed = Path(folder) / "replayed"
        code = gate(f"--replay={run / 'run.json'}", f"--thresholds={thresholds}", f"--results={replayed}")
        (path,) = replayed.glob("2*/run.json")
        document = json.loads(path.read_text())
    return {
        "run": run.name,
        "exit": code,
        "verdicts": {
            e["name"]: e["verdict"] for e in [*document["scenarios"], *document["relations"], *document["ranges"]]
        },
        "judgements": {
            f"{e['name']} {j['metric']}": [j["verdict"], j["measured"], j["baseline"], j["limit"]]
            for e in document["scenarios"]
            for j in e["judgements"]
        },
    }


def judge(series: Series) -> None:
    """Print how the runs of a series come out, and keep a line of each."""
    baseline = runs_of(next(one for one in ALL if one.name == series.baseline))
    if len(baseline) <= ENOUGH_RUNS:
        print(f"{series.name}: not judged, {len(baseline)} runs of {series.baseline} are too few: {ENOUGH_RUNS + 1}")
        return
    maybe = [judged(run, [other for other in baseline if other != run]) for run in runs_of(series)]
    lines = [line for line in maybe if line]
    with RAW.open("a") as raw:
        raw.writelines(json.dumps({"series": series.name, "baseline": len(baseline), **line}) + "\n" for line in lines)
    exits = Counter(line["exit"] for line in lines)
    print(f"\n{series.name}: {len(lines)} runs, exit codes {dict(sorted(exits.items()))}")
    for name in lines[0]["verdicts"] if lines else ():
        found = Counter(line["verdicts"].get(name, "not run") for line in lines)
        print(f"  {name:<16}" + ", ".join(f"{count} {verdict}" for verdict, count in found.most_common()))


def main() -> int:
    """Record what is missing, by turns, then judge all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", action="append", default=[], metavar="SERIES=N", help="how many runs to have")
    parser.add_argument("--minutes", type=float, default=600, help="begin no run later than this")
    arguments = parser.parse_args()
    wanted = {name: int(count) for name, count in (text.split("=") for text in arguments.runs)}
    ends = time.monotonic() + 60 * arguments.minutes
    for turn in itertools.count(1):
        missing = [one for one in ALL if len(runs_of(one)) < min(turn, wanted.get(one.name, 0))]
        if turn > max(wanted.values(), default=0):
            break
        for series in missing:
            if time.monotonic() < ends:
                record(series)
    RAW.unlink(missing_ok=True)
    for series in ALL:
        if runs_of(series):
            judge(series)
    return 0


if __name__ == "__main__":
    sys.exit(main())
