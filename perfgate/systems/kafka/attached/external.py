"""Real Kafka brokers as targets: a run leaves nothing behind there and keeps the limits of its file."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from typing import Unpack

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from perfgate.host.waiting import NotYet, poll_until
from perfgate.model import ClusterSpec, Scenario
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.model.pages import page
from perfgate.systems.attached.cluster import BACK_S
from perfgate.systems.attached.leftovers import Cleaner
from perfgate.systems.attached.manifest import Leftover, Manifest
from perfgate.systems.attached.target import AttachedTarget, Permitted, digest_of
from perfgate.systems.kafka.attached.cluster import ExternalCluster, lacking, metadata_of, unwell
from perfgate.systems.kafka.attached.described import DescribedTarget
from perfgate.systems.kafka.attached.diagnosis import reachable
from perfgate.systems.kafka.attached.identity import (
    brokers_now,
    refuse_a_silent_zone,
    refuse_another_number,
    refuse_other_clusters,
    servers_that_report,
    settings_of,
)
from perfgate.systems.kafka.attached.limits import beyond, lacks_brokers, lacks_permission
from perfgate.systems.kafka.attached.topic_trial import TopicTrial, check_permissions, may_make
from perfgate.systems.kafka.client.admin import cluster_id_at, put_back_own, sees_all_topics, topic_ids, version_of
from perfgate.systems.kafka.client.quotas import set_quota
from perfgate.systems.kafka.client.topics import PREFIX, REQUEST_TIMEOUT_S, answer

LOOK_AGAIN_S = 0.5
BLIND = f"a fault would hit topics that cannot be seen: grant Describe on all topics ({page('targets-security')})"


class ExternalTarget(AttachedTarget[AdminClient, ExternalCluster]):
    """Attaches to Kafka's described brokers; see :class:`perfgate.model.target.Target`."""

    _described: DescribedTarget

    def __init__(
        self, described: DescribedTarget, *, note: Callable[[str], None], **permitted: Unpack[Permitted]
    ) -> None:
        super().__init__(described, KafkaCleaner(described, note), note=note, **permitted)
        self._usable = described
        self._sees_all = True
        """Whether other topics can be seen."""
        self._lacking = (0, 0)
        """Partitions offline and under-replicated at a start that was let go on with them."""
        self._racks: Mapping[int, str | None] = {}
        self._version = described.version

    def _connected(self) -> AdminClient:
        admin, problems = reachable(self._described.bootstrap, dict(self._described.client))
        for words in (*self._described.left_out, *self._described.weaknesses):
            self._note(f"note: {words}")
        for problem in problems:
            self._note(f"note: {problem}; going on with the other servers")
        self._learn(admin)
        self._note(
            f"cluster {self._cluster_id}: " + ", ".join(f"broker {id_} at {at}" for id_, at in self._brokers.items())
        )
        return admin

    def _learn(self, admin: AdminClient, back: Collection[int] = ()) -> None:
        """Learn which cluster this is and which brokers it has; those that are `back` are waited for."""

        def all_there() -> None:
            described = answer(admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S), "describing the cluster")
            self._cluster_id = described.cluster_id
            self._brokers = {node.id: f"{node.host}:{node.port}" for node in described.nodes}
            self._racks = {node.id: node.rack for node in described.nodes}
            missing = sorted(set(back) - set(self._brokers))
            if missing:
                raise NotYet(f"it does not count broker {missing[0]}, which was brought back")

        poll_until("the cluster was not whole", all_there, within_s=BACK_S, every_s=LOOK_AGAIN_S)

    def _refuse_others(self, admin: AdminClient) -> None:
        refuse_other_clusters(self._described, self._cluster_id)

    def _attach(self, admin: AdminClient) -> None:
        self._learn(admin, self._enter_clean(admin).values())
        self._seen(admin)
        refuse_a_silent_zone(self._described, self._cluster_id)
        self._usable = servers_that_report(self._described, self._cluster_id, self._note)
        user, prefix = self._described.user, f"{self._described.prefix}{self._run_id}"
        self._sees_all = sees_all_topics(admin)
        if not self._sees_all:
            self._note(
                f"note: {user} sees no topic but those of runs: whether others are offline or under-replicated "
                f"cannot be told; grant it Describe on all topics ({page('targets-security')})"
            )
        with closing(self._manifest()) as manifest:
            check_permissions(admin, f"{prefix}-probe", manifest, user, self._note)
        self._config_digest = digest_of(settings_of(admin, self._brokers))
        self._trial = TopicTrial(admin, f"{prefix}-trial", self._manifest, self._note)

    def _seen(self, admin: AdminClient) -> str:
        refuse_another_number(self._described, self._brokers)
        self._version = self._version or version_of(admin, next(iter(self._brokers)))
        allowed = (0, self._described.limits.under_replicated)
        reason = self._unwell_in_time(lambda: unwell(admin, allowed), "the state of their partitions")
        self._refuse_sick(reason)
        if reason:
            self._lacking = lacking(metadata_of(admin))
            self._note(f"note: {reason}: the run goes on with --allow-unhealthy, as long as there are no more")
        return f"{len(self._brokers)}, Kafka {self._version}"

    def _may_make_topics(self, admin: AdminClient) -> str:
        may_make(admin, f"{self._described.prefix}{self._run_id}-{uuid.uuid4().hex[:8]}", self._described.user)
        return f"{self._described.prefix}* may be made, as far as can be told without making one"

    def is_that_of(self, cluster_id: str) -> bool:
        return cluster_id_at(self._described.bootstrap.partition(",")[0], self._described.client) == cluster_id

    def _make(self, spec: ClusterSpec, manifest: Manifest) -> ExternalCluster:
        return ExternalCluster(spec, self._usable, manifest, lacking=self._lacking, **self._of_run(spec))

    def _facts(self) -> Mapping[str, object]:
        return {
            "kafka_version": self._version,
            "brokers": len(self._brokers),
            "racks": sorted({rack for rack in self._racks.values() if rack}),
        }

    def _lacks_nodes(self, scenario: Scenario) -> str | None:
        return lacks_brokers(scenario, len(self._brokers)) if self._brokers else None

    @property
    def _blind(self) -> str:
        return "" if self._sees_all else BLIND

    def _not_permitted(self, scenario: Scenario) -> str | None:
        if why := next((why for part in scenario.parts if (why := self.cannot(part))), None):
            return f"of a load beside it: {why}"
        reason = lacks_permission(scenario, self._described, broker_config_allowed=self._broker_config_allowed)
        return reason or beyond(self._described.limits, scenario)

    def _at_start(self) -> list[int]:
        return sorted(self._brokers)

    def _there(self) -> list[int]:
        return brokers_now(self._described)


