"""The rule for doubts: a loss is red where it still is without all that they explain. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from perfgate.judge.phrases import joined, number
from perfgate.model import Judgement, Verdict
from perfgate.model.flaw import Doubt, excused, explained

Doubts = Sequence[Sequence[Doubt]]
"""Of each round, in their order."""


def without_explained(values: Sequence[float], sign: int, metric: str, doubts: Doubts) -> list[float]:
    """The values without what the doubts of their rounds explain; rounds explained wholly are left out."""
    return [
        excused(value, sign, of_round, metric)
        for value, of_round in zip(values, doubts, strict=True)
        if explained(of_round, metric)[0] < math.inf
    ]


def settled(
    judged: Judgement,
    sign: int,
    values: Sequence[float],
    doubts: Doubts,
    red: Callable[[Sequence[float]], bool],
) -> Judgement:
    """The judgement of rounds in doubt, with each doubt and what it explains: doubtful figures are never green.

    REGRESSED stays where `red` says so of the rounds (two or more) without what the doubts explain.
    """
    metric = judged.metric
    here = [doubt for of_round in doubts for doubt in of_round if doubt.touches(metric)]
    if not here:
        return judged
    left = without_explained(values, sign, metric, doubts)
    stays = judged.verdict is Verdict.REGRESSED and len(left) > 1 and red(left)
    reason = words(here, metric, values, judged.baseline or judged.limit, sign)
    if stays:
        return replace(judged, reason=joined(judged.reason, f"red in spite of this: {reason}"))
    return replace(judged, verdict=Verdict.INCONCLUSIVE, reason=reason)


def words(doubts: Sequence[Doubt], metric: str, values: Sequence[float], expected: float | None, sign: int) -> str:
    """The doubts, each once, and how much of the measured loss all of them explain."""
    texts = "; ".join(dict.fromkeys(doubt.text for doubt in doubts))
    factor, offset = explained(doubts, metric)
    if factor == math.inf or (factor == 1 and not offset) or not expected or not values:
        return texts
    middle = sorted(values)[len(values) // 2]
    worse = (expected / middle if sign > 0 else middle / expected) if middle > 0 else math.inf
    if worse <= 1:
        return texts
    what = f"a factor of {factor:.3g}" if not offset else f"{number(offset)} and a factor of {factor:.3g}"
    return f"{texts}, which explains {what} of the {worse:.3g} measured"
