"""Topics on brokers that others own: each is noted before it is made, and keeps what it holds for an hour."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from confluent_kafka.admin import AdminClient

from perfgate.model import TopicSpec, settings
from perfgate.model.declared import topic_names
from perfgate.model.errors import TargetError, TopicRefusedError
from perfgate.model.target import Cluster
from perfgate.systems.attached.manifest import Manifest
from perfgate.systems.kafka.client.admin import topic_ids
from perfgate.systems.kafka.client.topics import Topics, is_answer

RETENTION_MS = 3_600_000
"""Should everything else fail, the brokers themselves drop what a run has written after an hour."""


class JournaledTopics(Topics):
    """Topics on brokers that are not ours: every one is noted before it is made."""

    def __init__(
        self, cluster: Cluster, manifest: Manifest, require: Callable[[AdminClient], None] = lambda _: None
    ) -> None:
        """`require` raises TargetError when a client talks with other brokers than those of the run."""
        super().__init__(cluster)
        self._manifest, self._require = manifest, require
        self._made: dict[str, int] = {}
        """How many topics there are of each name."""

    def create(self, name: str, spec: TopicSpec, progress: Callable[[str], None] = lambda _: None) -> None:
        """Create the topics with a retention of an hour. Raises TopicRefusedError, also when there is one already.

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
            if is_answer(refused.__cause__):  # else one may be there all the same, and is deleted in the end
                self._forget(name)
            raise
        ids = topic_ids(self._admin, names)
        for topic in names:
            self._manifest.made(topic, ids.get(topic, ""))

    def delete(self, name: str, count: int = 1, progress: Callable[[str], None] = lambda _: None) -> None:
        """Delete the topics, and the consumer groups named after them; one that is gone already is none."""
        self._require(self._admin)  # another cluster would say that it is gone
        super().delete(name, count, progress)
        with suppress(TargetError):  # a full disk keeps no other topic there
            self._forget(name, count)

    def _forget(self, name: str, count: int = 0) -> None:
        """Note that these topics are gone, or were never made. Raises TargetError."""
        for topic in topic_names(name, self._made.pop(name, count)):
            self._manifest.gone(topic)

    def delete_all(self) -> list[str]:
        """Delete what is still there of this run; return what could not be deleted, in words."""
        left = []
        for name, count in sorted(self._made.items()):
            try:
                self.delete(name, count)
            except Exception as error:  # whatever it is, the next one is tried
                left.append(f"topic {name} may still be there: {error}")
        return left
