"""Paced load: open loop, record i is due at start + i / rate and keeps that slot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from perfgate.model.loads.base import Load
from perfgate.model.loads.capped import Capped
from perfgate.model.metrics import DECIDES_PACED
from perfgate.model.shape import Shape

WARM_TIMES = 10
"""The suite's own brokers are warmed up with this many times the rate: at the rate itself they would compile for
minutes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Paced(Load):
    """Latency, which decides since the rate is declared, counts from the time at which a record was due."""

    kind: str = "paced"
    takes: ClassVar[tuple[str, ...]] = ("rate", "shape")
    open_loop: ClassVar[bool] = True
    counts_from: ClassVar[str] = "intended-send"
    decides: ClassVar[str] = DECIDES_PACED
    readers_metric: ClassVar[str] = "end_to_end_latency_ms.p99"

    @property
    def incomparable(self) -> str:
        return "its records are to time out, which in a comparison means that the brokers failed" * self.times_out

    def judged(self, *, readers: bool) -> tuple[str, ...]:
        if self.times_out:
            return ("records_per_s",)  # a share near 1 hides how much less was taken
        return Load.judged(self, readers=readers)

    def cannot_decide(self, metric: str) -> str:
        rate = metric.endswith(("records_per_s", "mib_per_s")) and not metric.startswith("broker_")
        return "a paced load sends as much whatever the brokers do" if rate else ""

    def in_shape(self, shape: Shape) -> Load:
        return replace(self, kind="shaped", rate=shape.mean, shape=shape, share_of_knee=0.0, knee="")

    def at_share_of_knee(self, share: float) -> Load:
        """Return the load at a share of the knee, whose rate is not known yet."""
        return replace(self, rate=0.0, share_of_knee=share, knee="")

    def warm_up(self, *, own: bool) -> Load:
        return Capped(rate=WARM_TIMES * self.rate) if own else self
