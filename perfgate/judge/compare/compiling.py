"""Rounds of a comparison whose brokers were still compiling their own code: what they tell is of cold brokers. Pure."""

from __future__ import annotations

from perfgate.judge.messages import WARMING
from perfgate.model import COMPILING, Comparison, Measurement

COMPILE_SHARE = "broker_compile_share.max"


def still_compiling(comparison: Comparison) -> str:
    """Return of which side most rounds had a broker that still compiled; empty where neither's did.

    Such parts are measured again, but not for ever; two clusters need not warm up alike.
    """
    for side, measurement in (("baseline", comparison.baseline), ("candidate", comparison.candidate)):
        cold = _compiling(measurement)
        if 2 * cold > len(measurement.rounds):
            return (
                f"{side}: {WARMING}: in {cold} of {len(measurement.rounds)} rounds one spent more than "
                f"{COMPILING * 100:.0f} % of its CPU on compiling its own code; give them longer (--broker-warmup 300)"
            )
    return ""


def _compiling(measurement: Measurement) -> int:
    return sum(r.metrics.get(COMPILE_SHARE, 0.0) > COMPILING for r in measurement.rounds)
