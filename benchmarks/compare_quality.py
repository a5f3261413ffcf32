"""Live comparisons of broker changes whose effect is known, for their error rates.

``python -m benchmarks.compare_quality`` makes what is missing of each line of benchmarks/compare_lines.py through the
product's own command, one comparison after another, and appends what each found to
benchmarks/results/compare_quality.jsonl at once; started again it goes on where it was stopped. ``--sizes`` measures
the true effects apart, by whole rounds on one cluster. ``--report`` prints the tables (benchmarks/compare_figures.py).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.compare_figures import print_tables
from benchmarks.compare_lines import LINES, RAW, ROOT, SHORT, Line, chosen, comparison_facts, note, recorded
from benchmarks.warm_cluster import BY_NAME, warm_cluster
from perfgate.model import Settings, Tier, with_changes
from perfgate.model.errors import ConfigurationError
from perfgate.report.recorded_pairs import pairs_of, with_pairs
from perfgate.report.results import load_run, recorded_facts, recorded_runs, run_files

FOLDER = ROOT / "results" / "compare-quality"
PAIRS_OF = {
    "batch-1k": ("fresh-same", "batch-1k"),
    "acks-all": ("fresh-same-acks-all", "acks-all"),
    SHORT: ("fresh-same-2ms", "cross-az-2ms"),
}
"""The line whose runs record A/A pairs, and the name under which they do, by scenario."""
TOLD = (0, 1, 6)
"""Exit codes of comparisons that came to their end: none slower, one slower or broken, one undecided or invalid."""
FAILURES = 2
"""So many runs in succession that come to nothing end a line."""
LAST_LINES = 15
SIZE_TIER = Tier(name="size", rounds=2, window_s=6, warmup_max_s=2, broker_warmup_s=90)
SIZE_ROUNDS = 12


def missing(line: Line, entries: Sequence[Mapping[str, Any]]) -> int:
    """Return how many comparisons of the line are still to be made."""
    return max(0, line.runs - sum(line.is_of(entry) and "failed" not in entry for entry in entries))


def compare(line: Line, folder: Path, thresholds: Path | None) -> dict[str, Any]:
    """Make one comparison as a user does, in its `folder`; return its entry.

    One that came to nothing has what was printed last as "failed".
    """
    folder.mkdir(parents=True, exist_ok=True)
    change = folder / "change.toml"
    change.write_text(line.change, encoding="utf-8")
    before, began, load = _runs(folder), time.monotonic(), os.getloadavg()[0]
    command = [
        *(
            sys.executable,
            "-m",
            "perfgate",
            "gate",
            "--target=embedded",
            f"--tier={line.tier}",
            f"--compare={change}",
        ),
        *("-k", line.scenario, f"--budget={line.minutes:g}m", f"--results={folder}", *line.options),
        *((f"--thresholds={thresholds}",) if thresholds else ()),
    ]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    entry: dict[str, Any] = {
        "line": line.name,
        "change": line.stated,
        "scenario": line.scenario,
        "budget_min": line.minutes,
        "exit": done.returncode,
        "took_min": round((time.monotonic() - began) / 60, 2),
        "load_before": round(load, 2),
    }
    made = sorted(_runs(folder) - before)
    document = load_run(made[-1]) if made and done.returncode in TOLD else None
    if document is None or len(document["comparisons"]) != 1:
        return {**entry, "failed": done.stdout.splitlines()[-LAST_LINES:]}
    return {**entry, **comparison_facts(document)}


def _runs(folder: Path) -> set[Path]:
    return set(folder.glob("2*/run.json"))


def with_recorded_pairs(scenario: str, work: Path) -> Path | None:
    """Make a thresholds folder in `work` that has the scenario's recorded A/A pairs; None where there are none.

    Those of runs that stated by --set what it declares are its own.
    """
    line, measured = PAIRS_OF[scenario]
    runs = list(recorded_runs(run_files(FOLDER / line)))
    if not (pairs := pairs_of(runs).get(measured)):
        return None
    thresholds = work / "thresholds"
    shutil.rmtree(thresholds, ignore_errors=True)
    thresholds.mkdir(parents=True)
    shutil.copy(ROOT / "perfgate" / "catalogue" / "relations.toml", thresholds)
    text = with_pairs("", recorded_facts(runs[-1]), {scenario: pairs}, [run["run_id"] for run in runs])
    (thresholds / "recorded.toml").write_text(text, encoding="utf-8")
    return thresholds


def collect(lines: Sequence[Line], minutes: float, raw: Path) -> int:
    """Make what is missing, a line after the other; begin none after so many minutes. Return 1 if a line failed."""
    deadline, failed = time.monotonic() + 60 * minutes, False
    with tempfile.TemporaryDirectory(prefix="compare-quality-") as work:
        for line in lines:
            failures = 0
            while (left := missing(line, recorded(raw))) and failures < FAILURES and time.monotonic() < deadline:
                thresholds = with_recorded_pairs(line.scenario, Path(work)) if line.beside_recorded else None
                entry = compare(line, FOLDER / line.name, thresholds)
                note(entry, raw)
                failures = failures + 1 if "failed" in entry else 0
                print(f"{time.strftime('%T')} {line.name}, {left} missing: {_told(entry)}", flush=True)
            failed |= failures == FAILURES
    return int(failed)


def _told(entry: Mapping[str, Any]) -> str:
    if "failed" in entry:
        return f"exit {entry['exit']}\n  " + "\n  ".join(entry["failed"])
    found = ""
    if entry["interval"]:
        low, high = (100 * end for end in entry["interval"])
        found = f"{100 * entry['estimate']:+.1f} % {entry['metric']} ({low:+.1f} .. {high:+.1f} %), "
    return (
        f"{entry['verdict']} {found}{entry['units']} of {entry['planned_units']} units, "
        f"{entry['minutes']:.1f} min of {entry['took_min']:.1f} {'; '.join(entry['reasons'])}"
    )


def measure_sizes(lines: Sequence[Line], rounds: int, raw: Path) -> None:
    """Measure by whole rounds what each line's settings of the brokers do, in turn on one warm cluster."""
    for row in dict.fromkeys((line.scenario, line.both) for line in lines):
        forms: list[Settings] = [(), *(_settings(line) for line in lines if (line.scenario, line.both) == row)]
        _size_rounds(*row, list(dict.fromkeys(forms)), rounds, lambda entry: note(entry, raw))


