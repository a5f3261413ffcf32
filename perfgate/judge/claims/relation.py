"""Claims of relations: the ratio of two scenarios, or several over a range, keeps its bounds. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import cast

from perfgate.judge.claim import UNDECIDED, Case, Ruling, judge, worst
from perfgate.judge.claims.more_hosts import host_doubts
from perfgate.judge.doubts import words
from perfgate.judge.phrases import KEPT_THOUGH_LATE
from perfgate.judge.rates import at_its_cap, paired_ratios
from perfgate.judge.rounds import flaws_by_arm, had_less_beside, only_sent_late, rounds_with, values_of
from perfgate.judge.statistics import Centre, clipped, error_factor, median_of, spread, too_many_beyond
from perfgate.judge.warming import warming_doubts
from perfgate.model import Judgement, Measurement, Outcome, PairRelation, RangeRelation, Relation, Round, Verdict
from perfgate.model.flaw import Doubt, excused
from perfgate.model.judged import severity

CAPPED = ("records_per_s", "mib_per_s")
"""The metrics that a load's own cap bounds."""
BEYOND = 0.25
"""A bound counts as this share of it from what is expected: a ratio beyond it by twice that is so without doubt."""
FIGURES = {"broker_cpu": "CPU", "broker_rss": "memory", "broker_disk": "disk", "broker_network": "network"}
"""The key of a round's `untold` for a metric of the brokers' usage."""


