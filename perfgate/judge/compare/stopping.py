"""When a comparison is decided: its stop rule. Pure."""

from __future__ import annotations

from perfgate.judge.compare.comparisons import judge_comparison
from perfgate.judge.compare.sequential import FEWEST_UNITS, scheduled
from perfgate.model import Comparison, Effect


class SequentialStopRule:
    """Ends a comparison at the planned look at which the sequential test decides it."""

    fewest_units = FEWEST_UNITS

    def decided(self, comparison: Comparison) -> bool:
        """Return whether what was measured so far decides; between the planned looks it does not."""
        if len(comparison.orders) not in scheduled(comparison.planned_units):
            return False
        return judge_comparison(comparison, final=False).effect is not Effect.INCONCLUSIVE
