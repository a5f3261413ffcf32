"""Analysis of a round with a fault: from what was written down to metrics, phases, integrity and timeline. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from perfgate.experiment.faults.integrity import ACKED, UNKNOWN, UNSENT, Integrity, Log, Sends, check_integrity
from perfgate.experiment.faults.outage import BIN_S, Interval, Outage, bins, outage, recovery, shares
from perfgate.load.history import Rows
from perfgate.model import TOLD_S, Accounting, Failover
from perfgate.model.histogram import LatencyRecorder, encode, latency_metrics
from perfgate.model.nodes import ASK_EVERY_S, Change, State

BEFORE_S = 10.0
"""So long before the fault says what is normal."""
POLLED = "asked of the brokers every 100 ms"
LOGGED = "from the controllers' metadata log"
LAG_EVERY_S = 0.1
SPOILT_SHARE = 0.05
"""The latency of a load that was later than this share of it (p99 of both) is not that of the brokers."""
AT_ONCE_S = 1.0
"""A send that took no longer succeeded while its phase lasted, not because the client waited for the next one."""

Times = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What was written down. Times in s on the monotonic clock; `start`: when the first record was due.

    `sends` and `outcomes` of every producer; `receipts` of the consumers that read along; `log` of the fresh one.
    `changes`: by the controllers' log, None where it was out of reach; `cpu`: seconds of CPU that every broker had
    used at a moment, by its id, as long as it was there.
    """

    start: float
    rate: float
    partitions: int
    sends: Sequence[Rows]
    outcomes: Sequence[Rows]
    receipts: Sequence[Rows]
    log: Rows
    end_offsets: Sequence[int]
    marks: Sequence[tuple[float, str]]
    states: Sequence[State]
    changes: Sequence[Change] | None
    cpu: Sequence[tuple[float, Mapping[str, float]]]
    end: float


@dataclass(frozen=True, kw_only=True, slots=True)
class _Record:
    """Every record that was handed over, of all producers: arrays of one length."""

    due: Times
    partition: npt.NDArray[np.int64]
    acknowledged: npt.NDArray[np.bool_]
    heard: Times


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seconds:
    """The timeline second by second, as in Failover."""

    acknowledged: Mapping[str, tuple[int, ...]]
    p99_ms: tuple[float | None, ...]


def sends_of(sends: Rows, outcomes: Rows) -> Sends:
    """Return what a producer knows of its records: those handed over without an outcome are UNKNOWN."""
    count = int(max((sends["first"] + sends["count"]).max(initial=0), outcomes["sequence"].max(initial=-1) + 1))
    outcome = np.full(count, UNSENT, np.int8)
    partition, offset = np.full(count, -1, np.int16), np.full(count, -1, np.int64)
    for row in sends:
        chunk = slice(int(row["first"]), int(row["first"] + row["count"]))
        outcome[chunk], partition[chunk] = UNKNOWN, row["partition"]
    heard = outcomes["sequence"]
    outcome[heard] = np.where(outcomes["error"] == 0, ACKED, UNKNOWN)
    partition[heard] = outcomes["partition"]
    offset[heard] = np.where(outcomes["error"] == 0, outcomes["offset"], -1)
    return Sends(outcome=outcome, partition=partition, offset=offset)


def logs_of(log: Rows, partitions: int) -> dict[int, Log]:
    """Return what the final read found, by partition."""
    return {
        number: Log(
            offset=log["offset"][here],
            producer=log["producer"][here],
            sequence=log["sequence"][here],
        )
        for number in range(partitions)
        for here in [np.flatnonzero(log["partition"] == number)]
    }


