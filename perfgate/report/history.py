"""The history of runs, a line each, and slow drift in it: ``kafka-perf-gate history``.

Drift is a note, never a verdict: in Apache Otava's change-point analysis 3.5 to 7 % of flat series have a false one.
"""

from __future__ import annotations

import fcntl
import json
import os
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, BinaryIO

import click

from perfgate.model import metric_info
from perfgate.model.judged import UNSOUND
from perfgate.report.results import note_once, recorded_facts
from perfgate.report.runs_alike import each_once
from perfgate.report.shape import line_of
from perfgate.report.view import NOT_DECIDED

FILE, PAGE = "history.jsonl", "history.html"
METRICS = ("records_per_s", "broker_cpu_us_per_record")
"""Searched for drift."""
SHOWN = (*METRICS, "latency_ms.p99", "knee_records_per_s", "outage_s.max")
"""Kept of each scenario that has them."""
FEWEST_RUNS = 10
"""A change point needs several runs on either side."""
FORMER_RUNS = 10
"""Former runs that are drawn with a run's own rounds."""
LEAST_MOVE = 0.03
ONE_WRITE = 1 << 20
"""Bytes up to which a line is written at once, which keeps lines whole where there are no locks."""
MAX_P_VALUE = 0.001


@dataclass(frozen=True, kw_only=True, slots=True)
class Drift:
    """A metric of a scenario that has moved: from the run of `since` on, by the share `moved` (of means)."""

    scenario: str
    metric: str
    since: str
    moved: float

    def __str__(self) -> str:
        info = metric_info(self.metric)
        word = "worse" if info and (self.moved < 0) == (info.better == "higher") else "better"
        return f"{self.scenario} {self.metric} {self.moved * 100:+.1f} % since {self.since} ({word})"


def entry_of(document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "run_id": document["run_id"],
        "resumed_from": document.get("resumed_from"),
        "started": document["started"],
        "tier": document["tier"]["name"],
        "driver": document["driver"],
        "modified": document["modified"],
        "reference": document["reference"]["name"] if document.get("reference") else None,
        "profile": document["profile"],
        "facts": recorded_facts(document),
        "commit": document["environment"]["commit"],
        "exit_code": document["exit_code"],
        "rows": {
            entry["name"]: {
                "verdict": entry["verdict"],
                "family": entry["family"],
                "limits": {j["metric"]: j["limit"] for j in entry["judgements"] if j["limit"] is not None},
                **{name: entry["metrics"][name]["value"] for name in SHOWN if name in entry["metrics"]},
            }
            for entry in document["scenarios"]
        },
        "relations": {e["name"]: e["verdict"] for e in (*document["relations"], *document.get("ranges", ()))},
    }


@contextmanager
def locked(path: Path) -> Iterator[BinaryIO]:
    """Open a history to read and append while no other process does; one that was replaced meanwhile anew."""
    for left in reversed(range(10)):  # some file systems number a file anew each time
        with path.open("ab+", buffering=ONE_WRITE) as lines:
            with suppress(OSError):  # the file system has no locks
                fcntl.flock(lines, fcntl.LOCK_EX)
            if not left or (path.exists() and os.path.samestat(os.fstat(lines.fileno()), path.stat())):
                lines.seek(0)
                yield lines
                return


