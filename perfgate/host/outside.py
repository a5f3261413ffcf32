"""Changes from outside the suite: by commands of the change file, noted until they are reverted, or by a person.

A command outlives a run that is killed: its process is noted in a file next to the note, and the next start waits for
its end before it reverts.
"""

from __future__ import annotations

import os
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from perfgate.host.journal import (
    Journal,
    Machine,
    Notes,
    a_folder_that_works,
    claimed,
    journals,
    lock_of,
    process_of,
    started_at,
)
from perfgate.host.session import run_in_session
from perfgate.model import Settings
from perfgate.model.changes import Commands
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.model.secret import redacted

LAST_WORDS = 5
READY_EVERY_S = 1.0
LOCK = "commands.lock"
SUFFIX = ".json"
COMMAND = ".command"
"""Ends the name of a file with the command that runs: its process, and when that was started (see `started_at`)."""


class _Outside:
    """A change whose settings the suite does not know."""

    def fixed(self, names: Iterable[str]) -> list[str]:
        return []

    def still(self, values: Settings) -> float:
        return 0.0


class CommandedChange(_Outside):
    """Applies and reverts a change by commands; see :class:`perfgate.model.target.OutsideChange`."""

    rehearsals = 1

    def __init__(
        self,
        commands: Commands,
        *,
        run_id: str,
        folder: Path,
        printed: Path,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`folder`: of the note of an applied change; `printed`: file for the commands' output; `note`: given what is
        waited for. Raises ConfigurationError while another run of this user has a change applied, and without a folder.
        """
        self._commands, self._run_id, self._folder, self._printed, self._say = commands, run_id, folder, printed, note
        self._journal: Journal | None = None
        lock = lock_of(folder, LOCK)
        if lock is None:
            raise ConfigurationError("another run applies and reverts a change by commands: wait until it has ended")
        self._lock = lock

    def change(self, values: Settings) -> float:
        """Apply the change and wait until it is ready; return how long that took, in s. Raises TargetError."""
        if self._journal is None:
            known = {"run": self._run_id, "folder": str(Path.cwd()), "commands": asdict(self._commands)}
            self._journal = Journal(self._folder, self._run_id, SUFFIX, known)
        return self._do("apply", self._commands.apply)

    def restore(self) -> float:
        """Revert the change and wait until it is ready; return how long that took, in s. Raises TargetError."""
        codes: list[int] = []
        try:
            took_s = self._do("revert", self._commands.revert, codes.append)
        except KeyboardInterrupt:
            if codes == [0]:  # it is reverted: reverting again may fail, as `rm` does
                self._forget()
            raise
        self._forget()
        return took_s

    def close(self) -> tuple[str, ...]:
        try:
            if self._journal is not None:
                self.restore()
        except TargetError as error:
            return (f"THE CHANGE IS STILL APPLIED: revert it by hand: {redacted(self._commands.revert)} ({error})",)
        self._lock.close()
        return ()

    def _forget(self) -> None:
        if self._journal is not None:
            if stays := self._journal.close(undone=True):
                _say(self._say, f"note: {stays}")
            with suppress(OSError):
                self._journal.path.with_suffix(COMMAND).unlink(missing_ok=True)
            self._journal = None

    def _do(self, name: str, command: str, ended: Callable[[int], None] = lambda code: None) -> float:
        began, path = time.monotonic(), self._journal.path if self._journal else None
        run(self._commands, name, command, note=path, say=self._say, keep=self._print, ended=ended)
        return time.monotonic() - began

    def _print(self, text: str) -> None:
        with suppress(OSError), self._printed.open("a") as file:  # a full disk reverts no less
            file.write(text)


class PausedChange(_Outside):
    """Asks a person to apply and to revert a change; see :class:`perfgate.model.target.OutsideChange`."""

    rehearsals = 0

    def __init__(self, name: str, terminal: Path = Path("/dev/tty")) -> None:
        """`name` of the change. Raises ConfigurationError without a terminal to ask at."""
        self._name, self._applied = name, False
        try:
            self._asked, self._answers = terminal.open("w"), terminal.open()
        except OSError as error:
            raise ConfigurationError("--pause-for-change asks a person, and this run has no terminal") from error

    def change(self, values: Settings) -> float:
        """Have the change applied; return how long that took, in s. Raises TargetError when the terminal is closed."""
        self._applied = True
        return self._ask("apply")

    def restore(self) -> float:
        """Have the change reverted; return how long that took, in s. Raises TargetError when the terminal is closed."""
        took_s = self._ask("revert")
        self._applied = False
        return took_s

    def close(self) -> tuple[str, ...]:
        """What a person has to do if the run ends while the change is applied: it does not ask then."""
        for file in (self._asked, self._answers):
            file.close()
        return (f"THE CHANGE IS STILL APPLIED: revert {self._name!r} by hand",) if self._applied else ()

    def _ask(self, action: str) -> float:
        began = time.monotonic()
        closed = f"the terminal was closed when it asked to {action} {self._name!r}"
        try:
            if os.isatty(self._answers.fileno()):  # an Enter from before the question is no answer to it
                termios.tcflush(self._answers, termios.TCIFLUSH)
            self._asked.write(f"\n{action} {self._name!r} now, then press Enter: ")
            self._asked.flush()
            answer = self._answers.readline()
        except (OSError, termios.error) as error:
            raise TargetError(closed) from error
        if not answer:
            raise TargetError(closed)
        return time.monotonic() - began


def run(
    commands: Commands,
    name: str,
    command: str,
    *,
    note: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
    keep: Callable[[str], None] = lambda text: None,
    folder: str | None = None,
    ended: Callable[[int], None] = lambda code: None,
) -> None:
    """Run a command, then `ready` until it ends with 0, all within the commands' time.

    At the first Ctrl-C it goes on to its end. `note`: the file that the command's process is noted next to; `keep` is
    given the output; `folder` and `ended`, of the command alone: see :func:`perfgate.host.session.run_in_session`.

    Raises TargetError with the last words of a command that failed or took longer.
    """

    def began(pid: int) -> None:
        with suppress(psutil.NoSuchProcess, OSError):  # a full disk reverts no less
            if note is not None:
                note.with_suffix(COMMAND).write_text(f"{pid} {started_at(pid)}")

    def interrupted() -> None:
        # What it has begun elsewhere would go on without it, and undo the reversal.
        _say(
            say,
            f"interrupted: [commands] {name} goes on to its end, {commands.timeout_s:g} s at most; "
            "a second time ends it",
        )

    def once(name: str, command: str, within_s: float, **hooks: Any) -> tuple[int, str]:
        start, when = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
        # The file's own command line, as its owner would type it.
        shell = ["/bin/sh", "-c", command]
        try:
            code, output = run_in_session(shell, within_s, folder=folder, **hooks)
        except subprocess.TimeoutExpired:
            keep(f"{when} {name}: {redacted(command)}\ndid not end within {within_s:g} s\n\n")
            raise TargetError(f"[commands] {name} did not end within {within_s:g} s: {redacted(command)}") from None
        took_s = time.monotonic() - start
        keep(f"{when} {name}: {redacted(command)}\n{redacted(output)}ended with {code} after {took_s:.1f} s\n\n")
        return code, output

    ends = time.monotonic() + commands.timeout_s
    code, output = once(name, command, commands.timeout_s, began=began, interrupted=interrupted, ended=ended)
    if code:
        raise TargetError(f"[commands] {name} ended with {code}: {_last_words(output)}")
    while commands.ready:
        left = ends - time.monotonic()
        if left <= 0:
            raise TargetError(
                f"[commands] ready: not within {commands.timeout_s:g} s after {name}: {_last_words(output)}"
            )
        code, output = once("ready", commands.ready, left)
        if not code:
            return
        time.sleep(min(READY_EVERY_S, max(0.0, ends - time.monotonic())))


def revert_what_was_left(folder: Path, note: Callable[[str], None]) -> None:
    """Revert what killed runs have applied, while no other may apply. Raises ConfigurationError where that fails."""
    with a_folder_that_works(folder):
        if not folder.exists():
            return
    lock = lock_of(folder, LOCK)
    if lock is None:  # another run, whose start reverts what was left
        return
    with lock:
        for path in journals(folder, SUFFIX):
            with claimed(path) as notes:
                if notes is not None:
                    _revert(notes, note)


def _revert(notes: Notes, note: Callable[[str], None]) -> None:
    path = notes.path
    try:
        entry = notes.entries[0]
        commands, run_id, folder = Commands(**entry["commands"]), str(entry["run"]), str(entry["folder"])
    except (IndexError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{path} cannot be read: see whether a killed run's change is still applied, revert it, then remove the "
            "file"
        ) from error
    shown, codes, owner = redacted(commands.revert), list[int](), Machine.of(entry)
    if not owner.locks_count(notes.here):
        raise ConfigurationError(
            f"run {run_id} of host {owner.host} has left its change applied, or still runs there: the next start on "
            f"that host reverts it; where there is no such host any more run {shown}, then remove {path}"
        )
    where = folder if Path(folder).is_dir() else None
    try:
        if owner.boot == notes.here.boot:  # else its processes have ended with the machine
            _let_end(path.with_suffix(COMMAND), commands.timeout_s, note)
        run(commands, "revert", commands.revert, note=path, say=note, folder=where, ended=codes.append)
    except TargetError as error:
        raise ConfigurationError(
            f"run {run_id} was killed with its change applied, and that cannot be reverted: {error}; run it by hand: "
            f"{shown}, then remove {path}"
        ) from error
    except KeyboardInterrupt:
        if codes == [0]:
            _reverted(notes, run_id, shown, note)
        else:
            _say(
                note,
                f"THE CHANGE IS STILL APPLIED, of run {run_id}, which was killed: the next start reverts it; or run it "
                f"by hand: {shown}, then remove {path}",
            )
        raise
    _reverted(notes, run_id, shown, note)


def _reverted(notes: Notes, run_id: str, shown: str, note: Callable[[str], None]) -> None:
    notes.remove()
    notes.path.with_suffix(COMMAND).unlink(missing_ok=True)
    _say(note, f"reverted the change that run {run_id}, which was killed, had applied: {shown}")


def _let_end(path: Path, timeout_s: float, note: Callable[[str], None]) -> None:
    """Wait until the command that a killed run had begun has ended, or end it: it would undo the reversal."""
    try:
        pid, started = path.read_text().split()
        process = process_of(int(pid), float(started))
    except (OSError, ValueError):
        return
    if process is None:
        return
    _say(note, f"waiting for the end of a command that a killed run had begun, {timeout_s:g} s at most")
    try:
        process.wait(timeout_s)
    except psutil.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _say(note: Callable[[str], None], text: str) -> None:
    """Pass the text on, unless the output is gone: a closed terminal, or a `tee` that the same Ctrl-C has ended."""
    with suppress(OSError):
        note(text)


def _last_words(output: str) -> str:
    return redacted("; ".join(output.splitlines()[-LAST_WORDS:])) or "it printed nothing"
