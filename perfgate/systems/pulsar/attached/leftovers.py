"""Putting back what runs that have ended left on real Pulsar brokers, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.model.target import PREFIX
from perfgate.systems.attached.leftovers import Cleaner
from perfgate.systems.attached.manifest import Leftover
from perfgate.systems.pulsar.attached.cluster import put_back
from perfgate.systems.pulsar.attached.described import DescribedPulsar
from perfgate.systems.pulsar.attached.nodes import nodes_of
from perfgate.systems.pulsar.attached.own_namespace import PROPERTY, remove
from perfgate.systems.pulsar.client.admin import NOT_FOUND, Admin
from perfgate.systems.pulsar.client.http import RefusedError

FAILURES = (TargetError, ConfigurationError, OSError)


class PulsarCleaner(Cleaner[Admin]):
    """Undoes on Pulsar's brokers what a run has noted."""

    def __init__(self, described: DescribedPulsar, note: Callable[[str], None]) -> None:
        super().__init__(described, note)
        self._described = described

    def _answers(self, address: str, cluster_id: str) -> bool:
        """Whether a broker says at an address (host:port of its web service) that it is ready.

        One whose TLS has another port is asked where the cluster counts it again.
        """
        scheme = self._described.admin_urls[0].partition("://")[0]
        if Admin([f"{scheme}://{address}"], self._described.client, tries=1).is_ready():
            return True
        admin = Admin(self._described.admin_urls, self._described.client, tries=1)
        try:
            nodes = nodes_of(admin, self._described)
        except TargetError:
            return False
        url = next((nodes.urls.get(number, "") for number, at in nodes.brokers.items() if at == address), "")
        return nodes.id == cluster_id and bool(url) and admin.is_ready(url)

    def _clean(self, admin: Admin, leftover: Leftover) -> list[str]:
        """Put settings back, the last one changed first, and remove namespaces that have the run's mark.

        A setting that another client has changed since is theirs.
        """
        left = []
        try:
            brokers = list(nodes_of(admin, self._described).urls.values()) if leftover.configs else []
        except FAILURES as error:
            return [f"its settings: {error}"]
        for change in reversed(leftover.configs):
            name, value = str(change["name"]), str(change["value"])
            try:
                words = put_back(admin, brokers, name, change["before"], str(change["effective"]), value)
            except FAILURES as error:
                left.append(f"{name} of the brokers: {error}")
                continue
            done = f"put {name} of the brokers back, changed by run {leftover.run_id}"
            self._note(f"{words} (run {leftover.run_id})" if words else done)
        for name, id_ in leftover.topics.items():
            try:
                self._remove(admin, leftover, name, id_)
            except FAILURES as error:
                left.append(f"namespace {name}: {error}")
        return left

    def _remove(self, admin: Admin, leftover: Leftover, name: str, id_: str) -> None:
        try:
            found = admin.properties(name).get(PROPERTY)
        except RefusedError as refused:
            if refused.status == NOT_FOUND:
                return
            raise
        if found == id_ and PREFIX in name:
            remove(admin, name)
            self._note(f"removed namespace {name}, left by run {leftover.run_id}, which was killed")
        else:
            self._note(f"left namespace {name} alone: it is not the one that run {leftover.run_id} made")
