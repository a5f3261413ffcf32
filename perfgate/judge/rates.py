"""Rates of loads: limited by their own caps, other than a threshold's; and ratios of loads by rounds. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from perfgate.judge.rounds import values_of
from perfgate.model import Judgement, Load, Measurement, Round, Threshold, Verdict
from perfgate.model.flaw import Doubt, excused

AT_THE_CAP = 0.98
"""Where a capped load reaches this share of its rate, the rate decides nothing; its cost to the brokers does."""
RATE_TAKEN = 0.98
"""Brokers that took this share of a paced load are not red for its rate."""
RATE_WHOLE = 0.995
"""Of a paced load, over all rounds: no more is missing than a single round may lack (RATE_REACHED of flaw.py)."""
PER_RECORD = ("broker_cpu_us_per_record", "client_cpu_us_per_record")
OTHER_RATE = 0.2
"""A rate that is off by more is of another load, however far a metric's limit lies (that of a p99 beyond twice its
baseline). Knees of a target lie within a tenth of each other (10,278 to 11,252 records/s in three rounds)."""


def at_its_cap(measurement: Measurement, share: float = AT_THE_CAP) -> bool:
    """Whether its own cap limited the load, at this share of it; a target file may have lowered it."""
    rates = values_of(measurement.rounds, "records_per_s")
    load = measurement.scenario.load
    return load.capped and bool(rates) and statistics.median(rates) >= share * load.rate


def rate_doubts(threshold: Threshold, load: Load) -> tuple[Doubt, ...]:
    """Doubts about a load other than the threshold's: less hides slow brokers, more explains its share."""
    if not threshold.rate:
        return ()
    off, most = load.rate / threshold.rate - 1, most_off(threshold)
    if abs(off) <= most:
        return ()
    text = (
        f"offered {load.rate:,.0f} records/s, and the threshold was recorded at {threshold.rate:,.0f} "
        f"({off * 100:+.0f} %, at most {most * 100:.0f} %): record it at this rate, or find out why the knee moved"
    )
    if off > 0:
        return (Doubt(kind="rate", whose="load", text=text, factor=1 + off),)
    # CPU per record differs by no more than the loads.
    cost = Doubt(kind="rate", whose="load", text=text, factor=1 / (1 + off), metrics=PER_RECORD)
    return (Doubt(kind="rate", whose="load", text=text), cost)


def at_another_rate(judgement: Judgement, threshold: Threshold, load: Load) -> Judgement:
    """The judgement, INCONCLUSIVE where another load (:func:`rate_doubts`) may explain it."""
    doubts, sign = rate_doubts(threshold, load), threshold.metric.sign
    if not doubts or judgement.verdict is Verdict.INVALID:
        return judgement
    if judgement.verdict is Verdict.REGRESSED:
        best = excused(judgement.measured or 0.0, sign, doubts, threshold.metric.name)
        if judgement.measured is None or sign * (best - threshold.limit) < 0:
            return judgement
    elif doubts[0].factor != 1:
        return judgement
    return replace(judgement, verdict=Verdict.INCONCLUSIVE, reason=doubts[0].text)


def most_off(threshold: Threshold) -> float:
    """The share by which a rate may be off that of a threshold: that of its metric, or OTHER_RATE."""
    return min(threshold.reach, OTHER_RATE)


def paired_ratios(metric: str, of: Sequence[Round], over: Sequence[Round]) -> tuple[float, ...]:
    """The ratio of the two loads in every round that both have, by its number."""
    below = {r.index: r.metrics[metric] for r in over if r.metrics.get(metric)}
    return tuple(r.metrics[metric] / below[r.index] for r in of if metric in r.metrics and r.index in below)


def lower_cap_doubts(measurement: Measurement, thresholds: Sequence[Threshold]) -> tuple[Doubt, ...]:
    """Doubts about a load at a cap below the stored limit of its rate: it is another load, and differs by no more."""
    load, held = measurement.scenario.load, next((t for t in thresholds if t.metric.name == "records_per_s"), None)
    if held is None or held.limit <= load.rate or not at_its_cap(measurement):
        return ()
    text = f"reached its cap of {load.rate:,.0f} records/s; the stored limit of {held.limit:,.0f} is of a higher one"
    reached = min(load.rate, statistics.median(values_of(measurement.rounds, "records_per_s")))
    return (Doubt(kind="cap", whose="load", text=text, factor=held.baseline / reached),)
