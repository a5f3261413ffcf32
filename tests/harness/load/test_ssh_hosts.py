"""Hosts of a file: agents started over real ssh connections to network namespaces, each with an sshd of its own."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from perfgate.load import agent as agent_module
from perfgate.load import remote
from perfgate.load.hosts import DaskTransport
from perfgate.load.hosts_file import load_hosts_file
from perfgate.load.processes import Generators
from perfgate.load.scheduler import certificate_and_key, client_of, security
from perfgate.load.ssh_hosts import file_hosts
from perfgate.model import CROSS_ZONE, SAME_ZONE
from perfgate.model.errors import ConfigurationError
from perfgate.model.load import LoadError, LoadResult
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from tests.harness.build.generators import SPEC, observer
from tests.harness.load.fake_generator import STAYS, WORKER
from tests.harness.namespaces import ROOT, Namespaces, namespaces, need_namespaces
from tests.harness.run_gate import hear_interrupts

TOP = 'brokers_zone = "az-1"\n'
SIX = replace(SPEC, scenario=replace(SPEC.scenario, producers=6))
"""Processes: so many that each of three hosts would have two."""
RUN = """
from pathlib import Path
from perfgate.load.ssh_hosts import file_hosts
from perfgate.load.scheduler import client_of
from perfgate.load.hosts_file import load_hosts_file
from perfgate.load.processes import Generators
from tests.harness.build.generators import observer
from tests.harness.load.fake_generator import STAYS
import sys, time
if __name__ == "__main__":
    with file_hosts(load_hosts_file(Path(sys.argv[1])), worker=STAYS) as transport:
        with Generators({"producer-1": {}, "producer-2": {}}, transport) as running:
            running.wait_for("ready", 60, observer([]))
            print("ready", flush=True)
            time.sleep(600)
"""


@pytest.fixture(scope="module")
def spaces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Namespaces]:
    need_namespaces()
    with namespaces(tmp_path_factory.mktemp("namespaces"), 3) as made:
        yield made


def agents() -> set[psutil.Process]:
    """Return the processes of this checkout that are agents of hosts files, of whichever run."""
    every = psutil.process_iter(["cmdline", "cwd"])
    return {
        each
        for each in every
        if "perfgate.load.remote" in (each.info["cmdline"] or ()) and each.info["cwd"] == str(ROOT)
    }


def gone(processes: Collection[psutil.Process], within_s: float) -> bool:
    """Return whether all of them have ended within so long."""
    until = time.monotonic() + within_s
    while (left := [each for each in processes if each.is_running()]) and time.monotonic() < until:
        time.sleep(0.1)
    return not left


@pytest.fixture
def others() -> set[psutil.Process]:
    """The agents of runs that go on."""
    return agents()


@pytest.fixture(scope="module")
def hosts(spaces: Namespaces) -> Iterator[DaskTransport]:
    """Three hosts, the last one in another zone than the brokers."""
    zones = {1: "az-1", 2: "az-1", 3: "az-2"}
    path = spaces.file(*(spaces.host(number, zone=zone) for number, zone in zones.items()), top=TOP)
    before = agents()
    with file_hosts(load_hosts_file(path), worker=WORKER) as transport:
        started = agents() - before
        assert len(started) == 3
        yield transport
    assert gone(started, 15), "a run that has ended leaves nothing on any host"


@pytest.fixture(scope="module")
def result(hosts: DaskTransport) -> LoadResult:
    return LibrdkafkaDriver(hosts).run(SIX, observer([]))


def test_a_load_over_ssh_is_the_sum_of_what_each_host_did(result: LoadResult) -> None:
    assert result.sent is not None
    assert (result.sent.acked, result.sent.acked_in_window) == (60, 30)
    assert sum(host.done_in_window for host in result.hosts) == 30


def test_clients_of_the_brokers_zone_are_on_the_hosts_of_that_zone_alone(result: LoadResult) -> None:
    assert [(host.name, host.processes) for host in result.hosts] == [("load-1", 3), ("load-2", 3)]


def test_clients_of_another_zone_are_on_the_hosts_that_are_there(hosts: DaskTransport) -> None:
    away = replace(SIX, scenario=replace(SIX.scenario, link=CROSS_ZONE))
    found = LibrdkafkaDriver(hosts).run(away, observer([])).hosts
    assert [(host.name, host.processes) for host in found] == [("load-3", 6)]


def test_hosts_over_ssh_begin_together_by_clocks_whose_offset_is_known(result: LoadResult) -> None:
    for host in result.hosts:
        # All namespaces have one clock: the offset that is found is the error, and within its bound.
        assert abs(host.clock_ahead_ms) <= host.clock_bound_ms < 20
        assert -5 < host.started_late_ms < 50


def test_each_namespace_has_a_network_of_its_own(result: LoadResult) -> None:
    one, other = (host.machine for host in result.hosts)
    assert one is not None
    assert other is not None
    assert one.tcp_sent > 0 < other.tcp_sent


def test_connections_without_the_runs_key_are_refused(hosts: DaskTransport) -> None:
    """By the run's scheduler and by an agent: of one that has a certificate of its own, or none."""
    assert hosts
    scheduler = {
        f"127.0.0.1:{each.laddr.port}"
        for each in psutil.Process().net_connections("tcp")
        if each.status == psutil.CONN_LISTEN and each.laddr.ip == "0.0.0.0"  # noqa: S104
    }
    assert len(scheduler) == 1, "what it is not led by listens nowhere but on loopback"
    there = {f"{ip}:{port}" for ip, port in reached()}
    assert len(there) == 3
    for address in scheduler | there:
        for stranger in (security(*certificate_and_key()), None):
            with pytest.raises((OSError, TimeoutError)):
                client_of(f"tls://{address}" if stranger else f"tcp://{address}", stranger, connect_s=1.0)


