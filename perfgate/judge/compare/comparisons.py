"""The effect of a change on each scenario: pure functions of the paired rounds of a comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from perfgate.judge.compare.again import may_hide_worse, measured_again
from perfgate.judge.compare.beside import AT_ITS_CAP, got_worse, held, kept_by_path, not_looked_at, once_late
from perfgate.judge.compare.compiling import cold_units, still_compiling
from perfgate.judge.compare.losses import known_loss, sound_units, with_units
from perfgate.judge.compare.paths import (
    favour,
    favoured,
    handicap,
    handicapped,
    path_differs,
    paths_ms,
)
from perfgate.judge.compare.reached import never_reached
from perfgate.judge.compare.sequential import (
    Estimate,
    Rule,
    decided,
    detectable,
    judge_units,
    looks_until,
    units_needed,
)
from perfgate.judge.compare.sequential import estimate as estimate_of
from perfgate.judge.compare.short import CHANCE, GROWING, Short, below_its_cap, short_of
from perfgate.judge.compare.units import fewest_units, pairs_per_unit, scatter_text, too_few, unit_logs, whole_units
from perfgate.judge.compare.unsound import spoilt_by_side, unsound_load
from perfgate.judge.rates import at_its_cap
from perfgate.judge.rules import READERS
from perfgate.judge.statistics import share_of
from perfgate.model import (
    DECIDES_PACED,
    METRICS,
    Comparison,
    ComparisonOutcome,
    Effect,
    MetricEffect,
    MetricInfo,
)
from perfgate.model.judged import severity

FALSE_DISCOVERIES = 0.05
"""Share of the secondary metrics called notable that may be so by chance (Benjamini and Hochberg 1995)."""
NEAR_THE_CAP = 0.9
"""Turns of a second whose median is so much of the cap may come to it later: six bursts at 2,000/s did so."""
RATE = "records_per_s"
UNDECIDED = (Effect.INCONCLUSIVE, Effect.INVALID)
EFFECTS = {-1: (Effect.SLOWER, Effect.FASTER), 1: (Effect.FASTER, Effect.SLOWER)}


def primary_metric(comparison: Comparison) -> MetricInfo:
    """Return the metric that decides where the run does not ask for others.

    Paced: p99 of the latency. Else the rate, or the brokers' CPU per record where both sides reach the cap. Where the
    two sides differ in their consumers it is what these are given (READERS): producers may feel nothing of it.
    """
    load = comparison.scenario.load
    readers = [one.scenario.consumers for one in (comparison.baseline, comparison.candidate)]
    if all(readers) and readers[0] != readers[1] and load.kind in READERS:
        return METRICS[READERS[load.kind]]
    if load.kind == "paced":
        return METRICS[DECIDES_PACED]
    if load.kind == "capped" and all(map(at_its_cap, (comparison.baseline, comparison.candidate))):
        return METRICS[AT_ITS_CAP]
    return METRICS[RATE]


def deciding_metrics(comparison: Comparison) -> list[MetricInfo]:
    """Return what decides: what the run asks for, else what tells of this load."""
    return [METRICS[name] for name in comparison.decides.metrics] or [primary_metric(comparison)]


def may_decide(comparison: Comparison) -> list[str]:
    """Return the metrics that decide, and the brokers' CPU where the next rounds may show both sides at the cap."""
    names = [metric.name for metric in deciding_metrics(comparison)]
    near = all(at_its_cap(m, NEAR_THE_CAP) for m in (comparison.baseline, comparison.candidate))
    by_cpu = not comparison.decides.metrics and comparison.scenario.load.kind == "capped" and near
    return [*names, *([AT_ITS_CAP] if by_cpu and AT_ITS_CAP not in names else [])]


def judge_comparison(comparison: Comparison, *, final: bool = True) -> ComparisonOutcome:
    """Return what the change does to the scenario, as far as it has been measured.

    `final`: nothing more will be measured, so that INCONCLUSIVE is the last word. INVALID: a load was not valid.
    BROKEN: sends failed with the change, and none without it. A paced load that the baseline's brokers take and the
    candidate's do not, in most rounds, is SLOWER whatever its latency says. What is undecided for any reason is SLOWER
    where a loss remains without all that the reasons explain.
    """
    found = _by_whole_units(comparison, final=final)
    if found.effect not in UNDECIDED or (not final and still_compiling(comparison)):
        return found
    rate, short = METRICS[RATE], short_of(comparison)
    metrics = [rate] if short.before else list(dict.fromkeys([*deciding_metrics(comparison), *[rate] * short.often]))
    rule = Rule(margin=comparison.decides.margin, share=1 / len(metrics))
    measured = [units for metric in metrics if (units := sound_units(comparison, metric))]
    for units in measured:
        red = _red_by(units.metric)
        if known_loss(units, comparison, math.log1p(rule.margin), red, final=final, rule=rule):
            return with_units(found, comparison, units, Effect.SLOWER)
    for name, factor in {} if short.before else held(comparison, Effect.SAME).items():
        units = sound_units(comparison, METRICS[name])
        if known_loss(units, comparison, abs(math.log(factor)), _never, final=final, rule=rule):
            return with_units(found, comparison, units, Effect.SLOWER)
    if found.effect is Effect.INCONCLUSIVE and found.primary is None and measured:
        found = with_units(found, comparison, measured[0], found.effect)
    return replace(found, reasons=(*found.reasons, *filter(None, (units.explains for units in measured))))


