"""Warm-up of a cluster: each scenario is loaded in slices until the brokers have stopped getting faster at it.

A JVM compiles its code for tens of seconds of CPU. Where its compiler threads' CPU can be read, that shows the end;
else growth of the rate, and of the records per second of broker CPU, shows it later.
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
    """A load's rate, broker CPU per record (0: unknown), and the largest share of a broker's CPU that compiled."""

    records_per_s: float
    us_per_record: float
    compile_share: float | None


def bound_s(tier_s: float, started_s: float | None) -> float:
    """Bound on the warm-up in s: the tier's, in proportion to the time that these brokers took to start, if any."""
    return tier_s * max(1.0, started_s / STARTS_PER_TIER_BOUND_S) if started_s else tier_s


def is_warm(slices: Sequence[Slice]) -> bool:
    """Whether the last slice shows no more growth, and no compiling where that is known; the first if nothing compiles.
    Else it takes two without growth: one happens by chance (seen: 797, 800, then 4,900 records/s)."""
    per_cpu_s = [1e6 / s.us_per_record if s.us_per_record else 0.0 for s in slices]
    series = (([s.records_per_s for s in slices], GROWTH), (per_cpu_s, ECONOMY_GROWTH))
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
    """Load the scenarios in passes until all are warm or the time is up; return each one's slices, by its name. More
    replicas come first, which warm up others too; acks=all last. `measure(scenario, left_s)`: None where it cannot."""
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
