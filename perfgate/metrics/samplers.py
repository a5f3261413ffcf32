"""A sampler made of several, with the CPU quota of the run's own clients, as in a container of CI."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perfgate.host.machine_use import periods_of_groups
from perfgate.metrics.usage import OverTime, Sampler
from perfgate.model.target import Cluster

HELD_BACK = "client_held_back_share"
Sources = tuple[Callable[[Cluster], Sampler], ...]
"""Functions that make a cluster's samplers; the first that knows a metric gives it."""


class OwnQuota:
    """Periods of the quota at each edge of windows; window i lies between the edges 2 i and 2 i + 1."""

    def __init__(self, read: Callable[[], Sequence[tuple[int, int]]] = periods_of_groups) -> None:
        """`read` gives, for each control group, its periods so far and those that held it back."""
        self._read = read
        self._edges: list[Sequence[tuple[int, int]]] = []

    def edge(self) -> None:
        self._edges.append(self._read())

    def metrics(self, windows: Sequence[int]) -> dict[str, float]:
        """Share of the periods in these windows that held the clients back, the largest of nested quotas."""
        pairs = [(self._edges[2 * window], self._edges[2 * window + 1]) for window in windows]
        shares = []
        for group in zip(*(zip(before, after, strict=True) for before, after in pairs), strict=True):
            periods = sum(after[0] - before[0] for before, after in group)
            held = sum(after[1] - before[1] for before, after in group)
            shares += [held / periods] if periods else []
        return {HELD_BACK: max(shares)} if shares else {}


class Samplers:
    """A sampler made of several: the first that knows a metric gives it."""

    def __init__(self, samplers: Sequence[Sampler], unavailable: str = "", quota: OwnQuota | None = None) -> None:
        """`unavailable`: why there are none. `quota`: that of the clients, noted at the same edges."""
        self._samplers, self._quota = samplers, quota
        self.gives: Sequence[str] = tuple(dict.fromkeys(name for sampler in samplers for name in sampler.gives))
        self.unavailable = unavailable
        self.why_missing = "; ".join(dict.fromkeys(sampler.why_missing for sampler in samplers))
        self.read = next((sampler.read for sampler in samplers if sampler.read), None)

    def edge(self, at: float | None = None) -> None:
        if self._quota:
            self._quota.edge()
        for sampler in self._samplers:
            sampler.edge(at)

    def glance(self) -> None:
        for sampler in self._samplers:
            sampler.glance()

    def over_time(self) -> OverTime:
        return next((cores for sampler in self._samplers if (cores := sampler.over_time())), {})

    def metrics(self, records_per_s: float, windows: Sequence[int]) -> dict[str, float]:
        """Metrics of all samplers; a sampler's reason counts only where no other knows its metrics."""
        figures: dict[str, float] = {}
        for sampler in self._samplers:
            figures = {**sampler.metrics(records_per_s, windows), **figures}
        if self._samplers:
            lacking = [s.unavailable for s in self._samplers if s.unavailable and not figures.keys() >= set(s.gives)]
            self.unavailable = "; ".join(lacking)
        return figures | (self._quota.metrics(windows) if self._quota else {})
