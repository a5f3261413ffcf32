"""Analysis of a round with a fault: from what was written down to metrics, phases, integrity and timeline. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from perfgate.load.history import Rows
from perfgate.measure.faults.accepting import accepting_metrics
from perfgate.measure.faults.failing import failures
from perfgate.measure.faults.growth import growth_metrics
from perfgate.measure.faults.integrity import ACKED, UNSENT, Integrity, Sends, check_integrity
from perfgate.measure.faults.late import in_spite_of_late_s, lateness, schedule_delay_s
from perfgate.measure.faults.outage import (
    BIN_S,
    LAST_S,
    RATE_SHARE,
    STEADY_BINS,
    Interval,
    Outage,
    bins,
    kept,
    outage,
    recovery,
    shares,
)
from perfgate.measure.faults.reading import (
    Lag,
    end_to_end,
    lag_of,
    others_gap_s,
    reading_metrics,
    received,
    unread_by_second,
)
from perfgate.measure.faults.steps import LOGGED, POLLED, first_outage, leader_changes, log_metrics, steps_of
from perfgate.measure.faults.written import Record, Written, by_partition, logs_of, records_of, sends_of
from perfgate.model import Accounting, Failover
from perfgate.model.faults import BEFORE_S
from perfgate.model.histogram import LatencyRecorder, encode, latency_metrics
from perfgate.model.nodes import State

CATCHING_UP = "catching up"
AT_ONCE_S = 1.0
"""A send that took no longer succeeded while its phase lasted, not because the client waited for the next one."""

INTEGRITY = ("lost_records", "duplicated_records", "reordered_records", "unknown_records", "vanished_records")
"""Metrics that only the whole log tells."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seconds:
    """The timeline second by second, as in Failover."""

    acknowledged: Mapping[str, tuple[int, ...]]
    p99_ms: tuple[float | None, ...]


def analyse(written: Written) -> tuple[Failover, dict[str, float], Accounting]:
    """Return what happened, the round's metrics, and where its records went.

    Raises ValueError when the load before the fault does not say what is normal.
    """
    producers = [sends_of(s, o) for s, o in zip(written.sends, written.outcomes, strict=True)]
    integrity = check_integrity(producers, logs_of(written.log, written.partitions))
    records = records_of(written.start, written.rate, producers, written.outcomes)
    fault, begin = written.marks[0][0], written.marks[0][0] - BEFORE_S
    served = by_partition(records.heard[records.acknowledged], records.partition[records.acknowledged], written)
    lost_service = outage(served, begin, fault, written.end)
    lag = lag_of(written, records, begin, fault, integrity.lost.total)
    phases = _phases(written, lost_service, fault, lag)
    spans = _spans(phases, begin)
    metrics = {
        **_outage_metrics(lost_service, received(written, begin, fault)),
        **others_gap_s(written, begin, fault),
        "outage_resolution_s": max(lost_service.resolution_s, schedule_delay_s(written)),
        "late_sends_s": lost_service.max_s - in_spite_of_late_s(written, served, fault),
        **_recovery_metrics(written, records, begin, fault),
        **_latency_metrics(records, fault, spans),
        **_integrity_metrics(integrity),
        **(reading_metrics(written, records, fault, lag) if lag else {}),
        **accepting_metrics(written),
        **end_to_end(written, spans),
        **_cpu_metrics(written, spans),
        **growth_metrics(written, records),
        **log_metrics(written, fault),
        "leader_changes": float(leader_changes(written.states, fault)),
    }
    at_once = records.acknowledged & (records.heard - records.due <= AT_ONCE_S)
    in_time = shares(records.due, records.partition, at_once, phases)
    in_the_end = shares(records.due, records.partition, records.acknowledged, phases)
    seconds = _timeline(written, records, begin)
    return (
        Failover(
            marks=tuple((at - fault, words) for at, words in written.marks),
            phases={name: (opens - fault, closes - fault) for name, (opens, closes) in phases.items()},
            shares={name: {str(n): s.share for n, s in found.items()} for name, found in in_the_end.items()},
            shares_at_once={name: {str(n): s.share for n, s in found.items()} for name, found in in_time.items()},
            split=steps_of(written, lost_service, fault),
            split_source=POLLED if written.changes is None else LOGGED,
            down={
                str(n): tuple((opens - fault, closes - fault) for opens, closes in one.down)
                for n, one in lost_service.partitions.items()
            },
            leaders=tuple((state.at - fault, state.leaders) for state in written.states),
            in_sync=tuple((state.at - fault, tuple(map(len, state.in_sync))) for state in written.states),
            integrity={kind: found.total for kind, found in integrity.faults.items()}
            | {"unknown": integrity.unknown, "appeared": integrity.appeared, **failures(written)},
            findings={kind: found.first for kind, found in integrity.faults.items() if found.first},
            seconds_from=begin - fault,
            acknowledged=seconds.acknowledged,
            p99_ms=seconds.p99_ms,
            unread=unread_by_second(written, lag, begin),
        ),
        metrics,
        _accounting(producers, written),
    )


