"""Losses of a comparison that remain when all doubts are taken off, and whether these are red. Pure.

The guards of a comparison end undecided: a load that was not valid, units that are too few, brokers that compile, paths
that differ. Each of them explains so much of a loss and no more (:class:`perfgate.model.doubt.Doubt`). Here the units
that doubts explain wholly are left out, what they explain is taken off the others, and the rest is tested for a loss
alone. So no guard makes a catastrophe undecided, and nothing becomes green by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

from perfgate.judge.claims.more_hosts import RATES
from perfgate.judge.compare.beyond import WIDENING, largest_scatter, loss_known, wide_interval
from perfgate.judge.compare.compiling import compile_doubts
from perfgate.judge.compare.paths import path_doubts
from perfgate.judge.compare.sequential import PLAIN, Estimate, Rule
from perfgate.judge.unexplained import words
from perfgate.model import Comparison, MetricEffect, MetricInfo, Round
from perfgate.model.compared import SATURATED
from perfgate.model.doubt import Doubt, excused, explained


@dataclass(frozen=True, kw_only=True, slots=True)
class SoundUnits:
    """The units of a comparison that say something of a metric.

    `logs`: logarithm of candidate over baseline of each as measured; `explained`: the same with all that its doubts
    explain taken off. `doubts`: those that explain a part, each once. `among`: so many units were begun.
    """

    metric: MetricInfo
    logs: tuple[float, ...]
    explained: tuple[float, ...]
    doubts: tuple[Doubt, ...]
    among: int
    scatter: float

    def __bool__(self) -> bool:
        return bool(self.logs)

    @property
    def effect(self) -> MetricEffect:
        """The mean effect as measured, with an interval that does not rest on how few units scatter."""
        low, high = wide_interval(self.logs, self.scatter)
        mean = fmean(self.logs)
        error = self.scatter * WIDENING / math.sqrt(len(self.logs))
        return MetricEffect(
            metric=self.metric,
            estimate=math.expm1(mean),
            interval=(math.expm1(low), math.expm1(high)),
            p_value=2 * NormalDist().cdf(-abs(mean) / error),
        )

    @property
    def counted(self) -> str:
        """How many of the units that were begun these are, in words."""
        return f"{len(self.logs)} of {self.among} unit(s)"

    @property
    def explains(self) -> str:
        """What all there is to doubt explains of the loss, in words; empty where that is nothing."""
        if explained(self.doubts, self.metric.name) == (1, 0):
            return ""
        return words(self.doubts, self.metric.name, [math.exp(fmean(self.logs))], 1.0, self.metric.sign)

    def in_spite_of(self, reasons: Sequence[str]) -> str:
        """Return these reasons for doubt with what all of them explain of the loss; empty where there is none."""
        return "; ".join(dict.fromkeys(filter(None, (*reasons, self.explains))))

    def loss_in_spite_of(self, reasons: Sequence[str]) -> str:
        """Return the loss with what it is red in spite of."""
        loss = f"{self.effect.estimate * 100:+.1f} % {self.metric.name} in {self.counted}, more than scatter explains"
        in_spite = self.in_spite_of(reasons)
        return f"{loss}; red in spite of this: {in_spite}" if in_spite else loss


def sound_units(comparison: Comparison, metric: MetricInfo) -> SoundUnits:
    """Return what the comparison's units say of this metric, one that was cut off among them.

    A unit is the mean of those of its rounds that say something on both sides. A round of the baseline explains no loss
    of the candidate by being worse than the brokers made it; but one whose load was never made says nothing.
    """
    beside = (*path_doubts(comparison, metric), *compile_doubts(comparison))
    size, pairs = (
        comparison.rounds_per_unit,
        list(zip(comparison.baseline.rounds, comparison.candidate.rounds, strict=False)),
    )
    logs, left, doubts = list[float](), list[float](), dict[Doubt, None]()
    for first in range(0, len(pairs), size):
        parts = [
            (found, flaws)
            for before, after in pairs[first : first + size]
            if (found := _logs(before, after, metric, flaws := (*after.doubts, *beside))) is not None
        ]
        if parts:
            logs.append(fmean(measured for (measured, _), _ in parts))
            left.append(fmean(rest for (_, rest), _ in parts))
            doubts.update(dict.fromkeys(one for _, flaws in parts for one in flaws if one.touches(metric.name)))
    among = -(-max(len(m.rounds) for m in (comparison.baseline, comparison.candidate)) // size)
    return SoundUnits(
        metric=metric,
        logs=tuple(logs),
        explained=tuple(left),
        doubts=tuple(doubts),
        among=max(among, len(logs)),
        scatter=largest_scatter(comparison, metric),
    )


def known_loss(
    units: SoundUnits,
    comparison: Comparison,
    margin: float,
    red: Callable[[Estimate], bool],
    *,
    final: bool,
    rule: Rule = PLAIN,
) -> bool:
    """Return whether a loss of more than `margin`, a logarithm, remains of these units; see :mod:`beyond`."""
    if not units:
        return False
    return loss_known(units.explained, units.metric, margin, comparison, red, final=final, rule=rule)


def _logs(before: Round, after: Round, metric: MetricInfo, doubts: Sequence[Doubt]) -> tuple[float, float] | None:
    """Return the logarithm of candidate over baseline of two rounds, and what of it is left; None where it says
    nothing."""
    name = metric.name
    if any(name not in one.metrics or one.no_number(name) for one in (before, after)):
        return None
    expected, value = before.metrics[name], max(after.metrics[name], _least(after, metric))
    if not (expected > 0 and value > 0) or explained(_spoiling(before.doubts, name), name)[0] == math.inf:
        return None
    rest = excused(value, metric.sign, doubts, name)
    if not 0 < rest < math.inf:
        return None
    return math.log(value / expected), math.log(rest / expected)


def _spoiling(doubts: Sequence[Doubt], metric: str) -> list[Doubt]:
    """Return those doubts of a baseline's round that leave a loss of the candidate unknown.

    A load that was held back made fewer records than the brokers would have taken: what its rate lost beside it is the
    least that the candidate lost.
    """
    held_back = metric in RATES
    return [one for one in doubts if not (held_back and one.kind == SATURATED and one.whose in ("load", "brokers"))]


def _least(one: Round, metric: MetricInfo) -> float:
    """Return what a rate of none counts as, which has no logarithm: one record in the window."""
    counts = metric.name in ("records_per_s", "received_records_per_s") and one.window_s > 0
    return 1 / one.window_s if counts else 0.0
