"""Base of the targets whose clusters the suite starts itself: one at a time, or two that are compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from perfgate.model import ClusterSpec, Scenario


class Startable(Protocol):
    """A cluster, as far as starting and ending it goes."""

    spec: ClusterSpec

    def close(self) -> None:
        """End all that was started for it."""


Started = TypeVar("Started", bound=Startable)


class OwnTarget(ABC, Generic[Started]):
    """Starts clusters, one at a time; see :class:`perfgate.model.target.Target`."""

    kind: str
    own = dedicated = True
    left_behind: tuple[str, ...] = ()

    def __init__(self, *, log_folder: Path, say: Callable[[str], None]) -> None:
        self._log_folder, self._say = log_folder, say
        self._alive: Started | None = None
        self._beside: Started | None = None
        self._started = 0

    @abstractmethod
    def start(self, spec: ClusterSpec, logs: Path) -> Started:
        """Return a cluster of this spec that has started. Raises TargetError."""

    @abstractmethod
    def facts(self, spec: ClusterSpec) -> Mapping[str, object]:
        """Return what is known of such a cluster before it starts."""

    def cannot(self, scenario: Scenario) -> str | None:
        return None

    def gone(self) -> str:
        """Return nothing: brokers of the suite's own that end make a scenario BROKEN."""
        return ""

    def cluster(self, spec: ClusterSpec) -> Started:
        if self._alive is None or self._alive.spec != spec:
            self.close()
            self._alive = self._another(spec)
        return self._alive

    def beside(self, spec: ClusterSpec) -> Started:
        self._beside = self._another(spec)
        return self._beside

    def _another(self, spec: ClusterSpec) -> Started:
        self._started += 1
        return self.start(spec, self._log_folder / f"cluster-{self._started}")

    def keep_aot_cache(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """End the clusters that are alive; their logs stay. After an interruption the next call ends the rest."""
        alive, beside = self._alive, self._beside
        self._alive = self._beside = None
        try:
            with ExitStack() as every_one:
                for cluster in (one for one in (beside, alive) if one is not None):
                    every_one.callback(cluster.close)
        except KeyboardInterrupt:
            self._alive, self._beside = alive, beside
            raise
