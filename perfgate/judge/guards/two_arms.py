"""Guards of comparisons: of all claims about a comparison, and of each claim, in their order. Pure."""

from __future__ import annotations

from dataclasses import replace

from perfgate.judge.besides import got_worse, kept_by_path, never_reached, not_looked_at, once_late
from perfgate.judge.claim import Ruling, guard, ruled
from perfgate.judge.claims.same import ChangeCase
from perfgate.judge.loads import CHANCE, below_its_cap, may_hide_worse, measured_again, unsound_load
from perfgate.judge.paths import favour, favoured, handicap, handicapped, not_taken_by_path, path_differs
from perfgate.judge.phrases import GROWING
from perfgate.judge.rounds import arms_of, flaws_by_arm
from perfgate.judge.units import fewest_units
from perfgate.judge.units_case import ClaimCase, UnitsCase, deciding_metrics, primary_metric
from perfgate.model import Verdict


@guard(-60, UnitsCase)
def load_was_not_valid(case: UnitsCase, _: Ruling) -> Ruling | None:
    """BROKEN where only the candidate's brokers failed; else INVALID."""
    return unsound_load(case.comparison)


@guard(-50, UnitsCase)
def baseline_did_not_take_the_load(case: UnitsCase, _: Ruling) -> Ruling | None:
    """More of such a load decides nothing: only the rates are compared."""
    if not case.units or not case.short.before:
        return None
    return ruled(case.overloaded, f"{case.baseline_named}: {case.short.before}; {GROWING}")


@guard(-40, UnitsCase)
def candidate_did_not_take_the_load(case: UnitsCase, _: Ruling) -> Ruling | None:
    """REGRESSED, unless brokers were cold or the paths to two clusters may be why."""
    comparison, short = case.comparison, case.short
    if not case.units or not short.clearly:
        return None
    reason = f"candidate: {short.after}"
    if case.cold:
        return ruled(Verdict.INCONCLUSIVE, case.cold, reason)
    decides, margin = primary_metric(comparison), comparison.decides.margin
    if case.final and (why := not_taken_by_path(comparison, decides, margin, case.sides)):
        return ruled(Verdict.INCONCLUSIVE, why, reason)
    return ruled(Verdict.REGRESSED, reason)


@guard(-30, UnitsCase)
def too_few_units(case: UnitsCase, _: Ruling) -> Ruling | None:
    """INVALID where a flawed metric ended it, and not the budget."""
    if case.units >= case.needed:
        return None
    deciding = [metric.name for metric in deciding_metrics(case.comparison)]
    if reasons := flaws_by_arm(arms_of(case.comparison), deciding):
        return ruled(Verdict.INVALID, *reasons)
    why = f"{case.units} unit(s) were measured; an interval and a decision need {case.needed}"
    return ruled(Verdict.INCONCLUSIVE, why)


@guard(-20, ClaimCase)
def metric_is_flawed(case: ClaimCase, _: Ruling) -> Ruling | None:
    """A figure that the load or its source distorted."""
    reasons = flaws_by_arm(arms_of(case.comparison), [case.metric.name])
    return ruled(Verdict.INVALID, *reasons) if reasons else None


@guard(-10, ClaimCase)
def metric_is_missing(case: ClaimCase, _: Ruling) -> Ruling | None:
    """A metric that rounds lack on either side."""
    if len(case.logs) >= fewest_units(case.comparison, [case.metric.name]):
        return None
    return ruled(Verdict.INVALID, f"{case.metric.name} was not measured in every round")


@guard(10, ClaimCase)
def path_may_have_made_it(case: ClaimCase, ruling: Ruling) -> Ruling | None:
    """An effect that is no larger than that of the client's paths to two clusters may be."""
    if not case.final or case.estimate is None:
        return None
    comparison, metric, claim, sides = case.comparison, case.metric, case.claim, case.whole.sides
    if why := path_differs(comparison, metric, case.estimate.mean, claim.within, sides):
        return ruled(Verdict.INCONCLUSIVE, why)
    longer, shorter = handicap(comparison, metric), favour(comparison, metric)
    if ruling.verdict.red and longer and not claim.lost(case.estimate, longer):
        return ruled(Verdict.INCONCLUSIVE, handicapped(comparison, metric, sides))
    if not ruling.verdict.red and shorter and claim.kept_by_path(case.estimate, shorter):
        return ruled(Verdict.INCONCLUSIVE, favoured(comparison, metric, sides))
    return None


@guard(20, ChangeCase)
def another_metric_got_worse(case: ChangeCase, ruling: Ruling) -> Ruling | None:
    """A change is neither the same nor a gain where latency or CPU got much worse."""
    if not (effect := case.green_effect(ruling.verdict)):
        return None
    others = (*case.others, *case.known_in_part(effect))
    if worse := got_worse(case.comparison, case.lead.metric, effect, others):
        return Ruling(verdict=Verdict.REGRESSED, reasons=worse)
    notes = not_looked_at(case.comparison, case.metrics, effect, case.others)
    return ruling.noting(*notes) if notes else None


@guard(30, UnitsCase)
def candidate_often_took_less(case: UnitsCase, ruling: Ruling) -> Ruling | None:
    """Rounds in which the candidate's brokers did not take all of the load, though not clearly more often."""
    if ruling.verdict.green and case.short.often:
        return ruling.taken_back(f"candidate: {case.short.after}: {CHANCE}")
    return None


@guard(40, UnitsCase)
def candidate_was_late_once(case: UnitsCase, ruling: Ruling) -> Ruling | None:
    """A note."""
    late = once_late(case.comparison.candidate) if ruling.verdict.green else ""
    return ruling.noting(late) if late else None


@guard(50, UnitsCase)
def candidate_is_below_its_cap(case: UnitsCase, ruling: Ruling) -> Ruling | None:
    """The median of the rounds, which the cap limits, does not show the rounds below it."""
    below = below_its_cap(case.comparison) if ruling.verdict.green else ""
    return ruling.taken_back(f"candidate: {below}") if below else None


@guard(60, UnitsCase)
def brokers_still_compile(case: UnitsCase, ruling: Ruling) -> Ruling | None:
    """Figures of cold brokers decide nothing."""
    decided = ruling.verdict not in (Verdict.INCONCLUSIVE, Verdict.INVALID)
    return ruling.taken_back(case.cold) if decided and case.cold else None


@guard(70, UnitsCase)
def setting_took_no_effect(case: UnitsCase, ruling: Ruling) -> Ruling | None:
    """A setting that acts after more records, bytes or time than a round has is not known to be harmless."""
    why = never_reached(case.comparison) if case.final and ruling.verdict is Verdict.PASS else ""
    return ruling.taken_back(why) if why else None


@guard(80, ChangeCase)
def path_kept_another_metric(case: ChangeCase, ruling: Ruling) -> Ruling | None:
    """A latency that only the shorter path to the candidate may have kept from being much worse."""
    if not case.final or not (effect := case.green_effect(ruling.verdict)):
        return None
    kept = kept_by_path(case.comparison, effect, case.others)
    return replace(ruling, verdict=Verdict.INCONCLUSIVE, reasons=kept) if kept else None


@guard(90, UnitsCase)
def repeats_may_hide_worse(case: UnitsCase, ruling: Ruling) -> Ruling | None:
    """Repeats are not among the figures: clearly more of them on the candidate's side may hide a loss."""
    if not case.final or not ruling.verdict.green:
        return None
    if why := may_hide_worse(case.comparison):
        return ruling.taken_back(why)
    note = measured_again(case.comparison)
    return ruling.noting(note) if note else None
