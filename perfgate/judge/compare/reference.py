"""The verdict over a scenario that was measured beside a reference, in turns: its ratio to that. Pure.

What is asked is not whether anything differs, as in a comparison, but whether more was lost than may be.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from perfgate.judge.compare.again import may_hide_worse, measured_again
from perfgate.judge.compare.comparisons import RATE, may_decide, primary_metric
from perfgate.judge.compare.compiling import cold_units, still_compiling
from perfgate.judge.compare.losses import sound_units
from perfgate.judge.compare.paths import (
    PATHS,
    favour,
    favoured,
    handicap,
    handicapped,
    not_taken_by_path,
    path_differs,
    paths_ms,
)
from perfgate.judge.compare.reached import NEVER, never_reached
from perfgate.judge.compare.reference_losses import (
    THE_REFERENCE,
    judgement_of,
    known_lost,
    lost,
    of_both,
    ratios_asked,
)
from perfgate.judge.compare.sequential import Estimate, first_told, scheduled
from perfgate.judge.compare.short import CHANCE, short_of
from perfgate.judge.compare.units import fewest_units, scatter_text, too_few, unit_logs, whole_units
from perfgate.judge.compare.unsound import spoilt_by_side, unsound_load
from perfgate.judge.messages import WARMING, scenario_lines
from perfgate.judge.ratio_file import Ratios
from perfgate.judge.rules import verdict_of
from perfgate.judge.spoilt import spoilt
from perfgate.judge.statistics import share_of, spread
from perfgate.model import Comparison, Effect, Judgement, Outcome, Ratio, RecordedPairs, Verdict

SIDES = (THE_REFERENCE, "the candidate's cluster")
UNDECIDED = (Verdict.INCONCLUSIVE, Verdict.INVALID, Verdict.MISSING)
NEXT = (
    "  next       look at what the two sides differ in (run.json, `reference`); if the loss is meant, state it for "
    "this scenario in {path}"
)
SHORT = "  next       give it longer: --budget (docs/nightly.md)"


class ReferenceStopRule:
    """Ends a scenario's units at the planned look that shows each of its ratios to be kept, or one not to be."""

    def __init__(self, ratios: Ratios) -> None:
        self._ratios = ratios

    def fewest_units(self, comparison: Comparison) -> int:
        """Return with how many units every ratio can be judged."""
        return fewest_units(comparison, _held(comparison, self._ratios))

    def may_decide(self, comparison: Comparison) -> list[str]:
        """Return the metrics that tell of the load, or may, and those of which the scenario's own ratios are."""
        own = [ratio.metric.name for ratio in self._ratios.of(comparison.scenario.name) if ratio.own]
        return [*may_decide(comparison), *own]

    def decided(self, comparison: Comparison) -> bool:
        """Return whether what was measured so far decides; `comparison` is of the reference as the change."""
        fewest = self.fewest_units(comparison)
        if len(comparison.orders) not in scheduled(comparison.planned_units, fewest, comparison.former_plans):
            return False
        if still_compiling(comparison):
            return False
        outcome = judge_against_reference(comparison.turned(), self._ratios, final=False)
        return outcome.verdict is Verdict.REGRESSED or (bool(outcome.judgements) and outcome.verdict.green)


