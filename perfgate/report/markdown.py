"""summary.md: a run for a pull request or a job's summary: the verdict sentence, and a table with the worst first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from perfgate.judge.phrases import number, percent
from perfgate.judge.run_end import often_undecided
from perfgate.model import Effect, Verdict, metric_info
from perfgate.model.exit_code import REPORTED, ExitCode
from perfgate.model.judged import SEVERITY
from perfgate.model.secret import redacted

MOST_ROWS, MOST_REASONS, MOST_NOTES = 16, 5, 2
"""With the lines around them at most forty lines."""
LONGEST_CELL, LONGEST_ADVICE = 160, 400
NO_WIDTH = "\u200b"
WORDS: Mapping[int, str] = {
    ExitCode.GREEN: "GREEN",
    ExitCode.ENDED_EARLY: "INTERRUPTED",
    ExitCode.NOT_RECORDED: "NO VERDICT",
    ExitCode.UNDECIDED: "UNDECIDED",
    ExitCode.LEFT_BEHIND: "NOT ALL PUT BACK",
    ExitCode.UNHEALTHY: "TARGET UNHEALTHY",
    ExitCode.ERROR: "ERROR",
}
"""By the run's exit code; RED with any other."""
UNTOLD = "GREEN WITHOUT THRESHOLDS"
"""Instead of GREEN where a scenario has none, and was not held against a reference either."""
PASSED_UNDECIDED = "UNDECIDED, AND LET PASS"
"""Instead of GREEN where --undecided=pass made it so."""
NOT_DECIDED = {Verdict.INCONCLUSIVE.value, Verdict.INVALID.value}
RANK = {found: place for place, found in enumerate(SEVERITY)}
COLLAPSED = {found.value for found in (Verdict.MISSING, Verdict.PASS, Effect.SAME)}
"""What is counted, not listed."""


class Row(NamedTuple):
    verdict: str
    name: str
    what: str


def summary(
    document: Mapping[str, Any], sentences: Mapping[str, str], notes: Sequence[str] = (), advice: str = ""
) -> str:
    """Return the Markdown text for a run.json, at most forty lines whatever the run holds.

    `sentences`: what the message of a scenario or relation begins with, by its name; the worst one's is the headline.
    `notes`: what is no verdict; the first ones are shown, in place of rows. `advice`: what to do about the change that
    was compared; each scenario of a comparison is listed, with its interval.
    Names and reasons come from brokers, files and errors: whatever they hold, they make no markup and no cells.
    """
    rows = worst_first(document)
    off = [row for row in rows if row.verdict not in COLLAPSED]
    lines = [f"**{headline(document, off, sentences)}**", ""]
    if often := often_undecided(document.get("undecided_in_a_row", {})):
        lines += [f"**{cell('; '.join(often), LONGEST_ADVICE)}**", ""]
    lines += [cell(advice, LONGEST_ADVICE), ""] if advice else []
    listed = rows if document["comparisons"] else off
    if listed:
        most = MOST_ROWS - (MOST_NOTES + 1 if notes else 0)
        lines += ["| verdict | of | what |", "|---|---|---|"]
        lines += [f"| {row.verdict} | {cell(row.name)} | {cell(row.what)} |" for row in listed[:most]]
        lines += [f"| ... | {len(listed) - most} more | see run.json |"] * (len(listed) > most)
        lines.append("")
    counts = Counter(row.verdict for row in rows if row not in listed)
    if counts:
        lines += [", ".join(f"{count} {verdict}" for verdict, count in counts.items()) + ".", ""]
    lines += [f"- note: {cell(note)}" for note in notes[:MOST_NOTES]]
    lines += [""] if notes else []
    lines += _not_run(document["not_run"])
    lines += [f"MODIFIED: {cell(', '.join(document['modified']))}", ""] if document["modified"] else []
    lines += [f"- left behind: {cell(text)}" for text in document["left_behind"][:MOST_REASONS]]
    lines += [""] if document["left_behind"] else []
    lines.append(_where(document))
    return "\n".join(lines) + "\n"


def worst_first(document: Mapping[str, Any]) -> list[Row]:
    """Return a row for everything that was judged, the worst first."""
    return sorted(_rows(document), key=lambda row: RANK.get(row.verdict, RANK[Verdict.INCONCLUSIVE.value]))


def cell(text: str, longest: int = LONGEST_CELL) -> str:
    """Return any text as one table cell without markup and secrets, cut to so many characters.

    A space of no width keeps a hosting site from notifying @somebody, and from linking #1.
    """
    text = redacted(text)  # before anything in it is escaped
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    plain = plain if len(plain) <= longest else plain[: longest - 3] + "..."
    escaped = re.sub(r"(?<![^\W_])_|_(?![^\W_])|[\\`*{}\[\]<>#|~!@&$]", lambda found: "\\" + found[0], plain)
    return re.sub("[@#]", lambda found: found[0] + NO_WIDTH, escaped)


def headline(
    document: Mapping[str, Any],
    listed: Sequence[Row],
    sentences: Mapping[str, str],
    shown: Callable[[str], str] = cell,
) -> str:
    """Return the run's verdict and what is worst, in one sentence; `shown` makes any text fit for where it stands."""
    code, words, cause = document["exit_code"], word_of(document), document.get("cause", "")
    words += f": {shown(cause)}" if cause else ""
    if cause and not listed:
        return words
    if not listed:
        words += f": change '{shown(str(document['change']['name']))}'" if document["change"] else ""
        return f"{words}: all that was judged holds" if code == 0 else f"{words} (exit code {code})"
    first = listed[0]
    more = f", and {len(listed) - 1} more below" if len(listed) > 1 else ""
    sentence = shown(sentences.get(first.name, f"{first.verdict} {first.name}: {first.what}"))
    return f"{words}{';' if cause else ':'} {sentence}{more}"