def append(path: Path, document: Mapping[str, Any]) -> None:
    """Add a run to the history, a line, so that those of runs that share the file do not mix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(entry_of(document), allow_nan=False) + "\n"
    with locked(path) as lines:
        cut_off = lines.read()[-1:] not in (b"\n", b"")
        lines.write(("\n" * cut_off + line).encode())


def load(path: Path, note: Callable[[str], None] = note_once) -> list[dict[str, Any]]:
    """Return the runs in the history, oldest first, without those that another run continued.

    A line that cannot be read (a write cut short, a damaged byte) is left out; `note` names the first.
    """
    entries, flaws = [], []
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else [], 1):
        try:
            entries.append(line_of(line.decode(), SHOWN))
        except ValueError as error:
            flaws.append((number, error))
    if flaws:
        number, flaw = flaws[0]
        more = f", and {len(flaws) - 1} more lines of it" if len(flaws) > 1 else ""
        note(f"skipped {path}, line {number}: {flaw}{more}")
    return sorted(each_once(entries), key=lambda entry: str(entry["started"]))


def drifts(entries: Sequence[Mapping[str, Any]], like: Mapping[str, Any]) -> list[Drift]:
    """Return the latest change point of every scenario's metrics, over unmodified runs of the same kind as `like`."""
    alike, moved = _unmodified(entries, like), []
    for scenario in sorted({name for entry in alike for name in entry["rows"]}):
        records = [(str(entry["started"]), entry["rows"].get(scenario, {})) for entry in alike]
        for metric in METRICS:
            series = [(day, float(kept[metric])) for day, kept in records if metric in kept and is_sound(kept)]
            moved += [drift for _, drift in changes_of(scenario, metric, series)[-1:]]
    return moved


