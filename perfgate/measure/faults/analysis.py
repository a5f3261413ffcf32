"""Analysis of a round with a fault: from its history to metrics, phases, steps, integrity and timeline. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from perfgate.load.history import Rows
from perfgate.load.positions import in_words
from perfgate.measure.faults import outage as gaps
from perfgate.measure.faults import reading
from perfgate.measure.faults.flaws import AT_ONCE_S, failures, in_spite_of_late_s, lateness, schedule_delay_s
from perfgate.measure.faults.growth import growth_metrics
from perfgate.measure.faults.history import (
    Record,
    Written,
    by_partition,
    cores,
    history_path,
    logs_of,
    recall,
    records_of,
    sends_of,
)
from perfgate.measure.faults.integrity import ACKED, UNSENT, Integrity, Sends, check_integrity
from perfgate.measure.faults.outage import Interval, Outage
from perfgate.measure.faults.reading import Lag
from perfgate.model import Accounting, Failover, Measurement, Round
from perfgate.model.faults import BEFORE_S
from perfgate.model.histogram import latency_metrics
from perfgate.model.target import ASK_EVERY_S, LoggedChange, State

CATCHING_UP = "catching up"
POLLED, LOGGED = "asked of the brokers every 100 ms", "from the controllers' metadata log"
INTEGRITY: Mapping[str, Callable[[Integrity], int]] = {
    "lost_records": lambda integrity: integrity.lost.total,
    "duplicated_records": lambda integrity: integrity.duplicated.total,
    "reordered_records": lambda integrity: integrity.reordered.total,
    "unknown_records": lambda integrity: integrity.unknown,
    "vanished_records": lambda integrity: integrity.unknown - integrity.appeared,
}
"""Metrics that need the whole log."""
MAY_LACK = (
    "recovery_s",
    "rate_recovery_s",
    "catch_up_s",
    "lag_drained_s",
    "full_isr_s",
    "preferred_leaders_s",
    "controller_changes",
    "unclean_elections",
    "others_receive_outage_s.max",
)
"""Metrics whose absence is a result: a recorded figure is of an earlier analysis."""


def analyse(written: Written) -> tuple[Failover, dict[str, float], Accounting]:
    """The round's failover, metrics and accounting. Raises ValueError where it does not show what is normal."""
    producers = [sends_of(s, o) for s, o in zip(written.sends, written.outcomes, strict=True)]
    logs = logs_of(written.log, written.partitions)
    integrity = check_integrity(producers, logs, in_words if written.system == "pulsar" else str)
    records = records_of(written.start, written.rate, producers, written.outcomes)
    fault = written.fault
    served = by_partition(records.heard[records.acknowledged], records.partition[records.acknowledged], written)
    lost_service = gaps.outage(served, written.begin, fault, written.end)
    lag = reading.lag_of(written, records, integrity.lost.total)
    taken = reading.received(written)
    shown = taken if taken and written.rebalanced else lost_service
    phases = _phases(written, shown, lag)
    spans = _spans(phases)
    metrics = {
        **_outage_metrics(lost_service, taken),
        **reading.others_gap_s(written),
        "outage_resolution_s": max(lost_service.resolution_s, schedule_delay_s(written)),
        "late_sends_s": lost_service.max_s - in_spite_of_late_s(written, served),
        **_recovery_metrics(written, records),
        **_latency_metrics(records, spans),
        **{name: float(count(integrity)) for name, count in INTEGRITY.items()},
        **(reading.reading_metrics(written, lag) if lag else {}),
        **reading.accepting_metrics(written),
        **reading.end_to_end(written, spans),
        **_cpu_metrics(written, spans),
        **growth_metrics(written, records),
        **log_metrics(written),
        "leader_changes": float(leader_changes(written.states, fault)),
    }
    at_once = records.acknowledged & (records.latency <= AT_ONCE_S)
    acknowledged, p99_ms = _timeline(written, records)
    return (
        Failover(
            marks=tuple((at - fault, words) for at, words in written.marks),
            phases={name: (opens - fault, closes - fault) for name, (opens, closes) in phases.items()},
            shares=gaps.shares(records.due, records.partition, records.acknowledged, phases),
            shares_at_once=gaps.shares(records.due, records.partition, at_once, phases),
            split=steps_of(written, lost_service),
            split_source=POLLED if written.changes is None else LOGGED,
            down={
                str(n): tuple((opens - fault, closes - fault) for opens, closes in partition.down)
                for n, partition in shown.partitions.items()
            },
            leaders=tuple((state.at - fault, state.leaders) for state in written.states),
            in_sync=tuple((state.at - fault, tuple(map(len, state.in_sync))) for state in written.states),
            integrity={kind: finding.total for kind, finding in integrity.faults.items()}
            | {"unknown": integrity.unknown, "appeared": integrity.appeared, **failures(written)},
            findings={kind: finding.first for kind, finding in integrity.faults.items() if finding.first},
            seconds_from=written.begin - fault,
            acknowledged=acknowledged,
            p99_ms=p99_ms,
            unread=reading.unread_by_second(written, lag),
        ),
        metrics,
        _accounting(producers, written),
    )