def analyse(written: Written) -> tuple[Failover, dict[str, float], Accounting]:
    """Return what happened, the round's metrics, and where its records went.

    Raises ValueError when the load before the fault does not say what is normal.
    """
    producers = [sends_of(s, o) for s, o in zip(written.sends, written.outcomes, strict=True)]
    integrity = check_integrity(producers, logs_of(written.log, written.partitions))
    records = _records(written.start, written.rate, producers, written.outcomes)
    fault, begin = written.marks[0][0], written.marks[0][0] - BEFORE_S
    served = _by_partition(records.heard[records.acknowledged], records.partition[records.acknowledged], written)
    lost_service = outage(served, begin, fault, written.end)
    received = _received(written, begin, fault)
    phases = _phases(written, lost_service, fault)
    metrics = {
        **_outage_metrics(lost_service, received),
        "outage_resolution_s": max(lost_service.resolution_s, schedule_delay_s(written)),
        **_recovery_metrics(written, records, begin, fault),
        **_latency_metrics(records, begin, fault, phases),
        **_integrity_metrics(integrity, written),
        **_lag_metrics(written, records, begin, fault, integrity.lost.total),
        **_cpu_metrics(written, phases, begin),
        **_log_metrics(written, fault),
        "leader_changes": float(_leader_changes(written.states, fault)),
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
            split=_split(written, lost_service, fault),
            split_source=POLLED if written.changes is None else LOGGED,
            down={
                str(n): tuple((opens - fault, closes - fault) for opens, closes in one.down)
                for n, one in lost_service.partitions.items()
            },
            leaders=tuple((state.at - fault, state.leaders) for state in written.states),
            in_sync=tuple((state.at - fault, tuple(map(len, state.in_sync))) for state in written.states),
            integrity={kind: found.total for kind, found in integrity.faults.items()}
            | {"unknown": integrity.unknown, "appeared": integrity.appeared},
            findings={kind: found.first for kind, found in integrity.faults.items() if found.first},
            seconds_from=begin - fault,
            acknowledged=seconds.acknowledged,
            p99_ms=seconds.p99_ms,
        ),
        metrics,
        _accounting(producers, written),
    )


def schedule_delay_s(written: Written) -> float:
    """Return how late records were handed over before the fault, p99 in s: the generator itself paused for so long."""
    fault = written.marks[0][0]
    delays = []
    for number, sends in enumerate(written.sends):
        due = written.start + (sends["first"] * len(written.sends) + number) / written.rate
        delays.append((sends["at"] - due)[(due >= fault - BEFORE_S) & (due < fault)])
    together = np.concatenate(delays)
    return float(np.percentile(together, 99.0)) if len(together) else 0.0


def spoilt_latencies(written: Written, metrics: Mapping[str, float]) -> dict[str, str]:
    """Return which phases' latencies a late generator spoilt, by the beginning of their names, with the reason."""
    late = schedule_delay_s(written)
    if late <= TOLD_S:
        return {}
    kinds = [f"latency_{phase}_ms" for phase in ("before", "during", "after")]
    reason = f"sent late: p99 of the schedule delay before the fault is {late:.3f} s"
    return {k: reason for k in kinds if 0 < metrics.get(f"{k}.p99", 0.0) < late * 1e3 / SPOILT_SHARE}


def _records(start: float, rate: float, producers: Sequence[Sends], heard_of: Sequence[Rows]) -> _Record:
    """Return every record that was handed over; record i of producer p of n was due at start + (i n + p) / rate."""
    due, partition, acknowledged, heard = [], [], [], []
    for number, (sends, outcomes) in enumerate(zip(producers, heard_of, strict=True)):
        known = np.flatnonzero(sends.outcome != UNSENT)
        due.append(start + (known * len(producers) + number) / rate)
        partition.append(sends.partition[known].astype(np.int64))
        acknowledged.append(sends.outcome[known] == ACKED)
        times = np.full(len(sends.outcome), np.inf)
        times[outcomes["sequence"]] = outcomes["at"]
        heard.append(times[known])
    return _Record(
        due=np.concatenate(due),
        partition=np.concatenate(partition),
        acknowledged=np.concatenate(acknowledged),
        heard=np.concatenate(heard),
    )


def _by_partition(times: Times, partition: npt.NDArray[np.int64], written: Written) -> dict[int, Times]:
    return {number: times[partition == number] for number in range(written.partitions)}


def _received(written: Written, begin: float, fault: float) -> Outage | None:
    if not written.receipts:
        return None
    rows = np.concatenate(written.receipts)
    served = _by_partition(rows["at"], rows["partition"].astype(np.int64), written)
    return outage(served, begin, fault, written.end)


def _phases(written: Written, lost: Outage, fault: float) -> dict[str, Interval]:
    """Return when service was as before, lacking (of some partition), with replicas out of sync, and restored."""
    served_again = max((end for _, end in _first_outage(lost, written.marks)), default=fault)
    full = _first(written.states, max(served_again, written.marks[-1][0]), "full")
    restored = written.end if full is None else max(full, served_again)
    return {
        "before": (fault - BEFORE_S, fault),
        "no leader": (fault, served_again),
        "shrunken ISR": (served_again, restored),
        "restored": (restored, written.end),
    }


def _first_outage(lost: Outage, marks: Sequence[tuple[float, str]]) -> list[Interval]:
    """Return the intervals of the outage that the fault itself brought, in order.

    Later ones are not of it: those after every partition was served again, and those since something else was done.
    """
    fault, until = marks[0][0], marks[1][0] if len(marks) > 1 else float("inf")
    found: list[Interval] = []
    for begin, closes in sorted(interval for one in lost.partitions.values() for interval in one.down):
        if begin >= until or (found and begin > max(end for _, end in found)):
            break
        if closes > fault:
            found.append((begin, closes))
    return found


