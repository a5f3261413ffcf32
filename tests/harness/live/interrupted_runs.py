"""Runs that are interrupted at some moment in some way, on brokers that their target file's commands take away."""

import os
import random
import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import psutil

from perfgate.model.target import Action
from tests.harness.run_gate import HANG_BOUND_S, ROOT, hear_interrupts

STANDS_STILL_S = 15.0
"""Longer than generators wait for a run that says nothing (10 s)."""
GONE_WITHIN_S = 60.0
LATEST_S = 50.0
"""By then a fault is over on most machines, and nothing is away any more."""
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


@dataclass
class Soak:
    """Lets runs of the rows go on to a drawn moment and interrupts them in a drawn way, until enough were interrupted.

    `command` makes a row's command line for a folder of results, `left` says what is not as it was before the runs,
    `away` which brokers are away; logs and results go into `folder`.
    """

    folder: Path
    rows: list[str]
    command: Callable[[str, Path], list[str]]
    left: Callable[[], list[str]]
    away: Callable[[], list[int]]
    environment: dict[str, str]
    wrong: list[str] = field(default_factory=list)
    """What an interrupted run left, and every traceback, with the end of its log."""

    def whole(self, row: str, name: str) -> float:
        """Let a run go to its end, which leaves nothing, and return how long it took, in s."""
        since, log = time.monotonic(), self.folder / f"{name}.log"
        with begun(self.command(row, self.folder / name), self.environment, log) as process:
            # Red it may be, on a machine that does something else besides.
            assert process.wait(timeout=HANG_BOUND_S) in (0, 1, 6), log.read_text()[-3000:]
        assert self.left() == []
        return time.monotonic() - since

    def interrupt(self, times: int) -> None:
        """Interrupt so many runs; one that had ended before its moment does not count, and another takes its place."""
        seed = int(os.environ.get("SOAK_SEED", time.time_ns() % 10**6))
        print(f"SOAK_SEED={seed}")
        chance = random.Random(seed)
        shortest = {row: self.whole(row, f"whole-{row}") for row in self.rows}
        print("a whole run takes", {row: f"{seconds:.0f} s" for row, seconds in shortest.items()})
        took: dict[str, list[float]] = defaultdict(list)
        for number in range(2 * times):
            if sum(map(len, took.values())) == times:
                break
            row, how = chance.choice(self.rows), chance.choice(SIGNALS)
            after = chance.uniform(0.5, min(shortest[row], LATEST_S))
            before, log, since = self.left(), self.folder / f"{number}.log", time.monotonic()
            with begun(self.command(row, self.folder / str(number)), self.environment, log) as process:
                over = until(lambda process=process: process.poll() is not None, after)  # type: ignore[misc]
                lasted, was_away = time.monotonic() - since, self.away()
                seconds = interrupt(process, how)
            now = self.left()
            print(
                f"{number:2} {row:12} {how:26} after {after:4.1f} s{' (over)' if over else ''}: code "
                f"{process.returncode}, {seconds:.1f} s, away then {was_away}, left {now}",
                flush=True,
            )
            if over:
                shortest[row] = min(shortest[row], lasted)
            else:
                took[f"{how}, a broker away" if was_away else how].append(seconds)
            if now and not before and not how.endswith("SIGKILL"):
                self.wrong.append(f"{number}: {row}, {how} after {after:.1f} s left {now}: {log.read_text()[-2000:]}")
            if "Traceback" in (said := log.read_text()) and process.returncode not in (-2, -1, -15):
                self.wrong.append(f"{number}: {row}, {how} after {after:.1f} s: {said[-2000:]}")
        for how, seconds_each in sorted(took.items()):
            print(f"{how}: ended within {max(seconds_each):.1f} s, {len(seconds_each)} times")
        assert sum(map(len, took.values())) == times


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
