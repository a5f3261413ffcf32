"""The base of the targets whose brokers this suite starts itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Generic, TypeVar

from perfgate.model import ClusterSpec, Scenario
from perfgate.model.errors import TargetError
from perfgate.systems.kafka.managed.own_cluster import NOT_MONITORED, Monitoring, OwnCluster

Started = TypeVar("Started", bound=OwnCluster)


class OwnTarget(ABC, Generic[Started]):
    """Starts clusters, one at a time; see :class:`perfgate.model.target.Target`."""

    kind: str
    own = dedicated = True
    left_behind: tuple[str, ...] = ()

    def __init__(self, *, log_folder: Path, say: Callable[[str], None], monitoring: Monitoring = NOT_MONITORED) -> None:
        """Logs of brokers go to `log_folder`; `say` is told what is awaited."""
        self._log_folder, self._say, self._monitoring = log_folder, say, monitoring
        self._alive: Started | None = None
        self._beside: Started | None = None
        self._started = 0

    @abstractmethod
    def start(self, spec: ClusterSpec, logs: Path) -> Started:
        """Return a cluster of this spec that has started. Raises TargetError."""

    def facts(self, spec: ClusterSpec) -> Mapping[str, object]:
        """Return kind, name and version."""
        return {"kind": self.kind, "name": self.kind, "kafka_version": spec.kafka_version}

    def cannot(self, scenario: Scenario) -> str | None:
        """Return None: it makes the brokers that a scenario asks for."""
        return None

    def gone(self) -> str:
        """Return nothing: brokers of the suite's own that end make a scenario BROKEN."""
        return ""

    def cluster(self, spec: ClusterSpec) -> Started:
        """Return the cluster of this spec, started if another or none is alive."""
        if self._alive is None or self._alive.spec != spec:
            self.close()
            self._alive = self._another(spec)
        return self._alive

    def beside(self, spec: ClusterSpec) -> Started:
        """Return another cluster, of this spec, that lives beside the one now alive."""
        if self._monitoring.url:
            raise TargetError("two clusters side by side have no room at the fixed ports that a Prometheus scrapes")
        self._beside = self._another(spec)
        return self._beside

    def _another(self, spec: ClusterSpec) -> Started:
        self._started += 1
        return self.start(spec, self._log_folder / f"cluster-{self._started}")

    def keep_aot_cache(self) -> None:
        """Do nothing: there is nothing to be kept."""

    def close(self) -> None:
        """End the clusters that are alive; their logs stay. What an interruption leaves alive the next call ends."""
        alive, beside = self._alive, self._beside
        self._alive = self._beside = None
        try:
            with ExitStack() as every_one:
                for cluster in (one for one in (beside, alive) if one is not None):
                    every_one.callback(cluster.close)
        except KeyboardInterrupt:
            self._alive, self._beside = alive, beside
            raise
