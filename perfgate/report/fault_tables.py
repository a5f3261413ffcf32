"""Tables and notes of scenarios with a fault, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from perfgate.judge.faults.expectation import expected_outage, told_session_s
from perfgate.judge.faults.figures import OUTAGE, told_to_s
from perfgate.judge.faults.rules import usual_latency_s
from perfgate.judge.phrases import number
from perfgate.model import FAULTS, Measurement, Outcome, Profile
from perfgate.model.command import command_line
from perfgate.model.faults import FaultScenario, Figures
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
MEDIANS = ("outage_s.max", "outage_partition_seconds", "recovery_s", "full_isr_s")
SUMS = ("lost_records", "duplicated_records")


def _with_fault(measurements: Mapping[str, Measurement]) -> Iterator[tuple[str, FaultScenario, Measurement]]:
    for name, measurement in measurements.items():
        if isinstance(measurement.scenario, FaultScenario):
            yield name, measurement.scenario, measurement


def fault_rows(outcomes: Mapping[str, Outcome], measurements: Mapping[str, Measurement]) -> list[tuple[str, ...]]:
    """Return the cells of the scenarios with a fault in FAULT_COLUMNS' order: medians, of losses the sum."""
    rows: list[tuple[str, ...]] = []
    for name, scenario, measurement in _with_fault({name: measurements[name] for name in outcomes}):
        values = [metric_value(measurement, metric) for metric in MEDIANS]
        outage, *times = ("-" if value is None else f"{value:.1f}" for value in values)
        if resolution := told_to_s(measurement):
            outage += f" ±{resolution:.1f}"
        losses = [f"{sum(r.metrics.get(metric, 0) for r in measurement.rounds):,.0f}" for metric in SUMS]
        expected = expected_outage(scenario, usual_latency_s(measurement), told_session_s(measurement))
        span = f"{expected.low_s:.1f}..{expected.high_s:.1f}"
        verdict = outcomes[name].verdict.value
        rows.append((name, str(len(measurement.rounds)), outage, span, *times, *losses, verdict))
    return rows


def kind_notes(measurements: Mapping[str, Measurement]) -> list[str]:
    """Return what each kind of fault notes of the scenarios that have it."""
    notes = []
    for kind in FAULTS.values():
        for name, scenario, measurement in _with_fault(measurements):
            if scenario.fault.kind == kind.name:
                text = kind.note(Figures(partial(metric_value, measurement), number))
                notes += [f"note: {name}: {text}"] if text else []
    return notes


def outage_note(measurements: Mapping[str, Measurement], profile: Profile | None) -> str:
    """Return that scenarios with a fault have no stored outage; empty when all have."""
    stored = profile.thresholds if profile else {}
    without = [
        name for name, *_ in _with_fault(measurements) if not any(t.metric.name == OUTAGE for t in stored.get(name, ()))
    ]
    if not without:
        return ""
    return (
        f"note: no outage is stored for {len(without)} of these scenarios: it was held against the most that the "
        "brokers' settings predict (expected), which sees no smaller loss; "
        f"{command_line('baseline')} stores what is usual"
    )
