"""Rounds of a shaped load: figures before, in and after the peak, what was owed, and phases not reached. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from perfgate.load.shaped import ShapedSchedule
from perfgate.measure.flaw import of_generator, of_parts
from perfgate.model import Load, Round, ShapeFigures
from perfgate.model.compared import SATURATED
from perfgate.model.histogram import figures_of, latency_metrics
from perfgate.model.load import TICK_S, LoadResult, OverTime
from perfgate.model.metrics import OWED, P99_BACK, PEAK_PHASES, PHASE_CPU, PHASE_LATENCY, UNSENT
from perfgate.model.shape import Shape

BACK_TIMES, BACK_FOR = 2.0, 3
"""p99 is back with the first of this many seconds in a row whose p99 is at most this many times that before the peak:
a single one may be chance, and a later slow one is not due to the peak."""
REACHED = 0.9
"""A phase was reached if this share of its records was handed over in it: what is handed over later is no peak."""
PER_S = round(1 / TICK_S)
COVERED = 0.8
"""The brokers' CPU is that of a phase if it was read over this share of it."""
Counts = npt.NDArray[np.float64]


def with_shape(r: Round, load: Load, result: LoadResult) -> Round:
    """The round with the figures of the load's shape, if known, and the flaw of a phase that was not reached."""
    if load.shape is None or result.sent is None or result.sent.over_time is None:
        return r
    shape, over_time = load.shape, result.sent.over_time
    figures, metrics = shape_figures(shape, over_time, result.window_late_s)
    cpu = {PHASE_CPU[name]: cores(r.broker_cpu_over_time, *span) for name, span in shape.phases.items()}
    metrics |= {name: value for name, value in cpu.items() if value is not None}
    missed = not_reached(shape, over_time)
    # Full buffers for half of the time in which the missing records were due: brokers did not take them.
    by_brokers = missed and result.sent.pushback_in_window_s >= sum(missed.values()) / 2
    words = ", ".join(f"{seconds:.1f} s of its records {PEAK_PHASES[name]}" for name, seconds in missed.items())
    reason = f"a phase of the load was not reached: {words} were not handed over in time"
    flaws = tuple(of_parts(flaw, [*PHASE_LATENCY.values()], (P99_BACK, OWED, UNSENT)) for flaw in r.flaws)
    not_sustained = r.not_sustained
    if by_brokers:
        not_sustained = not_sustained or f"not sustained: {reason}, for the producers' buffers were full"
    elif missed:
        flaws = (*flaws, of_generator(f"{SATURATED}: {reason}", kind=SATURATED))
    elif {"before", "after"} <= shape.phases.keys() and P99_BACK not in metrics:
        begin, end = shape.phases["after"]
        not_sustained = not_sustained or (
            f"not sustained: p99 was not back at {BACK_TIMES:g} x that before the peak within the {end - begin:.1f} s "
            "after it"
        )
    return replace(r, metrics={**r.metrics, **metrics}, shape=figures, flaws=flaws, not_sustained=not_sustained)


def shape_figures(shape: Shape, over_time: OverTime, late_s: float = 0.0) -> tuple[ShapeFigures, dict[str, float]]:
    """Figures of the load second by second, and the metrics of its phases. `late_s`: for so long a generator did not
    know of its window; what is missing of that time is not owed."""
    due = _due(shape, len(over_time.sent) - 1)
    owed, unsent = (
        due - _by_tick(counts) - min(late_s * shape.points[0][1], max(0.0, due[-1] - sum(counts)))
        for counts in (over_time.acked, over_time.sent)
    )
    seconds = math.ceil(shape.seconds)
    begins = np.arange(seconds, dtype=np.float64)
    lengths = np.minimum(begins + 1, shape.seconds) - begins
    p99_ms = tuple(p99 if records else None for records, p99 in figures_of(over_time.latency))
    figures = ShapeFigures(
        phases=dict(shape.phases),
        offered=_per_second(np.diff(due), lengths),
        achieved=_per_second(np.array(over_time.acked[:-1], float), lengths),
        p99_ms=p99_ms,
        owed=tuple(int(max(0, owed[first : first + PER_S + 1].max())) for first in range(0, seconds * PER_S, PER_S)),
    )
    metrics = {OWED: max(0.0, float(owed.max())), UNSENT: max(0.0, float(unsent.max()))}
    for name in shape.phases:
        metrics |= latency_metrics([over_time.phases.get(name, "")], PHASE_LATENCY[name])
    before = metrics.get(f"{PHASE_LATENCY['before']}.p99")
    if before is not None and "after" in shape.phases:
        back = p99_back_s(figures, before, shape.phases["after"][0])
        metrics |= {} if back is None else {P99_BACK: back}
    return figures, metrics


def p99_back_s(figures: ShapeFigures, before_ms: float, since: float) -> float | None:
    """Time in s from the end of the peak (`since`) to the end of the first of BACK_FOR seconds in a row whose p99 is as
    before it; None: there are none."""
    first = math.ceil(since)
    good = [
        offered < 1 if p99 is None else p99 <= BACK_TIMES * before_ms
        for p99, offered in zip(figures.p99_ms[first:], figures.offered[first:], strict=True)
    ]
    for after in range(len(good) - BACK_FOR + 1):
        if all(good[after : after + BACK_FOR]):
            return first + after + 1 - since
    return None


def not_reached(shape: Shape, over_time: OverTime) -> dict[str, float]:
    """The phases that were not reached, each with its records that were not handed over in it, in s of it."""
    due, sent = _due(shape, len(over_time.sent) - 1), _by_tick(over_time.sent)
    times = np.arange(len(due)) * TICK_S
    missed = {}
    for name, span in shape.phases.items():
        (due_by, due_before), (sent_by, sent_before) = (
            np.interp(span[::-1], times, counts).tolist() for counts in (due, sent)
        )
        asked, sent_in_phase = due_by - due_before, sent_by - sent_before
        if sent_in_phase < REACHED * asked - 1:
            missed[name] = (asked - sent_in_phase) / asked * (span[1] - span[0])
    return missed


def cores(over_time: Mapping[str, Sequence[tuple[float, float]]], begin: float, end: float) -> float | None:
    """The cores of all brokers between two moments (s) of a window; None where they were not read for most."""
    total = 0.0
    for parts in over_time.values():
        since, used, read = 0.0, 0.0, 0.0
        for until, busy_cores in parts:
            inside = max(0.0, min(end, until) - max(begin, since))
            used, read, since = used + busy_cores * inside, read + inside, until
        if read < COVERED * (end - begin):
            return None
        total += used / read
    return total if over_time else None


def _due(shape: Shape, ticks: int) -> Counts:
    """Records due by each tick, from 0 on, since the window opened."""
    schedule = ShapedSchedule(0.0, 0.0, shape.points, 0, 1)
    return np.array([schedule.due_by(min(tick * TICK_S, shape.seconds)) for tick in range(ticks + 1)], float) - 1


def _by_tick(counts: Sequence[int]) -> Counts:
    """The sums of counts up to each tick, from 0 on; the last count is of the time after the window."""
    return np.concatenate(([0.0], np.cumsum(np.array(counts[:-1], float))))


def _per_second(counts: Counts, lengths: Counts) -> tuple[float, ...]:
    seconds = np.add.reduceat(counts, np.arange(0, len(counts), PER_S))
    return tuple((seconds / lengths).tolist())
