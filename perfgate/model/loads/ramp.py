"""Ramp: paced loads of several rates, up to `rate`, that search for the highest that meets a service level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perfgate.model.loads.base import Load
from perfgate.model.loads.capped import Capped

STEPS = 14
"""Of a ramp's first round, one to seven of them before a rate is too high; later rounds begin near the knee."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ramp(Load):
    """The service level is relative to the latency of the first step, which is judged for that."""

    kind: str = "ramp"
    takes: ClassVar[tuple[str, ...]] = ("rate", "level_p99_ms")
    open_loop: ClassVar[bool] = True
    searches: ClassVar[bool] = True
    may_be_lowered: ClassVar[bool] = True
    windows: ClassVar[int] = STEPS
    counts_from: ClassVar[str] = "intended-send"
    decides: ClassVar[str] = "knee_records_per_s"
    also_judged: ClassVar[tuple[str, ...]] = ("unloaded_latency_ms.p99",)

    @property
    def incomparable(self) -> str:
        return "a search for the knee takes minutes a round: compare a scenario at a rate of its own"

    def warm_up(self, *, own: bool) -> Load:
        return Capped(rate=self.rate)
