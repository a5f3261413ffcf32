"""The containers target, with a real Docker engine and local images that keep the official images' contracts."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from perfgate.host.docker_engine import OWNER, docker_engine, remove_leftovers
from perfgate.model.errors import ConfigurationError
from tests.containers import images
from tests.harness.live.started_gates import in_the_middle_of_a_round, wait_for
from tests.harness.run_gate import BEGUN_BOUND_S, HANG_BOUND_S, PROBES, ROOT, Finished, gate, gate_command

SHORT = ("--rounds", 2, "--window", 2, "--broker-warmup", 20)
BOTH_IMAGES = ("--kafka-image", images.kafka_image("4.3.1"), "--toxiproxy-image", images.TOXIPROXY_IMAGE)


@pytest.fixture(scope="module")
def engine() -> None:
    """Have an engine and the images. Where CONTAINERS_REQUIRED is set an engine has to be there."""
    try:
        docker_engine()
    except ConfigurationError as error:
        if os.environ.get("CONTAINERS_REQUIRED"):
            raise
        pytest.skip(f"{error}; tests/containers/engine starts one (Debian, root)")
    images.build()


@pytest.fixture(autouse=True)
def no_ryuk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its image cannot be pulled everywhere; the suite's own clean-up is what is tested here."""
    monkeypatch.setenv("TESTCONTAINERS_RYUK_DISABLED", "true")


def on_containers(folder: Path, *arguments: object) -> Finished:
    return gate(folder / "results", PROBES, "--target", "containers", *BOTH_IMAGES, *SHORT, *arguments)


def ours() -> list[str]:
    client = docker_engine()
    containers = client.containers.list(all=True, filters={"label": OWNER}, ignore_removed=True)
    networks = client.networks.list(filters={"label": OWNER})
    return [str(one.name) for one in containers] + [str(one.name) for one in networks]


def settled() -> list[str]:
    """Return what is there once the engine has done all that a killed run had asked it for."""
    before, found = [""], ours()
    while found != before:
        time.sleep(3)
        before, found = found, ours()
    return found


@pytest.mark.usefixtures("engine")
def test_a_row_runs_on_containers_and_leaves_none(tmp_path: Path) -> None:
    done = on_containers(tmp_path, "-k", "capped-plain", "--broker-cpus", 1, "--broker-memory", 900)
    assert done.measured, done.output
    target = done.run["target"]
    assert (target["kind"], target["brokers"], target["image"]) == ("containers", 3, images.kafka_image("4.3.1"))
    assert (target["broker_cpus"], target["broker_memory_mib"]) == (1, 900)
    assert "MODIFIED run: --broker-cpus 1, --broker-memory 900" in done.output
    metrics = done.scenario("capped-plain")["metrics"]
    assert 0 < metrics["broker_cpu_cores.max"]["value"] <= 1.2
    assert 100 < metrics["broker_rss_mib.max"]["value"] <= 900
    assert metrics["broker_disk_write_mib_per_s"]["value"] >= 0
    assert not [name for name in metrics if "network" in name], "a figure that is not right is none"
    assert list(done.scenario("capped-plain")["rounds"][0]["untold"]) == ["network"]
    logs = list((tmp_path / "results").glob("2*/logs/cluster-1/broker-*.log"))
    assert len(logs) == 3
    assert all("started" in log.read_text() for log in logs)
    assert ours() == []


@pytest.mark.usefixtures("engine")
def test_what_a_killed_run_leaves_is_removed_at_the_next_start(tmp_path: Path) -> None:
    command = gate_command(
        tmp_path / "results", PROBES, "--target", "containers", *BOTH_IMAGES, "-k", "paced-slow", "--window", 60
    )
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: len(ours()) >= 4, BEGUN_BOUND_S, "three containers and their network")
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    left = settled()
    assert left
    assert sorted(remove_leftovers(docker_engine())) == sorted(left)
    assert ours() == []


@pytest.mark.slow
@pytest.mark.usefixtures("engine")
def test_a_broker_that_is_killed_makes_the_row_broken_with_its_log(tmp_path: Path) -> None:
    command = gate_command(
        tmp_path / "results",
        PROBES,
        "--target",
        "containers",
        *BOTH_IMAGES,
        "-k",
        "paced-slow",
        "--window",
        60,
        "--broker-warmup",
        0,
    )
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        in_the_middle_of_a_round(psutil.Process(process.pid))
        docker_engine().containers.list(filters={"label": OWNER})[0].kill()
        output, _ = process.communicate(timeout=HANG_BOUND_S)
    finally:
        process.kill()
    assert process.returncode == 1, output
    assert "its container ended with 137" in output
    assert ours() == []


@pytest.mark.slow
@pytest.mark.usefixtures("engine")
@pytest.mark.skipif(
    shutil.which("prometheus") is None and not os.environ.get("PROMETHEUS_REQUIRED"),
    reason="no `prometheus` on the PATH to make an image of",
)
def test_prometheus_scrapes_the_containers(tmp_path: Path) -> None:
    done = on_containers(
        tmp_path, "-k", "capped-plain", "--with-prometheus", "--prometheus-image", images.PROMETHEUS_IMAGE
    )
    assert done.measured, done.output
    assert done.run["tier"]["window_s"] == 5
    metrics = done.scenario("capped-plain")["metrics"]
    cpu = [metrics.get(f"broker_cpu_cores.{broker}", {"value": 0})["value"] for broker in (1, 2, 3)]
    assert min(cpu) > 0, done.output
    assert metrics["isr_shrinks"]["value"] == 0
    assert ours() == []


@pytest.mark.usefixtures("engine")
def test_an_image_that_cannot_be_had_is_one_message(tmp_path: Path) -> None:
    done = gate(tmp_path / "results", PROBES, "--target", "containers", "--kafka-image", "kafka-perf-gate-test/none:1")
    assert done.code == 2, done.output
    assert "image kafka-perf-gate-test/none:1 is not on this machine and cannot be pulled" in done.output
    assert "Traceback" not in done.output


def test_no_engine_is_one_message(tmp_path: Path) -> None:
    nowhere = {"DOCKER_HOST": f"unix://{tmp_path}/docker.sock"}
    done = gate(tmp_path / "results", PROBES, "--target", "containers", environment=nowhere)
    assert done.code == 2, done.output
    assert "needs a Docker engine, and none answers" in done.output
    assert "Traceback" not in done.output
    assert not list((tmp_path / "results").glob("2*"))


def test_an_image_needs_the_containers_target(tmp_path: Path) -> None:
    done = gate(tmp_path / "results", PROBES, "--kafka-image", "apache/kafka:4.3.1")
    assert done.code == 2, done.output
    assert "need --target containers" in done.output


@pytest.mark.slow
@pytest.mark.parametrize("security", ["tls", "sasl-tls"])
def test_clients_are_let_in_over_tls_and_scram(tmp_path: Path, engine: None, security: str) -> None:
    done = on_containers(tmp_path, "-k", "paced-slow", "--set", f"cluster.security={security}", "--relations-only")
    (entry,) = done.run["scenarios"]
    assert done.measured, done.output
    assert entry["declared"]["cluster"]["security"] == security
    assert entry["accounting"]["acked"] == entry["accounting"]["offset_delta"] > 0
    assert ours() == []
    assert not list(Path(tempfile.gettempdir()).glob("kafka-perf-gate-keys-*"))
