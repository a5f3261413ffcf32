"""The report's first page: is it slower, where and by how much, since when, can I trust it, what do I do next."""

from __future__ import annotations

import html
import json
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from perfgate.judge.run_end import often_undecided
from perfgate.model import Verdict
from perfgate.model.exit_code import UNFINISHED, ExitCode
from perfgate.model.judged import UNSOUND
from perfgate.model.secret import redacted
from perfgate.report.commands import baseline_command, target_of
from perfgate.report.markdown import COLLAPSED, headline, worst_first
from perfgate.report.results import note_once, recorded_runs, run_files
from perfgate.report.runs_alike import why_not_plain

SUMMARY = "1. Read this first: the run's verdict"
COMPARED = ("cpu_model", "cores", "kernel", "python", "confluent_kafka", "librdkafka")
"""What of the environment makes figures ones of another machine or client."""
NO_ANSWER = {None, Verdict.INCONCLUSIVE.value, *UNSOUND}
NO_GROUND: Mapping[int, str] = {
    **UNFINISHED,
    ExitCode.RED: "read in its log which brokers failed beside other scenarios, and repeat it",
    ExitCode.UNDECIDED: "nothing was judged, or only what an interrupted run had measured",
}
"""Why a run that ended so is none, where no verdict of it says so."""
TYPES = {".html": "text/html", ".svg": "image/svg+xml", ".csv": "text/csv", ".json": "application/json"}


def front_html(
    document: Mapping[str, Any],
    messages: Mapping[str, str],
    drifts: Sequence[str],
    before: Mapping[str, Any] | None,
    notes: Sequence[str] = (),
    advice: str = "",
) -> str:
    """Return the six answers of a run.json.

    `messages`: the message of a scenario or relation, by its name; `before`: the run.json of the run before; `notes`:
    what else to know before a verdict is believed; `advice`: what to do about the change that was compared.
    """
    rows = worst_first(document)
    listed, same = ([row for row in rows if (row.verdict in COLLAPSED) is alike] for alike in (False, True))
    sentences = {name: message.partition("\n")[0] for name, message in messages.items()}
    counts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(row.verdict for row in same).items())
    unchanged = "".join(f"<li>{_text(f'{row.verdict} {row.name}: {row.what}')}</li>" for row in same)
    return (
        '<meta charset="utf-8"><style>body{font:15px sans-serif;background:#fff;color:#111;margin:1em;'
        "max-width:70em}table{border-collapse:collapse}td,th{border-bottom:1px solid #ccc;padding:.3em .8em .3em 0;"
        "text-align:left;vertical-align:top;overflow-wrap:anywhere}td:first-child{white-space:nowrap}"
        "td:nth-child(2){min-width:7em}</style>"
        f"<h2>{_text(headline(document, listed, sentences, str))}</h2>"
        + "".join(f"<p><b>{_text(line)}</b></p>" for line in often_undecided(document.get("undecided_in_a_row", {})))
        + "".join(f"<p><b>{_text(banner)}</b></p>" for banner in banners(document, before))
        + "<h3>Where, and by how much</h3>"
        + (_table(("verdict", "of", "what"), listed) if listed else "<p>Nothing that was judged is off.</p>")
        + (f"<details><summary>Unchanged: {_text(counts)}</summary><ul>{unchanged}</ul></details>" if same else "")
        + "<h3>Since when</h3>"
        + _list(drifts or ["No drift in the recorded runs of this kind. Each test's History tab has its former runs."])
        + "<h3>Can I trust it</h3>"
        + _list([*trust(document), *notes])
        + "<h3>What to do next</h3>"
        + _list(_next(document, [row.name for row in listed], messages, advice))
    )


