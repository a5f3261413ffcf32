"""What a load host did in a round."""

from __future__ import annotations

from dataclasses import dataclass

from perfgate.model.declared import Count


@dataclass(frozen=True, kw_only=True, slots=True)
class HostReport:
    """What one load host did in one round's window, and its clock against that of the machine the run is on.

    `done_in_window`: records acknowledged, or received where nothing is sent; `latency_histogram` of its producers.
    `clock_ahead_ms` at the start, give or take `clock_bound_ms`; times that were translated by it were wrong by
    `clock_off_by_ms` at most, the round over. `started_late_ms`: how long after the agreed moment the last of its
    clients began.
    """

    name: str
    processes: Count
    done_in_window: Count
    cpu_cores: float
    latency_histogram: str
    clock_ahead_ms: float
    clock_bound_ms: float
    clock_off_by_ms: float
    started_late_ms: float