def judge_against_reference(comparison: Comparison, ratios: Ratios, *, final: bool = True) -> Outcome:
    """Hold the candidate of a comparison against its baseline, the reference, by the scenario's ratios.

    BROKEN and INVALID are as in a comparison, but for a metric that only that would decide by. `final`: nothing more
    will be measured. A ratio that is not known yet is INCONCLUSIVE, and so is one that the client's paths to two
    clusters may have made; a metric of the default table that the scenario has not is left out. What is undecided for
    any reason is REGRESSED where more than a limit allows is lost without all that the reasons explain.
    """
    outcome = _by_whole_units(comparison, ratios, final=final)
    if outcome.verdict not in UNDECIDED or (not final and still_compiling(comparison)):
        return outcome
    measured = [
        (ratio, units) for ratio in ratios_asked(comparison, ratios) if (units := sound_units(comparison, ratio.metric))
    ]
    red = [(ratio, units) for ratio, units in measured if known_lost(comparison, ratio, units, final=final)]
    if red:
        judged = [judgement_of(Verdict.REGRESSED, comparison, ratio, units, outcome.reasons) for ratio, units in red]
        others = (one for one in outcome.judgements if one.metric not in {ratio.metric.name for ratio, _ in red})
        return replace(outcome, verdict=Verdict.REGRESSED, judgements=(*judged, *others))
    if outcome.verdict is Verdict.INCONCLUSIVE and not outcome.judgements:
        judged = [judgement_of(Verdict.INCONCLUSIVE, comparison, ratio, units) for ratio, units in measured]
        outcome = replace(outcome, judgements=tuple(judged))
    return replace(outcome, reasons=(*outcome.reasons, *filter(None, (units.explains for _, units in measured))))


def _by_whole_units(comparison: Comparison, ratios: Ratios, *, final: bool) -> Outcome:
    """Return the same by whole units of sound rounds: undecided as soon as anything keeps it from an answer."""
    name, units = comparison.scenario.name, whole_units(comparison)
    if unsound := unsound_load(comparison):
        verdict = Verdict.BROKEN if unsound[0] is Effect.BROKEN else Verdict.INVALID
        return Outcome(name=name, verdict=verdict, judgements=(), reasons=unsound[1])
    short, cold = short_of(comparison), still_compiling(comparison)
    if units and (short.before or short.told):
        # A rate that is declared to probe is beyond this machine when the reference's brokers do not take it either.
        unheld = Verdict.MISSING if comparison.scenario.load.probes else Verdict.INCONCLUSIVE
        if short.before:
            return _beside_overload(comparison, ratios, unheld, short.before, cold, final=final)
        if cold:
            return Outcome(name=name, verdict=Verdict.INCONCLUSIVE, judgements=(), reasons=(cold,))
        decides, margin = primary_metric(comparison).name, comparison.decides.margin
        if final and (why := not_taken_by_path(comparison, decides, margin, SIDES)):
            return Outcome(
                name=name, verdict=Verdict.INCONCLUSIVE, judgements=(), reasons=(why, f"candidate: {short.after}")
            )
        return Outcome(name=name, verdict=Verdict.REGRESSED, judgements=(), reasons=(f"candidate: {short.after}",))
    if units < (needed := fewest_units(comparison, _held(comparison, ratios))):
        if reasons := spoilt_by_side(comparison, [primary_metric(comparison)]):  # which ended it, and not the budget
            return Outcome(name=name, verdict=Verdict.INVALID, judgements=(), reasons=reasons)
        return Outcome(name=name, verdict=Verdict.INCONCLUSIVE, judgements=(), reasons=(too_few(units, needed),))
    judgements = tuple(
        judgement for ratio in ratios.of(name) if (judgement := judge_ratio(comparison, ratio, final=final)) is not None
    )
    if not judgements:
        reason = f"{ratios.path} states no ratio of a metric that this scenario has"
        return Outcome(name=name, verdict=Verdict.MISSING, judgements=(), reasons=(reason,))
    notes = (*(f"{j.metric}: {j.reason}" for j in judgements if j.reason), *_not_held(comparison, ratios))
    verdict = verdict_of(judgements)
    if verdict.green and short.often:
        verdict, notes = Verdict.INCONCLUSIVE, (f"candidate: {short.after}: {CHANCE}", *notes)
    if final and verdict.green and (why := may_hide_worse(comparison)):
        verdict, notes = Verdict.INCONCLUSIVE, (why, *notes)
    elif final and verdict.green and (told := measured_again(comparison)):
        notes = (*notes, told)
    why = never_reached(comparison) if verdict is Verdict.PASS else ""
    if final and verdict is not Verdict.INVALID and (why := cold or why):
        verdict, notes = Verdict.INCONCLUSIVE, (why, *notes)
    return Outcome(name=name, verdict=verdict, judgements=judgements, reasons=notes)


