"""Each broker's CPU over the time of one window, for the picture of it; verdicts rest on the window as a whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from perfgate.metrics.health import Pairs, increase

if TYPE_CHECKING:
    from perfgate.metrics.usage import Looks

GLANCE_EVERY_S = 1.0
LEAST_APART_S = 0.5
"""Two looks that are closer than this tell little: the kernel counts CPU in ticks of 10 ms."""

OverTime = Mapping[str, tuple[tuple[float, float], ...]]
"""By broker id: pairs of the moment at which a part of the window ends, in s since it opened, and the cores in it."""


def of_looks(looks: Sequence[Looks]) -> dict[str, tuple[tuple[float, float], ...]]:
    """Return the cores of each broker from one look to the next; the first opens the window, the last closes it."""
    found: dict[str, tuple[tuple[float, float], ...]] = {}
    for broker, opened in looks[0].items():
        seen = [(usage.at - opened.at, usage.cpu_s) for look in looks if (usage := look.get(broker))]
        apart = [seen[0]]
        for at, cpu_s in seen[1:-1]:
            if min(at - apart[-1][0], seen[-1][0] - at) >= LEAST_APART_S:
                apart.append((at, cpu_s))
        found[str(broker)] = _steps([[*apart, seen[-1]]])
    return found


def of_scrapes(series: Mapping[int, Sequence[Pairs]], opens: float) -> dict[str, tuple[tuple[float, float], ...]]:
    """Return the same of each broker's counters as they were scraped, those of one broker added up."""
    moved = {b: [[(at - opens, value) for at, value in pairs] for pairs in every] for b, every in series.items()}
    return {str(broker): _steps(every) for broker, every in moved.items()}


def of_gauges(series: Mapping[int, Sequence[Pairs]], opens: float) -> dict[str, tuple[tuple[float, float], ...]]:
    """Return the same of values that are cores already."""
    found = {}
    for broker, every in series.items():
        sums: dict[float, float] = defaultdict(float)
        for pairs in every:
            for at, value in pairs:
                sums[at] += value
        found[str(broker)] = tuple((round(at - opens, 2), round(value, 4)) for at, value in sorted(sums.items()))
    return found


def _steps(every: Sequence[Pairs]) -> tuple[tuple[float, float], ...]:
    sums: dict[float, float] = defaultdict(float)
    for pairs in every:
        for earlier, later in pairwise(pairs):
            if later[0] > earlier[0]:
                sums[later[0]] += increase((earlier, later)) / (later[0] - earlier[0])
    return tuple((round(at, 2), round(cores, 4)) for at, cores in sorted(sums.items()))
