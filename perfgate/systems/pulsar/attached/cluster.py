"""A Pulsar cluster of other owners: permitted changes, and their restoration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Unpack

from perfgate.model import ClusterSpec, Link
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.model.target import PREFIX
from perfgate.systems.attached.cluster import ALL, AttachedCluster, Changed, OfRun, OtherClusterError
from perfgate.systems.attached.manifest import Manifest
from perfgate.systems.pulsar.attached.described import DescribedPulsar
from perfgate.systems.pulsar.attached.nodes import Nodes, role_of, unhealthy, unwell
from perfgate.systems.pulsar.attached.own_namespace import OwnNamespace, TopicsOfRun
from perfgate.systems.pulsar.client.admin import Admin
from perfgate.systems.pulsar.client.live_settings import LiveSettings, await_broker, put
from perfgate.systems.pulsar.client.roundtrip import connect_rtt_ms
from perfgate.systems.pulsar.observe import ANSWER_WITHIN_S, OwnerWatch

NO_SETTINGS = (
    "brokers' settings are changed only where each broker's web service can be asked, by a superuser's role: whether "
    "each takes them could not be seen"
)
SESSIONS = ("zooKeeperSessionTimeoutMillis", "metadataStoreSessionTimeoutMillis")
"""The former counts where it is above 0 (ServiceConfiguration, 4.0.8): the name before 2.10, which files still have."""


class AttachedPulsar(AttachedCluster):
    """Pulsar's brokers that were there before; see :class:`perfgate.model.target.Cluster`."""

    rtt_of = "a TCP connection to each server of the service URL; the median"

    def __init__(
        self,
        spec: ClusterSpec,
        described: DescribedPulsar,
        manifest: Manifest,
        *,
        admin: Admin,
        nodes: Nodes,
        namespace: str,
        lacking_bookies: Callable[[], str],
        not_well: Collection[int],
        **of_run: Unpack[OfRun],
    ) -> None:
        """`namespace`: of the run, as tenant/namespace, created by `apply_settings`.

        `lacking_bookies` returns a reason where fewer bookies take entries than needed. `not_well`: brokers that the
        start was let go on with, and so is the run, as long as no other is.
        """
        self._lacking_bookies, self._not_well = lacking_bookies, not_well
        super().__init__(spec, described, manifest, **of_run)
        self._admin, self._nodes = admin, nodes
        self.prefix = f"persistent://{namespace}/{PREFIX}"
        self._namespace = OwnNamespace(
            admin, namespace, manifest, most_bytes=described.limits.total_bytes, brokers=len(nodes.brokers)
        )
        addresses = {at: number for number, at in nodes.brokers.items()}
        addresses |= {url.partition("://")[2]: number for number, url in nodes.urls.items()}
        self._addresses = addresses
        self._topics = TopicsOfRun(self.check, admin, addresses, self._require_same)
        self.role_of = role_of

    def apply_settings(self) -> None:
        """Create the run's namespace, and set the spec's broker settings, having noted their values before."""
        self._namespace.make()
        if self.spec.config:
            self.live_settings().change(self.spec.config)

    def watch(self, topic: str, link: Link) -> OwnerWatch:
        """A watch of the topic's state. Bookies count as alive: their state cannot be seen from here."""
        impatient, bookies = self._admin.impatient(ANSWER_WITHIN_S), self._nodes.bookies
        return OwnerWatch(impatient, topic, brokers=self._addresses, bookies=bookies, there=lambda: [*bookies.values()])

    def topics(self) -> TopicsOfRun:
        return self._topics

    def limit(self, client_id: str, bytes_per_s: int) -> None:
        """Raise TargetError: no scenario with a quota is run here."""
        raise TargetError(f"no quota is set here ({client_id}: {bytes_per_s:,} bytes/s)")

    def live_settings(self) -> LiveSettings:
        if not self._nodes.each_answers:
            raise ConfigurationError(NO_SETTINGS)
        return LiveSettings(
            self._admin, list(self._nodes.urls.values()), partial(self._note, ALL), self._require_same, shared=True
        )

    @property
    def measured(self) -> Mapping[int, str]:
        return self._nodes.measured

    def _require_same(self) -> None:
        try:
            self._namespace.require_same()
        except OtherClusterError as error:
            self.meter.stop(f"stopped at once: {error}")

    def _unwell(self, excused: Collection[int], within_s: float | None = None) -> str:
        admin = self._admin if within_s is None else self._admin.impatient(within_s)
        self._namespace.require_same(admin)
        return unwell(admin, self._nodes, {*excused, *self._not_well})

    def _unwell_before_a_fault(self) -> str:
        """Every broker must be well then, whatever a run may go on with."""
        reason = super()._unwell_before_a_fault() or unwell(self._admin, self._nodes)
        return reason or unhealthy(self._admin, self._nodes) or self._lacking_bookies()

    def _answers(self, address: str) -> bool:
        url = self._nodes.url_of(address)
        return bool(url) and self._admin.is_ready(url) and self._namespace.is_at(url)

    def _session_s(self) -> float:
        try:
            values = self._admin.effective(SESSIONS, next(iter(self._nodes.urls.values()), ""))
            return next((ms / 1e3 for name in SESSIONS if (ms := float(values.get(name, 0))) > 0), 0.0)
        except (TargetError, ValueError):
            return 0.0

    def _put_back(self, change: Changed) -> str:
        self._require_same()
        return put_back(self._admin, list(self._nodes.urls.values()), *change[1:])

    def _delete_topics(self) -> list[str]:
        try:
            self._namespace.remove()
        except Exception as error:  # any error: it is tried again
            return [f"namespace {self._namespace.name} may still be there: {error}"]
        return []

    def rtt_ms(self, link: Link) -> float:
        """Median time of a connection to a server over this link: slow brokers make no path longer."""
        return connect_rtt_ms(self.bootstrap(link))


def put_back(admin: Admin, brokers: Collection[str], name: str, before: str | None, effective: str, value: str) -> str:
    """Put back a setting that a run set to `value`, unless another client has changed it since: then return a note.

    `brokers`: base URLs; those that answer all report what was `effective`, where that was the same for all of them.
    Raises TargetError and ConfigurationError.
    """
    now = admin.dynamic_values().get(name)
    if now == before:
        return ""
    if now != value:
        was = "not set" if before is None else before
        return f"left {name} of the brokers alone: somebody has set it to {now} since; before the run it was {was}"
    put(admin, name, before)
    for at in brokers if effective else ():
        if admin.is_ready(at):  # one that is away gets the restored setting when it starts again
            await_broker(admin, at, {name: effective})
    return ""
