"""Sends that failed: those before a fault are the brokers' doing, those since are counted for the verdict. Pure."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from perfgate.measure.faults.written import Written
from perfgate.measure.flaw import of_brokers
from perfgate.model import FaultScenario
from perfgate.model.faults import BEFORE_S, RETRIES
from perfgate.model.flaw import Flaw
from perfgate.model.load import FAILED

TIMED_OUT = (-192, -166, 7)
"""librdkafka's codes of records that time out: _MSG_TIMED_OUT, _TIMED_OUT_QUEUE, REQUEST_TIMED_OUT."""
LATE = (*TIMED_OUT, 19, 20)
"""And of what brokers answer that get no processor time: NOT_ENOUGH_REPLICAS, before and after the append."""


def failures(written: Written) -> dict[str, int]:
    """Return how many sends failed since the fault, those that timed out apart."""
    codes = _codes(written, written.marks[0][0], math.inf)
    late = int(np.isin(codes, TIMED_OUT).sum())
    return {"failed": len(codes) - late, "timed_out": late}


def failed_before(row: FaultScenario, written: Written) -> Flaw | None:
    """Return the flaw of sends that failed while nothing was done to the brokers; None when none did."""
    fault, harmless = written.marks[0][0], row.fault.about.harmless
    codes = _codes(written, -math.inf if harmless else fault - BEFORE_S, math.inf if harmless else fault)
    if not len(codes) or row.fault.about.prepared or any(name in dict(row.producer) for name in RETRIES):
        return None
    kinds = ", ".join(f"{n:,} x error {code}" for code, n in zip(*np.unique(codes, return_counts=True), strict=True))
    reason = f"{len(codes):,} sends failed while nothing was done to the brokers: {kinds} of librdkafka"
    return of_brokers(reason, late=bool(np.isin(codes, LATE).all()), kind=FAILED)


def _codes(written: Written, since: float, until: float) -> npt.NDArray[np.int32]:
    """Return the errors of the sends whose outcome was heard in this time."""
    rows = np.concatenate(written.outcomes)
    heard = (rows["at"] >= since) & (rows["at"] < until)
    codes: npt.NDArray[np.int32] = rows["error"][heard & (rows["error"] != 0)]
    return codes
