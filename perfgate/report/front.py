"""The report's first page: is it slower, where and by how much, since when, can I trust it, what do I do next."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from perfgate.model import Effect, Verdict, metric_info
from perfgate.model.counting import counted
from perfgate.model.judged import ExitCode, place
from perfgate.model.secret import redacted
from perfgate.model.system import CLIENT_FACTS, SYSTEM_NAMES, system_of, version_of
from perfgate.report.figures import HEADS, KEPT, FigureRow, figure_rows, with_unit
from perfgate.report.next_steps import next_steps
from perfgate.report.small_charts import rounds_chart, sparkline
from perfgate.report.view import COLLAPSED, WORDS, Line, View, by_verdict, word_of

COMPARED = ("cpu_model", "cores", "kernel", "python")
"""Facts of the machine and the client that figures depend on."""
TEMPLATES = Path(__file__).parent / "templates"
RED = {result.value for result in (*Verdict, *Effect) if result.red}
GREEN = {result.value for result in (*Verdict, *Effect) if result.green}
OF_FIGURES = "metrics.csv"
"""A run that compares a change does not write it: what a change does is no figure of a scenario over time."""
FILES = (("summary.md", "summary"), (OF_FIGURES, "figures (CSV)"), ("run.json", "all figures (JSON)"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """Of former runs alike, by scenario or relation: `values` by metric, oldest first; words `since` when it is so."""

    values: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    since: Mapping[str, str] = field(default_factory=dict)


def front_html(view: View, before: Mapping[str, Any] | None, past: Past | None = None) -> str:
    """Return the six answers of a run; their links, ``allure.html#of=<name>``, the builder of the report resolves."""
    document, past = view.document, past or Past()
    word = word_of(document)
    same = [line for line in view.lines if line.verdict in COLLAPSED]
    rows = figure_rows(document, before)
    sparks = [_spark(row, past) for row in rows]
    return _template().render(
        title=f"{SYSTEM_NAMES[system_of(document['target'])]} performance gate {document['run_id']}",
        word=word,
        started=document["started"],
        exit_code=document["exit_code"],
        tone=tone,
        tone_of_run="red" if word == "RED" else "green" if word == WORDS[ExitCode.GREEN] else "open",
        headline=view.headline(),
        bold=(*view.often, *banners(document, before)),
        files=[file for file in FILES if file[0] != OF_FIGURES or not document["change"]],
        nothing_off=_nothing_off(view),
        cards=[_card(line, document, past) for line in view.off],
        heads=HEADS,
        kept=KEPT if any(row.kept for row in rows) else "",
        rows=list(zip(rows, sparks, strict=True)),
        with_sparks=any(sparks),
        same=same,
        unchanged=by_verdict(same),
        drifts=view.drifts
        or ["No drift in the recorded runs of this kind. The History tab of each test has its former runs."],
        trust=view.trust(),
        steps=next_steps(view),
    )


def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else redacted(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("answers.html")


def style() -> str:
    return (TEMPLATES / "style.css").read_text(encoding="utf-8")


def tone(verdict: str) -> str:
    return "red" if verdict in RED else "green" if verdict in GREEN else "open"


def _nothing_off(view: View) -> str:
    """Return the sentence of a run without a card: all is within its limits, or what had none."""
    without = sum(line.verdict == Verdict.MISSING.value for line in view.lines)
    lack = f"{counted(without, 'scenario')} {'has' if without == 1 else 'have'} no limits to be judged by"
    if without == len(view.lines):
        return f"Nothing was judged: {lack}." if without else "Nothing was judged."
    return f"All that was judged is within its limits{f'; {lack}' if without else ''}."


def _card(line: Line, document: Mapping[str, Any], past: Past) -> dict[str, Any]:
    _, _, details = (line.message or "").partition("\n")
    entry = next((entry for entry in document["scenarios"] if entry["name"] == line.name), None)
    held, chart = _held(entry) if entry else ([], Markup(""))
    return {
        "verdict": line.verdict,
        "name": line.name,
        "sentence": line.sentence.removeprefix(f"{line.verdict} {line.name}").lstrip(": "),
        "held": held,
        "chart": chart,
        "since": past.since.get(line.name, ""),
        "details": dedent(details).strip(),
    }


def _held(entry: Mapping[str, Any]) -> tuple[list[tuple[str, str]], Markup]:
    """Return the worst judged metric of a scenario as names and texts, and its rounds as a picture."""
    judged = sorted(entry["judgements"], key=lambda judgement: place(judgement["verdict"]))
    worst = next((judgement for judgement in judged if judgement["metric"] in entry["metrics"]), None)
    if worst is None:
        return [], Markup("")
    metric, baseline, limit = worst["metric"], worst["baseline"], worst["limit"]
    info, figure = metric_info(metric), entry["metrics"][metric]
    figures = (("measured", figure["value"]), ("expected", baseline), ("limit", limit))
    texts = [(what, with_unit(value, metric)) for what, value in figures if value is not None]
    chart = rounds_chart(figure["rounds"], info.unit if info else "", baseline, limit)
    return [("metric", metric), *texts], chart


def _spark(row: FigureRow, past: Past) -> Markup:
    entry, metric = row.entry, row.metric
    if metric not in entry["metrics"]:
        return Markup("")
    former = past.values.get(entry["name"], {}).get(metric, ())
    limit = next((j["limit"] for j in entry["judgements"] if j["metric"] == metric), None)
    return sparkline([*former, entry["metrics"][metric]["value"]], limit)


def banners(document: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[str]:
    """Return the differences of machine, client and release from the run before, a sentence each."""
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
    return html.escape(redacted(str(text)))


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    top = "".join(f'<th align="left">{escaped(cell)}</th>' for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escaped(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
