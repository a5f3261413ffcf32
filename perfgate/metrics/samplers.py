"""Several samplers of brokers as one, and beside them what the run's own clients were held back by."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.host.machine_use import periods_of_groups
from perfgate.metrics.usage import OverTime, Sampler

HELD_BACK = "client_held_back_share"


class OwnQuota:
    """Notes the quota's periods at each edge of windows; window i lies between the edges 2 i and 2 i + 1."""

    def __init__(self) -> None:
        self._edges: list[Sequence[tuple[int, int]]] = []

    def edge(self) -> None:
        """Note that a window opens or closes."""
        self._edges.append(periods_of_groups())

    def metrics(self, windows: Sequence[int]) -> dict[str, float]:
        """Return the share of the periods in these windows that held the clients back; nothing without a quota.

        Of several quotas, one above another, that of the one that did so most.
        """
        pairs = [(self._edges[2 * window], self._edges[2 * window + 1]) for window in windows]
        shares = []
        for group in zip(*(zip(before, after, strict=True) for before, after in pairs), strict=True):
            every = sum(after[0] - before[0] for before, after in group)
            held = sum(after[1] - before[1] for before, after in group)
            shares += [held / every] if every else []
        return {HELD_BACK: max(shares)} if shares else {}


class Samplers:
    """Several samplers as one: a metric is the first's that knows it."""

    def __init__(self, samplers: Sequence[Sampler], unavailable: str = "", quota: OwnQuota | None = None) -> None:
        """`unavailable`: why there are none, when there are none. `quota`: what is noted beside them of the clients."""
        self._samplers, self._quota = samplers, quota
        self.gives: Sequence[str] = tuple(dict.fromkeys(name for sampler in samplers for name in sampler.gives))
        self.unavailable = unavailable
        self.untold = "; ".join(dict.fromkeys(sampler.untold for sampler in samplers))
        self.read = next((sampler.read for sampler in samplers if sampler.read), None)

    def edge(self, at: float | None = None) -> None:
        """Note the moment with every sampler."""
        if self._quota:
            self._quota.edge()
        for sampler in self._samplers:
            sampler.edge(at)

    def glance(self) -> None:
        """Let every sampler look."""
        for sampler in self._samplers:
            sampler.glance()

    def over_time(self) -> OverTime:
        """Return what the first knows that knows anything."""
        return next((found for sampler in self._samplers if (found := sampler.over_time())), {})

    def metrics(self, records_per_s: float, windows: Sequence[int]) -> dict[str, float]:
        """Return what all of them know together; a reason only of one whose metrics no other one knows."""
        found: dict[str, float] = {}
        for sampler in self._samplers:
            found = {**sampler.metrics(records_per_s, windows), **found}
        if self._samplers:
            lacking = [s.unavailable for s in self._samplers if s.unavailable and not found.keys() >= set(s.gives)]
            self.unavailable = "; ".join(lacking)
        return found | (self._quota.metrics(windows) if self._quota else {})
