"""Tables and notes of the terminal: on faults, on roles of nodes, on loads that change, and on the machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from perfgate.judge.faults.expectation import expected_outage, reported_session_s
from perfgate.judge.faults.figures import OUTAGE, resolution_s
from perfgate.judge.faults.rules import usual_latency_s
from perfgate.judge.noise import machine_doubts
from perfgate.judge.phrases import number
from perfgate.model import FAULTS, Measurement, Outcome, Profile
from perfgate.model.faults import FaultScenario, Figures
from perfgate.model.metrics import OWED, P99_BACK, PHASE_CPU, PHASE_LATENCY, ROLES
from perfgate.model.summary import metric_value
from perfgate.report.figures import or_dash

OF_FAULTS = ("rounds", "outage s", "expected", "partition s", "recovered s", "full ISR s", "lost", "twice")
FAULT_COLUMNS = ("fault", *OF_FAULTS, "verdict")
IN_AND_AFTER = ("in peak", "after")
MEDIANS = ("outage_s.max", "outage_partition_seconds", "recovery_s", "full_isr_s")
SUMS = ("lost_records", "duplicated_records")
ROLE_COLUMNS = (
    "scenario: cores, MiB of memory, MiB/s to disk",
    *(name.removeprefix("the ") for name in ROLES.values()),
)
FIGURES = ("broker_cpu_cores", "broker_rss_mib", "broker_disk_write_mib_per_s")
OF_PEAKS = ("p99 ms before", *IN_AND_AFTER, "back in s", "owed at most", "broker cores before", *IN_AND_AFTER)
PEAK_COLUMNS = ("shape", "records/s", *OF_PEAKS, "verdict")


def _with_fault(measurements: Mapping[str, Measurement]) -> Iterator[tuple[str, FaultScenario, Measurement]]:
    for name, measurement in measurements.items():
        if isinstance(measurement.scenario, FaultScenario):
            yield name, measurement.scenario, measurement


def fault_rows(outcomes: Mapping[str, Outcome], measurements: Mapping[str, Measurement]) -> list[tuple[str, ...]]:
    """Return the cells of the scenarios with a fault in FAULT_COLUMNS' order: medians, of losses the sum."""
    rows: list[tuple[str, ...]] = []
    for name, scenario, measurement in _with_fault({name: measurements[name] for name in outcomes}):
        outage, *times = (or_dash(metric_value(measurement, metric), "{:.1f}".format) for metric in MEDIANS)
        if resolution := resolution_s(measurement):
            outage += f" ±{resolution:.1f}"
        losses = [f"{sum(r.metrics.get(metric, 0) for r in measurement.rounds):,.0f}" for metric in SUMS]
        expected = expected_outage(scenario, usual_latency_s(measurement), reported_session_s(measurement))
        span = f"{expected.low_s:.1f}..{expected.high_s:.1f}"
        verdict = outcomes[name].verdict.value
        rows.append((name, str(len(measurement.rounds)), outage, span, *times, *losses, verdict))
    return rows


def kind_notes(measurements: Mapping[str, Measurement]) -> list[str]:
    return [
        f"note: {name}: {text}"
        for kind in FAULTS.values()
        for name, scenario, measurement in _with_fault(measurements)
        if scenario.fault.kind == kind.name and (text := kind.note(Figures(partial(metric_value, measurement), number)))
    ]


def outage_note(measurements: Mapping[str, Measurement], profile: Profile | None, recording: str) -> str:
    """Return a note that scenarios with a fault have no stored outage; `recording`: the command that stores them."""
    stored = profile.thresholds if profile else {}
    without = [
        name for name, *_ in _with_fault(measurements) if not any(t.metric.name == OUTAGE for t in stored.get(name, ()))
    ]
    if not without:
        return ""
    return (
        f"note: no outage is stored for {len(without)} of these scenarios: it was held against the most that the "
        f"brokers' settings predict (expected), which sees no smaller loss; {recording} stores what is usual"
    )


def role_rows(measurements: Mapping[str, Measurement]) -> list[tuple[str, ...]]:
    """Return the cells of ROLE_COLUMNS of every scenario whose nodes have roles; a dash where there is no number."""
    rows = []
    for name, measurement in measurements.items():
        values = [[metric_value(measurement, f"{stem}.{role}") for stem in FIGURES] for role in ROLES]
        if any(value is not None for figures in values for value in figures):
            rows.append((name, *(", ".join(map(or_dash, figures)) for figures in values)))
    return rows


def peak_rows(outcomes: Mapping[str, Outcome], measurements: Mapping[str, Measurement]) -> list[tuple[str, ...]]:
    """Return the cells of PEAK_COLUMNS for each scenario of such a load; a dash where there is no number."""
    rows: list[tuple[str, ...]] = []
    for name, outcome in outcomes.items():
        shape = measurements[name].scenario.load.shape
        if shape is None:
            continue
        metrics = (*(f"{latency}.p99" for latency in PHASE_LATENCY.values()), P99_BACK, OWED, *PHASE_CPU.values())
        figures = (or_dash(metric_value(measurements[name], metric)) for metric in metrics)
        rows.append((name, " to ".join(map(number, shape.rates)), *figures, outcome.verdict.value))
    return rows


def machine_notes(measured: Mapping[str, Measurement], recorded: Mapping[str, float] | None) -> list[str]:
    """Return a note on the scenarios beside which the machine was off; `recorded`: the canary of the held profile."""
    doubts = {name: found for name, m in measured.items() if (found := machine_doubts(m.canary, recorded))}
    if not doubts:
        return []
    worst = max((doubt for each in doubts.values() for doubt in each), key=lambda doubt: doubt.factor or 1.0)
    beside = f"{len(doubts)} of {len(measured)} scenarios ({', '.join(doubts)})"
    return [f"note: the machine was off beside {beside}; at its worst: {worst.text}"]


def canary_figures(measured: Mapping[str, Measurement]) -> str:
    """Return the least and the most of what the canary read in the run; empty where it read nothing."""
    readings = [reading for measurement in measured.values() for reading in measurement.canary]
    if not readings:
        return ""
    deflate, loopback = ([getattr(r, name) for r in readings] for name in ("deflate_mib_per_s", "loopback_per_s"))
    steal, others = (max(getattr(r, name) for r in readings) for name in ("steal", "others"))
    return (
        f"deflate {number(min(deflate))} .. {number(max(deflate))} MiB/s, loopback {number(min(loopback))} .. "
        f"{number(max(loopback))} round trips/s, steal up to {steal * 100:.0f} %, other processes up to "
        f"{others * 100:.0f} %"
    )