def judged_again(measurement: Measurement, folder: Path) -> Measurement:
    """The measurement with every round whose history lies in `folder` analysed anew."""
    return replace(measurement, rounds=tuple(_analysed(measurement, r, folder) for r in measurement.rounds))


def _analysed(measurement: Measurement, r: Round, folder: Path) -> Round:
    path = history_path(folder, measurement.scenario.name, r.index)
    if r.failover is None or not path.exists():
        return r
    failover, metrics, accounting = analyse(recall(path))
    if "lost_records" not in r.metrics:  # its log was not read to the end, nor is that in the history
        failover, metrics = without_integrity(failover, metrics)
    known = {name: value for name, value in r.metrics.items() if name not in MAY_LACK}
    failover = replace(failover, session_s=r.failover.session_s)
    return replace(r, failover=failover, metrics={**known, **metrics}, accounting=accounting)


def without_integrity(failover: Failover, metrics: Mapping[str, float]) -> tuple[Failover, dict[str, float]]:
    """The analysis of a round whose log was not read to its end, without the metrics of lost records."""
    sends = {name: n for name, n in failover.integrity.items() if name in ("failed", "timed_out")}
    known = {name: value for name, value in metrics.items() if name not in INTEGRITY}
    return replace(failover, integrity={**dict.fromkeys(failover.integrity, 0), **sends}, findings={}), known


def _phases(written: Written, lost: Outage, lag: Lag | None) -> dict[str, Interval]:
    """Phases in which service (`lost`) was as before, lacking (of some partition), with a shrunken ISR, and restored.

    Where consumers stayed away: as before, with unread records, while they caught up, and since. Where members came and
    went: before that, until each partition was read again, and after. Where nothing was done: before, during and after.
    """
    fault = written.fault
    before = {"before": (written.begin, fault)}
    if lag is not None and (again := written.read_again) is not None:
        caught_up = written.end if lag.caught_up is None else lag.caught_up
        phases = {"unread": (fault, again), CATCHING_UP: (again, caught_up), "caught up": (caught_up, written.end)}
    elif written.rebalanced:
        ends = [end for partition in lost.partitions.values() for _, end in partition.down]
        done = max([written.marks[-1][0], *ends])
        phases = {"rebalancing": (fault, done), "after": (done, written.end)}
    elif written.endured is not None:
        end = written.endured[1]
        phases = {"going on": (fault, end), "after": (end, written.end)}
    else:
        served_again = max((end for _, end in first_outage(lost, written.marks)), default=fault)
        full = _first(written.states, max(served_again, written.marks[-1][0]), "full")
        restored = written.end if full is None else max(full, served_again)
        phases = {
            "no leader": (fault, served_again),
            "shrunken ISR": (served_again, restored),
            "restored": (restored, written.end),
        }
    return before | phases


def _spans(phases: Mapping[str, Interval]) -> dict[str, Interval]:
    """Spans before, with unread records (if consumers stayed away), during (until all is well) and after."""
    *_, after = phases.values()
    unread = {"unread": phases["unread"]} if CATCHING_UP in phases else {}
    fault = phases["before"][1]
    opens = phases[CATCHING_UP][0] if CATCHING_UP in phases else fault
    return {"before": phases["before"], **unread, "during": (opens, after[0]), "after": after}


def _first(states: Sequence[State], since: float, wanted: str) -> float | None:
    """Moment, at or after `since`, at which the brokers were first `full` or `preferred`; None when they never were."""
    held = [state for state in states if state.at <= since][-1:]
    if held and getattr(held[0], wanted):
        return since
    return next((state.at for state in states if state.at > since and getattr(state, wanted)), None)


