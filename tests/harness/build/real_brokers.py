"""Real brokers that a target file names, and fakes of their settings."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

from confluent_kafka.admin import ConfigResource, ConfigSource

from perfgate.model.errors import TargetError
from perfgate.systems.kafka.attached.described import load_target
from perfgate.systems.kafka.attached.external import ExternalTarget

FILE = 'bootstrap-servers = "kafka-1:9093"\n[limits]\nbytes = "1 GB"\nmib-per-s = 5\n'
BROKERS = {1: "kafka-1:9093", 2: "kafka-2:9093"}


def answered(value: object) -> Mock:
    """Return a request's future that has this value already."""
    return Mock(result=Mock(return_value=value))


class Broker:
    """Brokers as an admin client asks them for settings, which are 8 where none is set; some can be made to fail."""

    def __init__(self) -> None:
        self.cluster_id = "c"
        self.read_only = {"num.io.threads": False, "num.partitions": True}
        """The settings that the brokers know, and whether a start alone changes them."""
        self.values: dict[tuple[str, str], str | None] = {}
        """Those that are set, by broker and name."""
        self.looks: Iterator[str] = iter(())
        """What broker 1 says at first that they are, whatever they are."""
        self.fail: set[str] = set()
        """The brokers that do."""
        self.error: Callable[[str], Exception] = lambda broker: TargetError(f"broker {broker} does not answer")
        self.deaf = False
        """Whether a change is answered and not made."""
        self.list_topics: Any = None
        self.describe_topics: Any = None

    @property
    def admin(self) -> Any:
        """The same, as code takes it."""
        return self

    def describe_cluster(self, request_timeout: float) -> Mock:
        return answered(Mock(cluster_id=self.cluster_id))

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


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "m").glob("*.jsonl"))


def target(tmp_path: Path, notes: list[str]) -> ExternalTarget:
    path = tmp_path / "target.toml"
    path.write_text(FILE)
    described = load_target(path, lambda stores: {})
    return ExternalTarget(described, run_id="r", manifests=tmp_path / "m", note=notes.append)


def partition(leader: int, isrs: Sequence[int], replicas: Sequence[int] = (1, 2, 3)) -> Mock:
    return Mock(leader=leader, isrs=list(isrs), replicas=list(replicas))
