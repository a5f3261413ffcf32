"""One view of a run for its reports: the verdict in words, all that was judged, worst first, and what to trust."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfgate.judge.phrases import number
from perfgate.judge.run_end import often_undecided
from perfgate.model import Effect, Verdict
from perfgate.model.counting import counted
from perfgate.model.judged import UNSOUND, ExitCode, place
from perfgate.model.system import release_of
from perfgate.report.figures import change_of, or_dash, recorded_kept, with_unit

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
WITHOUT_THRESHOLDS = "GREEN WITHOUT THRESHOLDS"
"""Instead of GREEN where a scenario has none, and was not judged against a reference either."""
PASSED_UNDECIDED = "UNDECIDED, AND LET PASS"
"""Instead of GREEN where --undecided=pass made it so."""
NOT_DECIDED = {Verdict.INCONCLUSIVE.value, Verdict.INVALID.value}
NO_ANSWER = {None, Verdict.INCONCLUSIVE.value, *UNSOUND}
COLLAPSED = {result.value for result in (Verdict.MISSING, Verdict.PASS, Effect.SAME)}
"""Verdicts that reports count and do not list."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """Something that was judged: its verdict, and in a line its figures, limit and first reason."""

    verdict: str
    name: str
    what: str
    message: str | None = None
    """The judge's: a sentence, then figures and what to do next; None where there is none."""

    @property
    def sentence(self) -> str:
        """What the message begins with."""
        if self.message is None:
            return f"{self.verdict} {self.name}: {self.what}"
        return self.message.partition("\n")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """A run.json with all that was judged, worst first, and what else reports say of it.

    `notes`: on the figures, no verdicts; `advice`: on the change that was compared; `recording`: the command that
    records thresholds, where more is known of the run than its document says.
    """

    document: Mapping[str, Any]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    drifts: tuple[str, ...] = ()
    advice: str = ""
    recording: str = ""

    @property
    def off(self) -> list[Line]:
        """The lines that reports list singly."""
        return [line for line in self.lines if line.verdict not in COLLAPSED]

    @property
    def often(self) -> list[str]:
        """A sentence for each scenario or relation that was undecided in several runs in a row."""
        return often_undecided(self.document.get("undecided_in_a_row", {}))

    @property
    def missing(self) -> bool:
        return any(entry["verdict"] == Verdict.MISSING.value for entry in self.document["scenarios"])

    def not_run(self) -> dict[str, list[str]]:
        """Return the names of what was selected and not run, by reason, the most frequent first."""
        names: dict[str, list[str]] = {}
        for absent in self.document["not_run"]:
            names.setdefault(absent["reason"], []).append(absent["name"])
        return dict(sorted(names.items(), key=lambda item: -len(item[1])))

    def headline(self, shown: Callable[[str], str] = str) -> str:
        """Return the run's verdict and what is worst, in a sentence; `shown` makes any text fit for its place."""
        document, code, off = self.document, self.document["exit_code"], self.off
        words, cause = word_of(document), document.get("cause", "")
        words += f": {shown(cause)}" if cause else ""
        if cause and not off:
            return words
        if not off:
            words += f": change '{shown(str(document['change']['name']))}'" if document["change"] else ""
            return f"{words}: all that was judged holds" if code == 0 else f"{words} (exit code {code})"
        more = f", and {len(off) - 1} more below" if len(off) > 1 else ""
        return f"{words}{';' if cause else ':'} {shown(off[0].sentence)}{more}"

    def trust(self) -> list[str]:
        """Return the facts that a reader has to know before they believe a verdict."""
        document, compared = self.document, self.document["comparisons"]
        names = [entry["scenario"] for entry in compared] or [entry["name"] for entry in document["scenarios"]]
        judged, verb = (compared, "compared") if compared else (document["scenarios"], "measured")
        entries = [entry[side] for entry in compared for side in ("baseline", "candidate")] or judged
        lines = [
            f"{counted(len(judged), 'scenario')} {verb}: {integrity_line(entries)}.",
            _answered(names, judged, verb),
            _judged_against(document),
            f"{document['environment']['cores']} x {document['environment']['cpu_model']}, kernel "
            f"{document['environment']['kernel']}, {release_of(document['target'])}{_kept_of(entries)}.",
        ]
        if document["modified"]:
            lines.append(f"MODIFIED by {', '.join(document['modified'])}: comparable with no other run.")
        if document["replay_of"]:
            lines.append(f"Nothing was measured: judged again from the recording of run {document['replay_of']}.")
        if document["not_run"]:
            lines.append(f"{len(document['not_run'])} selected and not run; run.json has each reason.")
        return [*lines, *(f"Left behind: {text}" for text in document["left_behind"]), *self.notes]


def _answered(names: Sequence[str], judged: Sequence[Mapping[str, Any]], verb: str) -> str:
    """Return the sentences on scenarios without an answer, and on those without limits that could give an answer."""
    pairs = list(zip(names, judged, strict=True))
    unsure = [name for name, entry in pairs if entry["verdict"] in NO_ANSWER]
    without = [name for name, entry in pairs if entry["verdict"] == Verdict.MISSING.value]
    texts = [f"Without an answer: {', '.join(unsure)}."] if unsure else []
    texts += [f"Without limits to be judged by: {', '.join(without)}."] if without else []
    return " ".join(texts) or f"Every scenario that was {verb} has an answer."


