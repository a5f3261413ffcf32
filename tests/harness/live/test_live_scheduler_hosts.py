"""The gate with a hosts file whose hosts are workers of a running Dask scheduler, in three network namespaces."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from tests.harness.live.many_hosts import LONG, TOP, ZONES, bridged, hold_the_gate_on_hosts
from tests.harness.live.real_brokers import own_state
from tests.harness.load.test_hosts import WORKER_OPTIONS
from tests.harness.namespaces import ROOT, Namespaces, namespaces, need_namespaces
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
    """Brokers without encryption, as such a scheduler's connections have none: settings to log in are refused."""
    with bridged(spaces, tmp_path_factory.mktemp("brokers"), "PLAINTEXT") as made:
        yield made


@contextmanager
def dask(*command: str, says: str) -> Iterator[str]:
    """Start a part of Dask, wait until it says this, and yield that line; end it then."""
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        lines = []
        for line in process.stderr:
            lines.append(line.decode())
            if says in lines[-1]:
                break
        else:
            raise AssertionError("".join(lines))
        yield lines[-1]
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.fixture
def scheduler(spaces: Namespaces) -> Iterator[str]:
    """Return its address; one worker in each namespace, as docs/hosts.md starts them."""
    python = (sys.executable, "-m")
    with ExitStack() as stack:
        leader = dask(
            *(*python, "distributed.cli.dask_scheduler", f"--host={spaces.bridge}", "--port=0", "--no-dashboard"),
            f"--dashboard-address={spaces.bridge}:0",
            says="Scheduler at:",
        )
        address = stack.enter_context(leader).split()[-1]
        for number, (name, own) in enumerate(zip(spaces.names, spaces.addresses, strict=True), 1):
            inside = ("ip", "netns", "exec", name, *python, "distributed.cli.dask_worker", address)
            worker = dask(*inside, f"--name=load-{number}", f"--host={own}", *WORKER_OPTIONS, says="Registered to")
            stack.enter_context(worker)
        yield address


def test_the_gate_on_three_workers_of_a_running_scheduler(
    spaces: Namespaces, brokers: Secured, scheduler: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = [f'[[host]]\nname = "load-{number}"\nzone = "{zone}"\n' for number, zone in ZONES.items()]
    hosts = spaces.file(*tables, top=f'{TOP}scheduler = "{scheduler}"\n', name="scheduler.toml")
    hold_the_gate_on_hosts(hosts, brokers, tmp_path, capsys, os.environ.get(LONG, ""), plain=True)
    left = [each for each in psutil.process_iter(["cmdline"]) if "load.worker" in " ".join(each.info["cmdline"] or ())]
    assert [each for each in left if each.cwd() == str(ROOT)] == [], "its generators have ended with the run"