def _beside_overload(
    comparison: Comparison, ratios: Ratios, unheld: Verdict, before: str, cold: str, *, final: bool
) -> Outcome:
    """Return the verdict where the reference's brokers did not take the rate, of which `before` tells.

    What they took of it is the most they could: a candidate that took clearly less is slower all the same, unless
    brokers were still `cold`. `unheld` is what is said otherwise, since latencies of an overload are those of a queue
    that grows.
    """
    name, reason = comparison.scenario.name, f"the reference: {before}"
    rate = next((ratio for ratio in ratios.of(name) if ratio.metric.name == RATE), None)
    found = judge_ratio(comparison, rate, final=final) if rate else None
    if found is None or found.verdict is not Verdict.REGRESSED:
        return Outcome(name=name, verdict=unheld, judgements=(), reasons=(reason,))
    if cold:
        return Outcome(name=name, verdict=Verdict.INCONCLUSIVE, judgements=(), reasons=(reason, cold))
    return Outcome(name=name, verdict=Verdict.REGRESSED, judgements=(found,), reasons=(reason,))


def _held(comparison: Comparison, ratios: Ratios) -> list[str]:
    """Return the metrics of which a ratio is stated and that any round has."""
    rounds = (*comparison.baseline.rounds, *comparison.candidate.rounds)
    names = [ratio.metric.name for ratio in ratios.of(comparison.scenario.name)]
    return [name for name in names if any(name in r.metrics for r in rounds)]


def _not_held(comparison: Comparison, ratios: Ratios) -> list[str]:
    """Return which ratios of the brokers' usage are left out, and why: nobody could tell it, or both sides have it."""
    rounds = (*comparison.baseline.rounds, *comparison.candidate.rounds)
    why, held = next((r.usage_unavailable for r in rounds if r.usage_unavailable), ""), _held(comparison, ratios)
    names = [ratio.metric.name for ratio in ratios.of(comparison.scenario.name) if not ratio.own]
    untold = [f"{name} is not held: {why}" for name in names if why and name.startswith("broker_") and name not in held]
    shared = [name for name in held if of_both(comparison, name)]
    return [*untold, *(f"{name} is not held: both sides are of the same brokers" for name in shared)]


def judge_ratio(comparison: Comparison, ratio: Ratio, *, final: bool = True) -> Judgement | None:
    """Hold one metric of the candidate against `ratio.limit` times the reference's; None where neither side has it."""
    metric = ratio.metric
    sides = (comparison.baseline, comparison.candidate)
    if not any(metric.name in r.metrics for m in sides for r in m.rounds):
        if not ratio.own:
            return None
        return Judgement(verdict=Verdict.INVALID, metric=metric.name, reason="was not measured")
    if of_both(comparison, metric.name):
        return None
    if reason := next((reason for m in sides if (reason := spoilt(m, metric.name))), ""):
        return Judgement(verdict=Verdict.INVALID, metric=metric.name, reason=reason)
    logs = unit_logs(comparison, metric.name)
    if len(logs) < fewest_units(comparison, [metric.name]):
        reason = "was not measured in every round of both sides"
        return Judgement(verdict=Verdict.INVALID, metric=metric.name, reason=reason)
    recorded = comparison.recorded_of(metric.name)
    may_hide, most = favour(comparison, metric), abs(math.log(ratio.limit))
    told = may_hide if may_hide <= most else 0.0  # more units would not help: it may end, and says so then
    verdict, found = verdict_of_units(
        logs,
        comparison.planned_units,
        ratio,
        final=final,
        recorded=recorded,
        may_hide=told,
        former=comparison.former_plans,
        cold=cold_units(comparison),
        went_on=True,
    )
    why = "" if verdict else f"{found.units} units do not tell whether the limit is kept"
    if final and may_hide and (verdict is None or verdict.green) and _hidden(found, ratio, may_hide):
        verdict, why = Verdict.INCONCLUSIVE, favoured(comparison, metric, SIDES)
    if final and verdict is Verdict.REGRESSED and not lost(found, ratio, handicap(comparison, metric)):
        verdict, why = Verdict.INCONCLUSIVE, handicapped(comparison, metric, SIDES)
    if final and (by_path := path_differs(comparison, metric.name, found.mean, abs(ratio.limit - 1), SIDES)):
        verdict, why = Verdict.INCONCLUSIVE, by_path
    reference, here = ([r.metrics[metric.name] for r in m.rounds if metric.name in r.metrics] for m in sides)
    middle = statistics.median(reference)
    low, high = (middle * (1 + share_of(end)) for end in found.interval)
    return Judgement(
        verdict=verdict or Verdict.INCONCLUSIVE,
        metric=metric.name,
        measured=middle * (1 + share_of(found.mean)),
        spread=spread(here),
        interval=(low, high),
        limit=middle * ratio.limit,
        baseline=middle,
        tolerance=abs(ratio.limit - 1),
        against=THE_REFERENCE,
        reason="; ".join(filter(None, (why, scatter_text(found, recorded)))),
    )


