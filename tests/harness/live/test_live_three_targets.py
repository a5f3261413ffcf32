"""The white paper's rows on containers and on a TLS + SCRAM cluster; .ci/run has them on the embedded target."""

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka.admin import NewTopic

from perfgate.host.disk import state_dir
from perfgate.host.docker_engine import docker_engine
from perfgate.host.ports import HOST
from perfgate.metrics.container import container_sampler
from perfgate.metrics.process import process_sampler
from perfgate.model import ClusterSpec
from perfgate.systems.attached.manifest import Manifest
from perfgate.systems.kafka.attached.described import load_target
from perfgate.systems.kafka.client.topics import admin_client
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from perfgate.systems.kafka.managed.containers import ContainersTarget
from perfgate.systems.kafka.managed.own_cluster import Monitoring
from tests.harness.live.real_brokers import SHORT, own_state, running, topics
from tests.harness.live.test_live_containers import BOTH_IMAGES, engine, no_ryuk
from tests.harness.live.test_live_prometheus import PLAIN
from tests.harness.live_load import LiveLoad
from tests.harness.run_gate import BEGUN_BOUND_S, HANG_BOUND_S, PROBES, Finished, gate, gate_command
from tests.harness.secured import USER, Secured, secured

__all__ = ["engine", "no_ryuk", "own_state"]
pytestmark = pytest.mark.slow
SCENARIOS = "tests/scenarios"
ALL_ROWS_S = 3600
SMOKE = ("batch-1k", "batch-16k", "replicas-3", "acks-all", "cross-az", "paced-500", "consume-1")


def green(done: Finished) -> dict[str, str]:
    """Hold that every row was measured and nothing is red; return the relations' verdicts."""
    run = done.run
    assert sorted(entry["name"] for entry in run["scenarios"]) == sorted(SMOKE), done.output
    # No profile is of these brokers: MISSING, and nothing worse.
    assert {entry["verdict"] for entry in run["scenarios"]} == {"MISSING"}, done.output
    verdicts = {entry["name"]: entry["verdict"] for entry in run["relations"]}
    assert set(verdicts.values()) <= {"PASS", "INCONCLUSIVE"}, done.output
    assert done.code == (0 if "INCONCLUSIVE" not in verdicts.values() else 6), done.output
    return verdicts


@pytest.mark.usefixtures("engine")
def test_the_white_papers_rows_on_containers(tmp_path: Path) -> None:
    done = gate(
        tmp_path / "results",
        SCENARIOS,
        "--target",
        "containers",
        *BOTH_IMAGES,
        "--rounds",
        5,
        "--relations-only",
        within_s=ALL_ROWS_S,
    )
    assert len(green(done)) == 8


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Three brokers with TLS and SCRAM in two zones, scraped by a Prometheus where there is one."""
    monitoring = Monitoring(own=shutil.which("prometheus") is not None)
    with secured(tmp_path_factory.mktemp("three"), brokers=3, cross_zone=True, monitoring=monitoring) as made:
        yield made


def described(brokers: Secured, folder: Path) -> Path:
    agents = ", ".join(f'"{address}" = {broker}' for address, broker in brokers.cluster.agents().items())
    scraped = f'[prometheus]\nurl = "{brokers.cluster.prometheus_url}"\nbrokers = {{ {agents} }}\n'
    zones = f'[zones]\ncross-zone = "{brokers.across_zones}"\n'
    return brokers.target_file(folder, more=zones + (scraped if brokers.cluster.prometheus_url else ""))


def test_the_white_papers_rows_on_brokers_by_file(three: Secured, tmp_path: Path) -> None:
    done = gate(
        tmp_path / "results",
        SCENARIOS,
        "--target",
        described(three, tmp_path),
        "--rounds",
        5,
        "--relations-only",
        within_s=ALL_ROWS_S,
    )
    verdicts = green(done)
    assert len(verdicts) == (8 if three.cluster.prometheus_url else 4)
    assert topics(three) == []


def by_command(brokers: Secured, folder: Path, pause: str, resume: str = "kill -CONT") -> Path:
    """Return a target file whose fault commands signal the brokers' processes, for a user that sees all topics."""
    brokers.allow_sight(USER)
    for broker, pid in brokers.cluster.broker_pids().items():
        (folder / f"broker-{broker}.pid").write_text(str(pid))
    process = f"$(cat {folder}/broker-{{broker}}.pid)"
    faults = f'[faults]\npause = "{pause} {process}"\nresume = "{resume} {process}"\ntimeout-s = 10\n'
    return brokers.target_file(folder, more=faults)


