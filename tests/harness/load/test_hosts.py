"""Load hosts: real Dask clusters on this machine, with generator processes that speak the protocol and send nothing."""

import asyncio
import importlib.metadata
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import dask
import psutil
import pytest
from distributed.core import Server

from perfgate.load.agent import Agent, fingerprint, versions
from perfgate.load.hosts import DaskTransport, dask_hosts, dealt
from perfgate.load.processes import Generators
from perfgate.load.scheduler import check_scheduler
from perfgate.measure.host_validity import host_flaws
from perfgate.model import Consumers
from perfgate.model.errors import ConfigurationError
from perfgate.model.load import LoadError, LoadResult
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from tests.harness.build.generators import SPEC, observer
from tests.harness.load.fake_generator import MARK, STAYS, WORKER

WORKER_OPTIONS = ("--nthreads=1", "--no-nanny", "--memory-limit=0", "--no-dashboard", "--dashboard-address=127.0.0.1:0")
AHEAD_S = 0.25
"""So far is the clock of the second host ahead, that of its generators too."""
THREE = replace(SPEC, scenario=replace(SPEC.scenario, producers=3))
PAIRS = replace(
    THREE,
    scenario=replace(
        THREE.scenario,
        topic=replace(THREE.scenario.topic, partitions=3),
        consumers=Consumers(membership="assigned", processes=3),
    ),
)
"""Each producer can write what the consumer of its number reads."""


class Ahead(Agent):
    """An agent whose clock is ahead, and whose generators' clocks are."""

    def now(self) -> float:
        return super().now() + AHEAD_S

    async def start(self, specs: Mapping[str, Mapping[str, object]], worker: Sequence[str]) -> None:
        await super().start({name: {**spec, "fake_ahead_s": AHEAD_S} for name, spec in specs.items()}, worker)


class Late(Agent):
    """An agent whose generators begin late."""

    async def start(self, specs: Mapping[str, Mapping[str, object]], worker: Sequence[str]) -> None:
        await super().start({name: {**spec, "fake_late_s": 0.1} for name, spec in specs.items()}, worker)


class Together(Agent):
    """An agent that starts nothing before the one of the other host has been asked to."""

    async def start(self, specs: Mapping[str, Mapping[str, object]], worker: Sequence[str]) -> None:
        folder = Path(os.environ["TOGETHER"])
        (folder / str(os.getpid())).touch()
        for _ in range(40):
            if len(list(folder.iterdir())) == 2:
                return await super().start(specs, worker)
            await asyncio.sleep(0.1)
        raise LoadError("the other host was not asked")


class OtherVersion(Agent):
    async def version(self) -> str:
        return "Python 2.7.18, package 0"


def generators() -> list[psutil.Process]:
    return [process for process in psutil.process_iter(["cmdline"]) if MARK in " ".join(process.info["cmdline"] or ())]


def none_left(within_s: float) -> bool:
    until = time.monotonic() + within_s
    while generators() and time.monotonic() < until:
        time.sleep(0.1)
    return not generators()


@pytest.fixture(scope="module")
def hosts() -> Iterator[DaskTransport]:
    with dask_hosts("local:3", worker=WORKER, agents=(Agent, Ahead, Late)) as transport:
        yield transport


@pytest.fixture(scope="module")
def result(hosts: DaskTransport) -> LoadResult:
    return LibrdkafkaDriver(hosts).run(THREE, observer([]))


def test_generators_on_hosts_give_the_sum_of_what_each_did(result: LoadResult) -> None:
    assert result.sent is not None
    assert (result.sent.acked, result.sent.acked_in_window) == (30, 15)
    assert [(host.name, host.processes, host.done_in_window) for host in result.hosts] == [
        ("host-1", 1, 5),
        ("host-2", 1, 5),
        ("host-3", 1, 5),
    ]


def test_the_offset_of_a_clock_is_found_within_its_bound(result: LoadResult) -> None:
    right, ahead, _ = result.hosts
    assert abs(right.clock_ahead_ms) <= right.clock_bound_ms < 20
    assert abs(ahead.clock_ahead_ms - AHEAD_S * 1e3) <= ahead.clock_bound_ms < 20


def test_hosts_begin_together_whatever_their_clocks_show_and_a_late_one_is_named(result: LoadResult) -> None:
    right, ahead, late = result.hosts
    assert -5 < right.started_late_ms < 50
    assert -5 < ahead.started_late_ms < 50, "without correction it would have begun 250 ms early"
    (flaw,) = host_flaws(THREE.scenario.load, result, shares_cores=True)
    assert late.started_late_ms > 100
    assert "host-3 began 1" in flaw.text
    assert not flaw.metrics


def test_each_host_tells_what_its_machine_did_in_the_window(result: LoadResult) -> None:
    for host in result.hosts:
        assert host.machine is not None
        assert host.machine.with_run
        assert host.machine.cores == psutil.cpu_count()
        assert 0 < host.machine.cpu_share <= host.machine.busiest_core_share < 1.5, "jiffies: coarse in a short window"
        assert host.machine.tcp_sent > 0, "the control connection alone sends some"


