"""Commands in sessions of their own, and a Ctrl-C that waits for what has to be done to its end."""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from perfgate.host.session import interrupted_later, run_in_session


class NoTry:
    """A lock that may be waited for, and not be tried: an interruption right after a try keeps it for ever."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, blocking: bool = True) -> bool:
        assert blocking, "Popen.wait(timeout) and poll() try their lock outside of the `try` that lets go of it"
        return self._lock.acquire()

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Watched(subprocess.Popen[bytes]):
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._waitpid_lock: Any = NoTry()


def test_a_command_is_waited_for_without_a_lock_that_ctrl_c_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run hung for ever after Ctrl-C, with its change applied: 1 of some 4,000 that came as a command ended."""
    monkeypatch.setattr(subprocess, "Popen", Watched)
    assert run_in_session(["/bin/sh", "-c", "sleep 0.1; echo done; exit 3"], 30) == (3, "done\n")
    with pytest.raises(subprocess.TimeoutExpired):
        run_in_session(["/bin/sh", "-c", "sleep 60"], 0.1)


def test_a_command_is_run_by_a_python_without_file_descriptors_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conda's has no os.pidfd_open: no cluster started, and an apply went on by itself after an AttributeError."""
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert run_in_session(["/bin/sh", "-c", "sleep 0.05; echo done; exit 3"], 30) == (3, "done\n")
    with pytest.raises(subprocess.TimeoutExpired):
        run_in_session(["/bin/sh", "-c", "sleep 60"], 0.05)


@pytest.fixture(autouse=True)
def answered() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_one_waits_and_a_second_one_does_not() -> None:
    """An engine that answers nothing held a run for minutes, and kill -9 alone ended it."""
    done = []

    @interrupted_later()
    def interrupted(times: int) -> None:
        for time in range(times):
            signal.raise_signal(signal.SIGINT)
            done.append(time)

    for times, all_done in ((1, [0]), (2, [0, 0])):
        with pytest.raises(KeyboardInterrupt):
            interrupted(times)
        assert done == all_done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
