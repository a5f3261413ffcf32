"""Backlog load: nothing is sent, consumers read `records` records over and over, as fast as they can."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from perfgate.model.loads.base import Load


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog(Load):
    """The records are written once, before the first round."""

    kind: str = "backlog"
    takes: ClassVar[tuple[str, ...]] = ("records",)
    sends: ClassVar[bool] = False

    @property
    def stated(self) -> Mapping[str, float]:
        return {"load.records": self.records}

    def cannot_decide(self, metric: str) -> str:
        return "this scenario only reads" if metric.startswith("latency_ms.") else ""

    def lacks(self, field: str) -> str:
        return "it reads what is there, at no rate of its own" if field == "rate" else Load.lacks(self, field)

    def at_rate(self, rate: float) -> Load:
        """Return the load itself: it has no rate."""
        return self