def _never(_: Estimate) -> bool:
    """Return that beside what decides a loss counts where it is far beyond alone."""
    return False


def _red_by(metric: MetricInfo) -> Callable[[Estimate], bool]:
    return lambda found: decided(found) == -metric.sign


def _by_whole_units(comparison: Comparison, *, final: bool) -> ComparisonOutcome:
    """Return the same by whole units of sound rounds: undecided as soon as anything keeps it from an answer."""
    name, units, decides = comparison.scenario.name, whole_units(comparison), comparison.decides
    outcome = ComparisonOutcome(
        name=name, effect=Effect.INVALID, primary=None, minutes=comparison.minutes, decides=decides
    )
    if unsound := unsound_load(comparison):
        return replace(outcome, effect=unsound[0], reasons=unsound[1])
    short = short_of(comparison)
    metrics = deciding_metrics(comparison)
    if units < (needed := fewest_units(comparison, [metric.name for metric in metrics])):
        if not short.before and (reasons := spoilt_by_side(comparison, metrics)):
            return replace(outcome, units=units, reasons=reasons)  # which ended it, and not the budget
        why = f"as declared: {short.before}; {GROWING}" if short.before else too_few(units, needed)
        return replace(outcome, effect=Effect.INCONCLUSIVE, units=units, reasons=(why,))
    logs = {metric: unit_logs(comparison, metric.name) for metric in metrics}
    if reasons := spoilt_by_side(comparison, metrics):
        return replace(outcome, units=units, reasons=reasons)
    if absent := [metric.name for metric in metrics if not logs[metric]]:
        return replace(outcome, reasons=tuple(f"{one} was not measured in every round" for one in absent))
    judged = [_Judged.of(metric, logs[metric], comparison, 1 / len(metrics), final=final) for metric in metrics]
    lead = min(judged, key=lambda one: (severity(one.effect), -one.needs))
    metric, found = lead.metric, lead.found
    beside = tuple(replace(_metric_effect(x.metric, x.found), verdict=x.effect) for x in judged if x is not lead)
    others = _others(comparison, metrics, max(one.found.units for one in judged))
    effect, reasons = _with_what_else_was_seen(comparison, lead, metrics, others, short)
    if doubt := _doubt(comparison, judged, lead, others, effect, reasons, final=final):
        effect, reasons = Effect.INCONCLUSIVE, doubt
    elif final and effect.green and (told := measured_again(comparison)):
        reasons = (*reasons, told)
    # More time is of use where noise alone kept it from being decided.
    noise_alone = lead.effect is effect is Effect.INCONCLUSIVE and not reasons
    more = max(0.0, lead.needs - 1) * comparison.minutes if noise_alone else None
    return ComparisonOutcome(
        name=name,
        effect=effect,
        primary=replace(_metric_effect(metric, found), verdict=lead.effect if decides.metrics else None),
        others=(*beside, *others),
        units=found.units,
        pairs=found.units * pairs_per_unit(comparison),
        minutes=comparison.minutes,
        detectable=1 - math.exp(-detectable(found)),
        more_minutes=more,
        unit_effects=tuple(math.expm1(value) for value in logs[metric]),
        reasons=reasons,
        scatter=scatter_text(found, comparison.recorded_of(metric.name)),
        paths_ms=paths_ms(comparison),
        decides=decides,
    )


def _with_what_else_was_seen(
    comparison: Comparison,
    lead: _Judged,
    metrics: Sequence[MetricInfo],
    others: Sequence[MetricEffect],
    short: Short,
) -> tuple[Effect, tuple[str, ...]]:
    """Return the effect that the deciding metrics have with all else that was measured, and what to say of that."""
    effect, reasons = lead.effect, tuple[str, ...]()
    if _held_beside(comparison, effect):
        if worse := got_worse(comparison, lead.metric, effect, others):
            effect, reasons = Effect.SLOWER, worse
        else:
            reasons = not_looked_at(comparison, metrics, effect, others)
    if short.before:
        return Effect.INCONCLUSIVE, (f"as declared: {short.before}; {GROWING}",)
    if short.told:
        return Effect.SLOWER, (f"candidate: {short.after}",)
    if short.often and effect.green:
        return Effect.INCONCLUSIVE, (f"candidate: {short.after}: {CHANCE}",)
    if effect.green and (late := once_late(comparison.candidate)):
        reasons = (*reasons, late)
    if effect.green and (below := below_its_cap(comparison)):
        return Effect.INCONCLUSIVE, (f"candidate: {below}",)
    return effect, reasons


