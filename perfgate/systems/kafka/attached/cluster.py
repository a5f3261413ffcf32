"""A cluster of other owners: what may be done there, and how it is put back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Unpack

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from perfgate.host.waiting import NotYet, poll_until
from perfgate.model import ClusterSpec, Link, TopicSpec, settings
from perfgate.model.declared import topic_names
from perfgate.model.errors import ConfigurationError, TargetError, TopicRefusedError
from perfgate.model.target import Cluster
from perfgate.systems.attached.cluster import AttachedCluster, Changed, OfRun, OtherClusterError, require_same
from perfgate.systems.attached.manifest import Manifest
from perfgate.systems.attached.target_file import Described
from perfgate.systems.kafka.client.admin import cluster_id_at, cluster_id_of, put_back_own, session_s, topic_ids
from perfgate.systems.kafka.client.live_settings import LiveSettings
from perfgate.systems.kafka.client.quotas import set_quota
from perfgate.systems.kafka.client.roundtrip import OF_CONNECTIONS, connect_rtt_ms
from perfgate.systems.kafka.client.topics import READY_TIMEOUT_S, REQUEST_TIMEOUT_S, Topics, admin_client, is_answer
from perfgate.systems.kafka.observe import MetadataWatch

RETENTION_MS = 3_600_000
"""Should everything else fail, the brokers themselves drop a run's records after an hour."""


class ExternalCluster(AttachedCluster):
    """Kafka's brokers that were there before; see :class:`perfgate.model.target.Cluster`."""

    rtt_of = OF_CONNECTIONS

    def __init__(
        self,
        spec: ClusterSpec,
        described: Described,
        manifest: Manifest,
        *,
        lacking: tuple[int, int] = (0, 0),
        **of_run: Unpack[OfRun],
    ) -> None:
        """`lacking`: what the start was let go on with, and so is the run, as long as it is no more."""
        super().__init__(spec, described, manifest, **of_run)
        self._admin = admin_client(described.bootstrap, described.client)
        self._topics = JournaledTopics(self, manifest, self._require_same)
        self._lacking = lacking
        self._limited: set[str] = set()

    def _unwell(self, excused: Collection[int], within_s: float | None = None) -> str:
        offline, behind = self._lacking
        allowed = (offline, max(behind, self._described.limits.under_replicated))
        return unwell(self._admin, allowed, excused, within_s or REQUEST_TIMEOUT_S, self._manifest.cluster_id)

    def _unwell_before_a_fault(self) -> str:
        """No partition may lack a replica then, whatever a run may go on with: the broker may hold its last one."""
        return super()._unwell_before_a_fault() or unwell(self._admin, cluster_id=self._manifest.cluster_id)

    def _require_same(self, admin: AdminClient) -> None:
        """Stop the run when this client's brokers are another cluster's: names of servers may come to lead there."""
        try:
            require_same(cluster_id_of(admin), self._manifest.cluster_id)
        except OtherClusterError as error:
            self.meter.stop(f"stopped at once: {error}")

    def _answers(self, address: str) -> bool:
        cluster_id = cluster_id_at(address, self._described.client)
        return bool(cluster_id) and self._manifest.cluster_id in ("", cluster_id)

    def _session_s(self) -> float:
        return session_s(self._admin, str(next(iter(self.addresses))))

    def watch(self, topic: str, link: Link) -> MetadataWatch:
        return MetadataWatch(self.bootstrap(link), self.client_settings(), topic)

    def topics(self) -> JournaledTopics:
        return self._topics

    def apply_settings(self) -> None:
        """Set the spec's broker settings, having noted what they were, and wait until brokers report them.

        Raises ConfigurationError, before any is set, for those that brokers do not know, which could not be put back,
        and for those that take effect at a start only.
        """
        if not self.spec.config:
            return
        self._require_same(self._admin)
        live = self.live_settings()
        if fixed := live.fixed([name for name, _ in self.spec.config]):
            raise ConfigurationError(
                f"{', '.join(fixed)}: brokers take it at their start only, and real ones are not this suite's to start "
                "again"
            )
        live.change(self.spec.config)

    def live_settings(self) -> LiveSettings:
        """Changes of the brokers' settings while they run, each noted before; `close` puts them back."""
        brokers = list(map(str, self.addresses))
        return LiveSettings(self._admin, brokers, self._note, self._require_same, self._report, shared=True)

    def limit(self, client_id: str, bytes_per_s: int) -> None:
        """Set a quota of the run's own client id, noted before; `close` removes it. Raises TargetError."""
        self._require_same(self._admin)
        self._manifest.limits(client_id)
        self._limited.add(client_id)
        set_quota(self._described.bootstrap, client_id, bytes_per_s)

    def _remove_quotas(self) -> list[str]:
        left = []
        for client_id in sorted(self._limited):
            try:
                self._require_same(self._admin)
                set_quota(self._described.bootstrap, client_id, None)
            except Exception as error:  # whatever it is, the next step is tried
                left.append(f"client {client_id} may still have a quota: {error}")
            else:
                self._limited.discard(client_id)
                with suppress(TargetError):  # a full disk keeps nothing else changed
                    self._manifest.unlimited(client_id)
        return left

    def _put_settings_back(self) -> list[str]:
        return [*self._remove_quotas(), *super()._put_settings_back()]

    def _put_back(self, change: Changed) -> str:
        self._require_same(self._admin)
        return put_back_own(self._admin, *change)

    def _delete_topics(self) -> list[str]:
        return self._topics.delete_all()

    def rtt_ms(self, link: Link) -> float:
        """Median time of a connection to a broker over this link: slow brokers make no path longer."""
        return connect_rtt_ms(self.bootstrap(link), self.client_settings(), link.name)


