"""deploy/: the image is built from the wheel and runs as nobody, with nothing writable but its volumes and /tmp.

The brokers of deploy/compose.yaml are started as it states them; `docker compose` itself is not needed.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from ruamel.yaml import YAML

from perfgate.host.docker_engine import docker_engine
from perfgate.model.errors import ConfigurationError
from tests.containers import images
from tests.harness.run_gate import HANG_BOUND_S, ROOT

pytestmark = pytest.mark.slow  # its first build takes three minutes
IMAGE, NAME = f"{images.REPOSITORY}/gate:local", "kafka-perf-gate-test-image"
COMPOSE = YAML(typ="safe").load(ROOT / "deploy" / "compose.yaml")
TARGET = ("--target", "deploy/target.toml")
THERE_WITHIN_S = 120


def docker(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = ["docker", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_BOUND_S, check=False)


def done(*arguments: object) -> str:
    ended = docker(*arguments)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Have an engine and the image. Where CONTAINERS_REQUIRED is set an engine has to be there."""
    try:
        docker_engine()
    except ConfigurationError as error:
        if os.environ.get("CONTAINERS_REQUIRED"):
            raise
        pytest.skip(f"{error}; tests/containers/engine starts one (Debian, root)")
    images.build_python()
    context = tmp_path_factory.mktemp("context")
    wheel = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(context / "dist"), str(ROOT)]
    subprocess.run([sys.executable, "-m", "pip", *wheel], check=True, timeout=HANG_BOUND_S)
    for path in (*ROOT.glob("requirements*.*"), ROOT / ".dockerignore"):
        shutil.copy(path, context)
    base = f"BASE={images.PYTHON_IMAGE}"
    done("build", "--network=host", "--build-arg", base, "-t", IMAGE, "-f", ROOT / "deploy" / "Dockerfile", context)
    return IMAGE


@pytest.fixture
def volumes() -> Iterator[tuple[str, ...]]:
    """Give the options of a container that may do as little as that of the compose file, with new volumes."""
    service = COMPOSE["services"]["gate"]
    assert service["read_only"]
    names = [f"{NAME}-{os.getpid()}-{number}" for number in (1, 2)]
    mounted = [f"--volume={name}:{at}" for name, at in zip(names, ("/work/results", "/cache"), strict=True)]
    tight = [f"--tmpfs={path}" for path in service["tmpfs"]]
    tight += [f"--security-opt={one}" for one in service["security_opt"]]
    try:
        yield "--rm", "--init", "--read-only", "--cap-drop=ALL", *tight, *mounted
    finally:
        docker("volume", "rm", "--force", *names)


def test_the_command_runs_as_nobody_on_a_root_that_is_read_only(image: str, volumes: tuple[str, ...]) -> None:
    assert re.fullmatch(r"\D*\d+\.\d+\.\d+\S*\n", done("run", *volumes, image, "--version"))
    assert "batch-16k" in done("run", *volumes, image, "list")
    told = done("run", *volumes, "--entrypoint=python", image, "-c", "import os; print(os.getuid())")
    assert told == "10001\n"
    refused = docker("run", *volumes, "--entrypoint=mkdir", image, "/opt/kafka-perf-gate/x")
    assert "Read-only file system" in refused.stderr


def test_the_doctor_finds_all_that_the_image_brings(image: str, volumes: tuple[str, ...]) -> None:
    told = docker("run", *volumes, "--network=host", image, "doctor").stdout
    states = {what.strip(): state for state, what in re.findall(r"^  (ok|look|lacks) +(.{14})", told, re.MULTILINE)}
    brought = ("Python", "packages", "results", "state", "cache", "Java")
    assert {what: states[what] for what in brought} == dict.fromkeys(brought, "ok"), told
    assert "/work/results," in told
    assert "/cache/kafka-perf-gate," in told


def test_what_a_container_is_not_given_is_told(image: str, volumes: tuple[str, ...]) -> None:
    closed = [f"{one}:ro" if ":/work/results" in one else one for one in volumes]
    ended = docker("run", *closed, "--memory=2g", "--cpus=1", image, "doctor")
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert re.search(r"look +processors +\d+ cores, a quota of 1", ended.stdout), ended.stdout
    assert re.search(r"lacks +memory +[12]\.\d GiB available", ended.stdout), ended.stdout
    assert re.search(r"lacks +results +/work/results cannot be written to", ended.stdout), ended.stdout


@pytest.fixture
def brokers(image: str) -> Iterator[str]:
    """Start the compose file's brokers on a network of their own, which is given."""
    images.build()
    network = f"{NAME}-{os.getpid()}"
    services = {name: one for name, one in COMPOSE["services"].items() if name.startswith("kafka-")}
    try:
        done("network", "create", network)
        for name, service in services.items():
            stated = [f"--env={key}={value}" for key, value in service["environment"].items()]
            at = [f"--name={network}-{name}", f"--network={network}", f"--network-alias={name}"]
            done("run", "--detach", *at, *stated, images.kafka_image("4.3.1"))
        yield network
    finally:
        docker("rm", "--force", "--volumes", *(f"{network}-{name}" for name in services))
        docker("network", "rm", network)


def mounted(network: str) -> list[str]:
    return [f"--network={network}", f"--volume={ROOT / 'deploy'}:/work/deploy:ro"]


def told_of_well_brokers(network: str, volumes: tuple[str, ...]) -> str:
    """Return what the doctor says of the brokers once a run can start there."""
    until = time.monotonic() + THERE_WITHIN_S
    while (told := docker("run", *volumes, *mounted(network), IMAGE, "doctor", *TARGET)).returncode:
        if time.monotonic() > until:
            pytest.fail(told.stdout + told.stderr + docker("logs", f"{network}-kafka-1").stdout[-2000:])
        time.sleep(1)
    return told.stdout


def test_the_doctor_in_the_image_reaches_the_compose_files_brokers(brokers: str, volumes: tuple[str, ...]) -> None:
    told = told_of_well_brokers(brokers, volumes)
    assert re.search(r"ok +brokers +3, Kafka", told), told
    assert re.search(r"ok +topics +kpg-\* may be made", told), told
