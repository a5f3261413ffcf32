"""The gate's stop rule: more rounds of a scenario could not be judged, or would change nothing. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from perfgate.judge.claims.relation import RatioCase, judge_relation
from perfgate.judge.noise import hopeless
from perfgate.judge.rounds import values_of
from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.statistics import Centre, centre_of, clipped
from perfgate.judge.warming import LEAST_GROWTH, each_better, still_growing, still_warming
from perfgate.model import Measurement, PairRelation, Profile, RangeRelation, Relation, Round, Scenario, Threshold

FEWEST_SURE = 4
"""Rounds before the first look: of three the error is hardly known."""
SURE = 0.01
"""Chance that a look takes a claim for kept whose truth lies at its bound. After all rounds one standard error is
enough, which is a chance of a sixth, so that the looks before add little to it (benchmarks.gate_power --early)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GateStopRule:
    """See :class:`perfgate.model.compared.StopRule`. Without a `profile`, as where one is recorded, nothing stops."""

    profile: Profile | None
    rounds: int
    relations: Sequence[Relation] = ()

    def hopeless(self, scenario: Scenario, rounds: Sequence[Round]) -> bool:
        """Whether the rounds scatter too much for the rest to be judged; not while brokers warm up."""
        thresholds = self.profile.thresholds.get(scenario.name, ()) if self.profile else ()
        if thresholds and (still_warming({scenario.name: rounds}) or each_better(rounds)):
            return False
        for threshold in thresholds:
            metric, distance = threshold.metric, threshold.reach * threshold.baseline
            if any(metric.name not in r.metrics for r in rounds):
                continue
            # As the test of red sees them: scatter far beyond the limit does not prevent a verdict.
            values = clipped([r.metrics[metric.name] for r in rounds], metric.sign, threshold.limit, distance)
            if hopeless(values, self.rounds, threshold.reach):
                return True
        return False

    def sure(self, scenario: Scenario, block: Mapping[str, Measurement]) -> bool:
        """Whether the scenario is green, and each of its thresholds and relations is kept so far that it stays so.

        A relation with a scenario of another block needs all rounds. A flaw, or a rate not taken, keeps it going.
        """
        rounds = block[scenario.name].rounds
        if self.profile is None or self.profile.reference or len(rounds) < FEWEST_SURE:
            return False
        if any(r.flaws or r.not_sustained for r in rounds):
            return False
        if each_better(rounds) or not judge_scenario(block[scenario.name], self.profile).verdict.green:
            return False
        thresholds = self.profile.thresholds.get(scenario.name, ())
        concerned = [relation for relation in self.relations if scenario.name in relation.names]
        kept = all(kept_by_far(values_of(rounds, threshold.metric.name), threshold) for threshold in thresholds)
        return kept and all(_relation_kept_by_far(relation, block) for relation in concerned)

    def still_warming(self, by_scenario: Mapping[str, Sequence[Round]]) -> dict[str, str]:
        return still_warming(by_scenario)


def kept_by_far(values: Sequence[float], threshold: Threshold) -> bool:
    """Whether each of these rounds keeps the threshold's limit, their centre by far, and they do not get worse."""
    worse = "lower" if threshold.metric.better == "higher" else "higher"
    if still_growing(values, worse, LEAST_GROWTH):
        return False
    return _by_far(values, centre_of(values), threshold.limit, threshold.metric.sign)


def _relation_kept_by_far(relation: Relation, block: Mapping[str, Measurement]) -> bool:
    if not set(relation.names) <= block.keys() or not judge_relation(relation, block).verdict.green:
        return False
    pairs = (relation,) if isinstance(relation, PairRelation) else cast(RangeRelation, relation).steps
    for pair in pairs:
        case = RatioCase(pair, block)
        for bound, sign in ((pair.at_least, 1), (pair.at_most, -1)):
            if math.isfinite(bound) and not _by_far(case.ratios, case.centre(case.ratios), bound, sign):
                return False
    return True


def _by_far(values: Sequence[float], centre: Centre, bound: float, sign: int) -> bool:
    if len(values) < FEWEST_SURE:
        return False
    from scipy.special import stdtrit  # 0.2 s, which runs without thresholds do not need

    factor = -float(stdtrit(len(values) - 1, SURE))
    # Written so that what is no number (NaN) is not sure.
    kept = all(sign * (value - bound) >= 0 for value in values)
    return kept and sign * (centre.middle - bound) >= factor * centre.error
