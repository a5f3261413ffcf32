"""Reading during a fault: gaps, lag, catching up, latency from send to receipt, acceptance in a share group. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfgate.load.history import ACCEPT, OUTCOME, RECEIPT, Rows
from perfgate.measure.faults.history import Record, Written, by_partition, positions
from perfgate.measure.faults.outage import BIN_S, Interval, Outage, Times, outage
from perfgate.model.histogram import LatencyRecorder, encode, latency_metrics

LAG_EVERY_S = 0.1
BEHIND_S = 2.0
"""A group that was behind in all of these last seconds was behind to the end; a single sample may be a pause."""
MISSED = "missed_records"
DUE_S = 5.0
"""Records acknowledged this long before the load ended have to be accepted; the rest was not waited for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lag:
    """Number of acknowledged records that the first group had not received, at `times`; `usual`: twice the most before
    the fault, and what was lost. `caught_up`: when consumers that stayed away were first no further behind, if ever."""

    times: Times
    behind: npt.NDArray[np.int64]
    usual: int
    caught_up: float | None


def first_group(written: Written) -> Sequence[Rows]:
    """Receipts of the group to which a fault of readers is done, by consumer."""
    return written.receipts[: len(written.receipts) // written.groups]


def received(written: Written) -> Outage | None:
    """Gaps between the receipts of the first group; None where no group reads."""
    if not written.receipts:
        return None
    rows = np.concatenate(first_group(written))
    return outage(by_partition(rows["at"], rows["partition"], written), written.begin, written.fault, written.end)


def others_gap_s(written: Written) -> dict[str, float]:
    """The longest gap of any group but the first in a partition since the fault, in s; empty without others."""
    each = len(written.receipts) // written.groups
    longest = []
    for group in range(1, written.groups if each else 0):
        rows = np.concatenate(written.receipts[group * each : (group + 1) * each])
        for times in by_partition(rows["at"], rows["partition"], written).values():
            known = np.sort(times[(times >= written.begin) & (times < written.end)])
            marks = np.concatenate(([written.begin], known, [written.end]))
            longest.append(float(np.diff(marks)[marks[1:] >= written.fault].max()))
    return {"others_receive_outage_s.max": max(longest)} if longest else {}


def lag_of(written: Written, records: Record, lost: int) -> Lag | None:
    """Lag of the first group from `written.begin` to the end; None where no group reads."""
    if not written.receipts:
        return None
    rows = np.concatenate(first_group(written))
    (place,), order = positions(rows), np.argsort(rows["at"], kind="stable")
    given = np.sort(rows["at"][order][np.unique(place[order], return_index=True)[1]])
    taken = np.sort(records.heard[records.acknowledged])
    times = np.arange(written.begin, written.end, LAG_EVERY_S)
    behind = np.searchsorted(taken, times) - np.searchsorted(given, times)
    usual = 2 * max(int(behind[times < written.fault].max()), 1) + lost
    caught_up = None
    if (again := written.read_again) is not None:
        usual = max(usual, int(LAG_EVERY_S * written.rate))
        caught_up = next((float(at) for at in times[(times >= again) & (behind <= usual)]), None)
    return Lag(times=times, behind=behind, usual=usual, caught_up=caught_up)


def reading_metrics(written: Written, lag: Lag) -> dict[str, float]:
    """Metrics of the first group's redelivered records, its lag, and how it caught up, if it did."""
    rows = np.concatenate(first_group(written))
    (place,) = positions(rows)
    metrics = {"redelivered_records": float(len(rows) - len(np.unique(place))), **_missed(written, rows)}
    behind = lag.behind > lag.usual
    late = lag.times[(lag.times >= written.fault) & behind]
    if not behind[-round(BEHIND_S / LAG_EVERY_S) :].all():
        metrics["lag_drained_s"] = float(late[-1] + LAG_EVERY_S) - written.fault if len(late) else 0.0
    if (again := written.read_again) is None:
        return metrics
    metrics["unread_records"] = float(lag.behind[np.searchsorted(lag.times, again)])
    if lag.caught_up is not None:
        took = lag.caught_up - again
        metrics["catch_up_s"] = took
        read = int(((rows["at"] >= again) & (rows["at"] < lag.caught_up)).sum())
        metrics |= {"catch_up_records_per_s": read / took} if took else {}
    return metrics


def _missed(written: Written, rows: Rows) -> dict[str, float]:
    """Number of acknowledged records that the group passed over; empty where records go to any member, in no order."""
    if written.system != "kafka" or any(map(len, written.accepts)):
        return {}
    last = np.full(written.partitions, -1, np.int64)
    np.maximum.at(last, rows["partition"], rows["offset"])
    acked = _placed(written)
    due, given = positions(acked[acked["offset"] < last[acked["partition"]]], rows)
    return {MISSED: float(len(np.setdiff1d(due, given)))}


def end_to_end(written: Written, spans: Mapping[str, Interval]) -> dict[str, float]:
    """The latencies of the groups that read all the time, from when a record was due to its receipt, by span."""
    away = len(first_group(written)) if written.read_again is not None else 0
    if not (stayed := written.receipts[away:]):
        return {}
    rows = np.concatenate(stayed)
    rows = rows[rows["producer"] >= 0]
    due = written.start + (rows["sequence"] * len(written.sends) + rows["producer"]) / written.rate
    metrics: dict[str, float] = {}
    for name, (opens, closes) in spans.items():
        if (chosen := (due >= opens) & (due < closes)).any():
            metrics |= latency_metrics([encoded((rows["at"] - due)[chosen])], f"end_to_end_{name}_ms")
    return metrics


def encoded(latencies_s: Times) -> str:
    recorder = LatencyRecorder()
    recorder.record(latencies_s)
    return encode(recorder.histogram())


def unread_by_second(written: Written, lag: Lag | None) -> tuple[int, ...]:
    """Number of unread records at the end of each second; empty where consumers read on."""
    if lag is None or (written.read_again is None and not written.rebalanced):
        return ()
    ends = np.arange(written.begin + BIN_S, written.end, BIN_S)
    at = np.minimum(np.searchsorted(lag.times, ends), len(lag.times) - 1)
    return tuple(int(n) for n in np.maximum(lag.behind[at], 0))


def accepting_metrics(written: Written) -> dict[str, float]:
    """Metrics of the records that a share group received and accepted; empty where none read along.

    An acceptance after the lock, when another member has accepted the record, need not be refused (Kafka 4.3.1 answered
    all 101 of a round without error): a record is done with when no member is given it any more.
    """
    if not any(map(len, written.accepts)):
        return {}
    accepts, given = _together(written.accepts, ACCEPT), _together(written.receipts, RECEIPT)
    taken = np.sort(accepts[accepts["error"] == 0], order="at")
    acked = _placed(written)
    due = acked[acked["at"] < written.end - DUE_S]
    taken_at, given_at, due_at = positions(taken, given, due)
    accepted, first = np.unique(taken_at, return_index=True)
    at = np.minimum(np.searchsorted(accepted, given_at), max(0, len(accepted) - 1))
    over = (accepted[at] == given_at) & (given["at"] > taken["at"][first][at]) if len(accepted) else []
    return {
        "delivered_records": float(len(given)),
        "accepted_records": float(len(accepted)),
        "late_accepts_records": float(len(accepts) - len(accepted)),
        "given_after_accepted_records": float(np.count_nonzero(over)),
        "unaccepted_records": float(len(np.setdiff1d(due_at, accepted))),
    }


def kept_s(written: Written) -> float:
    """The longest time between a record's receipt by a member and that member's acceptance of it, in s."""
    longest = 0.0
    for given, accepts in zip(written.receipts, written.accepts, strict=False):
        given_at, accepted_at = positions(given, accepts)
        at, first = np.unique(given_at, return_index=True)
        known = np.isin(accepted_at, at)
        if known.any():
            receipt = given["at"][first][np.searchsorted(at, accepted_at[known])]
            longest = max(longest, float((accepts["at"][known] - receipt).max()))
    return longest


def _placed(written: Written) -> Rows:
    """Outcomes of acknowledged records whose offsets are known: with acks=0 brokers report none."""
    outcomes = _together(written.outcomes, OUTCOME)
    placed: Rows = outcomes[(outcomes["error"] == 0) & (outcomes["offset"] >= 0)]
    return placed


def _together(parts: Sequence[Rows], kind: np.dtype[np.void]) -> Rows:
    return np.concatenate([*parts, np.zeros(0, kind)])
