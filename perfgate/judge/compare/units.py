"""The units of a comparison: their differences, how many a decision needs, what is known of their scatter. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from perfgate.judge.compare.sequential import FEWEST_BESIDE_RECORDED, FEWEST_UNITS, Estimate
from perfgate.model import Comparison, RecordedPairs


def unit_logs(comparison: Comparison, metric: str) -> tuple[float, ...]:
    """Return the logarithm of candidate over baseline of each whole unit; empty when a round lacks the metric."""
    sides = (comparison.baseline.rounds, comparison.candidate.rounds)
    size, count = comparison.rounds_per_unit, whole_units(comparison)
    before, after = ([r.metrics.get(metric, 0.0) for r in side[: size * count]] for side in sides)
    if not all(value > 0 for value in (*before, *after)):
        return ()
    logs = np.log(after) - np.log(before)
    return tuple(float(value) for value in logs.reshape(count, size).mean(axis=1))


def whole_units(comparison: Comparison) -> int:
    """Return how many units of the statistics both sides have."""
    return min(len(comparison.baseline.rounds), len(comparison.candidate.rounds)) // comparison.rounds_per_unit


def pairs_per_unit(comparison: Comparison) -> int:
    """Return how many pairs of turns or rounds a unit has."""
    return len(comparison.orders[0].replace(" ", "")) // 2 if comparison.orders else comparison.rounds_per_unit


def fewest_units(comparison: Comparison, metrics: Sequence[str]) -> int:
    """Return how many units a decision by these metrics needs: fewer where recorded pairs tell of all of them."""
    return FEWEST_BESIDE_RECORDED if metrics and all(map(comparison.recorded_of, metrics)) else FEWEST_UNITS


def too_few(units: int, needed: int) -> str:
    """Return why so many units tell nothing."""
    return f"{units} unit(s) were measured; an interval and a decision need {needed}"


def scatter_text(found: Estimate, recorded: RecordedPairs | None) -> str:
    """Return what the scatter between pairs rests on besides them; empty where nothing is recorded."""
    if recorded is None:
        return ""
    if not found.refused:
        return f"scatter between pairs from {found.recorded} recorded A/A pairs of this machine class too"
    before = math.sqrt(sum(x * x for x in recorded.effects) / len(recorded.effects))
    return (
        f"the {len(recorded.effects)} recorded A/A pairs of this machine class were not used: these pairs scatter by "
        f"{found.spread * 100:.1f} %, those by {before * 100:.1f} % (F test, 1 %)"
    )
