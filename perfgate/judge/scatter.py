"""By how much a unit of a comparison scatters: as the units show, and as was known before. Pure.

A few pairs of clusters show little of their own scatter. Two things are known besides: pairs that were recorded on
this class of machine while nothing differed, and the bursts within each pair at hand, which show all of its scatter
but what clusters of the same kind differ by among themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from perfgate.model.compared import RecordedPairs

SCATTER_MORE = 0.01
"""Chance that pairs which scatter as the recorded ones do are taken for others."""
JOHNSON_ALONE = 0.5
"""Least share of the term in skewness. It is |3 w - 1| / 2 of that for Student's t alone, where w is the share of the
degrees of freedom that the pairs at hand have themselves: the mean of skewed numbers leans one way (1), and their own
standard deviation rises with it (3 w)."""
BETWEEN, BETWEEN_OF_LATENCIES = 0.06, 0.15
"""The largest standard deviation between clusters of the same kind that was seen (of the logarithm of a pair's ratio,
without what its bursts explain). Of 22 comparisons on pairs on a machine (2 cores) 0.056 of a rate, 0.057 of the
brokers' CPU per record, 0.147 of a p99; most had none that shows (benchmarks/results/compare_quality.jsonl)."""
SEEN = 8
"""That largest value counts as an estimate from this many pairs."""
FEWEST_PARTS = 3
"""Fewer bursts or blocks in a pair show little of their scatter."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Logarithms of each burst or round of each pair; `between`: the standard deviation between clusters."""

    logs: tuple[tuple[float, ...], ...]
    between: float = BETWEEN


Known = RecordedPairs | Parts
"""What is known of the scatter of pairs besides their own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scatter:
    """The variance of a unit with its degrees of freedom, of which `besides` are not the units' own.

    `refused`: none are, because the pairs at hand scatter more. `skewness_share`: the part of its term that counts.
    """

    variance: float
    freedom: int
    besides: int = 0
    refused: bool = False
    skewness_share: float = 1.0


def scatter(values: Sequence[float], known: Known | None) -> Scatter:
    """The scatter of a unit. Needs two values.

    Clusters of the same kind should differ by nothing, so that of n recorded pairs the mean square of the differences
    estimates the variance of a pair, with n degrees of freedom. It is pooled with that of the k pairs at hand,
    (n s_AA^2 + (k - 1) s_k^2) / (n + k - 1); the mean over its error then follows Student's t with n + k - 1 degrees of
    freedom (the pooled variance of a two-sample t test; Snedecor and Cochran, Statistical Methods). Where an F test
    (one-sided, 1 %) says that those at hand scatter more, what was known is left out.
    """
    own, freedom = float(np.var(values, ddof=1)), len(values) - 1
    if known is None:
        return Scatter(variance=own, freedom=freedom)
    variance, count = before(known, len(values))
    if own > variance * _most(freedom, count):
        return Scatter(variance=own, freedom=freedom, refused=True)
    together = count + freedom
    return Scatter(
        variance=(count * variance + freedom * own) / together,
        freedom=together,
        besides=count,
        skewness_share=skewness_share(freedom, count),
    )


def before(known: Known, units: int) -> tuple[float, int]:
    """The variance of a pair that is known without the difference of `units` pairs, and its degrees of freedom.

    By recorded pairs their mean square. By the parts of the pairs at hand tau^2 + s^2 / m: m parts a pair scatter by s
    within it, clusters by at most tau (one-way analysis of variance with random effects).
    """
    if isinstance(known, RecordedPairs):
        return float(np.mean(np.square(known.effects))), len(known.effects)
    parts = [logs for logs in known.logs[:units] if len(logs) > 1]
    of_mean = [float(np.var(logs, ddof=1)) / len(logs) for logs in parts]
    return known.between**2 + float(np.mean(of_mean)), min(SEEN, sum(len(logs) - 1 for logs in parts))


def skewness_share(own: int, besides: int) -> float:
    """The part of the term in skewness that counts, by degrees of freedom."""
    return max(JOHNSON_ALONE, abs(3 * own / (own + besides) - 1) / 2) if besides else 1.0


@cache
def _most(freedom: int, besides: int) -> float:
    """How many times the variance that is known another may be by chance."""
    from scipy import stats  # takes 0.7 s, and only a comparison needs it

    return float(stats.f.isf(SCATTER_MORE, freedom, besides))


def text(known: Known | None, spread: float, *, used: bool, refused: bool) -> str:
    """How what is known entered a scatter between pairs of `spread`; empty where it did not."""
    if known is None:
        return ""
    if isinstance(known, RecordedPairs):
        what = f"{len(known.effects)} recorded A/A pairs of this machine class"
        if not refused:
            return f"scatter between pairs from {what} too"
        scattered = math.sqrt(before(known, len(known.effects))[0])
        return (
            f"the {what} were not used: these pairs scatter by {spread * 100:.1f} %, those by {scattered * 100:.1f} % "
            "(F test, 1 %)"
        )
    most = f"{known.between * 100:g} % between clusters of the same kind, the largest seen"
    if not refused:
        if not used:
            return ""
        return f"scatter between pairs from their {len(known.logs[0])} parts each, and {most}"
    return f"these pairs scatter by {spread * 100:.1f} %, more than their parts and {most}, explain (F test, 1 %)"