def _phases(written: Written, lost: Outage, fault: float, lag: Lag | None) -> dict[str, Interval]:
    """Return when service was as before, lacking (of some partition), with replicas out of sync, and restored.

    Where consumers stayed away instead: as before, with what nobody read, while they caught up, and since. Where
    nothing was done: before that, while the load went on, and after.
    """
    if lag is not None and (again := written.read_again) is not None:
        caught_up = written.end if lag.caught_up is None else lag.caught_up
        return {
            "before": (fault - BEFORE_S, fault),
            "unread": (fault, again),
            CATCHING_UP: (again, caught_up),
            "caught up": (caught_up, written.end),
        }
    if written.endured is not None:
        end = written.endured[1]
        return {"before": (fault - BEFORE_S, fault), "going on": (fault, end), "after": (end, written.end)}
    served_again = max((end for _, end in first_outage(lost, written.marks)), default=fault)
    full = _first(written.states, max(served_again, written.marks[-1][0]), "full")
    restored = written.end if full is None else max(full, served_again)
    return {
        "before": (fault - BEFORE_S, fault),
        "no leader": (fault, served_again),
        "shrunken ISR": (served_again, restored),
        "restored": (restored, written.end),
    }


def _first(states: Sequence[State], since: float, wanted: str) -> float | None:
    """Return when, at or after `since`, the brokers were first `full` or `preferred`; None when they never were."""
    held = [state for state in states if state.at <= since][-1:]
    if held and getattr(held[0], wanted):
        return since
    return next((state.at for state in states if state.at > since and getattr(state, wanted)), None)


def _whole_since(written: Written, fault: float, wanted: str) -> float | None:
    """Return how long after the fault the brokers were `full` or `preferred` for good; 0.0 when they always were."""
    held = [state for state in written.states if state.at <= fault][-1:]
    if held and all(getattr(state, wanted) for state in (*held, *(s for s in written.states if s.at > fault))):
        return 0.0
    return _since(_first(written.states, written.marks[-1][0], wanted), fault)


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
    """Return whether the load, as far as it was written down until `now`, is as before the fault again since then."""
    producers = [sends_of(s, o) for s, o in zip(sends, outcomes, strict=True)]
    return "recovery_s" in _recovery(records_of(start, rate, producers, outcomes), fault - BEFORE_S, fault, now, since)


def _recovery(
    records: Record, begin: float, fault: float, end: float, since: float, *, in_time: bool = True
) -> dict[str, float]:
    """Return how long after `since` the rate and the load as a whole were as before, if ever; and that rate.

    Neither is where the rate was lost again at the end, of a load that was handed over `in_time` then.
    """
    served = records.acknowledged
    at, latency = records.heard[served], (records.heard - records.due)[served]
    before = (at >= begin) & (at < fault)
    if not before.any():
        return {}
    after, rate = bins(at, latency, since, end), float(before.sum() / (fault - begin))
    seconds = bins(at, latency, begin, fault).rate
    single = float(seconds.min(initial=rate)), float(seconds.max(initial=rate))
    found = {
        "recovery_s": recovery(after, rate, float(np.percentile(latency[before], 99.0)), single),
        "rate_recovery_s": recovery(after, rate, single=single),
    }
    offered = float(((records.due >= begin) & (records.due < fault)).sum() / (fault - begin))
    if in_time and not kept(np.sort(at), min(rate, offered), end):
        found = {}  # it was so for a while, and not for good
    return {name: value for name, value in found.items() if value is not None} | {"records_per_s": rate}


