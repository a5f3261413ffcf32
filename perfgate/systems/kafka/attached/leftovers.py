"""Putting back what runs that have ended left on real brokers, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.systems.attached.leftovers import Cleaner
from perfgate.systems.attached.manifest import Leftover
from perfgate.systems.kafka.attached.described import DescribedTarget
from perfgate.systems.kafka.client.admin import cluster_id_at, put_back, put_back_own, sees_all_topics, topic_ids
from perfgate.systems.kafka.client.quotas import set_quota
from perfgate.systems.kafka.client.topics import PREFIX, REQUEST_TIMEOUT_S, answer

FAILURES = (TargetError, ConfigurationError, KafkaException, OSError)


class KafkaCleaner(Cleaner[AdminClient]):
    """Undoes on Kafka's brokers what a run has noted."""

    def __init__(self, described: DescribedTarget, note: Callable[[str], None]) -> None:
        super().__init__(described, note)
        self._described = described

    def _answers(self, address: str, cluster_id: str) -> bool:
        return cluster_id_at(address, self._described.client) == cluster_id

    def _clean(self, admin: AdminClient, leftover: Leftover) -> list[str]:
        """Remove quotas, put settings back, the last one changed first, and delete topics.

        Topics are those known by id, or by name and content. A setting that another client has changed since is theirs;
        one of a broker that is no more is dropped.
        """
        left = []
        for client_id in sorted(leftover.quotas):
            try:
                set_quota(self._described.bootstrap, client_id, None)
            except FAILURES as error:
                left.append(f"a quota of client {client_id}: {error}")
            else:
                self._note(f"removed the quota of client {client_id}, set by run {leftover.run_id}")
        for change in reversed(leftover.configs):
            broker, name = str(change["broker"]), str(change["name"])
            try:
                self._restore(admin, leftover, broker, name, change)
            except FAILURES as error:
                if not _is_no_more(admin, int(broker)):
                    left.append(f"{name} of broker {broker}: {error}")
                    continue
                was = "not set" if change["before"] is None else change["before"]
                self._note(
                    f"dropped {name} of broker {broker}, changed by run {leftover.run_id}: the cluster has no such "
                    f"broker, and no topic a replica on it; should it come back, {name} was {was} before"
                )
        try:
            there = topic_ids(admin, (name for name in leftover.topics if PREFIX in name))
        except FAILURES as error:
            return [*left, f"its topics: {error}"]
        for name, topic_id in there.items():
            try:
                self._remove(admin, leftover, name, topic_id)
            except FAILURES as error:
                left.append(f"topic {name}: {error}")
        return left

    def _restore(
        self, admin: AdminClient, leftover: Leftover, broker: str, name: str, change: Mapping[str, Any]
    ) -> None:
        before, effective, value = change["before"], change.get("effective") or "", change.get("value")
        if value is None:  # noted by a version that did not say it
            put_back(admin, broker, name, before, effective)
        elif note := put_back_own(admin, broker, name, before, effective, value):
            self._note(f"{note} (run {leftover.run_id})")
            return
        self._note(f"put {name} of broker {broker} back, changed by run {leftover.run_id}")

    def _remove(self, admin: AdminClient, leftover: Leftover, name: str, topic_id: str) -> None:
        known = leftover.topics[name]
        if known == topic_id or (not known and _is_empty(admin, name)):
            answer(admin.delete_topics([name], request_timeout=REQUEST_TIMEOUT_S)[name], f"deleting {name}")
            self._note(f"removed topic {name}, left by run {leftover.run_id}, which was killed")
        else:
            self._note(f"left topic {name} alone: it is not the one that run {leftover.run_id} made")


def _is_no_more(admin: AdminClient, broker: int) -> bool:
    """Whether the cluster has lost this broker for good: it is not there, and no topic has a replica on it.

    One that is only down still has. Where not all topics can be seen it is not known.
    """
    try:
        cluster = admin.list_topics(timeout=REQUEST_TIMEOUT_S)
        partitions = [partition for topic in cluster.topics.values() for partition in topic.partitions.values()]
        holders = {replica for partition in partitions for replica in partition.replicas}
        return bool(holders) and broker not in {*cluster.brokers, *holders} and sees_all_topics(admin)
    except FAILURES:
        return False


def _is_empty(admin: AdminClient, name: str) -> bool:
    partitions = admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics[name].partitions
    ends = admin.list_offsets({TopicPartition(name, number): OffsetSpec.latest() for number in partitions})
    return all(answer(reply, f"reading the end of {name}").offset == 0 for reply in ends.values())
