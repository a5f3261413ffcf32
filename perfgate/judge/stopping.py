"""The gate's stop rule: when rounds need not go on, or have to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfgate.judge import noise, warming
from perfgate.judge.bound import clipped
from perfgate.model import Profile, Round, Scenario, Threshold


@dataclass(frozen=True, kw_only=True, slots=True)
class GateStopRule:
    """Stops what could not be judged by `profile` (None: nothing stops it) after all `rounds` of the tier."""

    profile: Profile | None
    rounds: int

    def hopeless(self, scenario: Scenario, rounds: Sequence[Round]) -> bool:
        """Return whether these rounds scatter so much that the rest of them could not be judged either.

        A metric that some of them have not scatters by nothing that is known; rounds on brokers that were still warming
        up get better, and are the warm-up of those that follow.
        """
        held = self.profile.thresholds.get(scenario.name, ()) if self.profile else ()
        if held and (warming.still_warming({scenario.name: rounds}) or warming.each_better(rounds)):
            return False
        return any(
            noise.hopeless(_clipped([r.metrics[t.metric.name] for r in rounds], t), self.rounds, t.reach)
            for t in held
            if all(t.metric.name in r.metrics for r in rounds)
        )

    def still_warming(self, rows: Mapping[str, Sequence[Round]]) -> dict[str, str]:
        """Return the scenarios of a block that were measured on brokers still warming up, with the figures."""
        return warming.still_warming(rows)


def _clipped(values: Sequence[float], held: Threshold) -> list[float]:
    """Return the values as a test of red sees them: scatter far beyond the limit is not what keeps one from it."""
    return clipped(values, held.metric.sign, held.limit, held.reach * held.baseline)