def test_an_agent_is_reached_at_its_tls_port_alone(hosts: DaskTransport) -> None:
    """Every worker of Dask's has a web server too, which asks for no key."""
    assert hosts
    assert {len(listening(agent)) for agent in agents()} == {1}


def listening(process: psutil.Process) -> list[str]:
    """Return where the process listens beyond loopback, as the kernel writes it for its network namespace."""
    own = set()
    for each in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            own.add(str(each.readlink()))
    lines = [line.split() for line in Path(f"/proc/{process.pid}/net/tcp").read_text().splitlines()[1:]]
    sockets = [(line[1], line[3]) for line in lines if f"socket:[{line[9]}]" in own]
    return [at for at, state in sockets if state == "0A" and not at.startswith("0100007F:")]


def reached() -> set[tuple[str, int]]:
    """Return the agents that this process is connected to: not those connections that they have made to it."""
    connected = psutil.Process().net_connections("tcp")
    return {
        each.raddr
        for each in connected
        if each.raddr
        and each.raddr.ip.startswith("10.")
        and each.raddr.port > 1024
        and each.laddr.ip.startswith("10.")
        and each.laddr.port not in {listen.laddr.port for listen in connected if listen.status == psutil.CONN_LISTEN}
    }


def refused(path: Path) -> str:
    began = time.monotonic()
    with pytest.raises(ConfigurationError) as raised, file_hosts(load_hosts_file(path)):
        pass
    assert time.monotonic() - began < 60
    return str(raised.value)


