"""Flaws of a round with a fault: records sent late, sends that failed before it, a fault that had no effect. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from perfgate.load.history import Rows
from perfgate.measure.faults.history import Written
from perfgate.measure.faults.outage import Times, in_spite_of_s
from perfgate.measure.faults.reading import MISSED, first_group, kept_s
from perfgate.measure.flaw import of_brokers
from perfgate.model import NEGLIGIBLE_GAP_S, FaultScenario, record_lock_s
from perfgate.model.delivery import ERROR_CODES, is_promised
from perfgate.model.faults import LATE, RETRIES, but_outages
from perfgate.model.flaw import Doubt, Flaw
from perfgate.model.load import FAILED
from perfgate.model.metrics import PHASES

AT_ONCE_S = 1.0
"""A send that took no longer succeeded in its own phase, not because the client waited for the next phase."""
SPOILT_SHARE = 0.05
"""The latency of a load that was later than this share of it (p99 of both) is not that of the brokers."""
FEWEST_SENT = 3
"""A partition that was sent this many records before the fault should have been served as often."""
STAYED_AWAY = 0.9
"""Share of the time that consumers are to read nothing: records under way at its start come a moment later."""
SURELY_KEPT = 1.5
"""A record that was accepted this many of its locks' times after its receipt was locked no longer: an answer that took
long is in that time as well."""


def schedule_delay_s(written: Written) -> float:
    """The p99 in s of the delay with which records were handed over before the fault: pauses of the generator."""
    sends, late = lateness(written)
    due = sends["at"] - late
    before = late[(due >= written.begin) & (due < written.fault)]
    return float(np.percentile(before, 99.0)) if len(before) else 0.0


def lateness(written: Written) -> tuple[Rows, Times]:
    """All sends, and the delay in s of each, without the time in which brokers did not take what filled its buffer."""
    producers = len(written.sends)
    late = []
    for number, rows in enumerate(written.sends):
        due = written.start + (rows["first"] * producers + number) / written.rate
        late.append(rows["at"] - due - held_back(rows, due))
    return np.concatenate(written.sends), np.concatenate(late)


def held_back(rows: Rows, due: Times) -> Times:
    """Time in s for which a full buffer refused a producer's records between when each was due and its hand-over. A row
    that begins with records of an earlier one hands these over again."""
    if len(rows) < 2:
        return np.zeros(len(rows))
    again = rows["first"][1:] < np.maximum.accumulate(rows["first"] + rows["count"])[:-1]
    full = np.concatenate(([0.0], np.cumsum(np.where(again, np.diff(rows["at"]), 0.0))))
    held: Times = np.interp(rows["at"], rows["at"], full) - np.interp(due, rows["at"], full)
    return np.maximum(held, 0.0)


def in_spite_of_late_s(written: Written, served: Mapping[int, Times]) -> float:
    """The longest outage of a partition, less what late sends explain."""
    sends, late = lateness(written)
    here, fault, end = late > NEGLIGIBLE_GAP_S, written.fault, written.end
    return max(in_spite_of_s(times, sends["at"][here], late[here], fault, end) for times in served.values())


def late_before(late_s: float) -> tuple[Doubt, ...]:
    """Doubts about a generator that was late before the fault: no send can succeed "at once". Less than AT_ONCE_S only
    widens the outage's resolution."""
    if late_s <= AT_ONCE_S:
        return ()
    text = f"the generator was late before the fault already: p99 of the schedule delay is {late_s:.3f} s"
    return but_outages(LATE, "load", text, late_s)


def spoilt_latencies(written: Written, metrics: Mapping[str, float]) -> list[Doubt]:
    """Doubts about the phases whose latencies a late generator made longer, each with the ms."""
    late = schedule_delay_s(written)
    if late <= NEGLIGIBLE_GAP_S:
        return []
    text = f"sent late: p99 of the schedule delay before the fault is {late:.3f} s"
    kinds = [f"latency_{phase}_ms" for phase in PHASES]
    spoilt = [kind for kind in kinds if 0 < metrics.get(f"{kind}.p99", 0.0) < late * 1e3 / SPOILT_SHARE]
    return [Doubt(kind=LATE, whose="load", text=text, offset=late * 1e3, metrics=(kind,)) for kind in spoilt]