def test_a_load_on_the_first_hosts_alone_has_no_process_on_the_others(hosts: DaskTransport) -> None:
    result = LibrdkafkaDriver(hosts).run(replace(PAIRS, hosts=2), observer([]))
    assert [(host.name, host.processes) for host in result.hosts] == [("host-1", 4), ("host-2", 2)]
    assert (hosts.names, hosts.first(2).names) == (["host-1", "host-2", "host-3"], ["host-1", "host-2"])
    assert not result.one_clock, "a load that others are held against writes to all partitions, as theirs does"
    assert LibrdkafkaDriver(hosts).run(PAIRS, observer([])).one_clock


def test_nothing_is_left_after_a_round(result: LoadResult) -> None:
    assert result
    assert not generators()


def test_roles_are_dealt_out_anew_so_that_a_host_reads_what_it_wrote() -> None:
    names = ["consumer-1", "consumer-2", "producer-1", "producer-2", "producer-3"]
    assert list(dealt(names, "ab").values()) == ["a", "b", "a", "b", "a"]


def test_hosts_are_started_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In turn, the generators of the first of 64 hosts heard nothing of the run for 10 s, and ended."""
    monkeypatch.setenv("TOGETHER", str(tmp_path))
    with dask_hosts("local:2", worker=STAYS, agents=(Together,)) as transport:
        specs: dict[str, dict[str, object]] = {"producer-1": {}, "producer-2": {}}
        with Generators(specs, transport) as running:
            running.wait_for("ready", 30, observer([]))


def listeners() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "(_listen)" in thread.name]


def test_hosts_end_together_not_one_after_the_other(hosts: DaskTransport) -> None:
    """Each may be listening for PATIENCE_S: 32 hosts that were waited for in turn took 5.9 s to end, and now 0.9 s."""
    channels = hosts.start({f"producer-{number}": {} for number in (1, 2, 3)}, lambda name, message: None)
    assert len(listeners()) == 3
    channels["producer-1"].kill()
    channels["producer-1"].end()
    until = time.monotonic() + 30
    while listeners() and time.monotonic() < until:
        time.sleep(0.05)
    assert not listeners(), "the others too listen no more"
    for channel in channels.values():
        channel.kill()
        channel.end()
    assert none_left(15)


def test_a_host_that_dies_is_named_within_a_bound() -> None:
    with dask_hosts("local:2", worker=STAYS) as transport:
        specs: dict[str, dict[str, object]] = {"producer-1": {}, "producer-2": {}}
        with Generators(specs, transport) as running:
            running.wait_for("ready", 10, observer([]))
            assert len(generators()) == 2
            victim = generators()[1].parent()
            assert victim is not None
            victim.kill()
            began = time.monotonic()
            with pytest.raises(LoadError, match=r"the load host host-\d .* is lost"):
                running.listen_until(began + 30, "measuring", observer([]))
            assert time.monotonic() - began < 15
    assert none_left(15)


def test_another_version_on_a_host_is_one_clear_error() -> None:
    with (
        pytest.raises(ConfigurationError, match=r"host-1 .* has another version .* Python 2\.7\.18, package 0 there"),
        dask_hosts("local:1", agents=(OtherVersion,)),
    ):
        pass


def test_no_scheduler_is_one_clear_error() -> None:
    with pytest.raises(ConfigurationError, match="no Dask scheduler answers there"):
        check_scheduler("tcp://127.0.0.1:9", connect_s=1.0)


def test_what_takes_connections_and_says_nothing_is_not_waited_for() -> None:
    """The port of a scheduler's dashboard, or a scheduler that was stopped."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        words = r"takes connections there and says nothing, .* \"Scheduler at: tcp://\.\.\.\"$"
        with pytest.raises(ConfigurationError, match=words):
            check_scheduler(f"tcp://127.0.0.1:{silent.getsockname()[1]}", connect_s=0.2, answer_s=0.1)