def _doubt(
    comparison: Comparison,
    judged: Sequence[_Judged],
    lead: _Judged,
    others: Sequence[MetricEffect],
    effect: Effect,
    reasons: Sequence[str],
    *,
    final: bool,
) -> tuple[str, ...]:
    """Return why nothing is concluded from `effect`, which rests on these `reasons`; empty where nothing keeps it.

    But for brokers that still compile these are told at the end alone: it goes on until something is decided.
    """
    if effect is not Effect.INCONCLUSIVE and (why := still_compiling(comparison)):
        return (why,)
    if not final:
        return ()
    if effect is Effect.SAME and (why := never_reached(comparison)):
        return (why,)
    if why := path_differs(comparison, lead.metric.name, lead.found.mean, comparison.decides.margin):
        return (why,)
    if effect is Effect.SLOWER and not reasons and all(one.by_path(comparison) for one in judged if one.red):
        return (handicapped(comparison, lead.metric),)
    if not effect.red and (hidden := [one.metric for one in judged if one.may_be_worse(comparison)]):
        return tuple(favoured(comparison, one) for one in hidden)
    if _held_beside(comparison, effect) and (kept := kept_by_path(comparison, effect, others)):
        return kept
    if effect.green and (why := may_hide_worse(comparison)):
        return (why,)
    return ()


def _held_beside(comparison: Comparison, effect: Effect) -> bool:
    """Return whether other metrics count beside those that decide: where only these were asked for a gain stands."""
    return effect is Effect.SAME or (effect is Effect.FASTER and not comparison.decides.metrics)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Judged:
    """What one metric that decides says by itself."""

    metric: MetricInfo
    found: Estimate
    effect: Effect

    @classmethod
    def of(
        cls, metric: MetricInfo, logs: Sequence[float], comparison: Comparison, share: float, *, final: bool
    ) -> _Judged:
        margin, hidden = comparison.decides.margin, favour(comparison, metric)
        if hidden > math.log1p(margin):
            hidden = 0.0  # more units would not help: it may end, and says so then
        below, above = (hidden, 0.0) if metric.better == "higher" else (0.0, hidden)
        decision, found = judge_units(
            logs,
            comparison.planned_units,
            final=final,
            rule=Rule(margin=margin, share=share, below=below, above=above),
            recorded=comparison.recorded_of(metric.name),
            former=comparison.former_plans,
            cold=cold_units(comparison),
            worse=-metric.sign,
        )
        return cls(metric=metric, found=found, effect=_effect(decision, metric))

    def may_be_worse(self, comparison: Comparison) -> bool:
        """Return whether only the shorter path to the candidate keeps it from being worse by more than the margin.

        Without a path there is none; what is not decided at all is not decided for that.
        """
        hidden, margin = favour(comparison, self.metric), math.log1p(self.found.rule.margin)
        low, high = self.found.interval
        worse = -low if self.metric.better == "higher" else high
        return worse < margin <= worse + hidden

    @property
    def red(self) -> bool:
        return self.effect is Effect.SLOWER

    def by_path(self, comparison: Comparison) -> bool:
        """Return whether it is no longer known to be worse once what the longer path may do is taken off."""
        gained = self.metric.sign * self.found.mean
        return gained + handicap(comparison, self.metric) >= -self.found.level * self.found.error

    @property
    def needs(self) -> float:
        """How many times as many units an answer takes; 0 where there is one."""
        return units_needed(self.found) / self.found.units if self.effect is Effect.INCONCLUSIVE else 0.0


def _effect(decision: int | None, metric: MetricInfo) -> Effect:
    if decision is None:
        return Effect.INCONCLUSIVE
    return Effect.SAME if decision == 0 else EFFECTS[decision][metric.better == "lower"]


def _metric_effect(metric: MetricInfo, found: Estimate) -> MetricEffect:
    low, high = found.interval
    if found.error:
        from scipy import stats  # takes 0.7 s, and only a comparison needs it

        p_value = 2 * float(stats.t.sf(abs(found.mean) / found.error, found.freedom))
    else:
        p_value = 0.0 if found.mean else 1.0
    return MetricEffect(
        metric=metric,
        estimate=share_of(found.mean),
        interval=(share_of(low), share_of(high)),
        p_value=p_value,
    )


def _others(comparison: Comparison, decided_by: Sequence[MetricInfo], units: int) -> tuple[MetricEffect, ...]:
    """Return the effect on every other metric, over the same units."""
    effects = []
    for name, metric in METRICS.items():
        left_out = metric in decided_by or spoilt_by_side(comparison, [metric])
        logs = () if left_out else unit_logs(comparison, name)[:units]
        if len(logs) >= 2:
            looks = looks_until(len(logs), comparison.planned_units, last=True, former=comparison.former_plans)
            effects.append(_metric_effect(metric, estimate_of(logs, looks, recorded=comparison.recorded_of(name))))
    return tuple(effects)


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
