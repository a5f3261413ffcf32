"""The namespace of a run on brokers of other owners: noted before it is created, marked, removed with its topics.

Its mark is a property with a unique number, so that neither a namespace of the same name nor another cluster is taken
for it. Should everything else fail, the brokers themselves drop a run's messages after an hour.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from perfgate.host.waiting import NotYet, poll_until
from perfgate.model import TopicSpec
from perfgate.model.errors import TargetError
from perfgate.systems.attached.cluster import OtherClusterError
from perfgate.systems.attached.manifest import Manifest
from perfgate.systems.pulsar.client.admin import CONFLICT, NOT_FOUND, Admin, TopicName
from perfgate.systems.pulsar.client.http import FailedRequestError, RefusedError
from perfgate.systems.pulsar.client.topics import Topics

PROPERTY = "kafka-perf-gate"
KEPT_S = 3600
BUNDLES_PER_BROKER, FEWEST_BUNDLES = 4, 12
"""With 12 bundles three partitions had three of three brokers as owners (tried on 4.0.8)."""
GONE_WITHIN_S, ASK_EVERY_S = 30.0, 0.2
MOST_QUOTA = 2**62
"""Bytes, for a file's infinite limit."""


class OwnNamespace:
    def __init__(self, admin: Admin, name: str, manifest: Manifest, *, most_bytes: float, brokers: int = 0) -> None:
        """`name`: tenant/namespace; `most_bytes` of each of its topics; `brokers`: their number, 0 where not known."""
        self._admin, self.name, self._manifest = admin, name, manifest
        self._most_bytes, self._brokers = most_bytes, brokers
        self.id = uuid.uuid4().hex
        self._requested = self._answered = False

    def make(self) -> None:
        """Note it, then create it. Raises TargetError where noting it fails, RefusedError with the brokers' reason."""
        self._manifest.made(self.name, self.id)
        self._requested = True
        try:
            self._admin.create_namespace(self.name, self._policies())
        except RefusedError:
            self._requested = False
            with suppress(TargetError):
                self._manifest.gone(self.name)
            raise
        self._answered = True

    def require_same(self, admin: Admin | None = None) -> None:
        """Raise OtherClusterError where the brokers that `admin` asks answer that they do not have it."""
        if self._requested and (difference := not_the_same(admin or self._admin, self.name, self.id)):
            raise OtherClusterError(difference)

    def is_at(self, url: str) -> bool:
        """Whether the broker at a base URL has it, as far as it answers: one of another cluster has not."""
        return not (self._requested and not_the_same(self._admin, self.name, self.id, url))

    def remove(self) -> None:
        """Delete it with all its topics; without an answer to the request it may not exist. Raises TargetError."""
        if self._requested and (self._answered or self._admin.properties(self.name) is not None):
            self.require_same()
            remove(self._admin, self.name)
        self._requested = False
        with suppress(TargetError):  # on a full disk the note stays, and nothing else
            self._manifest.gone(self.name)

    def _policies(self) -> dict[str, object]:
        quota = {"limitSize": int(min(self._most_bytes, MOST_QUOTA)), "limitTime": -1, "policy": "producer_exception"}
        return {
            "properties": {PROPERTY: self.id},
            "bundles": {"numBundles": max(FEWEST_BUNDLES, BUNDLES_PER_BROKER * self._brokers)},
            "message_ttl_in_seconds": KEPT_S,
            "retention_policies": {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0},
            "backlog_quota_map": {"destination_storage": quota},
            "inactive_topic_policies": {
                "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up",
                "maxInactiveDurationSeconds": KEPT_S,
                "deleteWhileInactive": True,
            },
            "autoTopicCreationOverride": {"allowAutoTopicCreation": False},
        }


def not_the_same(admin: Admin, name: str, id_: str, at: str = "") -> str:
    """The reason why the brokers' namespace of this name has not this id; empty: it has, or no answer came."""
    try:
        properties = admin.properties(name, at)
    except TargetError:
        return ""
    if properties is None:
        return (
            f"{at or 'the brokers'} do not have namespace {name}, which the run made: somebody deleted it, or the "
            "names of the servers lead to another cluster now"
        )
    if properties.get(PROPERTY) == id_:
        return ""
    return f"namespace {name} of {at or 'the brokers'} is not the one that the run made"


def remove(admin: Admin, name: str) -> None:
    """Delete a namespace, if it exists, and all its topics. Raises TargetError."""

    def gone() -> None:
        try:
            for topic in admin.topics(name):
                admin.delete_topic(TopicName.of(topic))
            for topic in admin.loose_topics(name):
                admin.delete_loose_topic(TopicName.of(topic))
            admin.delete_namespace(name)
        except RefusedError as refused:
            if refused.status == NOT_FOUND:
                return
            if refused.status != CONFLICT:
                raise
            raise NotYet(str(refused)) from refused
        except FailedRequestError as failed:  # its topics' ledgers are still being deleted
            raise NotYet(str(failed)) from failed

    poll_until(f"namespace {name} could not be deleted", gone, within_s=GONE_WITHIN_S, every_s=ASK_EVERY_S)


class TopicsOfRun(Topics):
    """Topics in the run's own namespace; see :class:`Topics`. None is touched on brokers of another cluster."""

    def __init__(
        self, check: Callable[[], None], admin: Admin, brokers: dict[str, int], require: Callable[[], None]
    ) -> None:
        """`brokers`: ids by host:port; `require` raises TargetError when the brokers are not those of the run."""
        super().__init__(check, admin, partial(dict, brokers))
        self._require = require

    def create(self, name: str, spec: TopicSpec, progress: Callable[[str], None] = lambda _: None) -> None:
        self._require()
        super().create(name, spec)

    def reuse(self, name: str, spec: TopicSpec) -> None:
        self._require()
        super().reuse(name, spec)

    def leaders(self, name: str, count: int = 1) -> tuple[int, ...]:
        if not self._brokers():  # the role is no superuser
            raise TargetError("which brokers there are is not known")
        return super().leaders(name)

    def delete(self, name: str, count: int = 1, progress: Callable[[str], None] = lambda _: None) -> None:
        self._require()  # another cluster would report that it is gone
        super().delete(name)
