"""Losses against a reference: what is looked at, and whether more than a ratio allows is lost for certain. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from perfgate.judge.compare.comparisons import RATE
from perfgate.judge.compare.losses import SoundUnits, known_loss
from perfgate.judge.compare.sequential import Estimate
from perfgate.judge.compare.short import short_of
from perfgate.judge.ratio_file import Ratios
from perfgate.judge.statistics import spread
from perfgate.model import METRICS, Comparison, Judgement, Ratio, Verdict
from perfgate.model.compared import OF_A_PROCESS

THE_REFERENCE = "the reference"


def ratios_asked(comparison: Comparison, ratios: Ratios) -> list[Ratio]:
    """Return the ratios by which a loss is looked for; of a paced load that one side did not take, its rate first.

    Latencies of a load that the reference's brokers did not take either are those of a queue that grows.
    """
    short = short_of(comparison)
    stated = [ratio for ratio in ratios.of(comparison.scenario.name) if not of_both(comparison, ratio.metric.name)]
    rate = next((ratio for ratio in stated if ratio.metric.name == RATE), None)
    usual = rate or Ratio(metric=METRICS[RATE], limit=1 / (1 + comparison.decides.margin), own=False)
    if short.before:
        return [usual]
    if short.often and rate is None:
        return [usual, *stated]
    return stated


def known_lost(comparison: Comparison, ratio: Ratio, units: SoundUnits, *, final: bool) -> bool:
    """Return whether more than the ratio allows is lost without all that there is to doubt."""

    def red(found: Estimate) -> bool:
        return lost(found, ratio, 0.0)

    return known_loss(units, comparison, abs(math.log(ratio.limit)), red, final=final)


def judgement_of(
    verdict: Verdict, comparison: Comparison, ratio: Ratio, units: SoundUnits, reasons: Sequence[str] = ()
) -> Judgement:
    """Return a ratio's judgement by the units that say something of it."""
    name, effect = ratio.metric.name, units.effect
    middle, here = (
        [r.metrics[name] for r in m.rounds if name in r.metrics and not r.no_number(name)]
        for m in (comparison.baseline, comparison.candidate)
    )
    expected = statistics.median(middle)
    low, high = effect.interval
    in_spite = units.in_spite_of(reasons)
    return Judgement(
        verdict=verdict,
        metric=name,
        measured=expected * (1 + effect.estimate),
        spread=spread(here) if len(here) > 1 else None,
        interval=(expected * (1 + low), expected * (1 + high)),
        limit=expected * ratio.limit,
        baseline=expected,
        tolerance=abs(ratio.limit - 1),
        against=THE_REFERENCE,
        reason="; ".join(filter(None, (units.counted, f"red in spite of this: {in_spite}" if in_spite else ""))),
    )


def of_both(comparison: Comparison, metric: str) -> bool:
    """Return whether the metric is of brokers that served both sides, so that it is the same whatever they cost."""
    return metric.startswith(OF_A_PROCESS) and comparison.method in ("turns", "rounds") and not comparison.two_clusters


def lost(found: Estimate, ratio: Ratio, path: float) -> bool:
    """Return whether more than the limit is known to be lost, besides what a longer path (`path`) may have taken."""
    sign = ratio.metric.sign
    mean = sign * found.mean + path
    return mean < -found.level * found.error and mean + found.error < sign * math.log(ratio.limit)
