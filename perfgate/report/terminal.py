"""Tables and notes at the terminal, and the line that sums up a run."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Protocol

from perfgate.judge.claims.relation import deciding_step
from perfgate.judge.phrases import number, percent
from perfgate.judge.rounds import only_sent_late, since_the_start, spoilt_metrics
from perfgate.judge.run_end import is_undecided
from perfgate.judge.statistics import spread
from perfgate.judge.wording import signed, spread_text
from perfgate.model import (
    NO_USAGE,
    Comparison,
    ComparisonOutcome,
    Effect,
    Measurement,
    Outcome,
    PairRelation,
    RangeRelation,
    Relation,
    Verdict,
    metric_info,
)
from perfgate.model.counting import counted
from perfgate.model.judged import ExitCode, place
from perfgate.model.metrics import DRAIN, LAG, LAG_GROWTH
from perfgate.model.summary import metric_value, unknown_figures
from perfgate.report.figures import KEPT, or_dash
from perfgate.report.view import word

COLUMNS = ("scenario", "records/s", "spread", "p99 ms", "broker cores", "us/record", "verdict")
FIGURES = ("records_per_s", "latency_ms.p99", "broker_cpu_cores.sum", "broker_cpu_us_per_record")
TIMED_OUT = "timed_out_share"
UNITS = {"turns": "bursts", "rounds": "blocks", "pairs": "pairs of clusters", "epochs": "pairs of clusters"}
"""Units of a comparison in words, by its method."""
SPENT = ("units", "min", "verdict")
REFERENCE_COLUMNS = ("scenario", "metric", "reference", "here", "ratio", "interval", "must be", *SPENT)
COMPARISON_COLUMNS = ("scenario", "metric", "as declared", "changed", "effect", "95 % interval", *SPENT)


class Terminal(Protocol):
    """The part of pytest's terminal reporter that tables are written to."""

    @property
    def isatty(self) -> object:
        """True where a person reads along; of pytest an object that can be called too."""

    def write(self, content: str) -> None: ...

    def write_line(self, line: str, **markup: bool) -> None: ...


def _colour(result: Verdict | Effect) -> str:
    red = result.red or result in (Verdict.INVALID, Effect.INVALID)
    return "green" if result.green else "red" if red else "yellow"


COLOURS = {result.value: _colour(result) for result in (*Verdict, *Effect)}


def duration(seconds: float) -> str:
    """Return a time span for a person: 42 s, 3 min 05 s."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


def with_kept(
    columns: Sequence[str], rows: Sequence[Sequence[str]], kept: Mapping[str, str]
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return head and rows of a table, of Pulsar with what is kept, by the scenario that a row begins with."""
    if not any(kept.values()):
        return columns, rows
    return (columns[0], KEPT, *columns[1:]), [(row[0], kept.get(row[0], ""), *row[1:]) for row in rows]


def scenario_rows(outcomes: Mapping[str, Outcome], measurements: Mapping[str, Measurement]) -> list[tuple[str, ...]]:
    """Return the cells of COLUMNS for each scenario without a fault; a dash where there is no number."""
    rows: list[tuple[str, ...]] = []
    for name, outcome in outcomes.items():
        measurement = measurements[name]
        if measurement.scenario.has_fault:
            continue
        rate, p99, cores, per_record = (or_dash(metric_value(measurement, metric)) for metric in FIGURES)
        rates = [r.metrics["records_per_s"] for r in measurement.rounds if r.metrics.get("records_per_s")]
        scatter = spread_text(spread(rates)) if len(rates) > 1 else "-"
        if since_the_start(measurement):  # no figure of the brokers: a note says so
            p99 = "-"
        if any(r.spoilt("latency_ms.p99") for r in measurement.rounds):
            p99 = f"<= {p99}" if only_sent_late(measurement, "latency_ms.p99") else "invalid"
        rows.append((name, rate, scatter, p99, cores, per_record, outcome.verdict.value))
    return rows


def not_valid_notes(measurements: Mapping[str, Measurement]) -> list[str]:
    """Return a note for each metric that is not valid, of scenarios whose other metrics are."""
    notes = []
    for name, measurement in measurements.items():
        for metrics, reason in spoilt_metrics(measurement).items():
            late = only_sent_late(measurement, f"{metrics}.p99")
            notes.append(f"note: {name}: {metrics} is {'too long by lateness' if late else 'not valid'}: {reason}")
    return notes


