"""Pulsar's containers target without an engine: what nodes are started with, and where each is reached."""

import math
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock, Mock

import pytest

from perfgate.model import CROSS_ZONE, SAME_ZONE, ClusterSpec, settings
from perfgate.model.errors import BrokersFailedError, ConfigurationError
from perfgate.systems import own_containers
from perfgate.systems.pulsar.client.http import FailedRequestError
from perfgate.systems.pulsar.managed import own_cluster
from perfgate.systems.pulsar.managed.containers import ContainersCluster, ContainersTarget
from tests.harness.build.docker import FakeDocker

SPEC = ClusterSpec(
    system="pulsar",
    bookies=3,
    config=settings({"managedLedgerCacheSizeMB": 8}),
    bookie_config=settings({"journalSyncData": "false"}),
    cpus_per_broker=1.5,
    memory_mib_per_broker=900,
)


@pytest.fixture
def made(fake_docker: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> list[MagicMock]:
    """Return the containers that are made, each with the image that it is of as `image`."""
    found: list[MagicMock] = []

    def container(image: str) -> MagicMock:
        one = MagicMock(image=image, ports={})
        one.with_network.return_value = one
        found.append(one)
        return one

    monkeypatch.setattr(own_containers, "DockerContainer", container)
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
    tmp_path: Path, memory: Callable[..., None], fake_docker: FakeDocker
) -> None:
    memory(1 << 14)
    target = ContainersTarget(log_folder=tmp_path, toxiproxy_image="toxiproxy:1", say=print, note=print)
    target.prepare([SPEC])
    assert fake_docker.pulled == ["apachepulsar/pulsar:4.0.8", "toxiproxy:1"]
    target.prepare([SPEC])
    assert len(fake_docker.pulled) == 2, "once"
    fake_docker.images.clear()
    fake_docker.registry_answers = False
    with pytest.raises(ConfigurationError, match="no route to the registry; name another with --pulsar-image"):
        target.prepare([SPEC])
    with pytest.raises(ConfigurationError, match=r"cluster\.security"):
        target.prepare([ClusterSpec(system="pulsar", bookies=3, security="tls")])
    memory(1 << 9)
    with pytest.raises(ConfigurationError, match="too little memory: Pulsar's nodes take about"):
        target.prepare([SPEC])


@pytest.mark.usefixtures("fake_docker")
def test_room_is_asked_for_twice_what_is_written(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    target = ContainersTarget(log_folder=tmp_path, toxiproxy_image=None, say=print, note=print)
    target.check_room(0.3 * free, math.inf)
    with pytest.raises(ConfigurationError, match="too little disk"):
        target.check_room(0.7 * free, 0.0)


@pytest.mark.parametrize(
    ("answer", "serves"),
    [(b"", False), (b"Zookeeper version: 3.9.3\nMode: standalone\n", True), (b"This node is not serving\n", False)],
)
def test_a_metadata_store_serves_once_it_answers(answer: bytes, serves: bool) -> None:
    """A published port takes connections before the store does: the engine's proxy listens there."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as store:

        def serve() -> None:
            connection, _ = store.accept()
            with connection:
                asked.append(connection.recv(16))
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert own_cluster.serves(store.getsockname()[1]) is serves
        thread.join()
    assert asked == [b"srvr"]


def test_no_metadata_store_serves_where_nothing_listens() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        assert not own_cluster.serves(closed.getsockname()[1])