def _first(states: Sequence[State], since: float, wanted: str) -> float | None:
    """Return when, at or after `since`, the brokers were first `full` or `preferred`; None when they never were."""
    held = [state for state in states if state.at <= since][-1:]
    if held and getattr(held[0], wanted):
        return since
    return next((state.at for state in states if state.at > since and getattr(state, wanted)), None)


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
    start: float, rate: float, sends: Sequence[Rows], outcomes: Sequence[Rows], fault: float, now: float
) -> bool:
    """Return whether the load, as far as it was written down until `now`, is as before the fault again."""
    producers = [sends_of(s, o) for s, o in zip(sends, outcomes, strict=True)]
    return "recovery_s" in _recovery(_records(start, rate, producers, outcomes), fault - BEFORE_S, fault, now)


def _recovery(records: _Record, begin: float, fault: float, end: float) -> dict[str, float]:
    """Return when, in s since the fault, the rate and the load as a whole were as before, if ever; and that rate."""
    served = records.acknowledged
    at, latency = records.heard[served], (records.heard - records.due)[served]
    before = (at >= begin) & (at < fault)
    if not before.any():
        return {}
    after, rate = bins(at, latency, fault, end), float(before.sum() / (fault - begin))
    seconds = bins(at, latency, begin, fault).rate
    single = float(seconds.min(initial=rate)), float(seconds.max(initial=rate))
    found = {
        "recovery_s": recovery(after, rate, float(np.percentile(latency[before], 99.0)), single),
        "rate_recovery_s": recovery(after, rate, single=single),
    }
    return {name: value for name, value in found.items() if value is not None} | {"records_per_s": rate}


def _recovery_metrics(written: Written, records: _Record, begin: float, fault: float) -> dict[str, float]:
    found = {
        "full_isr_s": _since(_first(written.states, written.marks[-1][0], "full"), fault),
        "preferred_leaders_s": _since(_first(written.states, written.marks[-1][0], "preferred"), fault),
    }
    return {name: value for name, value in found.items() if value is not None} | _recovery(
        records, begin, fault, written.end
    )


def _spans(phases: Mapping[str, Interval], begin: float) -> dict[str, Interval]:
    """Return before, during (from the fault until all is restored) and after."""
    fault, restored = phases["before"][1], phases["restored"]
    return {"before": (begin, fault), "during": (fault, restored[0]), "after": restored}


def _since(moment: float | None, fault: float) -> float | None:
    return None if moment is None else moment - fault


def _latency_metrics(records: _Record, begin: float, fault: float, phases: Mapping[str, Interval]) -> dict[str, float]:
    """Return the percentiles before, during and after; a record that the fault caught under way is not of before."""
    metrics: dict[str, float] = {}
    for name, (opens, closes) in _spans(phases, begin).items():
        chosen = records.acknowledged & (records.due >= opens) & (records.due < closes)
        if name == "before":
            chosen &= records.heard < fault
        if chosen.any():
            metrics |= latency_metrics([histogram(records, chosen)], f"latency_{name}_ms")
    return metrics


def histogram(records: _Record, chosen: npt.NDArray[np.bool_]) -> str:
    """Return the encoded histogram of these records' latencies, from the time they were due."""
    recorder = LatencyRecorder()
    recorder.record((records.heard - records.due)[chosen])
    return encode(recorder.histogram())


def _integrity_metrics(integrity: Integrity, written: Written) -> dict[str, float]:
    receipts = np.concatenate(written.receipts) if written.receipts else None
    metrics = {
        "lost_records": float(integrity.lost.total),
        "duplicated_records": float(integrity.duplicated.total),
        "reordered_records": float(integrity.reordered.total),
        "unknown_records": float(integrity.unknown),
        "vanished_records": float(integrity.unknown - integrity.appeared),
    }
    if receipts is not None:
        positions = receipts["partition"].astype(np.int64) << 48 | receipts["offset"]
        metrics["redelivered_records"] = float(len(positions) - len(np.unique(positions)))
    return metrics


def _leader_changes(states: Sequence[State], fault: float) -> int:
    """Return how often partitions got another leader; to have had none in between is no change."""
    changes, last = 0, list(states[0].leaders)
    for state in states:
        for partition, leader in enumerate(state.leaders):
            if leader >= 0 and leader != last[partition]:
                changes += state.at >= fault
                last[partition] = leader
    return changes


