"""Fixtures of real brokers."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from perfgate.model import MIB, ClusterSpec, settings
from perfgate.systems.attached.manifest import Manifest
from perfgate.systems.kafka.attached import cluster as cluster_module
from perfgate.systems.kafka.attached.cluster import ExternalCluster
from perfgate.systems.kafka.attached.described import load_target
from tests.harness.build.clock import Clock
from tests.harness.build.real_brokers import BROKERS, FILE, Broker


@pytest.fixture
def broker(admin_by: Callable[[Callable[[], object]], None]) -> Broker:
    """Real brokers, as every admin client of Kafka asks them."""
    found = Broker()
    admin_by(lambda: found)
    return found


@pytest.fixture
def cluster(
    tmp_path: Path, broker: Broker, clock: Clock, unwell_by: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., ExternalCluster]]:
    """Return a function that makes a cluster whose file has these fault commands, with settings applied."""
    unwell_by(lambda *_: "")
    up = lambda address, _client: "c" * (tmp_path / f"up-{address.removeprefix('kafka-')[0]}").exists()  # noqa: E731
    monkeypatch.setattr(cluster_module, "cluster_id_at", up)
    manifests: list[Manifest] = []

    def make(faults: str = "", config: dict[str, object] | None = None) -> ExternalCluster:
        path = tmp_path / "target.toml"
        path.write_text(FILE + (f"[faults]\n{faults}\n" if faults else ""))
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
def memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that leaves so many MiB of this machine's memory available."""
    return lambda mib: monkeypatch.setattr(psutil, "virtual_memory", lambda: Mock(available=mib * MIB))


@pytest.fixture
def unwell_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., str]], None]:
    """Return a function that lets clusters say what is wrong with them by the function that it is given."""
    return partial(monkeypatch.setattr, cluster_module, "unwell")
