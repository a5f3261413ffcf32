"""Topics on brokers that others own: each is noted before it is made, and keeps what it holds for an hour."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from confluent_kafka.admin import AdminClient

from perfgate.model import TopicSpec, settings
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
        self._made: set[str] = set()

    def create(self, name: str, spec: TopicSpec) -> None:
        """Create the topic with a retention of an hour. Raises TopicRefusedError, also when there is one already.

        Raises TargetError where it cannot be noted, and where other brokers than the run's would be asked.
        """
        retention = settings({"retention.ms": RETENTION_MS, **dict(spec.config)})
        self._require(self._admin)
        self._manifest.plans(name)
        self._made.add(name)
        try:
            super().create(name, replace(spec, config=retention))
        except TopicRefusedError as refused:
            if is_answer(refused.__cause__):  # else it may be there all the same, and is deleted in the end
                self._made.discard(name)
                self._manifest.gone(name)
            raise
        self._manifest.made(name, topic_ids(self._admin, [name]).get(name, ""))

    def delete(self, name: str) -> None:
        """Delete the topic, and the consumer groups named after it; one that is gone already is none."""
        self._require(self._admin)  # another cluster would say that it is gone
        super().delete(name)
        self._made.discard(name)
        with suppress(TargetError):  # a full disk keeps no other topic there
            self._manifest.gone(name)

    def delete_all(self) -> list[str]:
        """Delete what is still there of this run; return what could not be deleted, in words."""
        left = []
        for name in sorted(self._made):
            try:
                self.delete(name)
            except Exception as error:  # whatever it is, the next one is tried
                left.append(f"topic {name} may still be there: {error}")
        return left