def _split(written: Written, lost: Outage, fault: float) -> dict[str, float]:
    """Return when the fault's steps came about: fenced, elected, first record acknowledged where one had waited."""
    steps = _steps_polled(written.states, fault) if written.changes is None else _steps_logged(written.changes, fault)
    elected = steps["elected_s"] or 0.0
    ends = [end for _, end in _first_outage(lost, written.marks) if end >= elected - ASK_EVERY_S]
    found = {**steps, "first_ack_s": min(ends, default=None)}
    return {name: at - fault for name, at in found.items() if at is not None}


def _steps_polled(states: Sequence[State], fault: float) -> dict[str, float | None]:
    before = next((s for s in reversed(states) if s.at < fault), states[0])
    return {
        "fenced_s": next((s.at for s in states if s.at >= fault and len(s.brokers) < len(before.brokers)), None),
        "elected_s": next((s.at for s in states if s.at >= fault and s.leaders != before.leaders
                           and min(s.leaders) >= 0), None),
    }  # fmt: skip


def _steps_logged(changes: Sequence[Change], fault: float) -> dict[str, float | None]:
    """Elected: the last of the leaders that were elected before any broker came back."""
    since = [change for change in changes if change.at >= fault]
    back = min((change.at for change in since if change.what == "back"), default=float("inf"))
    elected = [change.at for change in since if change.what == "leader" and change.leader >= 0 and change.at < back]
    return {
        "controller_s": next((change.at for change in since if change.what == "controller"), None),
        "fenced_s": next((change.at for change in since if change.what == "fenced"), None),
        "elected_s": max(elected, default=None),
    }


def _log_metrics(written: Written, fault: float) -> dict[str, float]:
    if written.changes is None:
        return {}
    since = [change for change in written.changes if change.at >= fault]
    return {
        "unclean_elections": float(sum(change.unclean for change in since)),
        "controller_changes": float(sum(change.what == "controller" for change in since)),
    }


def _lag_metrics(written: Written, records: _Record, begin: float, fault: float, lost: int) -> dict[str, float]:
    """Return how long the consumers lagged behind by more than twice what was usual before; nothing if to the end."""
    if not written.receipts:
        return {}
    rows = np.concatenate(written.receipts)
    order = np.argsort(rows["at"], kind="stable")
    positions = (rows["partition"].astype(np.int64) << 48 | rows["offset"])[order]
    received = np.sort(rows["at"][order][np.unique(positions, return_index=True)[1]])
    taken = np.sort(records.heard[records.acknowledged])
    times = np.arange(begin, written.end, LAG_EVERY_S)
    lag = np.searchsorted(taken, times) - np.searchsorted(received, times)
    usual = 2 * max(int(lag[times < fault].max()), 1) + lost
    behind = times[(times >= fault) & (lag > usual)]
    if not len(behind):
        return {"lag_drained_s": 0.0}
    drained = float(behind[-1] + LAG_EVERY_S)
    return {"lag_drained_s": drained - fault} if drained < times[-1] else {}


def _cpu_metrics(written: Written, phases: Mapping[str, Interval], begin: float) -> dict[str, float]:
    """Return the cores that all brokers used together: before, from the fault to the restored service, after."""
    found = {f"broker_cpu_{name}_cores": cores(written.cpu, *span) for name, span in _spans(phases, begin).items()}
    return {name: value for name, value in found.items() if value is not None}


def cores(cpu: Sequence[tuple[float, Mapping[str, float]]], begin: float, end: float) -> float | None:
    """Return the CPU seconds per second of all brokers together; None without two looks in that time.

    A broker counts between two looks at which it was there; the counter of one that was started again begins anew.
    """
    looks = [(at, used) for at, used in cpu if begin <= at <= end]
    if len(looks) < 2:
        return None
    spent = sum(
        used - before.get(broker, 0.0) if used >= before.get(broker, 0.0) else used
        for (_, before), (_, after) in pairwise(looks)
        for broker, used in after.items()
    )
    return spent / (looks[-1][0] - looks[0][0])


def _timeline(written: Written, records: _Record, begin: float) -> _Seconds:
    at, served = records.heard, records.acknowledged
    everything = bins(at[served], (records.heard - records.due)[served], begin, written.end)
    per_partition = {
        str(number): tuple(
            int(n * BIN_S)
            for n in bins(at[here], at[here], begin, written.end).rate
        )
        for number in range(written.partitions)
        for here in [served & (records.partition == number)]
    }  # fmt: skip
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
