"""The terminal: progress while a run measures, a table and one line at its end."""

from __future__ import annotations

import math
import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest
from _pytest.capture import CaptureManager

from perfgate.judge.compare.advice import signed
from perfgate.judge.faults.expectation import expected_outage
from perfgate.judge.faults.rules import OUTAGE, told_to_s
from perfgate.judge.messages import number, percent
from perfgate.judge.rules import spoilt_metrics
from perfgate.judge.statistics import spread
from perfgate.model import Comparison, ComparisonOutcome, Effect, Measurement, Outcome, Profile, Relation, Verdict
from perfgate.model.secret import redacted
from perfgate.model.summary import metric_value

REDRAW_EVERY_S = 0.2
LINE_EVERY_S = 15.0
"""Without a terminal the progress is a line so often."""
LINE_GAP_S = 5.0
"""A new phase is a line at once, unless the last line is younger than this."""
WARM_UP = "warming the brokers up"
"""So its progress begins; the time left that comes with it is the bound of this phase alone."""
COLUMNS = ("scenario", "records/s", "spread", "p99 ms", "broker cores", "us/record", "verdict")
FAULT_COLUMNS = ("fault", "rounds", "outage s", "expected", "partition s", "recovered s", "full ISR s", "lost",
                 "twice", "verdict")  # fmt: skip
COLOUR: Mapping[Verdict | Effect, str] = {
    Verdict.PASS: "green",
    Verdict.IMPROVED: "green",
    Verdict.MISSING: "yellow",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.INVALID: "red",
    Verdict.REGRESSED: "red",
    Verdict.BROKEN: "red",
    Effect.SAME: "green",
    Effect.FASTER: "green",
    Effect.INCONCLUSIVE: "yellow",
    Effect.INVALID: "red",
    Effect.SLOWER: "red",
    Effect.BROKEN: "red",
}
COLOUR_OF_WORD = {verdict.value: colour for verdict, colour in COLOUR.items()}
COMPARISON_COLUMNS = (
    "scenario",
    "metric",
    "as declared",
    "changed",
    "effect",
    "95 % interval",
    "pairs",
    "min",
    "verdict",
)