def brokers_served_too_little(written: Written) -> bool:
    """Whether each partition was sent enough before the fault, so that brokers are to blame for what is missing."""
    sends, late = lateness(written)
    before = (sends["at"] >= written.begin) & (sends["at"] < written.fault) & (late <= NEGLIGIBLE_GAP_S)
    known = sends["partition"][before]
    counts = np.bincount(known[known >= 0], weights=sends["count"][before][known >= 0], minlength=written.partitions)
    return bool((counts >= FEWEST_SENT).all())


def failures(written: Written) -> dict[str, int]:
    """Number of sends that failed since the fault, those that timed out apart."""
    codes = _codes(written, written.fault, math.inf)
    late = int(np.isin(codes, ERROR_CODES[written.system].timed_out).sum())
    return {"failed": len(codes) - late, "timed_out": late}


def failed_before(scenario: FaultScenario, written: Written) -> Flaw | None:
    """The flaw of sends that failed while nothing was done to the brokers; None when none did."""
    kind = scenario.fault.about
    since, until = (-math.inf, math.inf) if kind.harmless else (written.begin, written.fault)
    codes = _codes(written, since, until)
    if not len(codes) or kind.prepared or any(name in dict(scenario.producer) for name in RETRIES):
        return None
    kinds = ", ".join(f"{n:,} x error {code}" for code, n in zip(*np.unique(codes, return_counts=True), strict=True))
    known = ERROR_CODES[written.system]
    reason = f"{len(codes):,} sends failed while nothing was done to the brokers: {kinds} of {known.client}"
    return of_brokers(reason, late=bool(np.isin(codes, known.late).all()), kind=FAILED)


def _codes(written: Written, since: float, until: float) -> npt.NDArray[np.int32]:
    rows = np.concatenate(written.outcomes)
    heard = (rows["at"] >= since) & (rows["at"] < until)
    codes: npt.NDArray[np.int32] = rows["error"][heard & (rows["error"] != 0)]
    return codes


def stayed(scenario: FaultScenario, metrics: Mapping[str, float]) -> tuple[Doubt, ...]:
    """Doubts about consumers that were to stay away and read on: they cost nothing then."""
    gap, hold = metrics.get("receive_outage_s.max", 0.0), scenario.fault.hold_s
    if not scenario.fault.about.leaves_unread or gap >= STAYED_AWAY * hold:
        return ()
    text = f"the consumers did not stay away: {gap:.1f} s without a record is the longest that they had, of {hold:g} s"
    return but_outages("no effect", "load", text)


def not_given(scenario: FaultScenario, metrics: Mapping[str, float]) -> tuple[Doubt, ...]:
    """The doubt about a consumer group that never received records though it received later ones. Members commit only
    what they received; brokers that cut a log back may pass records over."""
    missed, consumers = metrics.get(MISSED, 0.0), scenario.consumers
    if not missed or consumers is None or consumers.membership != "group" or not is_promised(scenario):
        return ()
    text = f"the group was never given {missed:,.0f} acknowledged records, though it was given later ones"
    return (Doubt(kind=FAILED, whose="brokers", text=text),)


def never_served(scenario: FaultScenario, written: Written) -> tuple[Doubt, ...]:
    """Doubts about members that joined the group and never received a record, which the others' reading hides. There is
    a partition for each (``unfit_for_fault``)."""
    consumers, receipts = scenario.consumers, first_group(written)
    if consumers is None:
        return ()
    numbers = range(consumers.processes, consumers.processes + len(scenario.joining))
    own = {number + 1: receipts[number * consumers.threads :][: consumers.threads] for number in numbers}
    texts = [
        f"consumer {number} joined its group and was never given a record, though there is a partition for it"
        for number, of_threads in own.items()
        if of_threads and not any(map(len, of_threads))
    ]
    return tuple(Doubt(kind=FAILED, whose="brokers", text=text) for text in texts)


def not_redelivered(scenario: FaultScenario, written: Written, metrics: Mapping[str, float]) -> tuple[Doubt, ...]:
    """Doubts about a fault by which records should be delivered again, and none was: by brokers where a slow member
    kept some for longer than its lock."""
    if not scenario.fault.about.redelivers or metrics.get("redelivered_records"):
        return ()
    longest_s, lock_s = kept_s(written), record_lock_s(scenario)
    if longest_s >= SURELY_KEPT * lock_s:
        text = (
            f"no record was delivered again, although the slow consumer kept some for {longest_s:.1f} s and its lock "
            f"on them lasts {lock_s:g} s"
        )
        return (Doubt(kind=FAILED, whose="brokers", text=text),)
    text = "no record was delivered again: the slow consumer kept none for longer than its lock on them lasted"
    return but_outages("no effect", "load", text)
