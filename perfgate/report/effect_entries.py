"""Types of a comparison's entry in run.json, besides its two sides."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Le
from pydantic import Field

from perfgate import model
from perfgate.model.declared import Amount
from perfgate.model.structured import strict

Share = Annotated[float, Ge(-1)]


@strict
class EffectEntry:
    """What the change does to another metric, as :class:`MetricEffect` has it."""

    metric: str
    estimate: Share
    interval: tuple[Share, Share]
    p_value: Annotated[float, Ge(0), Le(1)]
    notable: bool
    worse: bool
    verdict: model.Effect | None = None
    """By this metric alone, where the run was asked to decide by it."""


@strict
class RecordedComparison:
    """What is read back of a comparison's entry besides its sides; see :class:`Comparison`."""

    change: str
    method: Literal["turns", "rounds", "pairs", "epochs"]
    """`epochs` stands in older runs: fresh clusters, one at a time."""
    rounds_per_unit: Annotated[int, Ge(1)]
    planned_units: Annotated[int, Ge(1)]
    orders: tuple[Annotated[str, Field(pattern="^[AB]+( [AB]+)*$")], ...]
    minutes: Amount
    decides: model.Deciding = model.AS_USUAL
    """Absent in older runs, as `two_clusters`."""
    two_clusters: bool = False
    recorded: tuple[model.RecordedPairs, ...] = ()
    """A/A pairs that told of the scatter between pairs too; absent in older runs."""
    former_plans: tuple[Annotated[int, Ge(1)], ...] = ()
    """Absent in older runs."""