def test_a_fault_on_brokers_by_file_is_brought_about_by_its_commands(three: Secured, tmp_path: Path) -> None:
    path, row = by_command(three, tmp_path, "kill -STOP"), ("-k", "pause-leader")
    done = gate(tmp_path / "asked", SCENARIOS, *row, "--target", path)
    assert done.code == 6, done.output
    assert "faults on real brokers need --allow-faults" in done.output
    done = gate(tmp_path / "done", SCENARIOS, *row, "--target", path, "--allow-faults")
    assert done.scenario("pause-leader")["verdict"] in ("PASS", "INCONCLUSIVE"), done.output
    (one,) = done.scenario("pause-leader")["rounds"]
    assert one["failover"]["integrity"]["lost"] == 0
    assert one["metrics"]["outage_s.max"] > 5
    done = gate(
        tmp_path / "none", SCENARIOS, "-k", "kill-leader and not kill-leader-", "--target", path, "--allow-faults"
    )
    assert "no fault command: the target file states no [faults] kill and start" in done.output
    assert topics(three) == []


def test_a_broker_that_a_killed_run_had_paused_is_resumed_by_the_next(three: Secured, tmp_path: Path) -> None:
    path, row = by_command(three, tmp_path, "kill -STOP"), ("-k", "pause-leader", "--broker-warmup", 0)
    paused = [psutil.Process(pid) for pid in three.cluster.broker_pids().values()]
    with running(gate_command(tmp_path / "killed", SCENARIOS, *row, "--target", path, "--allow-faults")):
        deadline = time.monotonic() + BEGUN_BOUND_S
        while not any(process.status() == psutil.STATUS_STOPPED for process in paused):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert any(process.status() == psutil.STATUS_STOPPED for process in paused), "the run itself was killed"
    done = gate(tmp_path / "next", PROBES, *SHORT, "--target", path, "--allow-faults")
    assert not any(process.status() == psutil.STATUS_STOPPED for process in paused)
    assert "ran [faults] resume for broker" in done.output
    assert "removed topic" in done.output
    assert done.measured, done.output
    assert topics(three) == []


def test_the_only_server_of_a_file_that_a_killed_run_had_paused_is_resumed_by_the_next(
    three: Secured, tmp_path: Path
) -> None:
    path = by_command(three, tmp_path, "kill -STOP")
    secured_admin = admin_client(three.bootstrap, load_target(path, lambda stores: {}).client)
    told = secured_admin.describe_cluster().result(timeout=60)
    only = next(f"{node.host}:{node.port}" for node in told.nodes if node.id == 2)
    path.write_text(path.read_text().replace(three.bootstrap, only))
    known = load_target(path, lambda stores: {}).identity
    noted = Manifest(state_dir() / "manifests", cluster_id=told.cluster_id, run_id="killed", target=known)
    noted.takes(2, only, "resume")
    noted.close()
    broker = psutil.Process(three.cluster.broker_pids()[2])
    broker.suspend()
    try:
        done = gate(tmp_path / "next", PROBES, *SHORT, "--target", path, "--allow-unhealthy")
        assert broker.status() != psutil.STATUS_STOPPED
    finally:
        broker.resume()
    assert "ran [faults] resume for broker 2, away since run killed" in done.output
    assert done.measured, done.output
    assert topics(three) == []


def test_a_broker_that_does_not_come_back_is_the_last_line_and_comes_back_at_the_next_start(
    three: Secured, tmp_path: Path
) -> None:
    path = by_command(three, tmp_path, "kill -STOP", f"test -e {tmp_path}/mended && kill -CONT")
    brokers = [psutil.Process(pid) for pid in three.cluster.broker_pids().values()]
    try:
        done = gate(
            tmp_path / "left",
            SCENARIOS,
            "-k",
            "pause-leader",
            "--broker-warmup",
            0,
            f"--target={path}",
            "--allow-faults",
        )
        assert done.code == 7, done.output
        left = done.run["left_behind"][0]
        assert re.match(r"BROKER \d \(.*:\d+\) IS STILL PAUSED: \[faults\] resume has to be run for it", left)
        assert done.output.splitlines()[-1] == left
        assert any(process.status() == psutil.STATUS_STOPPED for process in brokers)
    finally:
        (tmp_path / "mended").touch()
    again = gate(tmp_path / "next", PROBES, *SHORT, f"--target={path}", "--allow-faults", "--allow-unhealthy")
    assert not any(process.status() == psutil.STATUS_STOPPED for process in brokers)
    assert "ran [faults] resume for broker" in again.output
    assert topics(three) == []


def test_a_fault_command_that_fails_is_told(three: Secured, tmp_path: Path) -> None:
    done = gate(
        tmp_path / "results",
        SCENARIOS,
        "-k",
        "pause-leader",
        "--target",
        by_command(three, tmp_path, "kill -NONSENSE"),
        "--allow-faults",
    )
    assert done.code == 6, done.output
    assert "[faults] pause for broker" in done.output
    assert topics(three) == []


LINGER = 'name = "linger 50"\n[producer]\n"linger.ms" = 50\n'


