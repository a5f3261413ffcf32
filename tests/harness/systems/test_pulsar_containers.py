"""Pulsar's containers target without an engine: what nodes are started with, and where each is reached."""

import math
import socket
from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock, Mock

import pytest

from perfgate.host import docker_engine
from perfgate.model import CROSS_ZONE, SAME_ZONE, ClusterSpec, settings
from perfgate.model.errors import BrokersFailedError, ConfigurationError
from perfgate.systems import own_containers
from perfgate.systems.pulsar.client.http import FailedRequestError
from perfgate.systems.pulsar.managed import own_cluster
from perfgate.systems.pulsar.managed.containers import ContainersCluster, ContainersTarget

SPEC = ClusterSpec(
    system="pulsar",
    bookies=3,
    config=settings({"managedLedgerCacheSizeMB": 8}),
    bookie_config=settings({"journalSyncData": "false"}),
    cpus_per_broker=1.5,
    memory_mib_per_broker=900,
)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[MagicMock]:
    """Return the containers that are made, each with the image that it is of as `image`."""
    found: list[MagicMock] = []

    def container(image: str) -> MagicMock:
        one = MagicMock(image=image, ports={})
        one.with_network.return_value = one
        found.append(one)
        return one

    monkeypatch.setattr(own_containers, "DockerContainer", container)
    monkeypatch.setattr(own_containers, "Network", Mock())
    return found


def cluster(tmp_path: Path, spec: ClusterSpec = SPEC, *, toxiproxy_image: str | None = None) -> ContainersCluster:
    return ContainersCluster(spec, logs=tmp_path, toxiproxy_image=toxiproxy_image)


def started(made: list[MagicMock], one: ContainersCluster, node: int) -> tuple[dict[str, str], MagicMock]:
    """Start a node; return its variables and its container."""
    one._spawn(node)
    made[-1].start.assert_called_once_with()
    return made[-1].with_envs.call_args.kwargs, made[-1]


def test_each_role_is_configured_by_variables_and_its_own_file(tmp_path: Path, made: list[MagicMock]) -> None:
    one = cluster(tmp_path)
    given, container = started(made, one, 2)
    assert container.image == "apachepulsar/pulsar:4.0.8"
    (command,) = container.with_command.call_args.args
    assert command == ["bash", "-c", "bin/apply-config-from-env.py conf/broker.conf && exec bin/pulsar broker"]
    assert given["PULSAR_PREFIX_managedLedgerCacheSizeMB"] == "8"
    assert given["PULSAR_PREFIX_metadataStoreUrl"] == "zk:metadata-store:2181"
    assert "-Xmx192m" in given["PULSAR_MEM"]
    assert container.with_kwargs.call_args.kwargs["nano_cpus"] == 1_500_000_000
    assert container.with_kwargs.call_args.kwargs["mem_limit"] == "900m"
    given, container = started(made, one, 12)
    assert "conf/bookkeeper.conf && exec bin/pulsar bookie" in container.with_command.call_args.args[0][-1]
    assert given["PULSAR_PREFIX_journalSyncData"] == "false"
    assert given["PULSAR_PREFIX_advertisedAddress"] == container.with_kwargs.call_args.kwargs["hostname"] == "bookie-12"
    assert ("BOOKIE_MEM" in given, "PULSAR_MEM" in given) == (True, False)
    assert "mem_limit" not in container.with_kwargs.call_args.kwargs, "bounds are the brokers'"
    given, container = started(made, one, 21)
    assert "conf/zookeeper.conf && exec bin/pulsar zookeeper" in container.with_command.call_args.args[0][-1]
    assert given["PULSAR_PREFIX_clientPort"] == "2181"


def test_options_of_a_run_go_to_the_brokers_java_beside_the_images_own(tmp_path: Path, made: list[MagicMock]) -> None:
    one = cluster(tmp_path, ClusterSpec(system="pulsar", bookies=1, jvm_options=("-XX:+UseParallelGC", "-Xmx1g")))
    given, _ = started(made, one, 1)
    assert given["PULSAR_EXTRA_OPTS"].endswith(" -XX:+UseParallelGC -Xmx1g")
    assert "exit_on_oom" in given["PULSAR_EXTRA_OPTS"], "the image's own are replaced by what is stated"
    assert given["PULSAR_GC"] == "-server", "a JVM with two collectors does not start"
    bookie, _ = started(made, one, 11)
    assert not {"PULSAR_EXTRA_OPTS", "PULSAR_GC"} & bookie.keys()


