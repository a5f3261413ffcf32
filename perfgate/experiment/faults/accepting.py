"""Acceptance in a share group: deliveries, acceptances that brokers took or refused, and records without one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from perfgate.experiment.faults.written import Written, positions
from perfgate.load.history import ACCEPT, OUTCOME, RECEIPT, Rows
from perfgate.model import FaultScenario

DUE_S = 5.0
"""What was acknowledged so long before the load ended has to be accepted; of the rest nobody waited for that."""


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


def had_no_effect(row: FaultScenario, metrics: Mapping[str, float]) -> str:
    """Return that a slow member was not slow enough: what that cost then is the cost of nothing; else empty."""
    if row.fault.kind != "consumer-slow" or metrics.get("redelivered_records"):
        return ""
    return "no record was delivered again: the slow consumer kept none for longer than its lock on them lasted"


def _together(parts: Sequence[Rows], kind: np.dtype[np.void]) -> Rows:
    return np.concatenate([*parts, np.zeros(0, kind)])
