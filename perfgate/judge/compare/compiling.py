"""Rounds of a comparison whose brokers were still compiling their own code: what they tell is of cold brokers. Pure."""

from __future__ import annotations

import statistics

from perfgate.judge.messages import WARMING
from perfgate.judge.warming import compiling_factor
from perfgate.model import COMPILING, Comparison, Measurement, Round
from perfgate.model.doubt import Doubt

COMPILE_SHARE = "broker_compile_share.max"
COLD = 3
"""The compilers' share of the CPU is missing, and what is not compiled yet is slower besides: at shares of 40 to 70 %
acks-all sent a third of what it sends, batch-1k 0.4 (docs/measurement.md). A share of 11 % explains a factor of 1.4."""


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


def compile_doubts(comparison: Comparison) -> tuple[Doubt, ...]:
    """Return that the candidate's brokers still compiled in most rounds, and how much of a loss that explains.

    That the baseline's did explains no loss of the candidate's.
    """
    rounds = comparison.candidate.rounds
    if 2 * _compiling(comparison.candidate) <= len(rounds):
        return ()
    share = statistics.median(r.metrics.get(COMPILE_SHARE, 0.0) for r in rounds)
    text = f"candidate: {WARMING}: one spent {share * 100:.0f} % of its CPU on compiling its own code"
    return (Doubt(kind="warm-up", whose="brokers", text=text, factor=compiling_factor(rounds, COLD)),)


def cold_units(comparison: Comparison) -> int:
    """Return after how many units brokers were last compiling in most rounds of a side so far; 0: after none.

    A look at these told of cold brokers, and tells of no others when they have warmed up.
    """
    size, last = comparison.rounds_per_unit, 0
    for measurement in (comparison.baseline, comparison.candidate):
        cold = 0
        for count, one in enumerate(measurement.rounds, 1):
            cold += _is_cold(one)
            if 2 * cold > count and count % size == 0:
                last = max(last, count // size)
    return last


def _compiling(measurement: Measurement) -> int:
    return sum(map(_is_cold, measurement.rounds))


def _is_cold(one: Round) -> bool:
    return one.metrics.get(COMPILE_SHARE, 0.0) > COMPILING