class Progress:
    """What the run is doing: one redrawn line on a terminal, elsewhere a plain line at most every 15 s.

    A log also gets a line soon after a phase begins, and a thread repeats the last state with the time elapsed, so
    that a phase which reports nothing (brokers start, jars are fetched) is not silent. `-q` silences all of it.
    """

    def __init__(
        self, config: pytest.Config, expected_s: float | None = None, *, every_s: float = LINE_EVERY_S,
        gap_s: float = LINE_GAP_S,
    ) -> None:  # fmt: skip
        """`expected_s`: how long the whole run may take; shown while nothing better is known.

        `every_s`, `gap_s`: of a log's lines, and of one after another whose phases differ.
        """
        self._reporter: pytest.TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
        shown = self._reporter is not None and config.get_verbosity() >= 0
        self._live = shown and self._reporter is not None and self._reporter.isatty
        self._logged = shown and not self._live
        self._capture: CaptureManager | None = config.pluginmanager.get_plugin("capturemanager")
        self._folder = config.invocation_params.dir
        self._drawn_at = 0.0
        self._last = ""
        self._prefix = ""
        self._expected_s, self._every_s, self._gap_s = expected_s, every_s, gap_s
        self._begun = time.monotonic()
        self._left_s: float | None = None
        self._left_known_at = self._printed_at = -math.inf
        self._phase = self._printed_phase = ""
        self._given_path: Path | None = None
        self._writing = threading.RLock()  # one that Ctrl-C can leave with the main thread, which then asks again
        self._ended = threading.Event()
        if self._logged:
            self._last = "preparing"
            self._printed_at = self._begun
            threading.Thread(target=self._repeat, name="progress", daemon=True).start()
            config.add_cleanup(self.end)

    def __call__(self, text: str, left_s: float | None) -> None:
        """Show `text` and, if known, the time left."""
        if self._logged:
            with self._writing:
                self._last, self._phase = self._prefix + text, self._prefix + phase_of(text)
                self._left_s, self._left_known_at = left_s, time.monotonic()
                self._print_if_due()
            return
        text = redacted(self._prefix + text)
        changed = text.partition(",")[0] != self._last.partition(",")[0]
        if not self._live or (not changed and time.monotonic() - self._drawn_at < REDRAW_EVERY_S):
            return
        assert self._reporter is not None
        self._drawn_at, self._last = time.monotonic(), text
        left = f", about {duration(left_s)} left" if left_s is not None and left_s > 0 else ""
        width = shutil.get_terminal_size().columns - 1
        with self._uncaptured():
            self._reporter.rewrite((text + left)[:width], erase=True)
            self._reporter.flush()

    @contextmanager
    def within(self, stage: str) -> Iterator[None]:
        """Put `stage` before all that is said meanwhile."""
        before, self._prefix = self._prefix, f"{stage}, "
        try:
            yield
        finally:
            self._prefix = before

    def log(self, text: str) -> None:
        """Begin a phase that is usually over at once: a log shows it when it is not, a terminal never."""
        if self._logged:
            with self._writing:
                self._last = self._phase = text
                self._left_s, self._expected_s, self._printed_at = None, None, time.monotonic()

    def note(self, text: str) -> None:
        """Write a line that stays, also where the output is no terminal."""
        if self._reporter is not None:
            with self._writing:
                self._write_line(text)

    def clear(self) -> None:
        """Give the line back to pytest: the test file whose results it is about to write."""
        with self._writing:
            if self._reporter is None or not self._last:
                return
            path = self._reporter.currentfspath if self._live else self._given_path
            self._last, self._given_path = "", None
            if path is None and self._logged:
                return  # nothing was written over
            shown = f"{os.path.relpath(path, self._folder)} " if isinstance(path, Path) else ""
            with self._uncaptured():
                if self._live:
                    self._reporter.rewrite("", erase=True)
                    self._reporter.write("\r" + shown)
                else:
                    self._reporter.currentfspath = path
                    self._reporter.write(shown)

    def end(self) -> None:
        """Say nothing more: the run's summary follows."""
        self._ended.set()
        with self._writing:  # a line that is being written is written to its end
            self._last = ""

    def _repeat(self) -> None:
        while not self._ended.wait(min(1.0, self._every_s / 2)):
            with self._writing:
                if self._last and not self._ended.is_set():
                    self._print_if_due()

    def _print_if_due(self) -> None:
        """Print the last state when a line is due: soon after a phase began, else every so often."""
        now = time.monotonic()
        wait_s = self._every_s if self._phase == self._printed_phase else self._gap_s
        if self._ended.is_set() or now - self._printed_at < wait_s:
            return
        self._printed_at, self._printed_phase = now, self._phase
        self._write_line(f"[{duration(now - self._begun)}] {self._last}{self._time_left(now)}")

    def _write_line(self, text: str) -> None:
        assert self._reporter is not None
        with self._uncaptured():
            path = self._reporter.currentfspath
            if self._logged and isinstance(path, Path):
                self._given_path = path
            self._reporter.write_line(redacted(text))
            self._reporter.flush()

    def _time_left(self, now: float) -> str:
        left_s = None if self._left_s is None else self._left_s - (now - self._left_known_at)
        if WARM_UP in self._phase:
            return f", at most {duration(left_s)} more of that" if left_s is not None and left_s >= 1 else ""
        if left_s is None and self._expected_s is not None:
            left_s = self._expected_s - (now - self._begun)
        return f", about {duration(left_s)} left" if left_s is not None and left_s >= 1 else ""

    def _uncaptured(self) -> AbstractContextManager[None]:
        """Let through what is written: pytest captures whatever a running test writes."""
        return self._capture.global_and_fixture_disabled() if self._capture else nullcontext()


