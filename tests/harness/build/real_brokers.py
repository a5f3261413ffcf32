"""Real brokers that a target file names, and fakes of them, as an admin client asks them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ConfigSource, NewTopic

from perfgate.model.errors import TargetError
from perfgate.systems.kafka.attached.described import load_target
from perfgate.systems.kafka.attached.external import ExternalTarget

FILE = 'bootstrap-servers = "kafka-1:9093"\n[limits]\nbytes = "1 GB"\nmib-per-s = 5\n'
NO_TOPIC = KafkaError.UNKNOWN_TOPIC_OR_PART
BROKERS = {1: "kafka-1:9093", 2: "kafka-2:9093"}


def answered(value: object) -> Mock:
    """Return a request's future that has this value already."""
    return Mock(result=Mock(return_value=value))


def refused(code: int) -> Mock:
    """Return a request's future that the brokers, or the client, ended with this error."""
    return Mock(result=Mock(side_effect=KafkaException(KafkaError(code))))


class Broker:
    """Brokers as an admin client asks them; some can be made to fail. Settings are 8 where none is set."""

    def __init__(self) -> None:
        self.cluster_id: str | None = "c"
        self.ids: Mapping[str, str] = {}
        """Other ids of clusters, by the server that tells them."""
        self.silent: Callable[[str], bool] = lambda server: False
        """Whether no request to a server is answered."""
        self.counted: Callable[[], Sequence[int]] = lambda: [*BROKERS]
        """The brokers that take part."""
        self.missing: set[int] = set()
        """Brokers whose replicas of the one topic, which all three have, are not in sync."""
        self.requests: list[str] = []
        """What was asked for, and changed, in the words of the client."""
        self.read_only = {"num.io.threads": False, "num.partitions": True}
        """The settings that the brokers know, and whether a start alone changes them."""
        self.values: dict[tuple[str, str], str | None] = {}
        """Those that are set, by broker and name."""
        self.looks: Iterator[str] = iter(())
        """What broker 1 says at first that they are, whatever they are."""
        self.fail: set[str] = set()
        """The brokers that fail when they are asked for settings, or to change one."""
        self.error: Callable[[str], Exception] = lambda broker: TargetError(f"broker {broker} does not answer")
        self.deaf = False
        """Whether a change is answered and not made."""
        self.list_topics: Any = self.topics
        self.describe_topics: Any = self._described
        self._made: set[str] = set()

    @property
    def admin(self) -> Any:
        """The same, as code takes it."""
        return self

    def at(self, servers: str) -> Any:
        """The same, as code takes it that asks these servers (host:port, ...)."""
        return _Servers(self, servers)

    def describe_cluster(self, request_timeout: float) -> Mock:
        return self.described_by("")

    def described_by(self, server: str) -> Mock:
        nodes = [Mock(id=one, host=f"kafka-{one}", port=9093, rack=None) for one in self.counted()]
        return answered(Mock(cluster_id=self.ids.get(server, self.cluster_id), nodes=nodes))

    def topics(self, topic: str | None = None, timeout: float = 0.0) -> Mock:
        """The metadata of all topics."""
        self.requests.append("list_topics")
        in_sync = [broker for broker in (1, 2, 3) if broker not in self.missing]
        held = partition(in_sync[0] if in_sync else -1, in_sync)
        return Mock(cluster_id=self.cluster_id, topics={"t": Mock(partitions={0: held})})

    def create_topics(
        self, topics: Sequence[NewTopic], request_timeout: float, validate_only: bool = False
    ) -> dict[str, Mock]:
        names = [topic.topic for topic in topics]
        if not validate_only:
            self._made |= {*names}
        return {name: answered(None) for name in names}

    def delete_topics(self, names: Sequence[str], request_timeout: float) -> dict[str, Mock]:
        there, self._made = self._made, self._made - {*names}
        return {name: answered(None) if name in there else refused(NO_TOPIC) for name in names}

    def list_consumer_groups(self, request_timeout: float) -> Mock:
        return answered(Mock(valid=[]))

    def _described(self, topics: TopicCollection, **_: object) -> dict[str, Mock]:
        known = answered(Mock(topic_id="id-1", authorized_operations=None))
        names: list[str] = topics.topic_names
        return {name: known if name in self._made else refused(NO_TOPIC) for name in names}

    def describe_configs(
        self, resources: Sequence[ConfigResource], request_timeout: float
    ) -> dict[ConfigResource, Mock]:
        (resource,) = resources
        self._perhaps_fail(resource.name)
        return {resource: answered({name: self._entry(resource.name, name) for name in self.read_only})}

    def incremental_alter_configs(
        self, resources: Sequence[ConfigResource], request_timeout: float
    ) -> dict[ConfigResource, Mock]:
        (resource,) = resources
        (entry,) = resource.incremental_configs
        self.requests.append(f"incremental_alter_configs {entry.name}")
        self._perhaps_fail(resource.name)
        if not self.deaf:
            self.values[resource.name, entry.name] = entry.value
        return {resource: answered(None)}

    def _entry(self, broker: str, name: str) -> Mock:
        own = self.values.get((broker, name))
        if broker == "1":
            own = next(self.looks, own)
        source = ConfigSource.DEFAULT_CONFIG if own is None else ConfigSource.DYNAMIC_BROKER_CONFIG
        return Mock(value=own or "8", source=source.value, is_sensitive=False, is_read_only=self.read_only[name])

    def _perhaps_fail(self, broker: str) -> None:
        if broker in self.fail:
            raise self.error(broker)


class _Servers:
    """An admin client of these servers."""

    def __init__(self, brokers: Broker, servers: str) -> None:
        self._brokers, self._servers = brokers, servers

    def describe_cluster(self, request_timeout: float) -> Mock:
        self._brokers.requests.append(f"describe_cluster {self._servers}")
        silent = self._brokers.silent(self._servers)
        return refused(KafkaError._TIMED_OUT) if silent else self._brokers.described_by(self._servers)

    def __getattr__(self, name: str) -> Any:
        if self._brokers.silent(self._servers):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return getattr(self._brokers, name)


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "m").glob("*.jsonl"))


def target(tmp_path: Path, notes: list[str], *, unhealthy_is_fine: bool = False) -> ExternalTarget:
    path = tmp_path / "target.toml"
    path.write_text(FILE)
    described = load_target(path, lambda stores: {})
    return ExternalTarget(
        described, run_id="r", manifests=tmp_path / "m", note=notes.append, unhealthy_is_fine=unhealthy_is_fine
    )


def partition(leader: int, isrs: Sequence[int], replicas: Sequence[int] = (1, 2, 3)) -> Mock:
    return Mock(leader=leader, isrs=list(isrs), replicas=list(replicas))
