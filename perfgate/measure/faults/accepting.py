"""Acceptance in a share group: deliveries, acceptances that brokers took or refused, and records without one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from perfgate.load.history import ACCEPT, OUTCOME, RECEIPT, Rows
from perfgate.measure.faults.written import Written, positions
from perfgate.model import FaultScenario, record_lock_s
from perfgate.model.doubt import Doubt
from perfgate.model.faults import but_outages
from perfgate.model.load import FAILED

DUE_S = 5.0
"""What was acknowledged so long before the load ended has to be accepted; of the rest nobody waited for that."""
SURELY_KEPT = 1.5
"""A record that was accepted so many of its locks' times after its receipt was locked no longer: an answer that took
long is in that time as well."""


def accepting_metrics(written: Written) -> dict[str, float]:
    """Return what a share group was given and accepted; nothing where none read along.

    An acceptance that comes after the lock, once another member has accepted the record, need not be refused (Kafka
    4.3.1 answered all 101 of one round without an error): two acceptances are no second one. That a record is done
    with shows in that nobody is given it any more.
    """
    if not any(map(len, written.accepts)):
        return {}
    said, given = _together(written.accepts, ACCEPT), _together(written.receipts, RECEIPT)
    taken = np.sort(said[said["error"] == 0], order="at")
    outcomes = _together(written.outcomes, OUTCOME)
    due = outcomes[(outcomes["error"] == 0) & (outcomes["at"] < written.end - DUE_S)]
    accepted, first = np.unique(positions(taken), return_index=True)
    given_at = positions(given)
    at = np.minimum(np.searchsorted(accepted, given_at), max(0, len(accepted) - 1))
    over = (accepted[at] == given_at) & (given["at"] > taken["at"][first][at]) if len(accepted) else []
    return {
        "delivered_records": float(len(given)),
        "accepted_records": float(len(accepted)),
        "late_accepts_records": float(len(said) - len(accepted)),
        "given_after_accepted_records": float(np.count_nonzero(over)),
        "unaccepted_records": float(len(np.setdiff1d(positions(due), accepted))),
    }


def had_no_effect(row: FaultScenario, written: Written, metrics: Mapping[str, float]) -> tuple[Doubt, ...]:
    """Return that no record was delivered again; nothing where some were, or nobody was to be slow.

    A slow member that kept none for longer than its lock has cost nothing. One that did has shown that brokers do not
    give locked records back.
    """
    if not row.fault.about.redelivers or metrics.get("redelivered_records"):
        return ()
    longest_s, lock_s = kept_s(written), record_lock_s(row)
    if longest_s >= SURELY_KEPT * lock_s:
        text = (
            f"no record was delivered again, although the slow consumer kept some for {longest_s:.1f} s and its lock "
            f"on them lasts {lock_s:g} s"
        )
        return (Doubt(kind=FAILED, whose="brokers", text=text),)
    text = "no record was delivered again: the slow consumer kept none for longer than its lock on them lasted"
    return but_outages("no effect", "load", text)


def kept_s(written: Written) -> float:
    """Return the longest time between a record's receipt by a member and that member's acceptance of it, in s."""
    longest = 0.0
    for given, said in zip(written.receipts, written.accepts, strict=False):
        at, first = np.unique(positions(given), return_index=True)
        known = np.isin(positions(said), at)
        if known.any():
            received = given["at"][first][np.searchsorted(at, positions(said)[known])]
            longest = max(longest, float((said["at"][known] - received).max()))
    return longest


def _together(parts: Sequence[Rows], kind: np.dtype[np.void]) -> Rows:
    return np.concatenate([*parts, np.zeros(0, kind)])