def compared(folder: Path, *target: object) -> dict[str, Any]:
    change = folder / "change.toml"
    change.write_text(LINGER)
    done = gate(
        folder / "results",
        PROBES,
        "-k",
        "capped-plain",
        "--broker-warmup",
        15,
        "--window",
        1,
        f"--compare={change}",
        "--budget",
        "60s",
        *target,
    )
    assert done.code in (0, 1, 6), done.output
    (found,) = done.run["comparisons"]
    assert found["verdict"] != "INVALID", found["reasons"]
    assert len(found["baseline"]["rounds"]) == len(found["candidate"]["rounds"]) > 0
    return dict(found)


def test_a_change_is_compared_on_brokers_by_file(three: Secured, tmp_path: Path) -> None:
    assert compared(tmp_path, "--target", three.target_file(tmp_path))["method"] == "turns"
    assert topics(three) == []


@pytest.mark.usefixtures("engine")
def test_a_change_is_compared_on_containers(tmp_path: Path) -> None:
    assert compared(tmp_path, "--target", "containers", *BOTH_IMAGES)["method"] == "turns"


@pytest.mark.usefixtures("engine")
def test_the_docker_engine_and_the_kernel_agree_on_the_brokers_cpu(tmp_path: Path) -> None:
    target = ContainersTarget(log_folder=tmp_path, toxiproxy_image=None, say=print, note=print)
    spec = ClusterSpec(brokers=2, image=BOTH_IMAGES[1])
    target.prepare([spec])
    try:
        cluster = target.cluster(spec)
        ids, api = cluster.container_ids(), docker_engine().api
        pids = {broker: api.inspect_container(id_)["State"]["Pid"] for broker, id_ in ids.items()}
        engine_says, kernel_says = container_sampler(ids), process_sampler(lambda: pids)

        def edge() -> None:
            engine_says.edge()
            kernel_says.edge()

        result, _ = LiveLoad(cluster).run(LibrdkafkaDriver(), PLAIN, window_s=15, edge=edge)
        assert result.sent is not None
        first, second = (
            sampler.metrics(result.sent.acked_in_window / 15, [-1]) for sampler in (engine_says, kernel_says)
        )
        for metric in ("broker_cpu_cores.1", "broker_cpu_cores.2", "broker_cpu_us_per_record"):
            print(f"{metric}: engine {first[metric]:.4f}, kernel {second[metric]:.4f}")
            assert first[metric] == pytest.approx(second[metric], rel=0.1)
    finally:
        target.close()


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("row", ["kill-leader and not kill-leader-", "pause-leader", "cut-off", "kill-controller"])
def test_a_fault_on_containers(tmp_path: Path, row: str) -> None:
    done = gate(tmp_path / "results", SCENARIOS, "-k", row, "--target", "containers", *BOTH_IMAGES)
    assert done.code in (0, 6), done.output
    (entry,) = done.run["scenarios"]
    assert entry["verdict"] in ("PASS", "INCONCLUSIVE"), done.output
    (one,) = entry["rounds"]
    assert "log" in one["failover"]["split_source"]
    assert one["failover"]["integrity"]["lost"] == 0
    print(f"{row}: outage {one['metrics']['outage_s.max']:.1f} s")


def test_a_run_stops_when_a_broker_of_the_cluster_dies(three: Secured, tmp_path: Path) -> None:
    path = described(three, tmp_path)
    # What is under-replicated once the run has removed its own topic, and lets no other run begin.
    theirs = NewTopic("orders", num_partitions=1, replication_factor=3)
    three.admin.create_topics([theirs])["orders"].result(timeout=60)
    three.allow_sight(USER)
    command = gate_command(
        tmp_path / "results",
        SCENARIOS,
        "-k",
        "replicas-3",
        "--window",
        30,
        "--rounds",
        2,
        "--broker-warmup",
        0,
        "--target",
        path,
    )
    with running(command) as process:
        deadline = time.monotonic() + BEGUN_BOUND_S
        while topics(three) == ["orders"]:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        time.sleep(5)
        three.cluster.faults.do("kill", 3)
        killed = time.monotonic()
        assert process.wait(timeout=HANG_BOUND_S) == 8, "a broker is away"
    assert time.monotonic() - killed < 3 * 40, "before the windows of its rounds were over"
    (entry,) = Finished(code=6, output="", results=tmp_path / "results").run["scenarios"]
    assert entry["verdict"] == "INVALID"
    assert "stopped at once, as the target file asks for" in entry["reasons"][0]
    assert "under-replicated" in entry["reasons"][0]
    refused = gate(tmp_path / "again", SCENARIOS, "-k", "batch-1k", "--target", path)
    assert refused.code == 2
    assert "--allow-unhealthy" in refused.output
    assert HOST in refused.output or "staging" in refused.output
    assert topics(three) == ["orders"]
