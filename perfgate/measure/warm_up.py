"""Warm-up of a cluster: each scenario is loaded in slices until the brokers have stopped getting faster at it.

A JVM interprets its code first and compiles what is used, for tens of seconds of CPU. Where the CPU of its compiler
threads can be read, that shows directly when it is over; elsewhere growth of a scenario's rate, and of the records per
second of broker CPU, shows it later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from perfgate.load.processes import ECONOMY_GROWTH, GROWTH, has_grown, has_stopped_growing
from perfgate.model import COMPILING, Scenario

STARTS_PER_TIER_BOUND_S = 7.5
"""Brokers that start in this time (2 cores of an AMD EPYC) have the tier's bound; others in proportion."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Slice:
    """A moment of a load: its rate, broker CPU per record (0: unknown), the largest share of a broker's CPU that
    compiled."""

    records_per_s: float
    us_per_record: float
    compile_share: float | None

    @property
    def economy(self) -> float:
        """Records per second of broker CPU; 0 where that is unknown."""
        return 1e6 / self.us_per_record if self.us_per_record else 0.0


def bound_s(tier_s: float, started_s: float | None) -> float:
    """Bound on the warm-up in s: the tier's, in proportion to the time that these brokers took to start.

    `started_s` is None where the brokers were there before.
    """
    return tier_s * max(1.0, started_s / STARTS_PER_TIER_BOUND_S) if started_s else tier_s


def is_warm(slices: Sequence[Slice]) -> bool:
    """Whether the last slice shows no more growth, and no compiling where that is known.

    The first slice is warm when nothing compiles at all. Without the compilers' CPU it takes two slices without growth:
    one happens by chance in the middle of a JVM's warm-up (seen: 797, 800, then 4,900 records/s).
    """
    series = (([s.records_per_s for s in slices], GROWTH), ([s.economy for s in slices], ECONOMY_GROWTH))
    if not slices or slices[-1].compile_share is None:
        return all(has_stopped_growing(values, growth) for values, growth in series)
    if len(slices) == 1 or slices[-1].compile_share > COMPILING:
        return len(slices) == 1 and slices[-1].compile_share == 0
    return not any(has_grown(values[:-1], values[-1:], growth) for values, growth in series)


def warm_up(
    scenarios: Sequence[Scenario],
    measure: Callable[[Scenario, float], Slice | None],
    within_s: float,
    now: Callable[[], float] = time.monotonic,
) -> Mapping[str, list[Slice]]:
    """Load the scenarios in passes until all are warm or the time is up; return each scenario's slices, by its name.

    `measure(scenario, left_s)` gives a slice, or None when the scenario cannot be loaded. Scenarios with more
    replicas come first, because what they warm up serves the others too; of these, those with acks=all last.
    """
    ends = now() + within_s
    done: dict[str, list[Slice]] = {scenario.name: [] for scenario in scenarios}
    cold = sorted(
        scenarios,
        key=lambda scenario: (-scenario.topic.replication_factor, dict(scenario.producer).get("acks") in ("-1", "all")),
    )
    while cold:
        still: list[Scenario] = []
        for scenario in cold:
            left = ends - now()
            if left <= 0:
                return done
            newest = measure(scenario, left)
            if newest is None:
                continue
            done[scenario.name].append(newest)
            if not is_warm(done[scenario.name]):
                still.append(scenario)
        cold = still
    return done