def _hidden(found: Estimate, ratio: Ratio, may_hide: float) -> bool:
    """Return whether the limit is kept as it was measured, and not with what a shorter path may have hidden."""
    sign = ratio.metric.sign
    kept_by = sign * (found.mean - math.log(ratio.limit)) - found.error
    return 0 <= kept_by < may_hide


def verdict_of_units(
    logs: Sequence[float],
    planned: int,
    ratio: Ratio,
    *,
    final: bool,
    recorded: RecordedPairs | None = None,
    may_hide: float = 0.0,
    former: Sequence[int] = (),
    cold: int = 0,
    went_on: bool = False,
) -> tuple[Verdict | None, Estimate]:
    """Return the verdict of the first look that tells, if any does, and its estimate.

    `logs`: of each unit, the logarithm of candidate over reference. With m, their mean (better is positive), its
    standard error e and the limit's logarithm L: REGRESSED: m is known to be below 0 (the sequential test's error of
    0.001 over all looks), and m + e < L. PASS: the interval that allows for the looks lies above L; when nothing more
    comes, m - e >= L, as the gate judges medians. IMPROVED: m is known to be above 0, and m - e > -L. Both after taking
    `may_hide` off m, which something else than the candidate may have added. `cold`: no look at so many units tells.
    `went_on`: it was measured on after looks that were green, for another ratio's sake, and these count no more.
    """
    sign = ratio.metric.sign
    limit = sign * math.log(ratio.limit)

    def kept(found: Estimate, last: bool) -> Verdict | None:
        mean = sign * found.mean
        low = min(sign * end for end in found.interval) - may_hide
        if lost(found, ratio, 0.0):
            return Verdict.REGRESSED
        mean -= may_hide
        if mean > found.level * found.error and mean - found.error > -limit:
            return Verdict.IMPROVED
        return Verdict.PASS if low >= limit or (last and mean - found.error >= limit) else None

    def ends(verdict: Verdict) -> bool:
        return verdict.red or not went_on

    return first_told(logs, planned, kept, ends=ends, final=final, recorded=recorded, former=former, cold=cold)


def reference_message(outcome: Outcome, comparison: Comparison, reference: str, ratios: Ratios) -> str:
    """Return the message of a verdict: a sentence, every judgement that is not green, what it was held against."""
    lines = scenario_lines(outcome, comparison.candidate)
    minutes = f"{comparison.minutes:.1f} min, {len(comparison.orders)} units"
    lines.append(f"  reference  {reference}, measured in turns with it ({minutes}); limits: {ratios.path}")
    if paths := paths_ms(comparison):
        lines.append(f"  paths      round trip {paths[0]:.2f} ms to the reference, {paths[1]:.2f} ms to the candidate")
    if outcome.verdict is Verdict.REGRESSED:
        lines.append(NEXT.format(path=ratios.path))
    elif outcome.verdict is Verdict.INCONCLUSIVE and not any(
        PATHS in r or NEVER in r or WARMING in r for r in outcome.reasons
    ):
        lines.append(SHORT)
    return "\n".join(lines)