def phase_of(text: str) -> str:
    """Return what of a progress text stays the same within a phase: neither the row nor its rate."""
    words = text.split()
    return " ".join(words[: 2 if words[:1] in (["round"], ["burst"]) else 4])


def duration(seconds: float) -> str:
    """Return a time span for a person: 42 s, 3 min 05 s."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


def scenario_rows(outcomes: Mapping[str, Outcome], measurements: Mapping[str, Measurement]) -> list[tuple[str, ...]]:
    """Return the table's cells, a row per scenario, in COLUMNS' order; a dash where there is no number."""
    rows: list[tuple[str, ...]] = []
    for name, outcome in outcomes.items():
        measurement = measurements[name]
        if measurement.scenario.fault:
            continue
        values = [metric_value(measurement, metric) for metric in
                  ("records_per_s", "latency_ms.p99", "broker_cpu_cores.sum", "broker_cpu_us_per_record")]  # fmt: skip
        rate, p99, cores, per_record = ("-" if value is None else number(value) for value in values)
        p99 = "invalid" if any(r.spoilt("latency_ms.p99") for r in measurement.rounds) else p99
        rows.append((name, rate, _spread(measurement), p99, cores, per_record, outcome.verdict.value))
    return rows


def spoilt_notes(measurements: Mapping[str, Measurement]) -> list[str]:
    """Return what stands below the table: metrics that are not valid, of rows whose other metrics are."""
    return [
        f"note: {name}: {metrics} is not valid: {reason}"
        for name, measurement in measurements.items()
        for metrics, reason in spoilt_metrics(measurement).items()
    ]


def fault_rows(outcomes: Mapping[str, Outcome], measurements: Mapping[str, Measurement]) -> list[tuple[str, ...]]:
    """Return the cells of the rows with a fault in FAULT_COLUMNS' order: medians, of losses the sum."""
    rows: list[tuple[str, ...]] = []
    for name, outcome in outcomes.items():
        measurement = measurements[name]
        if not measurement.scenario.fault:
            continue
        values = [metric_value(measurement, metric) for metric in
                  ("outage_s.max", "outage_partition_seconds", "recovery_s", "full_isr_s")]  # fmt: skip
        outage, partitions, recovered, full = ("-" if value is None else f"{value:.1f}" for value in values)
        if resolution := told_to_s(measurement):
            outage += f" ±{resolution:.1f}"
        lost, twice = (
            f"{sum(r.metrics.get(metric, 0) for r in measurement.rounds):,.0f}"
            for metric in ("lost_records", "duplicated_records")
        )
        expected = expected_outage(measurement.scenario)
        span = f"{expected.low_s:.1f}..{expected.high_s:.1f}"
        rows.append((name, str(len(measurement.rounds)), outage, span, partitions, recovered, full, lost, twice,
                     outcome.verdict.value))  # fmt: skip
    return rows


def outage_note(measurements: Mapping[str, Measurement], profile: Profile | None) -> str:
    """Return which rows with a fault have no stored outage to be held against; empty when all have."""
    stored = profile.thresholds if profile else {}
    without = [
        name
        for name, measurement in measurements.items()
        if measurement.scenario.fault and not any(t.metric.name == OUTAGE for t in stored.get(name, ()))
    ]
    if not without:
        return ""
    return (
        f"note: no outage is stored for {len(without)} of these rows: it was held against the most that the brokers' "
        "settings predict (expected), which sees no smaller loss; make baseline stores what is usual"
    )


def _spread(measurement: Measurement) -> str:
    values = [r.metrics["records_per_s"] for r in measurement.rounds if r.metrics.get("records_per_s")]
    return percent(spread(values)) if len(values) > 1 else "-"


