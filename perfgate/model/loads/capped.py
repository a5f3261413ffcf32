"""Capped load: as fast as the brokers take it, up to a rate, the client's bounded buffer pushing back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perfgate.model.loads.base import Load


@dataclass(frozen=True, kw_only=True, slots=True)
class Capped(Load):
    """Latency counts from acceptance into the client's buffer."""

    kind: str = "capped"
    capped: ClassVar[bool] = True
    may_be_lowered: ClassVar[bool] = True
    counts_from: ClassVar[str] = "buffer-acceptance"
    readers_metric: ClassVar[str] = "received_records_per_s"