def _settings(line: Line) -> Settings:
    return tuple(sorted((name, str(value)) for name, value in line.stated.get("broker", {}).items()))


def _size_rounds(
    scenario: str,
    both: Sequence[tuple[str, str]],
    forms: Sequence[Settings],
    rounds: int,
    keep: Callable[[dict[str, Any]], None],
) -> None:
    row = with_changes(BY_NAME[scenario], both)
    with warm_cluster(row, SIZE_TIER) as warm:
        for index in range(1, rounds + 1):
            # Forwards and backwards in turn, so that no form always follows the same one.
            for form in forms if index % 2 else forms[::-1]:
                live = warm.cluster.live_settings()
                if form:
                    live.change(form)
                found = warm.bench.round(row, index, None, "true size").round
                if form:
                    live.restore()
                told = {name: found.metrics.get(name) for name in ("records_per_s", "broker_cpu_us_per_record")}
                run = warm.setup.run_id
                keep({"kind": "size", "run": run, "scenario": scenario, "settings": dict(form), "round": index}
                     | told | {"invalid": list(found.invalid)})  # fmt: skip
                print(f"{scenario} {dict(form)} round {index}: {told}", flush=True)


def _pairs_of(texts: Sequence[str]) -> dict[str, str]:
    return {name: value for name, _, value in (text.partition("=") for text in texts)}


def main() -> int:
    """Make what is missing, measure true sizes, or print the tables; return the exit code."""
    parser = argparse.ArgumentParser(
        description=f"{(__doc__ or '').partition(chr(10))[0]} Lines: {', '.join(line.name for line in LINES)}"
    )
    parser.add_argument("--lines", default="", metavar="NAME[,NAME]", help="these lines (default: all, in this order)")
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no comparison later than this")
    parser.add_argument("--runs", action="append", default=[], metavar="NAME=N", help="how many comparisons to have")
    parser.add_argument("--budget", action="append", default=[], metavar="NAME=MIN", help="minutes of each comparison")
    parser.add_argument(
        "--setting",
        action="append",
        default=[],
        metavar="NAME=SETTING=VALUE",
        help="another setting of the brokers as the line's change, as in dynamic-10=compression.type=gzip",
    )
    parser.add_argument("--raw", type=Path, default=RAW, help=f"what is appended to (default: {RAW.relative_to(ROOT)})")
    sized = ", ".join(line.name for line in LINES if line.sized)
    parser.add_argument("--sizes", action="store_true", help=f"measure the true effect of {sized}")
    parser.add_argument("--size-rounds", type=int, default=SIZE_ROUNDS, help="rounds of each form (default: 12)")
    parser.add_argument("--list", action="store_true", help="say what is missing, and how long it may take")
    parser.add_argument("--report", action="store_true", help="print the tables of what is recorded")
    asked = parser.parse_args()
    names = [name for name in asked.lines.split(",") if name]
    try:
        lines = chosen(names, _pairs_of(asked.budget), _pairs_of(asked.runs), _pairs_of(asked.setting))
    except ConfigurationError as error:
        parser.error(str(error))
    if asked.report:
        print_tables(lines, recorded(asked.raw))
        return 0
    if asked.list:
        for line in lines:
            left = missing(line, recorded(asked.raw))
            print(
                f"{line.name:<26}{left} of {line.runs} missing, up to {left * line.minutes:.0f} min and their warm-ups"
            )
        return 0
    if asked.sizes:
        measure_sizes([line for line in lines if line.sized], asked.size_rounds, asked.raw)
        return 0
    return collect(lines, asked.minutes, asked.raw)


if __name__ == "__main__":
    sys.exit(main())