def test_every_host_that_cannot_be_had_is_one_clear_line(
    spaces: Namespaces, tmp_path: Path, others: set[psutil.Process]
) -> None:
    (other := tmp_path / "other" / "perfgate" / "load").mkdir(parents=True)
    (other / "remote.py").write_text("# another version\n")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    python = sys.executable
    faults: dict[str, tuple[dict[str, object], str]] = {
        "silent": ({"port": 2222}, r"cannot be reached: .*port 2222: Connection refused"),
        "stranger": ({"identity": str(tmp_path / "key")}, r"authentication failed: .*Permission denied"),
        "unknown": (
            {"ssh_options": [f"UserKnownHostsFile={tmp_path}/none"]},
            r"its host key is not known .*: Host key verification failed",
        ),
        "bare": ({"python": "/nowhere/python3"}, r"there is no Python at '/nowhere/python3' .*name one by python"),
        "empty": ({"folder": str(tmp_path), "python": python}, r"there is no checkout of this suite in "),
        "old": (
            {"folder": str(tmp_path / "other"), "python": python},
            r"has another version .* there .* here; install",
        ),
    }
    tables = [
        spaces.host(1 + number % 3, **{"name": name, **keys}) for number, (name, (keys, _)) in enumerate(faults.items())
    ]
    lines = refused(spaces.file(*tables, name="faults.toml")).splitlines()
    assert len(lines) == len(faults)
    for line, (name, (_, words)) in zip(lines, faults.items(), strict=True):
        assert line.startswith(f"--hosts: {name} ("), line
        assert re.search(words, line), line
    assert gone(agents() - others, 15)


def test_a_run_that_hosts_cannot_reach_is_one_clear_error(spaces: Namespaces, others: set[psutil.Process]) -> None:
    told = refused(spaces.file(spaces.host(1), top='address = "127.0.0.1"\n', name="back.toml"))
    assert "load-1" in told
    assert "cannot reach the run at 127.0.0.1, port " in told
    assert "address = ..." in told
    assert gone(agents() - others, 15)


@pytest.fixture
def run(spaces: Namespaces, tmp_path: Path, others: set[psutil.Process]) -> Iterator[subprocess.Popen[bytes]]:
    """A run in a process of its own, with two generators on a host."""
    script = tmp_path / "run.py"
    script.write_text(RUN)
    path = spaces.file(spaces.host(1), name="run.toml")
    process = subprocess.Popen(
        [sys.executable, script, path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
        preexec_fn=hear_interrupts,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_run_that_ends_leaves_nothing_on_any_host(
    run: subprocess.Popen[bytes], number: signal.Signals, others: set[psutil.Process]
) -> None:
    (agent,) = agents() - others
    generators = agent.children()
    assert len(generators) == 2
    run.send_signal(number)
    run.wait(timeout=30)
    assert gone([agent, *generators], 15)


@contextmanager
def loaded(
    spaces: Namespaces, number: int, others: set[psutil.Process]
) -> Iterator[tuple[Generators, psutil.Process, list[psutil.Process]]]:
    """A generator that runs on the host of this number: what leads it, the host's agent and its processes."""
    path = spaces.file(spaces.host(number), name="one.toml")
    with (
        file_hosts(load_hosts_file(path), worker=STAYS) as transport,
        Generators({"producer-1": {}}, transport.on(SAME_ZONE)) as running,
    ):
        running.wait_for("ready", 60, observer([]))
        (agent,) = agents() - others
        started = agent.children()
        assert started
        yield running, agent, started


def lost(running: Generators, words: str) -> None:
    """Hold that the run is told so within 30 s."""
    with pytest.raises(LoadError, match=words):
        running.listen_until(time.monotonic() + 30, "measuring", observer([]))


@pytest.mark.slow
def test_a_host_whose_ssh_connection_ends_is_lost_and_keeps_nothing(
    spaces: Namespaces, others: set[psutil.Process]
) -> None:
    with loaded(spaces, 1, others) as (running, agent, started):
        newest = max((each for each in psutil.Process().children() if each.name() == "ssh"), key=lambda one: one.pid)
        newest.kill()
        lost(running, r"the load host load-1 .* is lost")
        assert gone([agent, *started], 15)


@pytest.mark.slow
def test_a_network_that_is_cut_is_told_and_nothing_stays_behind(
    spaces: Namespaces, others: set[psutil.Process]
) -> None:
    """docs/hosts-failures.md: the run knows within 5 s; generators end after 8 s of silence, the agent within 60."""
    with loaded(spaces, 2, others) as (running, agent, started), spaces.cut(2):
        lost(running, r"the load host load-2 .* is lost: it did not answer within 5 s")
        assert gone(started, agent_module.SILENT_S + 15)
        assert agent.is_running(), "a network that is back by then still has its agent"
        assert gone([agent], remote.SILENT_S + 30)