def _recovery_metrics(written: Written, records: Record, begin: float, fault: float) -> dict[str, float]:
    found = {
        "full_isr_s": _whole_since(written, fault, "full"),
        "preferred_leaders_s": _whole_since(written, fault, "preferred"),
    }
    sends, late = lateness(written)
    late = late[sends["at"] >= written.end - LAST_S - STEADY_BINS * BIN_S]
    return {name: value for name, value in found.items() if value is not None} | _recovery(
        records,
        begin,
        fault,
        written.end,
        fault if written.read_again is None else written.read_again,
        in_time=len(late) > 0 and float(late.max()) <= (1 - RATE_SHARE) * STEADY_BINS * BIN_S,
    )


def _spans(phases: Mapping[str, Interval], begin: float) -> dict[str, Interval]:
    """Return before, during (from the fault until all is restored, or while readers catch up) and after.

    And, between before and during, while nobody read, where consumers stayed away.
    """
    *_, after = phases.values()
    unread = {"unread": phases["unread"]} if CATCHING_UP in phases else {}
    opens = phases[CATCHING_UP][0] if CATCHING_UP in phases else phases["before"][1]
    return {"before": (begin, phases["before"][1]), **unread, "during": (opens, after[0]), "after": after}


def _since(moment: float | None, fault: float) -> float | None:
    return None if moment is None else moment - fault


def _latency_metrics(records: Record, fault: float, spans: Mapping[str, Interval]) -> dict[str, float]:
    """Return the percentiles before, during and after; a record that the fault caught under way is not of before."""
    metrics: dict[str, float] = {}
    for name, (opens, closes) in spans.items():
        chosen = records.acknowledged & (records.due >= opens) & (records.due < closes)
        if name == "before":
            chosen &= records.heard < fault
        if chosen.any():
            metrics |= latency_metrics([histogram(records, chosen)], f"latency_{name}_ms")
    return metrics


def histogram(records: Record, chosen: npt.NDArray[np.bool_]) -> str:
    """Return the encoded histogram of these records' latencies, from the time they were due."""
    recorder = LatencyRecorder()
    recorder.record((records.heard - records.due)[chosen])
    return encode(recorder.histogram())


def _integrity_metrics(integrity: Integrity) -> dict[str, float]:
    return {
        "lost_records": float(integrity.lost.total),
        "duplicated_records": float(integrity.duplicated.total),
        "reordered_records": float(integrity.reordered.total),
        "unknown_records": float(integrity.unknown),
        "vanished_records": float(integrity.unknown - integrity.appeared),
    }


def _cpu_metrics(written: Written, spans: Mapping[str, Interval]) -> dict[str, float]:
    """Return the cores that all brokers used together in each span."""
    found = {f"broker_cpu_{name}_cores": written.cores(*span) for name, span in spans.items()}
    return {name: value for name, value in found.items() if value is not None}


def without_integrity(failover: Failover, metrics: Mapping[str, float]) -> tuple[Failover, dict[str, float]]:
    """Return the analysis of a round whose log was not read to its end, without what that says of lost records."""
    kept = {name: n for name, n in failover.integrity.items() if name in ("failed", "timed_out")}
    unknown = dict.fromkeys((name for name in failover.integrity if name not in kept), 0)
    known = {name: value for name, value in metrics.items() if name not in INTEGRITY}
    return replace(failover, integrity={**unknown, **kept}, findings={}), known


def _timeline(written: Written, records: Record, begin: float) -> _Seconds:
    at, served = records.heard, records.acknowledged
    everything = bins(at[served], (records.heard - records.due)[served], begin, written.end)
    per_partition = {
        str(number): tuple(int(n * BIN_S) for n in bins(at[here], at[here], begin, written.end).rate)
        for number in range(written.partitions)
        for here in [served & (records.partition == number)]
    }
    return _Seconds(
        acknowledged=per_partition,
        p99_ms=tuple(None if np.isinf(p99) else float(p99) * 1e3 for p99 in everything.p99_s),
    )


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
