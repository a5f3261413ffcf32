"""Real brokers that a target file names, and fakes of their settings."""

from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import Mock

from perfgate.model.errors import TargetError
from perfgate.systems.kafka.attached.described import load_target
from perfgate.systems.kafka.attached.external import ExternalTarget

FILE = 'bootstrap-servers = "kafka-1:9093"\n[limits]\nbytes = "1 GB"\nmib-per-s = 5\n'
BROKERS = {1: "kafka-1:9093", 2: "kafka-2:9093"}
KNOWN = {
    "num.io.threads": Mock(is_read_only=False, is_sensitive=False),
    "num.partitions": Mock(is_read_only=True, is_sensitive=False),
}
"""The settings that the brokers know."""


class Broker:
    """Stands in for the brokers' settings; some can be made to fail."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], str | None] = {}
        self.fail: set[tuple[str, str]] = set()
        self.error: Callable[[str], Exception] = lambda broker: TargetError(f"broker {broker} does not answer")
        """Of the number of a broker that is to fail."""
        self.deaf = False
        """Whether a change is answered and not made."""

    def get(self, _admin: object, broker: str, name: str) -> str | None:
        if (broker, name) in self.fail:
            raise self.error(broker)
        return self.values.get((broker, name))

    def set(self, _admin: object, broker: str, name: str, value: str | None, _effective: str = "") -> None:
        if (broker, name) in self.fail:
            raise self.error(broker)
        if not self.deaf:
            self.values[broker, name] = value


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "m").glob("*.jsonl"))


def target(tmp_path: Path, notes: list[str]) -> ExternalTarget:
    path = tmp_path / "target.toml"
    path.write_text(FILE)
    described = load_target(path, lambda stores: {})
    return ExternalTarget(described, run_id="r", manifests=tmp_path / "m", note=notes.append)


def partition(leader: int, isrs: Sequence[int], replicas: Sequence[int] = (1, 2, 3)) -> Mock:
    return Mock(leader=leader, isrs=list(isrs), replicas=list(replicas))
