"""Claims of a reference run: each metric is at least, or at most, a ratio times the reference's. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfgate.judge.bounds_files import Ratios
from perfgate.judge.claim import Ruling, judge, notes_on, ruled
from perfgate.judge.paths import paths_ms
from perfgate.judge.phrases import GROWING, NEVER, PATHS, WARMING, joined
from perfgate.judge.rounds import rounds_with, values_of
from perfgate.judge.sequential import Estimate
from perfgate.judge.statistics import share_of, spread
from perfgate.judge.units import SoundUnits, fewest_units
from perfgate.judge.units_case import RATE, ClaimCase, UnitsCase, UnitsClaim, UnitsStopRule
from perfgate.judge.wording import scenario_lines
from perfgate.model import METRICS, Comparison, Judgement, Outcome, Ratio, Verdict
from perfgate.model.compared import OF_A_PROCESS
from perfgate.model.counting import counted
from perfgate.model.pages import page

THE_REFERENCE = "the reference"
NEXT = (
    "  next       look at what the two sides differ in (run.json, `reference`); if the loss is meant, state it for "
    "this scenario in {path}"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class AtLeast(UnitsClaim):
    """The metric is no worse than `limit` times the reference's; `own`: also where the scenario lacks it.

    With m, the mean of the units' logarithms (better is positive), its standard error e and the limit's logarithm L:
    REGRESSED: m is known to be below 0 (the sequential test's error of 0.001 over all looks), and m + e < L. PASS: the
    interval that allows for the looks lies above L; when nothing more comes, m - e >= L. IMPROVED: m is known to be
    above 0, and m - e > -L. Both after taking what a shorter path may hide off m.
    """

    limit: float
    own: bool

    @property
    def within(self) -> float:
        return abs(self.limit - 1)

    def decide(self, estimate: Estimate, last: bool) -> Verdict | None:
        if self.lost(estimate):
            return Verdict.REGRESSED
        hidden = max(estimate.rule.below, estimate.rule.above)
        low = min(self.metric.sign * end for end in estimate.interval) - hidden
        mean = self.metric.sign * estimate.mean - hidden
        if mean > estimate.level * estimate.error and mean - estimate.error > self.margin:
            return Verdict.IMPROVED
        kept = low >= -self.margin or (last and mean - estimate.error >= -self.margin)
        return Verdict.PASS if kept else None

    def lost(self, estimate: Estimate, by_path: float = 0.0) -> bool:
        mean = self.metric.sign * estimate.mean + by_path
        return mean < -estimate.level * estimate.error and mean + estimate.error < -self.margin

    def kept_by_path(self, estimate: Estimate, hidden: float) -> bool:
        """Whether the limit is kept as measured, but would not be with a loss of `hidden` more."""
        return 0 <= self.metric.sign * estimate.mean + self.margin - estimate.error < hidden


def claim_of(ratio: Ratio) -> AtLeast:
    return AtLeast(metric=ratio.metric, limit=ratio.limit, margin=abs(math.log(ratio.limit)), own=ratio.own)


class ReferenceCase(UnitsCase):
    """A scenario of the candidate, against the reference that was measured in turns with it."""

    sides = (THE_REFERENCE, "the candidate's cluster")
    baseline_named = THE_REFERENCE

    def __init__(self, comparison: Comparison, ratios: Ratios, *, final: bool) -> None:
        self.path, self.measured = ratios.path, measured_in(comparison)
        self.stated = [claim_of(ratio) for ratio in ratios.of(comparison.scenario.name)]
        claims = [
            claim
            for claim in self.stated
            if not of_both(comparison, claim.metric.name) and (claim.own or claim.metric.name in self.measured)
        ]
        super().__init__(comparison, claims, final=final)
        if comparison.scenario.load.probes:  # the rate is beyond this machine, so that the reference lacks it too
            self.overloaded = Verdict.MISSING

    def undecided(self, estimate: Estimate) -> tuple[str, ...]:
        return (f"{estimate.units} units do not tell whether the limit is kept",)

    def loss_claims(self) -> list[UnitsClaim]:
        """The ratios that are stated; only the rate of a load that the reference did not take."""
        rate = next((claim for claim in self.claims if claim.metric.name == RATE), None)
        limit = 1 / (1 + self.comparison.decides.margin)
        usual = rate or claim_of(Ratio(metric=METRICS[RATE], limit=limit, own=False))
        if self.short.before:
            return [usual]
        return [usual, *self.claims] if self.short.often and rate is None else list(self.claims)

    def test(self) -> Ruling:
        """The worst of all ratios, each reason with its metric; MISSING where the scenario has none of them."""
        if not self.tested:
            return ruled(Verdict.MISSING, f"{self.path} states no ratio of a metric that this scenario has")
        judgements = tuple(map(_by_estimate, self.tested))
        notes = list[str]()
        for tested, judgement in zip(self.tested, judgements, strict=True):
            # The reasons of an untested ratio name its metric.
            notes += notes_on([judgement]) if tested.estimate else filter(None, [judgement.reason])
        return replace(super().test(), judgements=judgements, reasons=(*notes, *self._not_judged()))

    def _not_judged(self) -> list[str]:
        """Ratios of the brokers' usage that are left out, and why: no source has it, or both sides share it."""
        rounds = (r for side in self.comparison.sides for r in side.rounds)
        why = next((r.usage_unavailable for r in rounds if r.usage_unavailable), "")
        names = [claim.metric.name for claim in self.stated]
        defaults = [claim.metric.name for claim in self.stated if not claim.own]
        unknown = [name for name in defaults if why and name.startswith("broker_") and name not in self.measured]
        shared = [name for name in names if name in self.measured and of_both(self.comparison, name)]
        return [
            *(f"{name} is not held: {why}" for name in unknown),
            *(f"{name} is not held: both sides are of the same brokers" for name in shared),
        ]


def measured_in(comparison: Comparison) -> set[str]:
    """The names of all metrics that any round of either side has."""
    return {name for side in comparison.sides for r in side.rounds for name in r.metrics}


def of_both(comparison: Comparison, metric: str) -> bool:
    """Whether the metric is of brokers that served both sides, so that it is the same on both."""
    return metric.startswith(OF_A_PROCESS) and comparison.method in ("turns", "rounds") and not comparison.two_clusters


def judge_against_reference(comparison: Comparison, ratios: Ratios, *, final: bool = True) -> Outcome:
    """Judge the candidate by the scenario's ratios to the reference, its baseline. `final`: nothing more will come."""
    case = ReferenceCase(comparison, ratios, final=final)
    ruling = judge(case)
    outcome = ruling.outcome(comparison.scenario.name)
    by_units = [_by_sound_units(case, claim, units, ruling) for claim, units in case.losses]
    if ruling.in_spite:
        metrics = {judgement.metric for judgement in by_units}
        others = (judgement for judgement in outcome.judgements if judgement.metric not in metrics)
        return replace(outcome, judgements=(*by_units, *others))
    if ruling.verdict is Verdict.INCONCLUSIVE and not ruling.judgements:
        return replace(outcome, judgements=tuple(by_units))
    return outcome


def _by_estimate(tested: ClaimCase) -> Judgement:
    ruling, estimate = tested.ruling, tested.estimate
    if estimate is None:
        return Judgement(verdict=ruling.verdict, metric=tested.metric.name, reason="; ".join(ruling.reasons))
    low, mean, high = map(share_of, (estimate.interval[0], estimate.mean, estimate.interval[1]))
    reasons = (*ruling.reasons, tested.scatter)
    return _judgement(tested.comparison, tested.claim, ruling.verdict, (low, mean, high), reasons)


def _by_sound_units(case: ReferenceCase, claim: UnitsClaim, units: SoundUnits, ruling: Ruling) -> Judgement:
    reasons = (units.counted, units.in_spite_of(ruling.reasons) if ruling.in_spite else units.explains)
    (low, high), mean = units.effect.interval, units.effect.estimate
    return _judgement(case.comparison, claim, ruling.verdict, (low, mean, high), reasons)


def _judgement(
    comparison: Comparison,
    claim: UnitsClaim,
    verdict: Verdict,
    effect: tuple[float, float, float],
    reasons: Sequence[str],
) -> Judgement:
    """The judgement of a ratio in the metric's unit. `effect`: low end, mean and high end, as shares."""
    assert isinstance(claim, AtLeast)
    name = claim.metric.name
    expected = statistics.median(values_of(rounds_with(comparison.baseline.rounds, name), name))
    low, mean, high = (expected * (1 + share) for share in effect)
    here = values_of(rounds_with(comparison.candidate.rounds, name), name)
    return Judgement(
        verdict=verdict,
        metric=name,
        measured=mean,
        spread=spread(here) if len(here) > 1 else None,
        interval=(low, high),
        limit=expected * claim.limit,
        baseline=expected,
        tolerance=claim.within,
        against=THE_REFERENCE,
        reason=joined(*reasons),
    )


def reference_message(outcome: Outcome, comparison: Comparison, reference: str, ratios: Ratios) -> str:
    """A sentence, every judgement that is not green, and what it was judged against."""
    lines = scenario_lines(outcome, comparison.candidate)
    minutes = f"{comparison.minutes:.1f} min, {counted(len(comparison.orders), 'unit')}"
    lines.append(f"  reference  {reference}, measured in turns with it ({minutes}); limits: {ratios.path}")
    if paths := paths_ms(comparison):
        lines.append(f"  paths      round trip {paths[0]:.2f} ms to the reference, {paths[1]:.2f} ms to the candidate")
    if outcome.verdict is Verdict.REGRESSED:
        lines.append(NEXT.format(path=ratios.path))
    elif outcome.verdict is Verdict.INCONCLUSIVE and not any(
        words in reason for reason in outcome.reasons for words in (PATHS, NEVER, WARMING, GROWING)
    ):
        lines.append(f"  next       give it longer: --budget ({page('nightly-reference')})")
    return "\n".join(lines)


class ReferenceStopRule(UnitsStopRule):
    """Ends a scenario's units at the planned look that shows that all of its ratios are kept, or that one is not."""

    def __init__(self, ratios: Ratios) -> None:
        self._ratios = ratios

    def fewest_units(self, comparison: Comparison) -> int:
        names = [ratio.metric.name for ratio in self._ratios.of(comparison.scenario.name)]
        measured = measured_in(comparison)
        return fewest_units(comparison, [name for name in names if name in measured])

    def may_decide(self, comparison: Comparison) -> list[str]:
        """The metrics that decide by the load, or may, and those of the scenario's own ratios."""
        own = [ratio.metric.name for ratio in self._ratios.of(comparison.scenario.name) if ratio.own]
        return [*super().may_decide(comparison), *own]

    def ends(self, comparison: Comparison) -> bool:
        """`comparison` is of the reference as the change."""
        outcome = judge_against_reference(comparison.turned(), self._ratios, final=False)
        return outcome.verdict is Verdict.REGRESSED or (bool(outcome.judgements) and outcome.verdict.green)
