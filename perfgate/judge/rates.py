"""Rates of loads: held by a cap of their own, other than a threshold's; and ratios of two loads by rounds. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from perfgate.model import Judgement, Load, Measurement, Round, Threshold, Verdict

AT_THE_CAP = 0.98
"""Where a capped load reaches this share of its rate, the rate says nothing; what it costs the brokers does."""

OTHER_RATE = 0.2
"""A rate that is off by more is that of another load, however far a metric's limit lies: that of a p99 may lie beyond
twice its baseline, and half a load would be within it. Knees of one target lie within a tenth of each other (10,278 to
11,252 records/s in three rounds)."""


def at_its_cap(measurement: Measurement, share: float = AT_THE_CAP) -> bool:
    """Return whether its own cap held a capped load, at this share of it; a target file may have lowered it."""
    rates = [r.metrics["records_per_s"] for r in measurement.rounds if "records_per_s" in r.metrics]
    return bool(rates) and statistics.median(rates) >= share * measurement.scenario.load.rate


def rounds_below_its_cap(measurement: Measurement) -> int:
    """Return in how many rounds a capped load did not come to its cap."""
    rates = (r.metrics["records_per_s"] for r in measurement.rounds if "records_per_s" in r.metrics)
    return sum(rate < AT_THE_CAP * measurement.scenario.load.rate for rate in rates)


def at_another_rate(judgement: Judgement, threshold: Threshold, load: Load) -> Judgement:
    """Return the judgement, INCONCLUSIVE where the load was another than the one that the threshold was recorded at.

    A rate that comes from a knee falls with it, and less load hides slow brokers; more load is no fault of theirs.
    """
    if not threshold.rate or judgement.verdict is Verdict.INVALID:
        return judgement
    off, most = load.rate / threshold.rate - 1, most_off(threshold)
    if off >= -most and not (off > most and judgement.verdict is Verdict.REGRESSED):
        return judgement
    reason = (
        f"offered {load.rate:,.0f} records/s, and the threshold was recorded at {threshold.rate:,.0f} "
        f"({off * 100:+.0f} %, at most {most * 100:.0f} %): record it at this rate, or find out why the knee moved"
    )
    return replace(judgement, verdict=Verdict.INCONCLUSIVE, reason=reason)


def most_off(threshold: Threshold) -> float:
    """Return by how much, as a share, a rate may be off that of a threshold: by what its metric may, or OTHER_RATE."""
    return min(threshold.reach, OTHER_RATE)


def paired_ratios(metric: str, of: Sequence[Round], over: Sequence[Round]) -> tuple[float, ...]:
    """Return the ratio of the two loads in every round that both have, by its number."""
    below = {r.index: r.metrics[metric] for r in over if r.metrics.get(metric)}
    return tuple(r.metrics[metric] / below[r.index] for r in of if metric in r.metrics and r.index in below)
