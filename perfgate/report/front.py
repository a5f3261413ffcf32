"""The report's first page: is it slower, where and by how much, since when, can I trust it, what do I do next."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from perfgate.model.secret import redacted
from perfgate.model.system import CLIENT_FACTS, SYSTEM_NAMES, system_of, version_of
from perfgate.report.next_steps import next_steps
from perfgate.report.view import COLLAPSED, View

COMPARED = ("cpu_model", "cores", "kernel", "python")
"""Facts of the machine and the client that figures depend on."""


def front_html(view: View, before: Mapping[str, Any] | None) -> str:
    """Return the six answers of a run; `before`: the run.json of the run before."""
    listed, same = view.off, [line for line in view.lines if line.verdict in COLLAPSED]
    counts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(line.verdict for line in same).items())
    unchanged = _list([f"{line.verdict} {line.name}: {line.what}" for line in same])
    rows = [(line.verdict, line.name, line.what) for line in listed]
    return (
        '<meta charset="utf-8"><style>body{font:15px sans-serif;background:#fff;color:#111;margin:1em;'
        "max-width:70em}table{border-collapse:collapse}td,th{border-bottom:1px solid #ccc;padding:.3em .8em .3em 0;"
        "text-align:left;vertical-align:top;overflow-wrap:anywhere}td:first-child{white-space:nowrap}"
        "td:nth-child(2){min-width:7em}</style>"
        f"<h2>{escaped(view.headline())}</h2>"
        + "".join(f"<p><b>{escaped(line)}</b></p>" for line in (*view.often, *banners(view.document, before)))
        + "<h3>Where, and by how much</h3>"
        + (html_table(("verdict", "of", "what"), rows) or "<p>Nothing that was judged is off.</p>")
        + (f"<details><summary>Unchanged: {escaped(counts)}</summary>{unchanged}</details>" if same else "")
        + "<h3>Since when</h3>"
        + _list(
            view.drifts or ["No drift in the recorded runs of this kind. Each test's History tab has its former runs."]
        )
        + "<h3>Can I trust it</h3>"
        + _list(view.trust())
        + "<h3>What to do next</h3>"
        + _list(next_steps(view))
    )


def banners(document: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[str]:
    """Return how the machine, the client and the release differ from those of the run before."""
    if before is None:
        return []
    names = (*COMPARED, *CLIENT_FACTS[system_of(document["target"])])
    pairs = {key: (before["environment"].get(key), document["environment"].get(key)) for key in names}
    changed = [f"{key} was {old}, is {new}" for key, (old, new) in pairs.items() if old != new]
    other = f"Not the machine of run {before['run_id']}: {'; '.join(changed)}. Do not compare with figures of before."
    old, new = (version_of(run["target"]) for run in (before, document))
    system = SYSTEM_NAMES[system_of(document["target"])]
    upgraded = f"{system} was {old} in run {before['run_id']}, is {new}: what differs from its figures may be that."
    return [other] * bool(changed) + [upgraded] * (old != new)


def escaped(text: object) -> str:
    """Return any text for HTML, without secrets."""
    return html.escape(redacted(str(text)))


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of these texts; empty without rows."""
    if not rows:
        return ""
    top = "".join(f'<th align="left">{escaped(cell)}</th>' for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escaped(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _list(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escaped(line)}</li>' for line in lines)}</ul>"