def banners(document: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[str]:
    """Return what differs from the run before: the machine or the client, whose figures are others; Kafka."""
    if before is None:
        return []
    pairs = {key: (before["environment"].get(key), document["environment"].get(key)) for key in COMPARED}
    changed = [f"{key} was {old}, is {new}" for key, (old, new) in pairs.items() if old != new]
    other = f"Not the machine of run {before['run_id']}: {'; '.join(changed)}. Do not compare with figures of before."
    old, new = (one["target"].get("kafka_version") for one in (before, document))
    upgraded = f"Kafka was {old} in run {before['run_id']}, is {new}: what differs from its figures may be that."
    return [other] * bool(changed) + [upgraded] * (old != new)


def trust(document: Mapping[str, Any]) -> list[str]:
    """Return what a reader has to know before they believe a verdict."""
    judged = document["comparisons"] or document["scenarios"]
    names = [entry["scenario" if document["comparisons"] else "name"] for entry in judged]
    sides = [entry[side] for entry in document["comparisons"] for side in ("baseline", "candidate")]
    entries, what = (sides, "compared") if sides else (document["scenarios"], "measured")
    unsure = [name for name, entry in zip(names, judged, strict=True) if entry["verdict"] in NO_ANSWER]
    found = [
        f"{len(judged)} scenarios {what}: {integrity_line([one['accounting'] for one in entries], entries)}.",
        f"Without an answer: {', '.join(unsure)}." if unsure else f"Every scenario that was {what} has an answer.",
        _held_against(document),
        f"{document['environment']['cores']} x {document['environment']['cpu_model']}, kernel "
        f"{document['environment']['kernel']}, Kafka {document['target']['kafka_version']}.",
    ]
    if document["modified"]:
        found.append(f"MODIFIED by {', '.join(document['modified'])}: comparable with no other run.")
    if document["replay_of"]:
        found.append(f"Judged again from the recording of run {document['replay_of']}.")
    if document["not_run"]:
        found.append(f"{len(document['not_run'])} selected and not run; run.json has each reason.")
    return found + [f"Left behind: {text}" for text in document["left_behind"]]


def _held_against(document: Mapping[str, Any]) -> str:
    if change := document["change"]:
        return f"Each scenario as declared and with '{change['name']}', in turns."
    if reference := document.get("reference"):
        return f"Held against the reference '{reference['name']}', measured in turns with it."
    note = document.get("profile_note", "")
    if document["profile"]:
        return f"Held against profile {document['profile']}{f' ({note})' if note else ''}."
    return f"No profile is held ({note or 'none fits this machine'}): relations alone."


def integrity_line(accountings: Sequence[Mapping[str, Any]], entries: Sequence[Mapping[str, Any]]) -> str:
    """Return in one line what became of the records: sent, acknowledged, not; lost and doubled where readers looked."""
    total = {key: sum(one[key] for one in accountings) for key in ("attempted", "acked", "failed", "unresolved")}
    line = "{attempted:,} records sent: {acked:,} acknowledged, {failed:,} failed, {unresolved:,} unresolved"
    readings = [entry["reading"] for entry in entries if entry["reading"]]
    # A reader that joined late has not lost what it was never to read: `missed` counts what it should have had.
    if readings:
        read = {key: sum(one.get(key, 0) for one in readings) for key in ("read", "missed", "duplicated", "reordered")}
        line += "; " + "{read:,} read: {missed:,} missed, {duplicated:,} duplicated, {reordered:,} out of order".format(
            **read
        )
    return line.format(**total)


def run_before(
    document: Mapping[str, Any], results_dir: Path, note: Callable[[str], None] = note_once
) -> Mapping[str, Any] | None:
    """Return run.json of the newest earlier run of the same target, tier and driver in this folder, or None.

    A comparison, a replay and a modified run measure something else. `note` names what cannot be read.
    """

    def kind(run: Mapping[str, Any]) -> tuple[object, ...]:
        return run["target"]["kind"], run["target"].get("name"), run["tier"]["name"], run["driver"]

    earlier = [path for path in run_files(results_dir) if path.parent.name < document["run_id"]]
    runs = recorded_runs(reversed(earlier), note)
    return next((run for run in runs if kind(run) == kind(document) and not why_not_plain(run)), None)


def write_front(folder: Path, page: str, files: Mapping[str, bytes]) -> None:
    """Put the page, and files by name, into the Allure results as attachments of the whole run.

    Allure 3 has no page of one's own: these are its tab "Global attachments", in this order.
    """
    attached = []
    for title, name, content in [(SUMMARY, "summary.html", page.encode()), *((n, n, c) for n, c in files.items())]:
        suffix = Path(name).suffix
        source = f"{uuid.uuid4()}-attachment{suffix}"
        (folder / source).write_bytes(content)
        attached.append({"name": title, "source": source, "type": TYPES.get(suffix, "text/plain")})
    (folder / f"{uuid.uuid4()}-globals.json").write_text(json.dumps({"attachments": attached, "errors": []}))


def _next(
    document: Mapping[str, Any], worst: Sequence[str], messages: Mapping[str, str], advice: str = ""
) -> list[str]:
    lines = [line.strip() for name in worst for line in messages.get(name, "").splitlines()]
    steps = [*document["left_behind"], *([advice] if advice else [])]
    steps += [line.removeprefix("next").strip() for line in lines if line.startswith("next ")]
    if document["exit_code"] != ExitCode.GREEN and not steps:
        why = document.get("cause") or NO_GROUND.get(document["exit_code"], "it ended in an error")
        steps.append(f"This run is no ground to go on: {why}.")
    missing = any(entry["verdict"] == Verdict.MISSING.value for entry in document["scenarios"])
    if missing and not document.get("profile_note"):  # else no run like this one can be recorded, or not there
        command = baseline_command(target_of(document), str(document["tier"]["name"]))
        steps.append(f"Record thresholds of this machine: {command}")
    return list(dict.fromkeys(steps))[:5] or ["Nothing: go on. Each scenario's page has the command that repeats it."]


def _text(text: str) -> str:
    return html.escape(redacted(text))


def _list(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{_text(line)}</li>' for line in lines)}</ul>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{_text(one)}</th>" for one in head)
    body = "".join("<tr>" + "".join(f"<td>{_text(one)}</td>" for one in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
