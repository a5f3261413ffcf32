"""summary.md: a run for a pull request or a job's summary: the verdict sentence, what is off, the figures of all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from perfgate.model.command import command_line
from perfgate.model.counting import counted
from perfgate.model.judged import REPORTED
from perfgate.model.secret import redacted
from perfgate.model.system import release_of
from perfgate.report.figures import HEADS, KEPT, figure_rows
from perfgate.report.view import Line, View, by_verdict

MOST_ROWS, MOST_REASONS, MOST_NOTES = 16, 5, 2
"""With the lines around them at most forty lines."""
LONGEST_CELL, LONGEST_ADVICE = 160, 400
NO_WIDTH = "\u200b"


def summary(view: View, before: Mapping[str, Any] | None = None, *, built: bool = True) -> str:
    """Return the Markdown text of a run: at most forty lines whatever it holds, and a table that can be folded.

    `before`: the last run of this kind. `built`: whether an HTML report is built of a run that has ended. Names and
    reasons come from brokers, files and errors: whatever they hold, they make no markup and no cells.
    """
    document = view.document
    listed = list(view.lines) if document["comparisons"] else view.off
    unlisted = [line for line in view.lines if line not in listed]
    left = document["left_behind"]
    if len(left) > MOST_REASONS:
        left = [*left[: MOST_REASONS - 1], f"{len(left) - MOST_REASONS + 1} more: see run.json"]
    blocks = [
        [f"**{view.headline(cell)}**"],
        [f"**{cell('; '.join(view.often), LONGEST_ADVICE)}**"] if view.often else [],
        [cell(view.advice, LONGEST_ADVICE)] if view.advice else [],
        _table(listed, MOST_ROWS - (MOST_NOTES + 1 if view.notes else 0)),
        [f"{by_verdict(unlisted)}."] if unlisted else [],
        _figures(view, before),
        [f"- note: {cell(note)}" for note in view.notes[:MOST_NOTES]],
        _not_run(view),
        [f"MODIFIED: {cell(', '.join(document['modified']))}"] if document["modified"] else [],
        [f"- left behind: {cell(text)}" for text in left],
        [_where(document, built)],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _table(lines: Sequence[Line], most: int) -> list[str]:
    if not lines:
        return []
    rows = [f"| {line.verdict} | {cell(line.name)} | {cell(line.what)} |" for line in lines[:most]]
    more = [f"| ... | {len(lines) - most} more | see run.json |"] if len(lines) > most else []
    return ["| verdict | of | what |", "|---|---|---|", *rows, *more]


def cell(text: str, longest: int = LONGEST_CELL) -> str:
    """Return any text as a table cell without markup and secrets, cut; NO_WIDTH keeps @somebody from being notified."""
    text = redacted(text)  # before anything in it is escaped
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if len(plain) > longest:
        kept = plain[: longest - 3]
        plain = (kept if plain[longest - 3] == " " else kept.rpartition(" ")[0] or kept) + "..."
    escaped = re.sub(r"(?<![^\W_])_|_(?![^\W_])|[\\`*{}\[\]<>#|~!@&$]", lambda match: "\\" + match[0], plain)
    return re.sub("[@#]", lambda match: match[0] + NO_WIDTH, escaped)


def _figures(view: View, before: Mapping[str, Any] | None) -> list[str]:
    """Return the table of all figures, folded unless it is all that there is to read."""
    rows = figure_rows(view.document, before)
    if not rows:
        return []
    kept = any(row.kept for row in rows)
    shown = " open" if view.missing and not view.off else ""
    return [
        f"<details{shown}><summary>Figures of {counted(len(rows), 'scenario')}</summary>",
        "",
        f"| {' | '.join(HEADS)} | verdict |{f' {KEPT} |' if kept else ''}",
        f"|---|---|{'--:|' * (len(HEADS) - 2)}---|{'---|' if kept else ''}",
        *(f"| {' | '.join([*map(cell, row.cells), row.verdict, *([row.kept] if kept else [])])} |" for row in rows),
        "",
        "</details>",
    ]


def _not_run(view: View) -> list[str]:
    reasons = list(view.not_run().items())
    shown = [f"- not run: {len(names)} ({cell(', '.join(names))}): {cell(why)}" for why, names in reasons]
    more = len(reasons) - MOST_REASONS
    return shown[:MOST_REASONS] + [f"- not run for {counted(more, 'other reason')}: see run.json"] * (more > 0)


def _where(document: Mapping[str, Any], built: bool) -> str:
    target, machine = document["target"], document["environment"]
    facts = (
        f"{release_of(target)}, target {target.get('name')}, tier {document['tier'].get('name')}, "
        f"{machine.get('cores')} x {machine.get('cpu_model')}, profile {document['profile'] or 'none'}, "
        f"run {document['run_id']}, exit code {document['exit_code']}"
    )
    ended = built and document["exit_code"] in REPORTED and not document["replay_of"]
    report = (
        "report/index.html, run.json" if ended else f"run.json; {command_line('report', 'FOLDER')} makes a page of it"
    )
    source = f" Nothing was measured: figures of run {cell(document['replay_of'])}." if document["replay_of"] else ""
    return f"{cell(facts)}.{source} In the run's folder: {report}."