def test_ports_are_published_on_loopback_and_brokers_advertise_them(tmp_path: Path, made: list[MagicMock]) -> None:
    one = cluster(tmp_path, toxiproxy_image="toxiproxy:1")
    given, container = started(made, one, 1)
    listeners = dict(part.split(":", 1) for part in given["PULSAR_PREFIX_advertisedListeners"].split(","))
    assert list(listeners) == ["internal", "same-zone", "cross-zone"]
    assert listeners["internal"] == "pulsar://broker-1:6650"
    assert container.ports["6650/tcp"] == ("127.0.0.1", int(listeners["same-zone"].rpartition(":")[2]))
    assert {host for host, _ in container.ports.values()} == {"127.0.0.1"}
    assert listeners["same-zone"] in one.bootstrap(SAME_ZONE)
    assert one.bootstrap(SAME_ZONE).endswith("#same-zone"), "without it brokers give the names of their own network"
    address = listeners["cross-zone"].removeprefix("pulsar://")
    assert address in one.bootstrap(CROSS_ZONE)
    assert one.bootstrap(CROSS_ZONE).endswith("#cross-zone")
    assert one.admin.reached["broker-1:8080"] == f"127.0.0.1:{container.ports['8080/tcp'][1]}"


def test_a_broker_is_known_by_the_name_that_it_registered_under(tmp_path: Path, made: list[MagicMock]) -> None:
    one = cluster(tmp_path)
    assert [one._broker_of(name) for name in ("broker-1:8080", "broker-3.kpg-net:8080")] == [1, 3]
    addresses = one._broker_addresses()
    assert (addresses["broker-2:6650"], addresses["broker-2:8080"]) == (2, 2)


def test_brokers_that_do_not_list_one_another_yet_are_waited_for(tmp_path: Path, made: list[MagicMock]) -> None:
    """One that said that it was ready had an internal error then, and the start was BROKEN."""
    one = cluster(tmp_path)
    one._ready = set(one._nodes)
    failed = FailedRequestError("asking for the brokers", 500, "no session yet")
    names = [f"broker-{number}:8080" for number in (1, 2, 3)]
    one.admin = Mock(brokers=Mock(side_effect=[failed, names[:1], names]))
    assert one._not_ready() == "asking for the brokers: no session yet (HTTP 500)"
    assert one._not_ready() == "1 of 3 brokers are registered"
    assert one._not_ready() == ""


def test_a_bookie_that_ends_is_quoted_without_the_usage_that_it_prints_last(
    tmp_path: Path, made: list[MagicMock]
) -> None:
    one = cluster(tmp_path)
    _, container = started(made, one, 11)
    engines = container.get_wrapped_container.return_value
    engines.attrs = {"State": {"Running": False, "ExitCode": 2}}
    usage = "usage: BookieServer [options]\n" + " -c <arg>\n" * 30
    engines.logs.return_value = f"ERROR Malformed configuration file\n{usage}".encode()
    with pytest.raises(BrokersFailedError, match=r"bookie 11: its container ended with 2.*\nERROR Malformed[\w ]+$"):
        one.check()
    one.supervisor._checked = -math.inf
    one.faults.absent.add(11)
    one.check()


def test_what_containers_of_pulsar_need_is_asked_for_before_a_start(
    tmp_path: Path, memory: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(docker_engine, "have_images", lambda images, say, option: asked.extend([*images, option]))
    memory(1 << 14)
    target = ContainersTarget(log_folder=tmp_path, toxiproxy_image="toxiproxy:1", say=print, note=print)
    target.prepare([SPEC])
    assert asked == ["apachepulsar/pulsar:4.0.8", "toxiproxy:1", "--pulsar-image"]
    with pytest.raises(ConfigurationError, match=r"cluster\.security"):
        target.prepare([ClusterSpec(system="pulsar", bookies=3, security="tls")])
    memory(1 << 9)
    with pytest.raises(ConfigurationError, match="too little memory: Pulsar's nodes take about"):
        target.prepare([SPEC])


def test_room_is_asked_for_twice_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    monkeypatch.setattr(docker_engine, "check_room", lambda needed, note: asked.append(needed))
    ContainersTarget(log_folder=tmp_path, toxiproxy_image=None, say=print, note=print).check_room(1e9, 5e9)
    assert asked == [2e9]


def test_a_metadata_store_serves_once_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A published port takes connections before the store does: the engine's proxy listens there."""
    answers = [b"", b"Zookeeper version: 3.9.3\nMode: standalone\n"]

    def connection(*_: object, **__: object) -> MagicMock:
        one = MagicMock()
        one.__enter__.return_value.recv.side_effect = [answers.pop(0), b""]
        return one

    monkeypatch.setattr(socket, "create_connection", connection)
    assert [own_cluster.serves(1), own_cluster.serves(1)] == [False, True]
    monkeypatch.setattr(socket, "create_connection", Mock(side_effect=ConnectionRefusedError))
    assert not own_cluster.serves(1)