def timed_out_notes(measurements: Mapping[str, Measurement]) -> list[str]:
    """Return a note with the share of records that timed out, of scenarios that are to show it."""
    notes = []
    for name, measurement in measurements.items():
        if shares := [r.metrics[TIMED_OUT] for r in measurement.rounds if TIMED_OUT in r.metrics]:
            middle, least, most = map(percent, (median(shares), min(shares), max(shares)))
            rounds = counted(len(shares), "round")
            notes.append(f"note: {name}: {middle} of the records that were due timed out ({least} to {most}, {rounds})")
    return notes


def lag_notes(measurements: Mapping[str, Measurement]) -> list[str]:
    """Return a note of consumers that work: how far they were behind, and that they fall behind by declaration."""
    notes = []
    for name, measurement in measurements.items():
        scenario, rounds = measurement.scenario, [r for r in measurement.rounds if LAG in r.metrics]
        if not rounds or scenario.consumers is None:
            continue
        most, growth = (median(r.metrics[metric] for r in rounds) for metric in (LAG, LAG_GROWTH))
        text = f"note: {name}: its consumers were up to {most:,.0f} records behind"
        if scenario.falls_behind_per_s:
            text += (
                f", {growth:,.0f} more each second: they take {scenario.consumers.takes_per_s:,.0f} of "
                f"{scenario.load.rate:,.0f} records/s by declaration"
            )
        elif drained := [r.metrics[DRAIN] for r in rounds if DRAIN in r.metrics]:
            text += f", and worked off the rest in {median(drained):.1f} s"
        notes.append(text)
    return notes


def unavailable_notes(measurements: Mapping[str, Measurement]) -> list[str]:
    """Return a note for each reason why the brokers' CPU, memory, disk or network are unavailable."""
    scenarios: dict[tuple[str, str], list[str]] = {}
    for name, measurement in measurements.items():
        for why, figures in unknown_figures(measurement).items():
            scenarios.setdefault((", ".join(figures), why), []).append(name)
    return [
        f"note: {figures} of the brokers: unavailable in {names[0] if len(names) == 1 else f'{len(names)} scenarios'}: "
        f"{why}{'; their CPU is not held' if why == NO_USAGE else ''}"
        for (figures, why), names in scenarios.items()
    ]


def relation_rows(relations: Sequence[tuple[Relation, Outcome]]) -> list[tuple[str, ...]]:
    """Return the relations' cells: name, what is compared, ratio, its bounds, verdict; of a range the deciding step."""
    rows: list[tuple[str, ...]] = []
    for relation, outcome in relations:
        pair, held = deciding_step(relation, outcome) if isinstance(relation, RangeRelation) else (relation, outcome)
        assert isinstance(pair, PairRelation)
        judgement = held.judgements[0] if held.judgements else None
        ratio = or_dash(judgement.measured if judgement else None, "{:.2f}".format)
        compared = f"{pair.of} / {pair.over} {pair.metric.name}"
        rows.append((relation.name, compared, ratio, pair.accepted, outcome.verdict.value))
    return rows


