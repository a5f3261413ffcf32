"""Rates of loads that are not paced: whether a load's own cap held it, and ratios of two loads round by round. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from perfgate.model import Measurement, Round

AT_THE_CAP = 0.98
"""Where a capped load reaches this share of its rate, the rate says nothing; what it costs the brokers does."""


def at_its_cap(measurement: Measurement, share: float = AT_THE_CAP) -> bool:
    """Return whether its own cap held a capped load, at this share of it; a target file may have lowered it."""
    rates = [r.metrics["records_per_s"] for r in measurement.rounds if "records_per_s" in r.metrics]
    return bool(rates) and statistics.median(rates) >= share * measurement.scenario.load.rate


def centre_rate(measurement: Measurement) -> float:
    """Return the median of the rounds' rates, in records/s; at least one round has one."""
    return statistics.median(r.metrics["records_per_s"] for r in measurement.rounds if "records_per_s" in r.metrics)


def rounds_below_its_cap(measurement: Measurement) -> int:
    """Return in how many rounds a capped load did not come to its cap."""
    rates = (r.metrics["records_per_s"] for r in measurement.rounds if "records_per_s" in r.metrics)
    return sum(rate < AT_THE_CAP * measurement.scenario.load.rate for rate in rates)


def paired_ratios(metric: str, of: Sequence[Round], over: Sequence[Round]) -> tuple[float, ...]:
    """Return the ratio of the two loads in every round that both have, by its number."""
    below = {r.index: r.metrics[metric] for r in over if r.metrics.get(metric)}
    return tuple(r.metrics[metric] / below[r.index] for r in of if metric in r.metrics and r.index in below)
