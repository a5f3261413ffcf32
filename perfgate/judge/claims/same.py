"""Claims of a change: each deciding metric is the same within the margin, or better. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from statistics import fmean

from perfgate.judge.besides import worst_factors
from perfgate.judge.claim import judge
from perfgate.judge.loads import unsound_load
from perfgate.judge.paths import paths_ms
from perfgate.judge.rounds import arms_of, flaws_by_arm
from perfgate.judge.sequential import Estimate, decided, detectable, looks_until, units_needed
from perfgate.judge.sequential import estimate as estimate_of
from perfgate.judge.units import (
    SoundUnits,
    fewest_units,
    known_scatter,
    metric_effect,
    pairs_per_unit,
    part_logs,
    sound_units,
)
from perfgate.judge.units_case import RATE, ClaimCase, UnitsCase, UnitsClaim, UnitsStopRule, deciding_metrics
from perfgate.model import METRICS, Comparison, ComparisonOutcome, Effect, MetricEffect, MetricInfo, Verdict
from perfgate.model.judged import severity

FALSE_DISCOVERIES = 0.05
"""Share of the secondary metrics called notable that may be so by chance (Benjamini and Hochberg 1995)."""
EFFECTS = {
    Verdict.BROKEN: Effect.BROKEN,
    Verdict.REGRESSED: Effect.SLOWER,
    Verdict.INVALID: Effect.INVALID,
    Verdict.INCONCLUSIVE: Effect.INCONCLUSIVE,
    Verdict.IMPROVED: Effect.FASTER,
    Verdict.PASS: Effect.SAME,
}


class Same(UnitsClaim):
    """The metric differs by no more than the margin, or is better."""

    __slots__ = ()

    def decide(self, estimate: Estimate, last: bool) -> Verdict | None:
        decision = decided(estimate)
        if not decision:
            return None if decision is None else Verdict.PASS
        return Verdict.IMPROVED if decision == self.metric.sign else Verdict.REGRESSED

    def lost(self, estimate: Estimate, by_path: float = 0.0) -> bool:
        if by_path:
            return self.metric.sign * estimate.mean + by_path < -estimate.level * estimate.error
        return decided(estimate) == -self.metric.sign

    def kept_by_path(self, estimate: Estimate, hidden: float) -> bool:
        """The interval lies within the margin, and would not with a loss of `hidden` more; or only that is its gain."""
        low, high = estimate.interval
        worse = -low if self.metric.better == "higher" else high
        off = -self.metric.sign * hidden
        plain = replace(estimate.rule, below=0.0, above=0.0)
        without = replace(estimate, mean=estimate.mean + off, interval=(low + off, high + off), rule=plain)
        only_by_path = decided(estimate) == self.metric.sign != decided(without)
        return only_by_path or worse < self.margin <= worse + hidden


class ChangeCase(UnitsCase):
    """A scenario with a change, against it as declared."""

    def __init__(self, comparison: Comparison, *, final: bool) -> None:
        super().__init__(comparison, _claims(comparison, deciding_metrics(comparison)), final=final)

    def loss_claims(self) -> list[UnitsClaim]:
        """The deciding metrics, and the rate where the candidate often did not take all of the load."""
        rate = [METRICS[RATE]] if self.short.before or self.short.often else []
        metrics = rate if self.short.before else list(dict.fromkeys([*self.metrics, *rate]))
        return _claims(self.comparison, metrics)

    def counts_besides(self) -> list[tuple[MetricInfo, float]]:
        """The metrics that may not get much worse in a change that is otherwise the same."""
        if self.short.before:
            return []
        factors = worst_factors(self.comparison, Effect.SAME)
        return [(METRICS[name], abs(math.log(factor))) for name, factor in factors.items()]

    def green_effect(self, verdict: Verdict) -> Effect | None:
        """The effect that other metrics may take back; a gain stands where only the deciding ones were asked for."""
        if verdict is Verdict.IMPROVED and self.comparison.decides.metrics:
            return None
        return EFFECTS[verdict] if verdict.green else None

    def known_in_part(self, effect: Effect) -> list[MetricEffect]:
        """The effect on metrics that may not get much worse and some rounds lack, by the units that are usable."""
        known = {*(metric.name for metric in self.metrics), *(other.metric.name for other in self.others)}
        comparison, effects = self.comparison, []
        for metric in (METRICS[name] for name in worst_factors(comparison, effect) if name not in known):
            units = sound_units(comparison, metric)
            if len(units.explained) >= fewest_units(comparison, [metric.name]):
                effects.append(self._effect(metric, units.explained, units.parts))
        return effects

    def _effect(self, metric: MetricInfo, logs: Sequence[float], parts: Sequence[tuple[float, ...]]) -> MetricEffect:
        comparison = self.comparison
        looks = looks_until(len(logs), comparison.planned_units, last=True, former=comparison.former_plans)
        return metric_effect(metric, estimate_of(logs, looks, known=known_scatter(comparison, metric.name, parts)))

    @cached_property
    def lead(self) -> ClaimCase:
        """The claim that decides: the worst, of several the farthest from an answer."""
        return min(self.tested, key=lambda tested: (severity(tested.ruling.verdict), -_more_units(tested)))

    @cached_property
    def others(self) -> tuple[MetricEffect, ...]:
        """The effect on every other metric, over the same units."""
        units = max((tested.estimate.units for tested in self.tested if tested.estimate), default=self.units)
        comparison, effects = self.comparison, []
        first = comparison.baseline.rounds[0].metrics if units else {}  # a round without a metric: no units of it
        for name, metric in METRICS.items():
            left_out = name not in first or metric in self.metrics or flaws_by_arm(arms_of(comparison), [name])
            parts = () if left_out else part_logs(comparison, name)[:units]
            if len(parts) >= 2:
                effects.append(self._effect(metric, list(map(fmean, parts)), parts))
        return tuple(effects)


def judge_comparison(comparison: Comparison, *, final: bool = True) -> ComparisonOutcome:
    """The effect of the change on the scenario, as far as it has been measured. `final`: nothing more will come."""
    case = ChangeCase(comparison, final=final)
    ruling = judge(case)
    outcome = replace(_figures(case), effect=EFFECTS[ruling.verdict], reasons=ruling.reasons)
    # More time is of use where noise alone kept it from being decided.
    noise_alone = outcome.primary and ruling.verdict is Verdict.INCONCLUSIVE and not ruling.guard
    if noise_alone and case.lead.ruling.verdict is Verdict.INCONCLUSIVE and not case.lead.ruling.reasons:
        outcome = replace(outcome, more_minutes=max(0.0, _more_units(case.lead) - 1) * comparison.minutes)
    if ruling.in_spite:
        units = case.losses[0][1]
        return replace(_of_sound_units(outcome, case, units), reasons=(units.loss_in_spite_of(ruling.reasons),))
    if outcome.effect is Effect.INCONCLUSIVE and outcome.primary is None and case.losses:
        return _of_sound_units(outcome, case, case.losses[0][1])
    return outcome


def _claims(comparison: Comparison, metrics: Sequence[MetricInfo]) -> list[UnitsClaim]:
    margin, share = math.log1p(comparison.decides.margin), 1 / len(metrics)
    return [Same(metric=metric, margin=margin, share=share) for metric in metrics]


def _figures(case: ChangeCase) -> ComparisonOutcome:
    """The figures of the whole units, where these can be judged, and no verdict yet."""
    comparison, decides = case.comparison, case.comparison.decides
    unsound = unsound_load(comparison)
    bare = ComparisonOutcome(
        name=comparison.scenario.name,
        effect=Effect.INVALID,
        primary=None,
        units=0 if unsound else case.units,
        minutes=comparison.minutes,
        decides=decides,
    )
    if unsound or case.units < case.needed or not (estimate := case.lead.estimate):
        return bare
    beside = tuple(
        replace(metric_effect(tested.metric, tested.estimate), verdict=EFFECTS[tested.ruling.verdict])
        for tested in case.tested
        if tested is not case.lead and tested.estimate
    )
    lead, metric = EFFECTS[case.lead.ruling.verdict], case.lead.metric
    return replace(
        bare,
        primary=replace(metric_effect(metric, estimate), verdict=lead if decides.metrics else None),
        others=(*beside, *case.others),
        units=estimate.units,
        pairs=estimate.units * pairs_per_unit(comparison),
        detectable=1 - math.exp(-detectable(estimate)),
        unit_effects=tuple(map(math.expm1, case.lead.logs)),
        scatter=case.lead.scatter,
        paths_ms=paths_ms(comparison),
    )


def _of_sound_units(outcome: ComparisonOutcome, case: ChangeCase, units: SoundUnits) -> ComparisonOutcome:
    return replace(
        outcome,
        primary=replace(units.effect, verdict=outcome.effect if outcome.decides.metrics else None),
        units=len(units.logs),
        pairs=len(units.logs) * pairs_per_unit(case.comparison),
        detectable=None,
        more_minutes=None,
        unit_effects=tuple(map(math.expm1, units.logs)),
        paths_ms=paths_ms(case.comparison),
    )


def _more_units(tested: ClaimCase) -> float:
    """How many times as many units an answer takes; 0 where there is an answer."""
    if tested.ruling.verdict is not Verdict.INCONCLUSIVE or tested.estimate is None:
        return 0.0
    return units_needed(tested.estimate) / tested.estimate.units


def with_notable(outcomes: Sequence[ComparisonOutcome]) -> list[ComparisonOutcome]:
    """Mark the secondary metrics that differ, of all scenarios together, by the false-discovery rate."""
    from scipy import stats  # half a second, which a run that compares nothing need not wait

    p_values = [effect.p_value for outcome in outcomes for effect in outcome.others]
    if not p_values:
        return list(outcomes)
    adjusted = iter(stats.false_discovery_control(p_values, method="bh"))
    return [
        replace(
            outcome,
            others=tuple(replace(other, notable=bool(next(adjusted) < FALSE_DISCOVERIES)) for other in outcome.others),
        )
        for outcome in outcomes
    ]


class SequentialStopRule(UnitsStopRule):
    """Ends a comparison at the planned look at which the sequential test decides it."""

    def fewest_units(self, comparison: Comparison) -> int:
        return fewest_units(comparison, [metric.name for metric in deciding_metrics(comparison)])

    def ends(self, comparison: Comparison) -> bool:
        return judge_comparison(comparison, final=False).effect is not Effect.INCONCLUSIVE