def relation_rows(relations: Sequence[tuple[Relation, Outcome]]) -> list[tuple[str, ...]]:
    """Return the relations' cells: name, what is compared, ratio, range, verdict."""
    rows: list[tuple[str, ...]] = []
    for relation, outcome in relations:
        judgement = outcome.judgements[0] if outcome.judgements else None
        ratio = f"{judgement.measured:.2f}" if judgement and judgement.measured is not None else "-"
        compared = f"{relation.of} / {relation.over} {relation.metric.name}"
        rows.append((relation.name, compared, ratio, relation.range, outcome.verdict.value))
    return rows


def comparison_rows(comparisons: Sequence[tuple[Comparison, ComparisonOutcome]]) -> list[tuple[str, ...]]:
    """Return the cells of the comparisons in COMPARISON_COLUMNS' order."""
    rows: list[tuple[str, ...]] = []
    for comparison, outcome in comparisons:
        primary = outcome.primary
        if primary is None:
            rows.append((outcome.name, *"------", duration(outcome.minutes * 60), outcome.effect.value))
            continue
        sides = (metric_value(m, primary.metric.name) for m in (comparison.baseline, comparison.candidate))
        before, after = ("-" if value is None else number(value) for value in sides)
        low, high = primary.interval
        interval = f"{low * 100:+.1f} .. {high * 100:+.1f} %"
        rows.append((outcome.name, primary.metric.name, before, after, signed(primary.estimate), interval,
                     str(outcome.pairs), f"{outcome.minutes:.1f}", outcome.effect.value))  # fmt: skip
    return rows


def comparison_line(outcomes: Sequence[ComparisonOutcome], not_run: int, exit_code: int) -> str:
    """Return a comparison in one line."""
    word = {0: "GREEN", 6: "UNDECIDED"}.get(exit_code, "RED")
    found = {effect: sum(outcome.effect is effect for outcome in outcomes) for effect in Effect}
    counts = ", ".join(f"{count} {effect.value}" for effect, count in found.items() if count) or "none"
    return f"{word}: rows {counts}; {not_run} not run; exit code {exit_code}"


def write_table(reporter: pytest.TerminalReporter, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write a table: first column and text to the left, numbers to the right, the verdict (last column) in colour."""
    if not rows:
        return
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        cells = []
        for cell, width in zip(row[:-1], widths[:-1], strict=True):
            numeric = cell[:1].isdigit() or cell[:1] in "+-"
            cells.append(cell.rjust(width) if numeric else cell.ljust(width))
        return "  ".join(cells) + "  "

    reporter.write_line("  ".join(name.ljust(width) for name, width in zip(head, widths, strict=True)).rstrip())
    for row in rows:
        reporter.write(line(row))
        colour = COLOUR_OF_WORD.get(row[-1])
        reporter.write_line(row[-1], **({colour: True} if colour else {}))


def summary_line(outcomes: Sequence[Outcome], relations: Sequence[Outcome], not_run: int, exit_code: int) -> str:
    """Return the run in one line: red or green, how many were judged and how, how many not run."""
    word = {0: "GREEN", 6: "UNDECIDED"}.get(exit_code, "RED")
    missing = any(outcome.verdict is Verdict.MISSING for outcome in outcomes)
    if exit_code == 0 and missing:
        word = "GREEN WITHOUT THRESHOLDS"
    elif exit_code == 6 and missing and not _judged(outcomes) and not relations:
        word = "NOTHING JUDGED"
    return (
        f"{word}: judged {_judged(outcomes)} of {len(outcomes)} scenarios ({_counts(outcomes)}) and "
        f"{_judged(relations)} of {len(relations)} relations ({_counts(relations)}); "
        f"{not_run} not run; exit code {exit_code}"
    )


def _judged(outcomes: Sequence[Outcome]) -> int:
    """Return how many came to a verdict: red or green."""
    return sum(outcome.verdict.green or outcome.verdict.red for outcome in outcomes)


def _counts(outcomes: Sequence[Outcome]) -> str:
    found = {verdict: sum(outcome.verdict is verdict for outcome in outcomes) for verdict in Verdict}
    return ", ".join(f"{count} {verdict.value}" for verdict, count in found.items() if count) or "none"