def metadata_of(admin: AdminClient, timeout_s: float = REQUEST_TIMEOUT_S, cluster_id: str = "") -> ClusterMetadata:
    """The metadata of all topics. Raises TargetError without an answer, OtherClusterError unless of `cluster_id`."""
    try:
        metadata = admin.list_topics(timeout=timeout_s)
    except KafkaException as error:
        raise TargetError(f"the brokers no longer answer: {error.args[0].str()}") from error
    require_same(metadata.cluster_id, cluster_id)
    return metadata


def lacking(metadata: ClusterMetadata, excused: Collection[int] = ()) -> tuple[int, int]:
    """Numbers of partitions that are offline, and under-replicated; replicas on brokers `excused` may be missing."""
    partitions = [partition for topic in metadata.topics.values() for partition in topic.partitions.values()]
    offline = sum(
        partition.leader < 0 and not ({*partition.isrs} <= {*excused} and {*excused} & {*partition.replicas})
        for partition in partitions
    )
    return offline, sum(bool({*partition.replicas} - {*partition.isrs} - {*excused}) for partition in partitions)


def unwell(
    admin: AdminClient,
    allowed: tuple[int, int] = (0, 0),
    excused: Collection[int] = (),
    timeout_s: float = REQUEST_TIMEOUT_S,
    cluster_id: str = "",
) -> str:
    """The problem of the cluster's partitions; empty when it lacks no more than `allowed`. Raises as `metadata_of`."""
    metadata = metadata_of(admin, timeout_s, cluster_id)
    offline, behind = lacking(metadata, excused)
    of_all = f"of {sum(len(topic.partitions) for topic in metadata.topics.values())} partitions are"
    if offline > allowed[0]:
        return f"{offline} {of_all} offline" + (f" ({allowed[0]} were at the start)" if allowed[0] else "")
    if behind > allowed[1]:
        return f"{behind} {of_all} under-replicated ({allowed[1]} allowed)"
    return ""


class JournaledTopics(Topics):
    """Topics on real brokers, each noted before it is created."""

    def __init__(
        self, cluster: Cluster, manifest: Manifest, require: Callable[[AdminClient], None] = lambda _: None
    ) -> None:
        """`require` raises TargetError when a client talks with other brokers than those of the run."""
        super().__init__(cluster)
        self._manifest, self._require = manifest, require
        self._made: dict[str, int] = {}
        """How many topics there are of each name."""

    def create(self, name: str, spec: TopicSpec, progress: Callable[[str], None] = lambda _: None) -> None:
        """Create the topics with a retention of an hour. Raises TopicRefusedError, also for one that exists.

        Raises TargetError where one cannot be noted, and where other brokers than the run's would be asked.
        """
        retention = settings({"retention.ms": RETENTION_MS, **dict(spec.config)})
        self._require(self._admin)
        names = topic_names(name, spec.count)
        for topic in names:
            self._manifest.plans(topic)
        self._made[name] = spec.count
        try:
            super().create(name, replace(spec, config=retention), progress)
        except TopicRefusedError as refused:
            if is_answer(refused.__cause__):  # else a topic may be there all the same, and is deleted in the end
                self._forget(name)
            raise
        for topic, id_ in self._ids(names).items():
            self._manifest.made(topic, id_)

    def _ids(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return the id of each new topic: by its name the next start would leave its records. Raises TargetError."""
        ids: dict[str, str] = {}

        def ask() -> None:
            ids.update(topic_ids(self._admin, [name for name in names if name not in ids]))
            if missing := [name for name in names if name not in ids]:
                raise NotYet(f"the one that was asked does not know {missing[0]}")  # not every broker does at once

        failure, check = "the brokers did not say the ids of new topics", self._cluster.check
        poll_until(failure, ask, within_s=READY_TIMEOUT_S, every_s=0.1, check=check)
        return ids

    def delete(self, name: str, count: int = 1, progress: Callable[[str], None] = lambda _: None) -> None:
        """Delete the topics, and the consumer groups named after them; it is no failure that one is gone already."""
        self._require(self._admin)  # another cluster would say that it is gone
        super().delete(name, count, progress)
        with suppress(TargetError):  # a full disk keeps no other topic there
            self._forget(name, count)

    def _forget(self, name: str, count: int = 0) -> None:
        for topic in topic_names(name, self._made.pop(name, count)):
            self._manifest.gone(topic)

    def delete_all(self) -> list[str]:
        """Delete the run's topics that are still there; return messages about those that could not be deleted."""
        left = []
        for name, count in sorted(self._made.items()):
            try:
                self.delete(name, count)
            except Exception as error:  # whatever it is, the next topic is tried
                left.append(f"topic {name} may still be there: {error}")
        return left
