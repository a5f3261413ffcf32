"""Cases of two arms that were measured in turns: claims about the units of a comparison. Pure."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from perfgate.judge.besides import AT_ITS_CAP
from perfgate.judge.claim import UNDECIDED, Case, Ruling, judge, ruled, worst
from perfgate.judge.loads import Short, short_of
from perfgate.judge.paths import AS_DECLARED, favour
from perfgate.judge.rates import at_its_cap
from perfgate.judge.scatter import text
from perfgate.judge.sequential import Estimate, Rule, first_decision, scheduled
from perfgate.judge.units import (
    SoundUnits,
    fewest_units,
    known_loss,
    known_scatter,
    part_logs,
    sound_units,
    whole_units,
)
from perfgate.judge.warming import cold_units, still_compiling
from perfgate.model import METRICS, Comparison, MetricInfo, Verdict

RATE = "records_per_s"
NEAR_THE_CAP = 0.9
"""Turns of a second whose median is this share of the cap may reach it later: six bursts at 2,000/s did."""


def primary_metric(comparison: Comparison) -> MetricInfo:
    """The metric that decides where the run asks for no other: the load's, unless consumers differ or caps limit it."""
    load = comparison.scenario.load
    readers = [side.scenario.consumers for side in comparison.sides]
    if all(readers) and readers[0] != readers[1] and load.readers_metric:
        return METRICS[load.readers_metric]
    if all(map(at_its_cap, comparison.sides)):
        return METRICS[AT_ITS_CAP]
    return METRICS[load.decides]


def deciding_metrics(comparison: Comparison) -> list[MetricInfo]:
    """The metrics that the run asks for, else the primary metric of this load."""
    return [METRICS[name] for name in comparison.decides.metrics] or [primary_metric(comparison)]


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitsClaim(ABC):
    """A loss of more than `margin`, a logarithm, is red. `share`: the claim's part of the chance of an error."""

    metric: MetricInfo
    margin: float
    share: float = 1.0

    @property
    def within(self) -> float:
        """The margin as a share."""
        return math.expm1(self.margin)

    def rule(self, hidden: float = 0.0) -> Rule:
        """The rule of the sequential test. `hidden`: the loss that a shorter path may hide, a logarithm."""
        below, above = (hidden, 0.0) if self.metric.better == "higher" else (0.0, hidden)
        return Rule(margin=self.within, share=self.share, below=below, above=above)

    @abstractmethod
    def decide(self, estimate: Estimate, last: bool) -> Verdict | None:
        """The verdict at a look; None where it is undecided. `last`: there will be no other look."""

    @abstractmethod
    def lost(self, estimate: Estimate, by_path: float = 0.0) -> bool:
        """Whether it is red, with what a longer path may have taken given back."""

    @abstractmethod
    def kept_by_path(self, estimate: Estimate, hidden: float) -> bool:
        """Whether only what a shorter path may hide keeps it from being worse than the margin."""


class ClaimCase(Case):
    """A claim of a comparison. Once it is judged: its `ruling`, and the `estimate` of the look that decides."""

    def __init__(self, claim: UnitsClaim, whole: UnitsCase) -> None:
        self.claim, self.metric, self.whole = claim, claim.metric, whole
        self.comparison, self.final = whole.comparison, whole.final
        self.parts = part_logs(whole.comparison, claim.metric.name)
        self.logs = tuple(map(fmean, self.parts))
        self.known = known_scatter(whole.comparison, claim.metric.name, self.parts)
        self.ruling = ruled(Verdict.INCONCLUSIVE)
        self.estimate: Estimate | None = None

    @property
    def scatter(self) -> str:
        """How what is known of the scatter between pairs entered the estimate; empty where nothing is."""
        if not (latest := self.estimate):
            return ""
        return text(self.known, latest.spread, used=latest.besides > 0, refused=latest.refused)

    def test(self) -> Ruling:
        """The verdict of the first look that decides, if any does."""
        comparison, claim = self.comparison, self.claim
        hidden = favour(comparison, self.metric)
        if hidden > claim.margin:
            hidden = 0.0  # more units would not help: it may end, and a guard says so then

        verdict, self.estimate = first_decision(
            self.logs,
            comparison.planned_units,
            claim.decide,
            ends=lambda verdict: verdict.red,  # after any other it was measured on, for another claim's sake
            final=self.final,
            rule=claim.rule(hidden),
            known=self.known,
            former=comparison.former_plans,
            cold=cold_units(comparison),
        )
        if verdict is None:
            return ruled(Verdict.INCONCLUSIVE, *self.whole.undecided(self.estimate))
        return ruled(verdict)


