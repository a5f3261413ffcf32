"""Scatter between pairs of clusters: that of this comparison's own, pooled with that of recorded A/A pairs. Pure.

A pair of clusters of the same kind should differ by nothing, so that of n recorded ones the mean square of their
differences estimates the variance of a pair, with n degrees of freedom. It is pooled with that of the k pairs at hand,
(n s_AA^2 + (k - 1) s_k^2) / (n + k - 1), as an analysis of variance pools its groups; the mean over its error then
follows Student's t with n + k - 1 degrees of freedom (the pooled variance of a two-sample t test; Snedecor and Cochran,
Statistical Methods). That holds where both are of the same variance. Where an F test (one-sided, 1 %) says that those
at hand scatter more, the recorded ones are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from perfgate.model import RecordedPairs

SCATTER_MORE = 0.01
"""Chance that pairs which scatter as the recorded ones do are taken for others."""
JOHNSON_ALONE = 0.5
"""Least share of the term in skewness. Its size is |3 w - 1| / 2 of what it is for Student's t alone, where w is the
share of the degrees of freedom that the pairs at hand have themselves: the mean of skewed numbers leans one way (1),
and their own standard deviation rises with it (3 w). A half stands for w = 0, and it is never less."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scatter:
    """The variance of a unit with its degrees of freedom.

    `recorded`: of so many recorded pairs too, 0 where they have no part in it. `refused`: there are some, and these
    scatter more. `skewness_share`: what part of the term in skewness counts.
    """

    variance: float
    freedom: int
    recorded: int = 0
    refused: bool = False
    skewness_share: float = 1.0


def scatter(values: Sequence[float], recorded: RecordedPairs | None) -> Scatter:
    """Return what a unit scatters by. Needs two values."""
    own, freedom = float(np.var(values, ddof=1)), len(values) - 1
    if recorded is None:
        return Scatter(variance=own, freedom=freedom)
    count = len(recorded.effects)
    before = float(np.mean(np.square(recorded.effects)))
    if own > before * _most(freedom, count):
        return Scatter(variance=own, freedom=freedom, refused=True)
    together = count + freedom
    return Scatter(
        variance=(count * before + freedom * own) / together,
        freedom=together,
        recorded=count,
        skewness_share=skewness_share(freedom, count),
    )


def skewness_share(own: int, recorded: int) -> float:
    """Return what part of the term in skewness counts, by the degrees of freedom of either kind of pair."""
    return max(JOHNSON_ALONE, abs(3 * own / (own + recorded) - 1) / 2) if recorded else 1.0


@cache
def _most(freedom: int, recorded: int) -> float:
    """Return by how many times a variance may exceed the recorded one by chance."""
    from scipy import stats  # takes 0.7 s, and only a comparison needs it

    return float(stats.f.isf(SCATTER_MORE, freedom, recorded))
