"""Fixtures of real brokers, and of what a machine has that starts some: memory, a Java, a Docker engine."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from perfgate.host import machine_use
from perfgate.model import MIB, ClusterSpec, settings
from perfgate.systems.attached.manifest import Manifest
from perfgate.systems.kafka.attached.cluster import ExternalCluster
from perfgate.systems.kafka.attached.described import load_target
from tests.harness.build.clock import Clock
from tests.harness.build.docker import FakeDocker, engine
from tests.harness.build.java import FakeJava
from tests.harness.build.real_brokers import BROKERS, FILE, Broker


@pytest.fixture
def broker(admin_at: Callable[[Callable[[str], object]], None]) -> Broker:
    """Real brokers, as every admin client of Kafka asks them."""
    found = Broker()
    admin_at(found.at)
    return found


@pytest.fixture
def cluster(tmp_path: Path, broker: Broker, clock: Clock) -> Iterator[Callable[..., ExternalCluster]]:
    """Return a function that makes a cluster whose file has these fault commands and limits, with settings applied.

    Its file names a server that always answers. The brokers' own addresses do once there is a file up-1 or up-2.
    """
    up = {address: tmp_path / f"up-{number}" for number, address in BROKERS.items()}
    broker.silent = lambda server: server in up and not up[server].exists()
    manifests: list[Manifest] = []

    def make(faults: str = "", config: dict[str, object] | None = None, limits: str = "") -> ExternalCluster:
        path = tmp_path / "target.toml"
        text = f"{FILE.replace(BROKERS[1], 'kafka:9093')}{limits}\n"
        path.write_text(text + (f"[faults]\n{faults}\n" if faults else ""))
        described = load_target(path, lambda stores: {})
        spec = ClusterSpec(config=settings(config or {}))
        manifests.append(Manifest(tmp_path / "m", cluster_id="c", run_id="r"))
        made = ExternalCluster(spec, described, manifests[-1], brokers=BROKERS, facts={})
        made.apply_settings()
        return made

    yield make
    for manifest in manifests:
        manifest.close()


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that leaves this many MiB of memory available here, and `group_mib` to this process."""

    def leave(mib: float, group_mib: float | None = None) -> None:
        monkeypatch.setattr(psutil, "virtual_memory", lambda: Mock(available=mib * MIB))
        room = None if group_mib is None else group_mib * MIB
        monkeypatch.setattr(machine_use, "room_of", lambda cgroup, read: room)

    return leave


@pytest.fixture
def fake_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeJava:
    """The Java that JAVA_HOME names."""
    made = FakeJava(tmp_path / "jdk")
    monkeypatch.setenv("JAVA_HOME", str(made.home))
    return made


@pytest.fixture
def fake_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDocker]:
    """The Docker engine of this machine."""
    made = FakeDocker(tmp_path)
    short = tempfile.TemporaryDirectory(prefix="docker-", dir="/tmp")  # a path of 107 bytes at most
    with short as folder, engine(made, socket := Path(folder) / "engine"):
        monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
        yield made
