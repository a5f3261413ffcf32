"""The gate with --hosts FILE.toml: over ssh from three network namespaces, against brokers with TLS and SCRAM."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfgate.load.hosts_file import load_hosts_file
from perfgate.load.ssh_hosts import LOCK, file_hosts
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from tests.harness.build.generators import SPEC, observer
from tests.harness.live.many_hosts import LONG, TOP, ZONES, bridged, hold_the_gate_on_hosts
from tests.harness.live.real_brokers import own_state
from tests.harness.load.fake_generator import FAKE
from tests.harness.load.test_ssh_hosts import agents, gone
from tests.harness.namespaces import Namespaces, namespaces, need_namespaces
from tests.harness.secured import Secured

__all__ = ["own_state"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def spaces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Namespaces]:
    need_namespaces()
    with namespaces(tmp_path_factory.mktemp("namespaces"), 3) as made:
        yield made


@pytest.fixture(scope="module")
def brokers(spaces: Namespaces, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with bridged(spaces, tmp_path_factory.mktemp("brokers")) as made:
        yield made


def test_the_gate_on_three_hosts_over_ssh(
    spaces: Namespaces, brokers: Secured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = spaces.file(*(spaces.host(n, zone=zone) for n, zone in ZONES.items()), top=TOP)
    hold_the_gate_on_hosts(hosts, brokers, tmp_path, capsys, os.environ.get(LONG, ""), plain=False)
    assert gone(agents(), 15)


INSTALLED = f"""
import perfgate
from perfgate.load import worker
from perfgate.systems.kafka.load import clients
assert "kafka-perf-gate/hosts" in perfgate.__file__, perfgate.__file__
{FAKE}"""
"""A generator that needs no cluster, once it has what a real one imports."""


def test_the_suite_installs_itself_on_a_host_once(spaces: Namespaces, tmp_path: Path) -> None:
    """Namespaces have no way to a registry: pip on the host is given a folder of wheels, whose hashes it holds."""
    wheels, cache, python = tmp_path / "wheels", tmp_path / "cache", tmp_path / "python"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "-r", str(LOCK)]
    subprocess.run([*pip, "-d", wheels], check=True, timeout=900)
    python.write_text(f'#!/bin/sh\nXDG_CACHE_HOME={cache} exec {sys.base_prefix}/bin/python3 "$@"\n')
    python.chmod(0o755)
    options = ["--no-index", f"--find-links={wheels}"]
    there = spaces.host(1, folder=None, install=True, python=str(python), pip_options=options)
    path, said = spaces.file(there, name="install.toml"), list[str]()
    for _ in range(2):
        with file_hosts(load_hosts_file(path), worker=("-c", INSTALLED), say=said.append) as transport:
            result = LibrdkafkaDriver(transport).run(SPEC, observer([]))
        assert result.sent is not None
        assert result.sent.acked == result.sent.attempted == 10
        assert gone(agents(), 15)
        assert said == ["installing on load host load-1"], "once, and the second time it is there"
    (made,) = (cache / "kafka-perf-gate" / "hosts").iterdir()
    assert (made / "complete").exists()
    assert not (made / ".git").exists()


def test_an_installation_that_fails_is_one_clear_error_and_leaves_nothing(spaces: Namespaces, tmp_path: Path) -> None:
    cache, python = tmp_path / "cache", tmp_path / "python"
    python.write_text(f'#!/bin/sh\nXDG_CACHE_HOME={cache} exec {sys.base_prefix}/bin/python3 "$@"\n')
    python.chmod(0o755)
    there = spaces.host(1, folder=None, install=True, python=str(python), pip_options=["--no-index"])
    with (
        pytest.raises(
            ConfigurationError, match=rf"--hosts: load-1 \(.*\): installing {LOCK.name} failed: .*No matching"
        ),
        file_hosts(load_hosts_file(spaces.file(there, name="fails.toml"))),
    ):
        pass
    assert list((cache / "kafka-perf-gate" / "hosts").iterdir()) == []
