"""Lateness of a journaled load: how late records were handed over, by the generator's own doing. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from perfgate.load.history import Rows
from perfgate.measure.faults.outage import Times, in_spite_of_s
from perfgate.measure.faults.written import Written
from perfgate.model import TOLD_S
from perfgate.model.doubt import Doubt
from perfgate.model.faults import BEFORE_S, LATE
from perfgate.model.metrics import PHASES

SPOILT_SHARE = 0.05
"""The latency of a load that was later than this share of it (p99 of both) is not that of the brokers."""
FEWEST_SENT = 3
"""A partition that was sent so many records before the fault should have been served as often."""


def schedule_delay_s(written: Written) -> float:
    """Return how late records were handed over before the fault, p99 in s: the generator itself paused for so long."""
    fault = written.marks[0][0]
    sends, late = lateness(written)
    before = late[(sends["at"] - late >= fault - BEFORE_S) & (sends["at"] - late < fault)]
    return float(np.percentile(before, 99.0)) if len(before) else 0.0


def lateness(written: Written) -> tuple[Rows, Times]:
    """Return all sends, and how late each was handed over, in s, without the time in which a full buffer held it back.

    Who fills a buffer are brokers that do not take what is in it.
    """
    producers = len(written.sends)
    late = []
    for number, rows in enumerate(written.sends):
        due = written.start + (rows["first"] * producers + number) / written.rate
        late.append(rows["at"] - due - held_back(rows, due))
    return np.concatenate(written.sends), np.concatenate(late)


def held_back(rows: Rows, due: Times) -> Times:
    """Return for how long a full buffer refused a producer's records between when each was due and its hand-over, in s.

    A row that begins with records of an earlier one hands these over again, because there had been no room for them.
    """
    if len(rows) < 2:
        return np.zeros(len(rows))
    again = rows["first"][1:] < np.maximum.accumulate(rows["first"] + rows["count"])[:-1]
    full = np.concatenate(([0.0], np.cumsum(np.where(again, np.diff(rows["at"]), 0.0))))
    found: Times = np.interp(rows["at"], rows["at"], full) - np.interp(due, rows["at"], full)
    return np.maximum(found, 0.0)


def in_spite_of_late_s(written: Written, served: Mapping[int, Times], fault: float) -> float:
    """Return the longest outage of a partition, less what late sends explain."""
    sends, late = lateness(written)
    here = late > TOLD_S
    return max(in_spite_of_s(times, sends["at"][here], late[here], fault, written.end) for times in served.values())


def spoilt_latencies(written: Written, metrics: Mapping[str, float]) -> list[Doubt]:
    """Return which phases' latencies a late generator made longer, each with by how much."""
    late = schedule_delay_s(written)
    if late <= TOLD_S:
        return []
    text = f"sent late: p99 of the schedule delay before the fault is {late:.3f} s"
    kinds = [f"latency_{phase}_ms" for phase in PHASES]
    spoilt = [kind for kind in kinds if 0 < metrics.get(f"{kind}.p99", 0.0) < late * 1e3 / SPOILT_SHARE]
    return [Doubt(kind=LATE, whose="load", text=text, offset=late * 1e3, metrics=(kind,)) for kind in spoilt]


def brokers_served_too_little(written: Written) -> bool:
    """Return whether each partition was sent enough in time before the fault to show what is normal.

    That it was not served as often is the brokers' doing then.
    """
    fault = written.marks[0][0]
    sends, late = lateness(written)
    before = (sends["at"] >= fault - BEFORE_S) & (sends["at"] < fault) & (late <= TOLD_S)
    known = sends["partition"][before]
    counts = np.bincount(known[known >= 0], weights=sends["count"][before][known >= 0], minlength=written.partitions)
    return bool((counts >= FEWEST_SENT).all())
