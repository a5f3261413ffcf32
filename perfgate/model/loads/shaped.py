"""Shaped load: open loop like a paced load, at a rate that changes over the window as its shape says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from perfgate.model.loads.base import Load
from perfgate.model.loads.paced import Paced
from perfgate.model.metrics import OWED, P99_BACK


@dataclass(frozen=True, kw_only=True, slots=True)
class Shaped(Paced):
    """A window is one run through the shape; before it records are due at the shape's first rate.

    `rate` is the mean of the shape's rates, which change with it in proportion.
    """

    kind: str = "shaped"
    decides: ClassVar[str] = "peak_latency_ms.p99"

    @property
    def most_rate(self) -> float:
        return self.shape.rates[1] if self.shape else self.rate

    @property
    def window_s(self) -> float:
        return self.shape.seconds if self.shape else 0.0

    def judged(self, *, readers: bool) -> tuple[str, ...]:
        back = (P99_BACK,) if self.shape is None or {"before", "after"} <= self.shape.phases.keys() else ()
        return (self.decides, *back, OWED, *([self.readers_metric] if readers else []))

    def at_rate(self, rate: float) -> Load:
        shape = self.shape.at_mean(rate) if self.shape else None
        return replace(self, rate=rate, shape=shape, share_of_knee=0.0, knee="")

    def warm_up(self, *, own: bool) -> Load:
        return Paced(rate=self.rate).warm_up(own=own)
