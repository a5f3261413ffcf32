"""Stop rules, when a measurement may end or has to go on: asked by the measuring, answered by whoever judges them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from perfgate.model.compared import Comparison
from perfgate.model.declared import Scenario
from perfgate.model.measured import Round


class StopRule(Protocol):
    """Of interleaved rounds."""

    def hopeless(self, scenario: Scenario, rounds: Sequence[Round]) -> bool:
        """Return whether these rounds scatter so much that the rest of them could not be judged either."""

    def still_warming(self, rows: Mapping[str, Sequence[Round]]) -> dict[str, str]:
        """Return the scenarios of a block that were measured on brokers still warming up, with the figures."""


class ComparisonStopRule(Protocol):
    """Of a comparison's units."""

    def fewest_units(self, comparison: Comparison) -> int:
        """Return with how many units something can be said; with fewer nothing is."""

    def may_decide(self, comparison: Comparison) -> Sequence[str]:
        """Return the metrics without which perhaps nothing can be said, as far as its rounds tell now."""

    def decided(self, comparison: Comparison) -> bool:
        """Return whether what was measured so far decides; asked after every unit, answered at planned looks."""
