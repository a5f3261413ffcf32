"""The verdict over sends that failed after a fault although their settings should have outlasted it. Pure."""

from __future__ import annotations

import math

from perfgate.model import FaultScenario, Judgement, Measurement, Verdict
from perfgate.model.faults import RETRIES, Expectation

DELIVERY_MS = 120_000.0
"""For how long a producer tries a record again where its settings do not say (delivery.timeout.ms)."""
LONG = 2.0
TIMEOUTS = ("delivery.timeout.ms", "message.timeout.ms")


def failed_sends(row: FaultScenario, measurement: Measurement, expected: Expectation, few_s: float) -> list[Judgement]:
    """Return a judgement when sends failed since the fault, of a scenario whose settings promise to lose none.

    REGRESSED where in most rounds more failed than are sent in `few_s`, with other errors than that the time was over:
    such an answer is no matter of a slow machine. Nor is it that the time was over, if they were tried LONG times as
    long as service should take to be back. INCONCLUSIVE where fewer did.
    """
    producer = dict(row.producer)
    tried_s = float(next((producer[name] for name in TIMEOUTS if name in producer), DELIVERY_MS)) / 1e3 or math.inf
    counts = [r.failover.integrity for r in measurement.rounds if r.failover]
    failed = [found.get("failed", 0) for found in counts]
    all_failed = [found.get("failed", 0) + found.get("timed_out", 0) for found in counts]
    if not any(all_failed) or tried_s <= expected.high_s or any(name in producer for name in RETRIES):
        return []
    limit = few_s * row.load.rate
    counted = all_failed if tried_s > LONG * expected.high_s else failed
    red = 2 * sum(n > limit for n in counted) > len(measurement.rounds)
    reason = (
        f"in {sum(map(bool, all_failed))} of {len(measurement.rounds)} rounds sends failed since the fault, up to "
        f"{max(all_failed):,}, {max(failed):,} of them with another error than a time-out, though they are tried again "
        f"for {tried_s:g} s and service should be back after {expected.high_s:.1f} s"
    )
    verdict = Verdict.REGRESSED if red else Verdict.INCONCLUSIVE
    return [Judgement(verdict=verdict, metric="unknown_records", reason=reason)]
