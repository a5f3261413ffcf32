"""Several samplers of brokers as one, and beside them what the run's own clients were held back by."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.metrics.over_time import OverTime
from perfgate.metrics.own_quota import OwnQuota
from perfgate.metrics.usage import Sampler


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