def test_what_answers_and_is_no_dask_is_one_clear_error() -> None:
    """A web server, say: Dask takes its first bytes for a length, of more memory than there is."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:

        def answer() -> None:
            with server.accept()[0] as client:
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                client.recv(1)

        answering = pool.submit(answer)
        words = r"what answers there is no Dask scheduler of this version: .*MemoryError"
        with pytest.raises(ConfigurationError, match=words), dask_hosts(f"tcp://127.0.0.1:{server.getsockname()[1]}"):
            pass
        answering.result()


def test_a_scheduler_of_another_version_is_one_clear_error() -> None:
    """It is asked for what it does not know."""

    def identity() -> dict[str, object]:
        return {}

    async def refused() -> None:
        async with Server({"identity": identity}) as other:  # type: ignore[no-untyped-call]
            await other.listen("tcp://127.0.0.1:0")
            with pytest.raises(
                ConfigurationError, match=r"no Dask scheduler of this version: TypeError\(.*'n_workers'"
            ):
                await asyncio.to_thread(check_scheduler, other.address)

    asyncio.run(refused())


def test_a_cluster_that_cannot_be_started_here_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        dask.config.set({"temporary-directory": str(tmp_path / "file" / "gone")}),
        pytest.raises(ConfigurationError, match=r"--hosts=local:1: no Dask cluster can be started here: .*"),
        dask_hosts("local:1"),
    ):
        pass


@pytest.fixture
def scheduler() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A scheduler of its own with one worker, as a user starts them."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    python = (sys.executable, "-m")
    leader = subprocess.Popen(
        [
            *python,
            "distributed.cli.dask_scheduler",
            "--host=127.0.0.1",
            "--port=0",
            "--no-dashboard",
            "--dashboard-address=127.0.0.1:0",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert leader.stderr is not None
    address = next(line.split()[-1] for line in leader.stderr if "Scheduler at:" in line)
    worker = subprocess.Popen(
        [*python, "distributed.cli.dask_worker", address, "--name=far", *WORKER_OPTIONS],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert worker.stderr is not None
    assert any("Registered to" in line for line in worker.stderr)
    yield address, leader
    for process in (worker, leader):
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def test_a_scheduler_that_ends_is_told_of_and_nothing_is_left(scheduler: tuple[str, subprocess.Popen[str]]) -> None:
    address, leader = scheduler
    with dask_hosts(address, worker=STAYS) as transport, Generators({"producer-1": {}}, transport) as running:
        running.wait_for("ready", 10, observer([]))
        leader.kill()
        began = time.monotonic()
        with pytest.raises(LoadError, match="the connection to the Dask scheduler has ended"):
            running.listen_until(began + 30, "measuring", observer([]))
        assert time.monotonic() - began < 15
    assert none_left(15)


def test_workers_that_are_no_agents_are_refused(scheduler: tuple[str, subprocess.Popen[str]]) -> None:
    address, _ = scheduler
    options = ["--nthreads=2", *WORKER_OPTIONS[1:]]
    wide = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_worker", address, "--name=wide", *options],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert wide.stderr is not None
    try:
        assert any("Registered to" in line for line in wide.stderr)
        words = "--nthreads 1 --no-nanny --memory-limit 0, as wide was not"
        with pytest.raises(ConfigurationError, match=words), dask_hosts(address):
            pass
    finally:
        wide.kill()
        wide.wait()
        wide.stderr.close()


RUN = """
from perfgate.load.hosts import dask_hosts
from perfgate.load.processes import Generators
from tests.harness.build.generators import observer
from tests.harness.load.fake_generator import STAYS
import sys, time
if __name__ == "__main__":
    with dask_hosts(sys.argv[1], worker=STAYS) as transport, Generators({"producer-1": {}}, transport) as running:
        running.wait_for("ready", 10, observer([]))
        print("ready", flush=True)
        time.sleep(600)
"""


@pytest.mark.parametrize("where", ["local:1", "scheduler"])
def test_a_run_that_is_killed_leaves_no_generator(where: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if where == "scheduler":
        where, _ = request.getfixturevalue("scheduler")
    script = tmp_path / "run.py"
    script.write_text(RUN)
    root = Path(__file__).parents[3]
    run = subprocess.Popen(
        [sys.executable, script, where], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(root)}
    )
    try:
        assert run.stdout is not None
        assert run.stdout.readline() == b"ready\n"
        assert generators()
    finally:
        run.kill()
        run.communicate()
    assert none_left(15)


def test_another_client_is_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that somebody else has started may have any."""
    there, client = versions(), importlib.metadata.version("confluent-kafka")
    (installed := tmp_path / "confluent_kafka-0.0.1.dist-info").mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: confluent-kafka\nVersion: 0.0.1\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert there.startswith(fingerprint())
    assert f"confluent-kafka {client}" in there
    assert "confluent-kafka 0.0.1" in versions()


CHATTY = (
    "-c",
    """
import json, sys, time
sys.stdin.readline()
for number in range(100):
    print(json.dumps({"event": "progress", "done": number}), flush=True)
    time.sleep(0.01)
print(json.dumps({"event": "ready"}), flush=True)
sys.stdin.readline()
""",
)


def test_progress_alone_is_told_a_few_times_a_second() -> None:
    """Each answer costs the host as much as a hundred records: generators report their progress far more often."""

    async def heard() -> tuple[list[list[object]], float]:
        agent, told, began = Agent(), list[list[object]](), time.monotonic()
        await agent.start({"producer-1": {}}, CHATTY)
        while not told or "ready" not in told[-1]:
            told.append([message and message["event"] for _, message in (await agent.listen(0.25))[2]])
        took = time.monotonic() - began
        await agent.end()
        return told, took

    told, took = asyncio.run(heard())
    assert [event for each in told for event in each] == ["progress"] * 100 + ["ready"]
    assert len(told) <= took / 0.25 + 1