def _whole_since(written: Written, wanted: str) -> float | None:
    """Time in s from the fault until the brokers were `full` or `preferred` for good; 0.0 when they always were."""
    fault = written.fault
    held = [state for state in written.states if state.at <= fault][-1:]
    if held and all(getattr(state, wanted) for state in (*held, *(s for s in written.states if s.at > fault))):
        return 0.0
    whole = _first(written.states, written.marks[-1][0], wanted)
    return None if whole is None else whole - fault


def _outage_metrics(lost: Outage, received: Outage | None) -> dict[str, float]:
    metrics = {
        "outage_s.max": lost.max_s,
        "outage_s.median": lost.median_s,
        "outage_affected": float(lost.affected),
        "outage_partition_seconds": lost.partition_seconds,
        "outage_all_s": lost.all_down_s,
    }
    if received:
        metrics["receive_outage_s.max"] = received.max_s
        metrics["receive_outage_affected"] = float(received.affected)
        metrics["receive_outage_partition_seconds"] = received.beyond_s
        metrics["receive_outage_all_s"] = received.all_down_s
    return metrics


def recovered(
    start: float,
    rate: float,
    sends: Sequence[Rows],
    outcomes: Sequence[Rows],
    fault: float,
    now: float,
    *,
    since: float,
) -> bool:
    """Whether the load, as recorded until `now`, is as it was before the fault."""
    producers = [sends_of(s, o) for s, o in zip(sends, outcomes, strict=True)]
    return "recovery_s" in _recovery(records_of(start, rate, producers, outcomes), fault, now, since)


def _recovery(records: Record, fault: float, end: float, since: float, *, in_time: bool = True) -> dict[str, float]:
    """Time in s from `since` until the rate, and the load as a whole, were as before, and that rate. Without the times
    where the rate was lost again at the end, of a load that was handed over `in_time`."""
    begin, served = fault - BEFORE_S, records.acknowledged
    at, latency = records.heard[served], records.latency[served]
    before = (at >= begin) & (at < fault)
    if not before.any():
        return {}
    after, rate = gaps.bins(at, latency, since, end), float(before.sum() / (fault - begin))
    seconds = gaps.bins(at, latency, begin, fault).rate
    single = float(seconds.min(initial=rate)), float(seconds.max(initial=rate))
    times = {
        "recovery_s": gaps.recovery(after, rate, float(np.percentile(latency[before], 99.0)), single),
        "rate_recovery_s": gaps.recovery(after, rate, single=single),
    }
    offered = float(((records.due >= begin) & (records.due < fault)).sum() / (fault - begin))
    if in_time and not gaps.kept(np.sort(at), min(rate, offered), end):
        times = {}  # the rate had recovered for a while, not for good
    return {name: value for name, value in times.items() if value is not None} | {"records_per_s": rate}


def _recovery_metrics(written: Written, records: Record) -> dict[str, float]:
    times = {"full_isr_s": _whole_since(written, "full"), "preferred_leaders_s": _whole_since(written, "preferred")}
    sends, late = lateness(written)
    late = late[sends["at"] >= written.end - gaps.LAST_S - gaps.STEADY_BINS * gaps.BIN_S]
    return {name: value for name, value in times.items() if value is not None} | _recovery(
        records,
        written.fault,
        written.end,
        written.fault if written.read_again is None else written.read_again,
        in_time=len(late) > 0 and float(late.max()) <= (1 - gaps.RATE_SHARE) * gaps.STEADY_BINS * gaps.BIN_S,
    )


def _latency_metrics(records: Record, spans: Mapping[str, Interval]) -> dict[str, float]:
    """Percentiles before, during and after; a record that the fault caught under way is not of before."""
    metrics: dict[str, float] = {}
    for name, (opens, closes) in spans.items():
        chosen = records.acknowledged & (records.due >= opens) & (records.due < closes)
        if name == "before":
            chosen &= records.heard < closes
        if chosen.any():
            metrics |= latency_metrics([reading.encoded(records.latency[chosen])], f"latency_{name}_ms")
    return metrics


def _cpu_metrics(written: Written, spans: Mapping[str, Interval]) -> dict[str, float]:
    used = {f"broker_cpu_{name}_cores": cores(written.cpu, *span) for name, span in spans.items()}
    return {name: value for name, value in used.items() if value is not None}