FAILURES = (TargetError, ConfigurationError, KafkaException, OSError)


class KafkaCleaner(Cleaner[AdminClient]):
    def _answers(self, address: str, cluster_id: str) -> bool:
        return cluster_id_at(address, self._described.client) == cluster_id

    def _clean(self, admin: AdminClient, leftover: Leftover) -> list[str]:
        """Remove quotas, put settings back, the newest change first, delete topics known by id, or by name and content.

        A setting that another client has changed since is theirs; that of a broker that is no more is dropped.
        """
        left = []
        for client_id in sorted(leftover.quotas):
            try:
                set_quota(self._described.bootstrap, client_id, None)
            except FAILURES as error:
                left.append(f"a quota of client {client_id}: {error}")
            else:
                self._note(f"removed the quota of client {client_id}, set by run {leftover.run_id}")
        for change in reversed(list(leftover.configs)):
            broker, name = str(change["broker"]), str(change["name"])
            try:
                words = put_back_own(admin, broker, name, change["before"], change["effective"], change["value"])
            except FAILURES as error:
                if not _is_no_more(admin, int(broker)):
                    left.append(f"{name} of broker {broker}: {error}")
                    continue
                was = "not set" if change["before"] is None else change["before"]
                self._note(
                    f"dropped {name} of broker {broker}, changed by run {leftover.run_id}: the cluster has no such "
                    f"broker, and no topic a replica on it; should it come back, {name} was {was} before"
                )
            else:
                leftover.restored(change)
                done = f"put {name} of broker {broker} back, changed by run {leftover.run_id}"
                self._note(f"{words} (run {leftover.run_id})" if words else done)
        try:
            ids = topic_ids(admin, (name for name in leftover.topics if PREFIX in name))
        except FAILURES as error:
            return [*left, f"its topics: {error}"]
        for name, topic_id in ids.items():
            try:
                self._remove(admin, leftover, name, topic_id)
            except FAILURES as error:
                left.append(f"topic {name}: {error}")
        return left

    def _remove(self, admin: AdminClient, leftover: Leftover, name: str, topic_id: str) -> None:
        known = leftover.topics[name]
        if known == topic_id or (not known and _is_empty(admin, name)):
            answer(admin.delete_topics([name], request_timeout=REQUEST_TIMEOUT_S)[name], f"deleting {name}")
            self._note(f"removed topic {name}, left by run {leftover.run_id}, which was killed")
        else:
            self._note(f"left topic {name} alone: it is not the one that run {leftover.run_id} made")


def _is_no_more(admin: AdminClient, broker: int) -> bool:
    """Whether the cluster has lost this broker for good: it is not there, and no topic has a replica on it.

    Where not all topics can be seen it is not known.
    """
    try:
        cluster = admin.list_topics(timeout=REQUEST_TIMEOUT_S)
        partitions = [partition for topic in cluster.topics.values() for partition in topic.partitions.values()]
        holders = {replica for partition in partitions for replica in partition.replicas}
        return bool(holders) and broker not in {*cluster.brokers, *holders} and sees_all_topics(admin)
    except FAILURES:
        return False


def _is_empty(admin: AdminClient, name: str) -> bool:
    """Whether no record is in it. Raises TargetError where it is gone meanwhile."""
    topic = admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics.get(name)
    if topic is None:
        raise TargetError("the topic is not there any more")
    ends = admin.list_offsets({TopicPartition(name, number): OffsetSpec.latest() for number in topic.partitions})
    return all(answer(reply, f"reading the end of {name}").offset == 0 for reply in ends.values())
