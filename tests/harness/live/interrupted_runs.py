"""Runs that are interrupted at some moment in some way, on brokers that their target file's commands take away."""

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import psutil

from perfgate.model.target import Action
from tests.harness.run_gate import HANG_BOUND_S, ROOT, hear_interrupts

STANDS_STILL_S = 15.0
"""Longer than generators wait for a run that says nothing (10 s)."""
GONE_WITHIN_S = 60.0
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGINT twice", "SIGKILL", "SIGSTOP, SIGCONT, SIGTERM", "SIGSTOP, SIGKILL")


class Brokers:
    """Does to the brokers what the fault commands of the target file ask for, by files in a folder."""

    def __init__(
        self,
        pids: Callable[[], Mapping[int, int]],
        do: Callable[[Action, int], None],
        folder: Path,
        known_by: str = "broker",
    ) -> None:
        """`pids`: of the brokers' processes, by what `do` and the commands know them by, {broker} or {port}."""
        self._pids, self._do, self._folder, self._known_by = pids, do, folder, known_by
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> str:
        """Return the [faults] table."""
        self._thread.start()
        asks = (
            f"touch {self._folder}/VERB-{{{self._known_by}}} && "
            f"while test -e {self._folder}/VERB-{{{self._known_by}}}; do sleep 0.1; done"
        )
        lines = [f'{verb} = "{asks.replace("VERB", verb)}"\n' for verb in ("kill", "start", "pause", "resume")]
        return "[faults]\n" + "".join(lines) + "timeout-s = 60\n"

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def away(self) -> list[int]:
        """Return the brokers whose process has ended or stands still."""
        return [broker for broker, pid in self._pids().items() if not _runs(pid)]

    def _serve(self) -> None:
        while not self._ended.wait(0.05):
            for asked in self._folder.glob("*-*"):
                verb, broker = asked.name.split("-")
                if verb != "start" or not psutil.pid_exists(self._pids()[int(broker)]):
                    self._do(cast("Action", verb), int(broker))
                asked.unlink()


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@contextmanager
def begun(command: list[str], environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, preexec_fn=hear_interrupts
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def interrupt(process: subprocess.Popen[bytes], how: str) -> float:
    """Interrupt the run so, and return how long it then took to end, in s."""
    first, *later = how.split(", ")
    name, _, twice = first.partition(" ")
    process.send_signal(getattr(signal, name))
    if twice:
        time.sleep(0.5)
        process.send_signal(getattr(signal, name))
    if later:
        time.sleep(STANDS_STILL_S)
    since = time.monotonic()
    for name in later:
        process.send_signal(getattr(signal, name))
        time.sleep(2 if name == "SIGCONT" else 0)
        since = time.monotonic()
    process.wait(timeout=HANG_BOUND_S)
    return time.monotonic() - since


def until(holds: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


def processes_of(state: Path) -> list[str]:
    """Return the command lines of the processes that have this state folder in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("XDG_STATE_HOME") == str(state):
                found.append(f"{process.pid} {' '.join(process.cmdline())[:200]}")
        except psutil.Error:
            continue
    return found