def _kept_of(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the quorums and durability that figures of Pulsar are of; empty for Kafka."""
    of_pulsar = [entry for entry in entries if entry["declared"]["cluster"]["system"] == "pulsar"]
    kept = dict.fromkeys(map(recorded_kept, of_pulsar))
    return f"; {' and '.join(kept)} (ensemble/write/ack quorum, durability)" if kept else ""


def view_of(document: Mapping[str, Any], messages: Mapping[str, str] | None = None) -> View:
    """Return the view of a run.json; `messages`: of scenarios, relations and comparisons, by name."""
    lines = [
        Line(verdict=verdict, name=name, what=what, message=(messages or {}).get(name))
        for verdict, name, what in _judged(document)
    ]
    lines.sort(key=lambda line: place(line.verdict, place(Verdict.INCONCLUSIVE.value)))
    return View(document=document, lines=tuple(lines))


def by_verdict(lines: Iterable[Line]) -> str:
    """Return the number of lines with each verdict: 12 PASS, 1 MISSING."""
    return ", ".join(f"{count} {verdict}" for verdict, count in Counter(line.verdict for line in lines).items())


def word_of(document: Mapping[str, Any]) -> str:
    """Return the words for a run's exit code, and what it was judged against."""
    missing = any(entry["verdict"] == Verdict.MISSING.value for entry in document["scenarios"])
    judged = (document[key] for key in ("scenarios", "relations", "ranges", "comparisons") if key in document)
    undecided = any(entry["verdict"] in NOT_DECIDED for entries in judged for entry in entries)
    unstored = missing and not document.get("reference")
    return word(document["exit_code"], without_thresholds=unstored, undecided=undecided)


def word(exit_code: int, *, without_thresholds: bool, undecided: bool) -> str:
    """Return the words for an exit code; the flags hold if they do of any scenario."""
    if exit_code == ExitCode.GREEN and undecided:
        return PASSED_UNDECIDED
    return WITHOUT_THRESHOLDS if exit_code == ExitCode.GREEN and without_thresholds else WORDS.get(exit_code, "RED")


def integrity_line(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the fate of the records in one line; `missed` are those that a reader, once it had joined, did not get."""
    keys = ("attempted", "acked", "failed", "unresolved")
    total = {key: sum(entry["accounting"][key] for entry in entries) for key in keys}
    line = "{attempted:,} records sent: {acked:,} acknowledged, {failed:,} failed, {unresolved:,} unresolved"
    if withdrawn := sum(entry["accounting"].get("withdrawn", 0) for entry in entries):
        line += f", {withdrawn:,} taken back before they left the client"
    readings = [entry["reading"] for entry in entries if entry["reading"]]
    if readings:
        line += "; {read:,} read: {missed:,} missed, {duplicated:,} duplicated, {reordered:,} out of order"
        for key in ("read", "missed", "duplicated", "reordered"):
            total[key] = sum(reading.get(key, 0) for reading in readings)
    return line.format(**total)


def _judged_against(document: Mapping[str, Any]) -> str:
    if change := document["change"]:
        return f"Each scenario as declared and with '{change['name']}', in turns."
    if reference := document.get("reference"):
        return f"Held against the reference '{reference['name']}', measured in turns with it."
    note = document.get("profile_note", "")
    if document["profile"]:
        return f"Held against profile {document['profile']}{f' ({note})' if note else ''}."
    return f"No profile is held ({note or 'none fits this machine'}): relations alone."


def _judged(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for entry in document["scenarios"]:
        if entry["verdict"] is None:
            yield "not judged", entry["name"], "the run ended before it was judged"
        else:
            yield entry["verdict"], entry["name"], _of_scenario(entry)
    for entry in document.get("baselines", ()):
        for reason in [flaw["text"] for r in entry["rounds"] for flaw in r["flaws"] if flaw["broken"]][:1]:
            yield Verdict.BROKEN.value, f"{entry['name']} beside {entry['beside']}", reason
    for entry in document["relations"]:
        bounds = f"must be {entry['at_least']:g} .. {entry['at_most'] or 0:g}"
        ratio = or_dash(entry["ratio"], "{:.3g}".format)
        yield entry["verdict"], entry["name"], f"{entry['metric']} {entry['of']} / {entry['over']} is {ratio}, {bounds}"
    for entry in document.get("ranges", ()):
        yield entry["verdict"], entry["name"], "; ".join(entry["reasons"]) or entry["claim"]
    for entry in document["comparisons"]:
        yield entry["verdict"], entry["scenario"], _of_comparison(entry)


def _of_scenario(entry: Mapping[str, Any]) -> str:
    """Return the worst metric with its baseline and limit, or the first reason where no metric was judged."""
    for judgement in sorted(entry["judgements"], key=lambda judgement: place(judgement["verdict"])):
        measured, baseline = judgement["measured"], judgement["baseline"]
        if measured is None:
            continue
        what = f"{judgement['metric']} {with_unit(measured, judgement['metric'])}"
        if baseline:
            against = judgement.get("against", "its baseline").replace("its", "the")
            what += f", {change_of(measured, baseline)} from {against} of {number(baseline)}"
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
    rests = f", {counted(entry['units'], 'unit')}, {entry['minutes']:.1f} min" if "units" in entry else ""
    return f"{entry['metric']} {entry['estimate'] * 100:+.1f} % ({low * 100:+.1f} .. {high * 100:+.1f} %){rests}{why}"