def _timeline(written: Written, records: Record) -> tuple[dict[str, tuple[int, ...]], tuple[float | None, ...]]:
    """Records acknowledged in each second by partition, and the p99 in ms, as in Failover."""
    at, latency = records.heard[records.acknowledged], records.latency[records.acknowledged]
    partitions = by_partition(at, records.partition[records.acknowledged], written)
    acknowledged = {
        str(number): tuple(int(n * gaps.BIN_S) for n in gaps.bins(times, times, written.begin, written.end).rate)
        for number, times in partitions.items()
    }
    p99_s = gaps.bins(at, latency, written.begin, written.end).p99_s
    return acknowledged, tuple(None if np.isinf(p99) else float(p99) * 1e3 for p99 in p99_s)


def _accounting(producers: Sequence[Sends], written: Written) -> Accounting:
    acked = sum(int((sends.outcome == ACKED).sum()) for sends in producers)
    attempted = sum(int((sends.outcome != UNSENT).sum()) for sends in producers)
    failed = sum(int((rows["error"] != 0).sum()) for rows in written.outcomes)
    return Accounting(
        attempted=attempted,
        acked=acked,
        failed={"delivery": failed} if failed else {},
        unresolved=attempted - acked - failed,
        offset_delta=sum(written.end_offsets),
    )


def first_outage(lost: Outage, marks: Sequence[tuple[float, str]]) -> list[Interval]:
    """The intervals of the outage that the fault brought, up to full service and before anything else was done."""
    fault, until = marks[0][0], marks[1][0] if len(marks) > 1 else float("inf")
    first: list[Interval] = []
    for begin, closes in sorted(interval for partition in lost.partitions.values() for interval in partition.down):
        if begin >= until or (first and begin > max(end for _, end in first)):
            break
        if closes > fault:
            first.append((begin, closes))
    return first


def leader_changes(states: Sequence[State], fault: float) -> int:
    """Number of times that partitions got another leader; to have had none in between is no change."""
    changes, last = 0, list(states[0].leaders)
    for state in states:
        for partition, leader in enumerate(state.leaders):
            if leader >= 0 and leader != last[partition]:
                changes += state.at >= fault
                last[partition] = leader
    return changes


def steps_of(written: Written, lost: Outage) -> dict[str, float]:
    """Times of the fault's steps: fenced, elected, first waiting record acknowledged."""
    fault = written.fault
    steps = _steps_polled(written.states, fault) if written.changes is None else _steps_logged(written.changes, fault)
    elected = steps["elected_s"] or 0.0
    ends = [end for _, end in first_outage(lost, written.marks) if end >= elected - ASK_EVERY_S]
    moments = {**steps, "first_ack_s": min(ends, default=None)}
    return {name: at - fault for name, at in moments.items() if at is not None}


def _steps_polled(states: Sequence[State], fault: float) -> dict[str, float | None]:
    before = next((s for s in reversed(states) if s.at < fault), states[0])
    return {
        "fenced_s": next((s.at for s in states if s.at >= fault and len(s.brokers) < len(before.brokers)), None),
        "elected_s": next(
            (s.at for s in states if s.at >= fault and s.leaders != before.leaders and min(s.leaders) >= 0), None
        ),
    }


def _steps_logged(changes: Sequence[LoggedChange], fault: float) -> dict[str, float | None]:
    """`elected_s`: of the last of the leaders that were elected before any broker came back."""
    since = [change for change in changes if change.at >= fault]
    back = min((change.at for change in since if change.what == "back"), default=float("inf"))
    elected = [change.at for change in since if change.what == "leader" and change.leader >= 0 and change.at < back]
    return {
        "controller_s": next((change.at for change in since if change.what == "controller"), None),
        "fenced_s": next((change.at for change in since if change.what == "fenced"), None),
        "elected_s": max(elected, default=None),
    }


def log_metrics(written: Written) -> dict[str, float]:
    if written.changes is None:
        return {}
    since = [change for change in written.changes if change.at >= written.fault]
    metrics = {"unclean_elections": float(sum(change.unclean for change in since))}
    if any(change.what == "controller" for change in written.changes):  # else the log began later
        metrics["controller_changes"] = float(sum(change.what == "controller" for change in since))
    return metrics
