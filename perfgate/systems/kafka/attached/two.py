"""Two clusters that exist, as one target: what is compared on them, each by the limits of its own file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perfgate.model import ClusterSpec, Scenario
from perfgate.model.errors import ConfigurationError
from perfgate.model.target import OfCluster
from perfgate.systems.kafka.attached.cluster import ExternalCluster
from perfgate.systems.kafka.attached.described import DescribedTarget
from perfgate.systems.kafka.attached.external import ExternalTarget
from perfgate.systems.kafka.client.admin import cluster_id_at


class TwoTargets:
    """See :class:`perfgate.model.target.Target`; `beside` gives the other cluster."""

    kind = ExternalTarget.kind
    own = False

    def __init__(self, first: ExternalTarget, other: ExternalTarget, described: DescribedTarget) -> None:
        """`described`: the other one's file."""
        self._first, self._other, self._described = first, other, described
        self.dedicated = first.dedicated and other.dedicated
        self.left_behind: tuple[str, ...] = ()
        """What could not be put back on either."""

    def check_room(self, at_a_time: float, in_all: float) -> None:
        """Raise ConfigurationError when either file does not allow all of it: the faster side writes more."""
        self._first.check_room(at_a_time, in_all)
        self._other.check_room(at_a_time, in_all)

    def prepare(self, specs: Iterable[ClusterSpec]) -> None:
        """Reach both, clean up after killed runs there, and refuse one cluster that both files describe."""
        specs = list(specs)
        self._first.prepare(specs)
        one = self._first.facts(specs[0])["cluster_id"]
        if cluster_id_at(self._described.bootstrap.partition(",")[0], self._described.client) == one:
            raise ConfigurationError(f"{self._described.path} describes cluster {one}, as --target does: name another")
        self._other.prepare(specs)
        if self._other.facts(specs[0])["cluster_id"] == one:
            raise ConfigurationError(f"{self._described.path} describes cluster {one}, as --target does: name another")

    def facts(self, spec: ClusterSpec) -> Mapping[str, object]:
        """Return the first one's, without usage where either tells none."""
        first, other = self._first.facts(spec), self._other.facts(spec)
        return {**first, "no_usage": first["no_usage"] or other["no_usage"]}

    def cannot(self, scenario: Scenario) -> str | None:
        """Return why either cannot run the scenario, or None when both can."""
        if reason := self._first.cannot(scenario):
            return reason
        reason = self._other.cannot(scenario)
        if reason is None:
            return None
        kind = OfCluster if isinstance(reason, OfCluster) else str
        return kind(f"{self._described.name}: {reason}")

    def gone(self) -> str:
        """Return which brokers of either are not there any more."""
        return "; ".join(filter(None, (self._first.gone(), self._other.gone())))

    def cluster(self, spec: ClusterSpec) -> ExternalCluster:
        """Return the first cluster."""
        return self._first.cluster(spec)

    def beside(self, spec: ClusterSpec) -> ExternalCluster:
        """Return the other cluster."""
        return self._other.cluster(spec)

    def keep_aot_cache(self) -> None:
        """Do nothing: the JVMs are those of real brokers."""

    def close(self) -> None:
        """Put everything back on both, whatever fails on one of them."""
        try:
            self._first.close()
        finally:
            self._other.close()
            self.left_behind = (*self._first.left_behind, *self._other.left_behind)