class RatioCase(Case):
    """A relation between two scenarios, one of several `looks` where it is a step of a range."""

    def __init__(self, relation: PairRelation, measurements: Mapping[str, Measurement], looks: int = 1) -> None:
        self.relation, self.metric, self.looks, self.tested = relation, relation.metric.name, looks, False
        self.of, self.over = self.both = measurements[relation.of], measurements[relation.over]
        self.paired = are_paired(self.of, self.over)
        # 0 over 0 says nothing, and anything over 0 is no number that a maximum could be judged against.
        self.zeros = sum(r.metrics.get(self.metric) == 0 for r in self.over.rounds)
        self.ratios = () if self.zeros else ratios_of(self.metric, self.of, self.over)

    @property
    def most_rounds(self) -> int:
        """How many ratios there should be: of all rounds, or of those of a side of which fewer were enough."""
        if not self.paired:
            return len(self.of.rounds)
        return min((len(m.rounds) for m in self.both if m.enough), default=max(len(m.rounds) for m in self.both))

    def centre(self, ratios: Sequence[float], looks: int = 1) -> Centre:
        """The median of the ratios; with the error of the lower scenario's where rounds are not paired."""
        median = median_of(ratios, looks)
        if self.paired:
            return median
        lower = median_of(self._below, looks)
        low, high = lower.interval
        widened = (
            median.interval[0] * lower.middle / high,
            median.interval[1] * lower.middle / low if low > 0 else math.inf,
        )
        return Centre(median.middle, math.hypot(median.error, median.middle * lower.error / lower.middle), widened)

    def judged(self, verdict: Verdict, reason: str, ratios: Sequence[float]) -> Ruling:
        centre, least, most = self.centre(ratios), self.relation.at_least, self.relation.at_most
        judgement = Judgement(
            verdict=verdict,
            metric=self.metric,
            measured=centre.middle,
            spread=spread(ratios),
            interval=centre.interval,
            limit=most if centre.middle > most else least,
            reason=reason,
        )
        return Ruling(verdict=verdict, judgements=(judgement,), reasons=(reason,) if reason else ())

    def test(self) -> Ruling:
        """REGRESSED: the median is known to lie beyond a bound, one of several looks farther. PASS: it keeps both."""
        self.tested = True
        if self.red:
            return self.judged(Verdict.REGRESSED, "", self.ratios)
        if reason := self._why_not_kept(self.ratios):
            return self.judged(Verdict.INCONCLUSIVE, reason, self.ratios)
        late = "; ".join(flaws_by_arm(((m.scenario.name, m) for m in self.both), [self.metric]))
        return self.judged(Verdict.PASS, f"{KEPT_THOUGH_LATE}: {late}" if late else "", self.ratios)

    def in_spite(self, ruling: Ruling) -> Ruling:
        """The ruling, REGRESSED where the ratios are beyond a bound without all that doubts explain."""
        if ruling.verdict not in UNDECIDED or not self.red:
            return ruling
        ratios = self.ratios if self.tested else self.red
        doubted = self._doubt_words(ratios)
        red = self.judged(Verdict.REGRESSED, f"red in spite of this: {doubted}" if doubted else "", ratios)
        return replace(red, in_spite=True)

    @cached_property
    def red(self) -> tuple[float, ...]:
        """The ratios, as measured, that show the relation to be broken in spite of all that doubts explain."""
        for bound, sign in ((self.relation.at_least, 1), (self.relation.at_most, -1)):
            pairs = [(measured, raised if sign > 0 else lowered) for measured, raised, lowered in self._excused()]
            # A round that is explained wholly is not used on that side of the bounds.
            usable = [(measured, value) for measured, value in pairs if 0 < value < math.inf or value == 0 < sign]
            if len(usable) > 1 and math.isfinite(bound) and self._beyond([v for _, v in usable], bound, sign):
                return tuple(measured for measured, _ in usable)
        return ()

    @property
    def kept_however_late(self) -> bool:
        """Whether late sends alone spoil the metric, and the bounds are kept with and without what they added."""
        if not self.ratios or not all(only_sent_late(m, self.metric) for m in self.both):
            return False
        excused = self._excused()
        raised, lowered = [ratio for _, ratio, _ in excused], [ratio for _, _, ratio in excused]
        return not any(self._why_not_kept(ratios) for ratios in (self.ratios, raised, lowered) if ratios)

    @cached_property
    def _below(self) -> list[float]:
        return values_of(rounds_with(self.over.rounds, self.metric), self.metric)

    def _beyond(self, values: Sequence[float], bound: float, sign: int) -> bool:
        if not self.paired and len(self._below) < 2:
            return False
        centre = self.centre(clipped(values, sign, bound, BEYOND * bound), self.looks)
        factor = error_factor(min(len(values), len(self._below)), self.looks)
        return replace(centre, error=centre.error * factor).beyond(bound, sign)

    def _excused(self) -> list[tuple[float, float, float]]:
        """For each pair of rounds the ratio as measured, and the highest and lowest that it may truly be."""
        name, sign = self.metric, self.relation.metric.sign
        of_doubts, over_doubts = (self._doubts(side) for side in self.both)
        if self.zeros:
            return []
        usable = rounds_with(self.over.rounds, name)
        by_index = {r.index: (r.metrics[name], self._excuse(r, over_doubts)) for r in usable}
        flattered = {r.index for r in usable if had_less_beside(r)}
        if not self.paired and by_index:
            middle = tuple(statistics.median(values) for values in zip(*by_index.values(), strict=True))
            by_index = {r.index: (middle[0], middle[1]) for r in self.of.rounds}
            flattered = set(by_index) if flattered else flattered
        ratios = []
        for r in rounds_with(self.of.rounds, name):
            if r.index not in by_index:
                continue
            above, (below, below_best) = r.metrics[name], by_index[r.index]
            below_best, best = below_best or math.ulp(0.0), self._excuse(r, of_doubts)
            raised, lowered = (best / below, above / below_best) if sign > 0 else (above / below_best, best / below)
            # Without its cap a side has a higher rate, and waits longer: whatever the metric's good side is.
            raised = math.inf if bounded(name, self.of) else raised
            lowered = 0.0 if bounded(name, self.over) else lowered
            # Beside less than it was to be a side looks better than it is, by nobody knows how much.
            too_high, too_low = (had_less_beside(r), r.index in flattered)[::sign]
            raised, lowered = math.inf if too_low else raised, 0.0 if too_high else lowered
            ratios.append((above / below, raised, lowered))
        return ratios

    def _excuse(self, r: Round, doubts: Sequence[Doubt]) -> float:
        return excused(r.metrics[self.metric], self.relation.metric.sign, (*r.doubts, *doubts), self.metric)

    def _doubts(self, side: Measurement) -> tuple[Doubt, ...]:
        return (*warming_doubts(side, self.relation.metric), *host_doubts(side))

    def _doubt_words(self, ratios: Sequence[float]) -> str:
        texts, least, most = [], self.relation.at_least, self.relation.at_most
        for side in self.both:
            own = (flaw for r in side.rounds for flaw in r.doubts if flaw.touches(self.metric))
            if doubts := [*self._doubts(side), *own]:
                bound, sign = (least, 1) if statistics.median(ratios) < least else (most, -1)
                texts.append(f"{side.scenario.name}: {words(doubts, self.metric, ratios, bound, sign)}")
        return "; ".join(texts)

    def _why_not_kept(self, ratios: Sequence[float]) -> str:
        centre, least, most = self.centre(ratios), self.relation.at_least, self.relation.at_most
        middle, error = centre.middle, centre.error
        if error == math.inf:
            return "one round has no error: more of them decide"
        if middle + error < least or middle - error > most:
            return f"{middle:.3g} lies beyond {least:g} .. {most:g}, but one of {self.looks} such ratios does by chance"
        if not (centre.keeps(least, 1) and centre.keeps(most, -1)):
            return f"the {'maximum' if middle + error > most else 'minimum'} lies within the error of the median"
        if too_many_beyond(ratios, least, 1) or too_many_beyond(ratios, most, -1):
            beyond = max(sum(ratio < least for ratio in ratios), sum(ratio > most for ratio in ratios))
            return f"in {beyond} of {len(ratios)} rounds the ratio lies beyond it"
        return ""


def judge_relation(relation: Relation, measurements: Mapping[str, Measurement]) -> Outcome:
    if isinstance(relation, RangeRelation):
        return _judge_range(relation, measurements)
    return _judge_pair(cast(PairRelation, relation), measurements)


