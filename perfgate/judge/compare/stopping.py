"""The stop rule of a comparison: when it is decided. Pure."""

from __future__ import annotations

from perfgate.judge.compare.comparisons import deciding_metrics, judge_comparison, may_decide
from perfgate.judge.compare.sequential import scheduled
from perfgate.judge.compare.units import fewest_units
from perfgate.model import Comparison, Effect


class SequentialStopRule:
    """Ends a comparison at the planned look at which the sequential test decides it."""

    def fewest_units(self, comparison: Comparison) -> int:
        """Return with how many units what decides can be judged."""
        return fewest_units(comparison, [metric.name for metric in deciding_metrics(comparison)])

    def may_decide(self, comparison: Comparison) -> list[str]:
        """Return the metrics that decide, or may: those that were asked for, or what tells of the load."""
        return may_decide(comparison)

    def decided(self, comparison: Comparison) -> bool:
        """Return whether what was measured so far decides; between the planned looks it does not."""
        fewest = self.fewest_units(comparison)
        if len(comparison.orders) not in scheduled(comparison.planned_units, fewest, comparison.former_plans):
            return False
        return judge_comparison(comparison, final=False).effect is not Effect.INCONCLUSIVE
