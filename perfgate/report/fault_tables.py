"""Tables and notes of scenarios with a fault, for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfgate.judge.faults.expectation import expected_outage, told_session_s
from perfgate.judge.faults.figures import OUTAGE, told_to_s
from perfgate.judge.faults.rules import usual_latency_s
from perfgate.judge.phrases import number
from perfgate.model import Measurement, Outcome, Profile
from perfgate.model.faults import FaultScenario
from perfgate.model.summary import metric_value

FAULT_COLUMNS = (
    "fault",
    "rounds",
    "outage s",
    "expected",
    "partition s",
    "recovered s",
    "full ISR s",
    "lost",
    "twice",
    "verdict",
)


def fault_rows(outcomes: Mapping[str, Outcome], measurements: Mapping[str, Measurement]) -> list[tuple[str, ...]]:
    """Return the cells of the scenarios with a fault in FAULT_COLUMNS' order: medians, of losses the sum."""
    rows: list[tuple[str, ...]] = []
    for name, outcome in outcomes.items():
        measurement = measurements[name]
        row = measurement.scenario
        if not isinstance(row, FaultScenario):
            continue
        values = [
            metric_value(measurement, metric)
            for metric in ("outage_s.max", "outage_partition_seconds", "recovery_s", "full_isr_s")
        ]
        outage, partitions, recovered, full = ("-" if value is None else f"{value:.1f}" for value in values)
        if resolution := told_to_s(measurement):
            outage += f" ±{resolution:.1f}"
        lost, twice = (
            f"{sum(r.metrics.get(metric, 0) for r in measurement.rounds):,.0f}"
            for metric in ("lost_records", "duplicated_records")
        )
        expected = expected_outage(row, usual_latency_s(measurement), told_session_s(measurement))
        span = f"{expected.low_s:.1f}..{expected.high_s:.1f}"
        rows.append(
            (
                name,
                str(len(measurement.rounds)),
                outage,
                span,
                partitions,
                recovered,
                full,
                lost,
                twice,
                outcome.verdict.value,
            )
        )
    return rows


def catch_up_notes(measurements: Mapping[str, Measurement]) -> list[str]:
    """Return what consumers that stayed away had before them, how they caught up, and what it cost others."""
    notes = []
    for name, measurement in measurements.items():
        unread, took, rate = (
            metric_value(measurement, metric) for metric in ("unread_records", "catch_up_s", "catch_up_records_per_s")
        )
        if unread is None:
            continue
        told = "not read to the end" if took is None else f"read in {took:.1f} s"
        told += "" if rate is None else f" ({number(rate)}/s)"
        for who, stem in (("producers", "latency"), ("other groups", "end_to_end")):
            spans = ("before", "unread", "during")
            told += _p99_of(who, [metric_value(measurement, f"{stem}_{at}_ms.p99") for at in spans])
        notes.append(f"note: {name}: {unread:,.0f} records unread, {told}")
    return notes


def _p99_of(who: str, found: Sequence[float | None]) -> str:
    """Return the p99 before consumers stayed away, while nobody read, and while they caught up."""
    before, unread, during = found
    if before is None or during is None:
        return ""
    between = "" if unread is None else f" -> {number(unread)} with it unread"
    return f"; p99 of {who} {number(before)}{between} -> {number(during)} ms meanwhile"


def growth_notes(measurements: Mapping[str, Measurement]) -> list[str]:
    """Return what time alone did to a load that went on for long."""
    notes = []
    for name, measurement in measurements.items():
        found = [
            f"{what} x {value:.2f}"
            for what, metric in (("p99", "p99"), ("CPU per record", "cpu_per_record"), ("memory", "memory"))
            if (value := metric_value(measurement, f"{metric}_growth")) is not None
        ]
        notes += [f"note: {name}: end over start: {', '.join(found)}"] if found else []
    return notes


def outage_note(measurements: Mapping[str, Measurement], profile: Profile | None) -> str:
    """Return which scenarios with a fault have no stored outage to be held against; empty when all have."""
    stored = profile.thresholds if profile else {}
    without = [
        name
        for name, measurement in measurements.items()
        if isinstance(measurement.scenario, FaultScenario)
        and not any(t.metric.name == OUTAGE for t in stored.get(name, ()))
    ]
    if not without:
        return ""
    return (
        f"note: no outage is stored for {len(without)} of these scenarios: it was held against the most that the "
        "brokers' settings predict (expected), which sees no smaller loss; make baseline stores what is usual"
    )