def _judge_pair(relation: PairRelation, measurements: Mapping[str, Measurement], looks: int = 1) -> Outcome:
    case = RatioCase(relation, measurements, looks)
    ruling = judge(case)
    rounds = case.red if ruling.in_spite and not case.tested else case.ratios
    rounds = () if ruling.verdict is Verdict.INVALID else rounds
    return ruling.outcome(relation.name, rounds=rounds, paired=case.paired)


def _judge_range(relation: RangeRelation, measurements: Mapping[str, Measurement]) -> Outcome:
    """Judge each step of a range as one of several looks: together they are no more often red than a pair."""
    steps = tuple(_judge_pair(step, measurements, looks=len(relation.steps)) for step in relation.steps)
    judgements = tuple(_judgement_of(step, relation.metric.name) for step in steps)
    reasons = tuple(
        f"{step.name}: {reason or f'{judgement.measured:.3g}, must be {pair.accepted}'}"
        for pair, step, judgement in zip(relation.steps, steps, judgements, strict=True)
        if judgement.verdict is not Verdict.PASS
        for reason in step.reasons or ("",)
    )
    verdict = worst(judgement.verdict for judgement in judgements)
    return Outcome(name=relation.name, verdict=verdict, judgements=judgements, reasons=reasons, steps=steps)


def _judgement_of(step: Outcome, metric: str) -> Judgement:
    judgement = step.judgements[0] if step.judgements else Judgement(verdict=step.verdict, metric=metric)
    return replace(judgement, step=step.name, reason=judgement.reason or "; ".join(step.reasons))


def deciding_step(relation: RangeRelation, outcome: Outcome) -> tuple[PairRelation, Outcome]:
    """The step of the worst verdict; of several the nearest to its bounds, or farthest beyond them."""

    def rank(judged: tuple[PairRelation, Outcome]) -> tuple[int, float]:
        pair, step = judged
        ratio = step.judgements[0].measured if step.judgements else None
        room = math.log(min(ratio / pair.at_least, pair.at_most / ratio)) if ratio and ratio > 0 else -math.inf
        return severity(step.verdict), room

    return min(zip(relation.steps, outcome.steps, strict=True), key=rank)


def bounded(metric: str, of: Measurement) -> str:
    """That its cap keeps a load's rate, or wait, from what the relation asks for; empty when it does not."""
    if not at_its_cap(of) or not (metric in CAPPED or metric.startswith("latency_ms.")):
        return ""
    return f"{of.scenario.name} reached its cap of {of.scenario.load.rate:,.0f} records/s"


def are_paired(of: Measurement, over: Measurement) -> bool:
    """Whether rounds of the same number were measured together; else both medians' errors count."""
    # The rounds beside those of one that had enough early are not judged where the other's brokers still warmed up.
    early = (of.enough and over.warm_up) or (over.enough and of.warm_up)
    return of.scenario.cluster == over.scenario.cluster and not early


def ratios_of(metric: str, of: Measurement, over: Measurement) -> tuple[float, ...]:
    """The ratios round by round; of rounds that are not pairs each over the median of the other scenario's."""
    if are_paired(of, over):
        return paired_ratios(metric, of.rounds, over.rounds)
    below = [r.metrics[metric] for r in over.rounds if r.metrics.get(metric)]
    if not below or len(below) < len(over.rounds):
        return ()
    return tuple(r.metrics[metric] / statistics.median(below) for r in of.rounds if metric in r.metrics)


def hidden_by_caps(relation: Relation, measurements: Mapping[str, Measurement]) -> dict[str, str]:
    """The ratios that their loads' own caps hide, by name, with the reason: of a single cap a bound may decide."""
    pairs = (relation,) if isinstance(relation, PairRelation) else cast(RangeRelation, relation).steps
    hidden = {}
    for pair in pairs if relation.metric.name in CAPPED else ():
        of, over = measurements[pair.of], measurements[pair.over]
        ratios = ratios_of(relation.metric.name, of, over)
        centre = statistics.median(ratios) if ratios else math.nan
        # The true ratio is no less than this where `of` reached its cap, and no more where `over` did.
        if at_its_cap(of if centre < pair.at_least else over):
            caps = " and ".join(f"{m.scenario.name} {m.scenario.load.rate:,.0f}" for m in (of, over) if at_its_cap(m))
            hidden[pair.name] = f"held by a cap of its own, not by the brokers: {caps} records/s"
    return hidden


def no_source(relation: Relation, measurements: Mapping[str, Measurement]) -> str:
    """Why no source of this target has the relation's metric, if none has."""
    name, rounds = relation.metric.name, [r for m in measurements.values() for r in m.rounds if r.metrics]
    prefix = next((prefix for prefix in FIGURES if name.startswith(prefix)), "")
    known = any(r.usage_unavailable or any(key.startswith(prefix) for key in r.metrics) for r in rounds)
    if not prefix or known:
        return ""
    return next((r.untold.get(FIGURES[prefix], f"nobody tells {name} here") for r in rounds), "")