def comparison_rows(comparisons: Sequence[tuple[Comparison, ComparisonOutcome]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for comparison, outcome in comparisons:
        cells, spent = ["-"] * 6, duration(outcome.minutes * 60)
        if primary := outcome.primary:
            metric, (low, high) = primary.metric.name, primary.interval
            sides = (or_dash(metric_value(side, metric)) for side in (comparison.baseline, comparison.candidate))
            interval, units = f"{low * 100:+.1f} .. {high * 100:+.1f} %", f"{outcome.units} {UNITS[comparison.method]}"
            cells, spent = [metric, *sides, signed(primary.estimate), interval, units], f"{outcome.minutes:.1f}"
        rows.append((outcome.name, *cells, spent, outcome.effect.value))
    return rows


def reference_rows(outcomes: Mapping[str, Outcome], references: Mapping[str, Comparison]) -> list[tuple[str, ...]]:
    """Return the cells of REFERENCE_COLUMNS for each ratio, with its 95 % interval that allows for early stops."""
    rows: list[tuple[str, ...]] = []
    for name, comparison in references.items():
        for judgement in outcomes[name].judgements if name in outcomes else ():
            info, known = metric_info(judgement.metric), judgement.baseline
            cells = ("-",) * 5
            if info and known and judgement.measured is not None and judgement.interval and judgement.limit is not None:
                ratio, (low, high) = judgement.measured / known, (end / known for end in judgement.interval)
                bounds = (f"{low:.3f} .. {high:.3f}", f"{info.bound} {judgement.limit / known:.2f}")
                cells = (number(known), number(judgement.measured), f"{ratio:.3f}", *bounds)
            spent = (str(len(comparison.orders)), f"{comparison.minutes:.1f}")
            rows.append((name, judgement.metric, *cells, *spent, judgement.verdict.value))
    return rows


def comparison_line(outcomes: Sequence[ComparisonOutcome], not_run: int, exit_code: int, cause: str = "") -> str:
    """Return a comparison in one line; `cause`: of the exit code, where no effect shows it."""
    effects = [outcome.effect for outcome in outcomes]
    words = word(exit_code, without_thresholds=False, undecided=any(map(is_undecided, effects)))
    words += f": {cause}" if cause else ""
    return f"{words}: scenarios {_counts(Effect, effects)}; {not_run} not run; exit code {exit_code}"


def write_table(reporter: Terminal, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write a table, worst verdict (last column) first; where a person's terminal is too narrow, text is cut short."""
    if not rows:
        return
    rows = sorted(rows, key=lambda row: place(row[-1]))
    widths = fitting(head, rows, shutil.get_terminal_size().columns if reporter.isatty else None)

    reporter.write_line("  ".join(name[:width].ljust(width) for name, width in zip(head, widths, strict=True)).rstrip())
    for row in rows:
        for cell, width in zip(row[:-1], widths[:-1], strict=True):
            shown = cell if len(cell) <= width else cell[: width - 1] + "…"
            reporter.write((shown.rjust(width) if _numeric(cell) else shown.ljust(width)) + "  ")
        colour = COLOURS.get(row[-1])
        reporter.write_line(row[-1], **({colour: True} if colour else {}))


def fitting(head: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None) -> list[int]:
    """Return the columns' widths, two apart, within a terminal's columns if cutting text allows it.

    The widest text is cut first, never below its head or 12 characters; numbers, the first and the last column never.
    """
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    if columns is None:
        return widths
    least = [
        max(len(name), 12) if 0 < i < len(head) - 1 and not any(_numeric(row[i]) for row in rows) else widths[i]
        for i, name in enumerate(head)
    ]
    while sum(widths) + 2 * (len(widths) - 1) > columns:
        i = max(range(len(widths)), key=lambda at: (widths[at] > least[at], widths[at]))
        if widths[i] <= least[i]:
            break
        widths[i] -= 1
    return widths


def _numeric(cell: str) -> bool:
    return cell[:1].isdigit() or cell[:1] in ("+", "-")


def summary_line(
    outcomes: Sequence[Outcome],
    relations: Sequence[Outcome],
    not_run: int,
    exit_code: int,
    *,
    by_reference: bool = False,
    cause: str = "",
) -> str:
    """Return the run in one line; `cause`: of the exit code, where no verdict shows it."""
    verdicts, of_relations = [outcome.verdict for outcome in outcomes], [outcome.verdict for outcome in relations]
    missing = Verdict.MISSING in verdicts
    undecided = any(map(is_undecided, (*verdicts, *of_relations)))
    words = word(exit_code, without_thresholds=missing and not by_reference, undecided=undecided)
    if exit_code == ExitCode.UNDECIDED and missing and not _judged(verdicts) and not relations:
        words, cause = "NOTHING JUDGED", ""
    words += f": {cause}" if cause else ""
    return (
        f"{words}: judged {_judged(verdicts)} of {len(outcomes)} scenarios ({_counts(Verdict, verdicts)}) and "
        f"{_judged(of_relations)} of {len(relations)} relations ({_counts(Verdict, of_relations)}); "
        f"{not_run} not run; exit code {exit_code}"
    )


def _judged(verdicts: Sequence[Verdict]) -> int:
    return sum(verdict.green or verdict.red for verdict in verdicts)


def _counts(kinds: Iterable[Verdict | Effect], results: Sequence[Verdict | Effect]) -> str:
    return ", ".join(f"{results.count(kind)} {kind.value}" for kind in kinds if kind in results) or "none"