def _unmodified(entries: Sequence[Mapping[str, Any]], like: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    kind = kind_of(like)
    return [entry for entry in entries if not entry["modified"] and kind_of(entry) == kind]


def kind_of(entry: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the facts that comparable runs share, without `brokers`, which lines of before 2026-11-27 lack."""
    facts = {key: value for key, value in entry["facts"].items() if key != "brokers"}
    return (facts, *(entry.get(key) for key in ("tier", "driver", "reference")))


def former_values(
    entries: Sequence[Mapping[str, Any]], like: Mapping[str, Any], before: str, latest: int = FORMER_RUNS
) -> dict[str, dict[str, list[float]]]:
    """Return values of the `latest` unmodified runs (0: all) like `like` before this id, by scenario and metric."""
    alike = [entry for entry in _unmodified(entries, like) if str(entry["run_id"]) < before]
    by_scenario: dict[str, dict[str, list[float]]] = {}
    for entry in alike[-latest:]:
        for name, kept in entry["rows"].items():
            for metric in SHOWN:
                if metric in kept and is_sound(kept):
                    by_scenario.setdefault(name, {}).setdefault(metric, []).append(float(kept[metric]))
    return by_scenario


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdicts:
    """A former run, with the verdict of each scenario and relation that was judged."""

    run_id: str
    commit: str
    of: Mapping[str, str]


def verdicts_before(entries: Sequence[Mapping[str, Any]], like: Mapping[str, Any], before: str) -> list[Verdicts]:
    """Return the runs of the same kind, modified alike, that began before the run `before`, oldest first."""
    former = []
    for entry in entries:
        if kind_of(entry) == kind_of(like) and entry["modified"] == like["modified"] and str(entry["run_id"]) < before:
            judged = {name: kept["verdict"] for name, kept in entry["rows"].items()} | entry.get("relations", {})
            of = {name: verdict for name, verdict in judged.items() if verdict}
            former.append(Verdicts(run_id=str(entry["run_id"]), commit=str(entry["commit"]), of=of))
    return former


def undecided_before(former: Sequence[Verdicts]) -> dict[str, int]:
    """Return in how many of the latest runs in a row, of those with a verdict of it, each was undecided."""
    in_a_row = {}
    for name in {name for run in former for name in run.of}:
        verdicts = [run.of[name] for run in reversed(former) if name in run.of]
        in_a_row[name] = next((i for i, verdict in enumerate(verdicts) if verdict not in NOT_DECIDED), len(verdicts))
    return {name: runs for name, runs in in_a_row.items() if runs}


def since(former: Sequence[Verdicts], document: Mapping[str, Any]) -> dict[str, str]:
    """Return in words since when each scenario and relation of a run.json has its verdict, of those known before."""
    judged = (*document["scenarios"], *document["relations"], *document.get("ranges", ()))
    texts = {entry["name"]: _since(former, entry["name"], entry["verdict"]) for entry in judged if entry["verdict"]}
    return {name: words for name, words in texts.items() if words}


def _since(former: Sequence[Verdicts], name: str, verdict: str) -> str:
    having = [run for run in former if name in run.of]
    if not having:
        return ""
    other = next((i for i, run in enumerate(reversed(having)) if run.of[name] != verdict), len(having))
    if not other:
        last = having[-1]
        return f"New in this run: it was {last.of[name]} in run {last.run_id} (commit {last.commit})."
    first = having[-other]
    words = f"{verdict} in {other + 1} runs in a row, since run {first.run_id} (commit {first.commit})"
    if other == len(having):
        return f"{words}, the first that is known."
    before = having[-other - 1]
    return f"{words}; it was {before.of[name]} in run {before.run_id} (commit {before.commit})."


def is_sound(entry: Mapping[str, Any]) -> bool:
    return entry["verdict"] not in UNSOUND


def changes_of(scenario: str, metric: str, series: Sequence[tuple[str, float]]) -> list[tuple[int, Drift]]:
    """Return the change points of at least LEAST_MOVE, each with its index in `series` (day and value of each run)."""
    if len(series) < FEWEST_RUNS:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library's own deprecations
        try:
            from otava.analysis import compute_change_points  # takes a second to import, and few runs have a history
        except ImportError:  # the requirements of a package cannot ask for it, which pins an old numpy
            note_once("drift is not looked for here: it needs pip install --no-deps apache-otava")
            return []
        values = [value for _, value in series]  # a list: the library compares it with ==
        points, _ = compute_change_points(values, window_len=30, max_pvalue=MAX_P_VALUE, min_magnitude=0.0)
    edges = [0, *sorted(int(point.index) for point in points), len(values)]
    moves = []
    for start, change, end in zip(edges, edges[1:], edges[2:], strict=False):
        before = statistics.mean(values[start:change])
        if not before:
            continue  # no share of 0
        moved = statistics.mean(values[change:end]) / before - 1
        if abs(moved) >= LEAST_MOVE:  # the analysis also finds significant changes that are too small to matter
            moves.append((change, Drift(scenario=scenario, metric=metric, since=series[change][0][:10], moved=moved)))
    return moves


def prune(path: Path, before: date) -> int:
    """Remove the runs that started before this day; return how many. Lines that cannot be read stay."""
    with locked(path) as history:
        lines = history.read().splitlines(keepends=True)
        kept = [line for line in lines if not _started_before(line, before)]
        part = path.with_suffix(".part")
        part.write_bytes(b"".join(kept))
        part.replace(path)
    return len(lines) - len(kept)


def _started_before(line: bytes, day: date) -> bool:
    try:
        return datetime.fromisoformat(json.loads(line)["started"]).date() < day
    except (ValueError, TypeError, KeyError):
        return False


@click.command(epilog="Example: kafka-perf-gate history --prune-before 2026-01-31")
@click.option(
    "--history",
    type=click.Path(path_type=Path),
    metavar="FILE",
    default=f"results/{FILE}",
    show_default=True,
    help="The runs, a line each.",
)
@click.option("--prune-before", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="Remove older runs first.")
def command(history: Path, prune_before: datetime | None) -> int:
    """Show the runs so far and what has drifted; draw them.

    The picture is history.html beside the file.
    """
    if not history.exists():
        print(f"{history} does not exist; each run of the gate adds to it", file=sys.stderr)
        return 2
    try:
        if prune_before:
            print(f"{prune(history, prune_before.date())} run(s) removed")
        _show(load(history), history.with_name(PAGE))
    except OSError as error:
        print(f"no history: {error}", file=sys.stderr)
        return 2
    return 0


def _show(entries: Sequence[Mapping[str, Any]], drawn: Path) -> None:
    for entry in entries[-20:]:
        verdicts = ", ".join(f"{name} {kept['verdict']}" for name, kept in entry["rows"].items())
        print(f"{entry['started']}  {entry['run_id']}  {entry['tier']}  exit {entry['exit_code']}  {verdicts}")
    print(f"{len(entries)} run(s)")
    from perfgate.report.history_page import page  # which imports this module

    drawn.write_text(page(entries), encoding="utf-8", errors="replace")
    print(f"over time: {drawn}")
    for drift in drifts(entries, entries[-1]) if entries else []:
        print(f"drift: {drift}")
