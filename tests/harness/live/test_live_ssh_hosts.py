"""The gate with --hosts FILE.toml: over ssh from three network namespaces, against brokers with TLS and SCRAM.

The brokers listen on the bridge that joins the namespaces. The third namespace is another zone; nothing is emulated,
and its link is as long as the others, because this kernel adds no delay.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfgate.host.ports import HOST
from perfgate.load.boot import LOCK
from perfgate.load.file_hosts import file_hosts
from perfgate.load.hosts_file import load_hosts_file
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from tests.harness.live.test_live_brokers import own_state, topics
from tests.harness.load.fake_generator import FAKE, SPEC, observer
from tests.harness.load.test_ssh_hosts import agents, gone
from tests.harness.namespaces import ROOT, Namespaces, namespaces, need_namespaces
from tests.harness.run_gate import gate
from tests.harness.secured import Secured, SecuredCluster, certificate, secured

__all__ = ["own_state"]
pytestmark = pytest.mark.slow
PAPER = ("batch-1k", "batch-16k", "replicas-3", "acks-all", "cross-az")
ROWS = (*PAPER, "end-to-end-1k", "paced-500")
ALL_ROWS_S = 3600


@pytest.fixture(scope="module")
def spaces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Namespaces]:
    need_namespaces()
    with namespaces(tmp_path_factory.mktemp("namespaces"), 3) as made:
        yield made


@pytest.fixture(scope="module")
def brokers(spaces: Namespaces, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Three brokers whose listener for clients is on the bridge."""

    class Bridged(SecuredCluster):
        def secured(self, listener: str) -> str:
            return super().secured(listener).replace(HOST, spaces.bridge)

        def _node_properties(self, node: int) -> str:
            everywhere = {"listeners": "0.0.0.0", "advertised.listeners": spaces.bridge}  # noqa: S104 - loopback too
            lines = [line.partition("=") for line in super()._node_properties(node).splitlines()]
            return "".join(
                f"{name}={value.replace(f'SAMEZONE://{HOST}:', f'SAMEZONE://{everywhere.get(name, HOST)}:')}\n"
                for name, _, value in lines
            )

    folder = tmp_path_factory.mktemp("brokers")
    store = certificate(folder, "broker", san=f"ip:{spaces.bridge},ip:{HOST},dns:localhost")
    with secured(folder, brokers=3, store=store, kind=Bridged) as made:
        yield made


def test_the_gate_on_three_hosts_over_ssh(spaces: Namespaces, brokers: Secured, tmp_path: Path) -> None:
    zones = {1: "az-1", 2: "az-1", 3: "az-2"}
    hosts = spaces.file(*(spaces.host(n, zone=zone) for n, zone in zones.items()), top='brokers_zone = "az-1"\n')
    done = gate(
        tmp_path / "results",
        "tests/scenarios",
        "-k",
        f"({' or '.join(ROWS)}) and not cross-az-",
        f"--target={brokers.target_file(tmp_path)}",
        f"--hosts={hosts}",
        "--set=producers.processes=2",
        "--rounds=2",
        "--window=4",
        "--broker-warmup=30",
        "--relations-only",
        within_s=ALL_ROWS_S,
    )
    assert done.measured, done.output
    assert sorted(entry["name"] for entry in done.run["scenarios"]) == sorted(ROWS), done.output
    assert done.run["target"]["load_hosts"]["zones"] == {"load-1": "az-1", "load-2": "az-1", "load-3": "az-2"}
    for entry in done.run["scenarios"]:
        accounting, name = entry["accounting"], entry["name"]
        assert accounting["acked"] == accounting["offset_delta"] > 0, name
        assert accounting["failed"] == accounting["unresolved"] == 0, name
        assert accounting["attempted"] == accounting["acked"] + accounting["withdrawn"], name
        used = {host["name"] for one in entry["rounds"] for host in one["hosts"]}
        assert used == ({"load-3"} if name == "cross-az" else {"load-1", "load-2"}), name
        for one in entry["rounds"]:
            assert all(host["started_late_ms"] > -5 for host in one["hosts"]), name
        print(name, entry["rtt_ms"], {m: v["value"] for m, v in entry["metrics"].items() if "per_s" in m or "p50" in m})
    assert 0 < done.scenario("cross-az")["link"]["rtt_ms"] < 100
    assert topics(brokers) == []
    assert gone(agents(), 15)


INSTALLED = f"""
import perfgate
from perfgate.systems.kafka.load import consuming, producing, transactions, worker
assert "kafka-perf-gate/hosts" in perfgate.__file__, perfgate.__file__
{FAKE}"""
"""A generator that needs no cluster, once it has what a real one imports."""


def test_the_suite_installs_itself_on_a_host_once(spaces: Namespaces, tmp_path: Path) -> None:
    """Namespaces have no way to a registry: pip on the host is given a folder of wheels, whose hashes it holds."""
    wheels, cache, python = tmp_path / "wheels", tmp_path / "cache", tmp_path / "python"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "-r", str(ROOT / LOCK)]
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
        pytest.raises(ConfigurationError, match=rf"--hosts: load-1 \(.*\): installing {LOCK} failed: .*No matching"),
        file_hosts(load_hosts_file(spaces.file(there, name="fails.toml"))),
    ):
        pass
    assert list((cache / "kafka-perf-gate" / "hosts").iterdir()) == []