class UnitsCase(Case):
    """All claims of a scenario that was measured in turns; `final`: nothing more will be measured."""

    sides = AS_DECLARED
    """The names of the two clusters."""
    baseline_named = "as declared"
    overloaded = Verdict.INCONCLUSIVE
    """The verdict where the brokers of the baseline did not take the load."""

    def __init__(self, comparison: Comparison, claims: Sequence[UnitsClaim], *, final: bool) -> None:
        self.comparison, self.claims, self.final = comparison, tuple(claims), final
        self.units = whole_units(comparison)
        self.metrics = [claim.metric for claim in self.claims]
        self.needed = fewest_units(comparison, [metric.name for metric in self.metrics])
        self.losses: list[tuple[UnitsClaim, SoundUnits]] = []
        """What remains of each metric without flawed rounds, the red ones first; once guards left it undecided."""

    @cached_property
    def short(self) -> Short:
        return short_of(self.comparison)

    @cached_property
    def cold(self) -> str:
        """That brokers still compiled their code in most rounds; else empty."""
        return still_compiling(self.comparison)

    @cached_property
    def tested(self) -> tuple[ClaimCase, ...]:
        """Every claim, judged."""
        cases = tuple(ClaimCase(claim, self) for claim in self.claims)
        for case in cases:
            case.ruling = judge(case)
        return cases

    def undecided(self, estimate: Estimate) -> tuple[str, ...]:
        """Why a claim is undecided, where there is more to say than the figures do."""
        return ()

    @abstractmethod
    def loss_claims(self) -> list[UnitsClaim]:
        """The claims whose losses count although guards object: the load's own rate where it was not taken."""

    def counts_besides(self) -> list[tuple[MetricInfo, float]]:
        """Other metrics with the loss, a logarithm, that is red where it is far exceeded."""
        return []

    def test(self) -> Ruling:
        rulings = [case.ruling for case in self.tested]
        return ruled(worst(r.verdict for r in rulings), *(reason for r in rulings for reason in r.reasons))

    def in_spite(self, ruling: Ruling) -> Ruling:
        """The ruling, REGRESSED where more than a margin is lost without all that the doubts explain."""
        if ruling.verdict not in UNDECIDED or (not self.final and self.cold):
            return ruling
        comparison, final = self.comparison, self.final
        self.losses = [
            (claim, units) for claim in self.loss_claims() if (units := sound_units(comparison, claim.metric))
        ]
        red = [
            (claim, shown)
            for claim, units in self.losses
            if (shown := known_loss(units, comparison, claim.margin, claim.lost, final=final, rule=claim.rule()))
        ]
        explained = tuple(filter(None, (units.explains for _, units in self.losses)))
        if not red:
            for metric, margin in self.counts_besides():
                units = sound_units(comparison, metric)
                # Only where it is far beyond the margin.
                if known_loss(units, comparison, margin, lambda _: False, final=final, rule=self.claims[0].rule()):
                    red = [(self.claims[0], units)]
                    break
        if red:
            self.losses = red
            return replace(ruling, verdict=Verdict.REGRESSED, in_spite=True)
        return replace(ruling, reasons=(*ruling.reasons, *explained))


class UnitsStopRule(ABC):
    """Ends the units of a comparison at the planned look that decides it."""

    @abstractmethod
    def fewest_units(self, comparison: Comparison) -> int:
        """The number of units that a decision needs."""

    @abstractmethod
    def ends(self, comparison: Comparison) -> bool:
        """Whether the units of a planned look decide."""

    def may_decide(self, comparison: Comparison) -> list[str]:
        """The metrics that decide, and the brokers' CPU where the next rounds may bring both sides to the cap."""
        names = [metric.name for metric in deciding_metrics(comparison)]
        by_cpu = not comparison.decides.metrics and all(at_its_cap(m, NEAR_THE_CAP) for m in comparison.sides)
        return list(dict.fromkeys([*names, AT_ITS_CAP])) if by_cpu else names

    def decided(self, comparison: Comparison) -> bool:
        """Whether the units so far decide; between the planned looks they do not."""
        looks = scheduled(comparison.planned_units, self.fewest_units(comparison), comparison.former_plans)
        return len(comparison.orders) in looks and self.ends(comparison)