def word_of(document: Mapping[str, Any]) -> str:
    """Return the words for a run's exit code, and for what it was held against."""
    missing = any(entry["verdict"] == Verdict.MISSING.value for entry in document["scenarios"])
    judged = (document[key] for key in ("scenarios", "relations", "ranges", "comparisons") if key in document)
    undecided = any(entry["verdict"] in NOT_DECIDED for entries in judged for entry in entries)
    return word(document["exit_code"], untold=missing and not document.get("reference"), undecided=undecided)


def word(exit_code: int, *, untold: bool, undecided: bool) -> str:
    """Return the same; `untold`: a scenario had nothing to be held against; `undecided`: one is."""
    if exit_code == ExitCode.GREEN and undecided:
        return PASSED_UNDECIDED
    return UNTOLD if exit_code == ExitCode.GREEN and untold else WORDS.get(exit_code, "RED")


def _rows(document: Mapping[str, Any]) -> Iterator[Row]:
    for entry in document["scenarios"]:
        if entry["verdict"] is None:
            yield Row("not judged", entry["name"], "the run ended before it was judged")
        else:
            yield Row(entry["verdict"], entry["name"], _of_scenario(entry))
    for entry in document.get("baselines", ()):
        for reason in [flaw["text"] for one in entry["rounds"] for flaw in one["flaws"] if flaw["broken"]][:1]:
            yield Row(Verdict.BROKEN.value, f"{entry['name']} beside {entry['beside']}", reason)
    for entry in document["relations"]:
        bounds = f"must be {entry['at_least']:g} .. {entry['at_most'] or 0:g}"
        ratio = "-" if entry["ratio"] is None else f"{entry['ratio']:.3g}"
        what = f"{entry['metric']} {entry['of']} / {entry['over']} is {ratio}, {bounds}"
        yield Row(entry["verdict"], entry["name"], what)
    for entry in document.get("ranges", ()):
        yield Row(entry["verdict"], entry["name"], "; ".join(entry["reasons"]) or entry["claim"])
    for entry in document["comparisons"]:
        yield Row(entry["verdict"], entry["scenario"], _of_comparison(entry))


def _of_scenario(entry: Mapping[str, Any]) -> str:
    """Return the worst metric with what it is held against, or the first reason where no metric was judged."""
    ranked = sorted(entry["judgements"], key=lambda judgement: RANK.get(judgement["verdict"], 0))
    for judgement in ranked:
        if judgement["measured"] is None:
            continue
        info = metric_info(judgement["metric"])
        what = f"{judgement['metric']} {number(judgement['measured'])} {info.unit if info else ''}".strip()
        if judgement["baseline"]:
            off = judgement["measured"] / judgement["baseline"] - 1
            held = judgement.get("against", "its baseline").replace("its", "the")
            what += f", {'+' if off > 0 else ''}{percent(off)} from {held} of {number(judgement['baseline'])}"
        if judgement["limit"] is not None:
            what += f", limit {number(judgement['limit'])}"
        what += f"; {judgement['reason']}" if judgement["reason"] else ""
        return what + _fault_figures(entry["metrics"])
    return str(entry["reasons"][0] if entry["reasons"] else entry["summary"])


def _fault_figures(metrics: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the outage, the time to catch up and the records lost, of a scenario with a fault; empty of another."""
    if not {"outage_s.max", "lost_records"} <= metrics.keys():
        return ""
    caught_up = f", caught up in {metrics['catch_up_s']['value']:.1f} s" if "catch_up_s" in metrics else ""
    lost = sum(metrics["lost_records"]["rounds"])
    return f"; outage {metrics['outage_s.max']['value']:.1f} s{caught_up}, {lost:,.0f} lost"


def _of_comparison(entry: Mapping[str, Any]) -> str:
    if entry["estimate"] is None:
        return str(entry["reasons"][0]) if entry["reasons"] else "nothing was compared"
    low, high = entry["interval"]
    why = f"; {entry['reasons'][0]}" if entry["reasons"] else ""
    rests = f", {entry['units']} units, {entry['minutes']:.1f} min" if "units" in entry else ""
    return f"{entry['metric']} {entry['estimate'] * 100:+.1f} % ({low * 100:+.1f} .. {high * 100:+.1f} %){rests}{why}"


def _not_run(absent: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a line for each reason, the most frequent ones."""
    reasons: dict[str, list[str]] = {}
    for one in absent:
        reasons.setdefault(one["reason"], []).append(one["name"])
    found = sorted(reasons.items(), key=lambda item: -len(item[1]))
    lines = [f"- not run: {len(names)} ({cell(', '.join(names))}): {cell(why)}" for why, names in found[:MOST_REASONS]]
    lines += [f"- not run for {len(found) - MOST_REASONS} other reasons: see run.json"] * (len(found) > MOST_REASONS)
    return [*lines, ""] if lines else []


def _where(document: Mapping[str, Any]) -> str:
    target, machine = document["target"], document["environment"]
    facts = [
        f"Kafka {target.get('kafka_version')}",
        f"target {target.get('name')}",
        f"tier {document['tier'].get('name')}",
        f"{machine.get('cores')} x {machine.get('cpu_model')}",
        f"profile {document['profile'] or 'none'}",
        f"run {document['run_id']}",
        f"exit code {document['exit_code']}",
    ]
    ended = document["exit_code"] in REPORTED and not document["replay_of"]
    report = "report/index.html, run.json" if ended else "run.json; make report RUN=FOLDER makes a page of it"
    return f"{cell(', '.join(facts))}. In the run's folder: {report}."
