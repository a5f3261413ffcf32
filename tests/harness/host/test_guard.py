"""Nothing outlives a run: the guard ends its children however the run ends."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from perfgate.host.guard import Guard
from perfgate.model import ClusterSpec
from perfgate.systems.kafka.managed.brokers import new_cluster_id
from perfgate.systems.kafka.managed.embedded import EmbeddedTarget
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster
from tests.harness.run_gate import ROOT, hear_interrupts

RUN = """
import sys, time
from pathlib import Path
from perfgate.host.guard import Guard
folder = Path(sys.argv[1])
guard = Guard()
guard.owns(folder / "data")
print(guard.spawn(["sleep", "600"], log=folder / "log"), guard._process.pid, flush=True)
time.sleep(600)
"""


def wait_until(what: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not what() and time.monotonic() < deadline:
        time.sleep(0.02)
    return what()


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def run(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Return a running process that holds a guard with one child and one folder."""
    (tmp_path / "data").mkdir()
    command = [sys.executable, "-c", RUN, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, preexec_fn=hear_interrupts)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_child_and_the_folder_go_when_the_run_is_killed(
    run: subprocess.Popen[str], tmp_path: Path, number: signal.Signals
) -> None:
    assert run.stdout is not None
    child, guard = map(int, run.stdout.readline().split())
    assert not gone(child)
    run.send_signal(number)
    run.wait(timeout=60)
    assert wait_until(lambda: gone(child))
    assert wait_until(lambda: gone(guard))
    assert wait_until(lambda: not (tmp_path / "data").exists())


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_the_child_goes_when_the_guard_itself_is_killed(run: subprocess.Popen[str]) -> None:
    assert run.stdout is not None
    child, guard = map(int, run.stdout.readline().split())
    os.kill(guard, signal.SIGKILL)
    assert wait_until(lambda: gone(child))


@pytest.mark.usefixtures("temporary_files")
def test_brokers_data_is_deleted_by_the_next_start_where_the_guard_was_killed_too(tmp_path: Path) -> None:
    """A CI job that was cancelled left gigabytes for ever."""

    def brokers() -> EmbeddedCluster:
        return EmbeddedCluster(
            ClusterSpec(), java=Path(), jars=Mock(), logs=tmp_path, cross_zone=False, warm_start=False
        )

    if not (dies := os.fork()):
        try:
            os.kill(brokers().supervisor.guard._process.pid, signal.SIGKILL)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(dies, 0)
    assert len(list(tmp_path.iterdir())) == 1
    alive = brokers()
    EmbeddedTarget(log_folder=tmp_path, cross_zone=False, say=print).check_room(0, 0)
    assert list(tmp_path.iterdir()) == [alive._data]
    for _ in range(2):
        alive.close()
    assert not any(tmp_path.iterdir())


def test_the_guard_tells_how_a_child_ended(tmp_path: Path) -> None:
    with Guard() as guard:
        pid = guard.spawn(["sh", "-c", "echo hello; exit 3"], log=tmp_path / "log")
        assert wait_until(lambda: guard.exit_status(pid) is not None)
        assert guard.exit_status(pid) == 3
        killed = guard.spawn(["sleep", "600"], log=tmp_path / "log")
        assert guard.exit_status(killed) is None
        guard.kill(killed)
        assert guard.exit_status(killed) == -signal.SIGKILL
    assert (tmp_path / "log").read_text() == "hello\n"


def test_threads_that_ask_at_once_get_their_own_answers(tmp_path: Path) -> None:
    """Several threads checked Pulsar's nodes while one asked for ends: each waited for another's reply, for ever."""
    with Guard() as guard:
        codes = {guard.spawn(["/bin/sh", "-c", f"exit {code}"], log=tmp_path / "log"): code for code in range(8)}
        for pid in codes:
            while guard.exit_status(pid) is None:
                time.sleep(0.01)
        found: list[tuple[int, int | None]] = []

        def ask(pid: int) -> None:
            found.extend((codes[pid], guard.exit_status(pid)) for _ in range(200))

        threads = [threading.Thread(target=ask, args=(pid,), daemon=True) for pid in codes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
        assert not [thread for thread in threads if thread.is_alive()]
        assert len(found) == 8 * 200
        assert [pair for pair in found if pair[0] != pair[1]] == []


def test_a_command_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with Guard() as guard, pytest.raises(OSError, match="nowhere"):
        guard.spawn(["/nowhere"], log=tmp_path / "log")


def test_children_speak_english(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that was taken was none on a machine of another language: the run ended BROKEN, without another try."""
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de")  # goes before LC_ALL, but for the locale C
    with Guard() as guard:
        pid = guard.spawn(["sh", "-c", "echo $LC_ALL$LANGUAGE; ls /nowhere"], log=tmp_path / "log")
        assert wait_until(lambda: guard.exit_status(pid) is not None)
    locale, said = (tmp_path / "log").read_text().splitlines()
    assert locale == "C.UTF-8"
    assert said.endswith("No such file or directory")


def test_a_cluster_id_never_reads_as_an_option() -> None:
    """One in 64 did, and Kafka's storage tool then refused it."""
    assert not any(new_cluster_id().startswith("-") for _ in range(2000))


def test_a_guard_that_died_while_it_answered_is_said_to_have_died() -> None:
    """The half of a line was no JSON, and the run ended in a traceback."""
    with Guard() as guard:
        whole = guard._process.stdout
        guard._process.stdout = Mock(readline=lambda: '{"pi')
        with pytest.raises(OSError, match="the guard process that holds the brokers has died"):
            guard.spawn(["sleep", "600"], log=Path("/dev/null"))
        guard._process.stdout = whole


def test_a_guard_that_was_killed_is_said_to_have_died_and_can_be_closed(tmp_path: Path) -> None:
    """What it was asked stayed in the pipe's buffer: closing it was a BrokenPipeError, and brokers' data stayed."""
    guard = Guard()
    guard._process.kill()
    guard._process.wait()
    for _ in range(2):
        with pytest.raises(OSError, match="the guard process that holds the brokers has died"):
            guard.spawn(["sleep", "600"], log=tmp_path / "log")
    guard.close()


def test_a_guard_that_is_long_at_deleting_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run's end was a TimeoutExpired, and its cluster's own folder was not deleted."""
    with Guard() as guard:
        late = subprocess.TimeoutExpired("guard", 30)
        with monkeypatch.context() as slow:
            slow.setattr(guard._process, "wait", Mock(side_effect=late))
            guard.close()
