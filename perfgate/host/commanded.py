"""A change that somebody else makes: commands of the change file apply it and revert it, however the run ends.

What is applied is noted before, with the command that reverts it, in a file that this process holds a lock on (flock):
the kernel lets go of it however the process ends, and the next start reverts what it finds without a holder. A command
outlives a run that is killed: which it is stands in a file beside the note, and its end is waited for first.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import psutil

from perfgate.host.machine_use import boot_id
from perfgate.host.session import run_in_session
from perfgate.host.state import a_folder_that_works, own_folder
from perfgate.model.changes import Commands
from perfgate.model.declared import Settings
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.model.secret import redacted

LAST_WORDS = 5
READY_EVERY_S = 1.0
LOCK = "commands.lock"
SUFFIX = ".json"
COMMAND = ".command"
"""A file with the command that runs: its process, and when that was started (s since 1970)."""


class CommandedChange:
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
        """`folder`: where a change is noted while it is applied; `printed`: the file that the output is kept in; `note`
        is told what a person waits for.

        Raises ConfigurationError when another run of this user has a change applied, and when the folder does not work.
        """
        own_folder(folder)
        self._commands, self._run_id, self._printed, self._tell = commands, run_id, printed, note
        with a_folder_that_works(folder):
            self._lock = (folder / LOCK).open("a")
        if not _held(self._lock):
            self._lock.close()
            raise ConfigurationError("another run applies and reverts a change by commands: wait until it has ended")
        self._noted: TextIO | None = None
        self._note_path = folder / f"{run_id}{SUFFIX}"

    def fixed(self, names: Iterable[str]) -> list[str]:
        """Return nothing: what the commands change is theirs to know."""
        return []

    def change(self, values: Settings) -> float:
        """Apply the change and wait until it is ready; return how long that took, in s. Raises TargetError."""
        if self._noted is None:
            self._noted = _note(self._note_path, self._run_id, self._commands)
        return self._do("apply", self._commands.apply)

    def still(self, values: Settings) -> float:
        """Do nothing: what was changed is not known."""
        return 0.0

    def restore(self) -> float:
        """Revert the change and wait until it is ready; return how long that took, in s. Raises TargetError."""
        codes: list[int] = []
        try:
            took_s = self._do("revert", self._commands.revert, codes.append)
        except KeyboardInterrupt:
            if codes == [0]:  # it is reverted: a second time it may fail, as `rm` does
                self._forget()
            raise
        self._forget()
        return took_s

    def close(self) -> tuple[str, ...]:
        """Revert the change if it is applied; return what a person has to do where that fails. May be called again."""
        try:
            if self._noted is not None:
                self.restore()
        except TargetError as error:
            return (f"THE CHANGE IS STILL APPLIED: revert it by hand: {redacted(self._commands.revert)} ({error})",)
        self._lock.close()
        return ()

    def _forget(self) -> None:
        if self._noted is not None:
            _remove(self._note_path)
            self._noted.close()
            self._noted = None

    def _do(self, name: str, command: str, ended: Callable[[int], None] = lambda code: None) -> float:
        began = time.monotonic()
        _run_noted(self._commands, name, command, self._note_path, self._tell, self._print, ended=ended)
        return time.monotonic() - began

    def _print(self, text: str) -> None:
        with suppress(OSError), self._printed.open("a") as file:  # a full disk reverts no less
            file.write(text)


def run(
    commands: Commands,
    name: str,
    command: str,
    keep: Callable[[str], None] = lambda text: None,
    *,
    folder: str | None = None,
    began: Callable[[int], None] = lambda pid: None,
    interrupted: Callable[[], None] | None = None,
    ended: Callable[[int], None] = lambda code: None,
) -> None:
    """Run one of the commands, then `ready` until it ends with 0; all within their time. `keep` is told the output.

    `folder`, `began`, `interrupted` and `ended`, of the command alone: see
    :func:`perfgate.host.session.run_in_session`.

    Raises TargetError with the last words of what failed or took longer.
    """
    ends = time.monotonic() + commands.timeout_s
    code, output = _run(name, command, commands.timeout_s, keep, folder, began, interrupted, ended)
    if code:
        raise TargetError(f"[commands] {name} ended with {code}: {_last_words(output)}")
    while commands.ready:
        left = ends - time.monotonic()
        if left <= 0:
            raise TargetError(
                f"[commands] ready: not within {commands.timeout_s:g} s after {name}: {_last_words(output)}"
            )
        code, output = _run("ready", commands.ready, left, keep, folder)
        if not code:
            return
        time.sleep(min(READY_EVERY_S, max(0.0, ends - time.monotonic())))


def _run_noted(
    commands: Commands,
    name: str,
    command: str,
    path: Path,
    note: Callable[[str], None],
    keep: Callable[[str], None] = lambda text: None,
    folder: str | None = None,
    ended: Callable[[int], None] = lambda code: None,
) -> None:
    """Run it as :func:`run` does, to its end at the first Ctrl-C, with its process in a file beside the note `path`."""

    def began(pid: int) -> None:
        with suppress(psutil.NoSuchProcess, OSError):  # a full disk reverts no less
            started = psutil.Process(pid).create_time()
            path.with_suffix(COMMAND).write_text(f"{pid} {started}")

    def interrupted() -> None:
        # What it has begun elsewhere would go on without it, and win over what reverts it.
        _say(
            note,
            f"interrupted: [commands] {name} goes on to its end, {commands.timeout_s:g} s at most; "
            "a second time ends it",
        )

    run(commands, name, command, keep, folder=folder, began=began, interrupted=interrupted, ended=ended)


def revert_what_was_left(folder: Path, note: Callable[[str], None]) -> None:
    """Revert what runs that were killed have applied. Raises ConfigurationError where that fails."""
    with a_folder_that_works(folder):
        if not folder.exists():
            return
    own_folder(folder)
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            file = path.open("r+")
        except FileNotFoundError:
            continue  # its run has just ended
        with file:
            if not _held(file):
                continue
            try:
                entry = json.load(file)
                commands, run_id, host = Commands(**entry["commands"]), str(entry["run"]), str(entry["host"])
                stated = entry.get("folder")  # not by earlier versions
                where = str(stated) if stated and Path(stated).is_dir() else None
            except (ValueError, KeyError, TypeError):
                note(f"{path} cannot be read: see whether a change is still applied, then remove it")
                continue
            # A container has a name of its own, and the kernel of those before it.
            if host != os.uname().nodename and entry.get("boot") != boot_id():
                raise ConfigurationError(
                    f"run {run_id} of host {host} has left its change applied, or still runs there: the next start on "
                    f"that host reverts it; where there is no such host any more run {redacted(commands.revert)}, then "
                    f"remove {path}"
                )
            _revert_what(run_id, commands, path, note, where)


def _revert_what(run_id: str, commands: Commands, path: Path, note: Callable[[str], None], folder: str | None) -> None:
    """Revert what that run has applied, and remove its note."""
    shown, codes = redacted(commands.revert), list[int]()
    try:
        _let_end(path.with_suffix(COMMAND), commands.timeout_s, note)
        _run_noted(commands, "revert", commands.revert, path, note, folder=folder, ended=codes.append)
    except TargetError as error:
        raise ConfigurationError(
            f"run {run_id} was killed with its change applied, and that cannot be reverted: {error}; run it by hand: "
            f"{shown}, then remove {path}"
        ) from error
    except KeyboardInterrupt:
        if codes == [0]:
            _reverted(run_id, shown, path, note)
        else:
            _say(
                note,
                f"THE CHANGE IS STILL APPLIED, of run {run_id}, which was killed: the next start reverts it; or run it "
                f"by hand: {shown}, then remove {path}",
            )
        raise
    _reverted(run_id, shown, path, note)


def _reverted(run_id: str, shown: str, path: Path, note: Callable[[str], None]) -> None:
    _remove(path)
    _say(note, f"reverted the change that run {run_id}, which was killed, had applied: {shown}")


def _let_end(path: Path, timeout_s: float, note: Callable[[str], None]) -> None:
    """Wait until the command that a killed run had begun has ended, or end it: it would win over what reverts it."""
    try:
        pid, started = path.read_text().split()
        process = psutil.Process(int(pid))
        if process.create_time() != float(started):
            return
        _say(note, f"waiting for the end of a command that a killed run had begun, {timeout_s:g} s at most")
        process.wait(timeout_s)
    except psutil.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(int(pid), signal.SIGKILL)
    except (OSError, ValueError, psutil.NoSuchProcess):
        return


def _run(
    name: str,
    command: str,
    timeout_s: float,
    keep: Callable[[str], None],
    folder: str | None = None,
    on_start: Callable[[int], None] = lambda pid: None,
    interrupted: Callable[[], None] | None = None,
    ended: Callable[[int], None] = lambda code: None,
) -> tuple[int, str]:
    began, when = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    try:
        # The file's own command line, as its owner would type it.
        shell = ["/bin/sh", "-c", command]
        code, output = run_in_session(
            shell, timeout_s, folder=folder, began=on_start, interrupted=interrupted, ended=ended
        )
    except subprocess.TimeoutExpired:
        keep(f"{when} {name}: {redacted(command)}\ndid not end within {timeout_s:g} s\n\n")
        raise TargetError(f"[commands] {name} did not end within {timeout_s:g} s: {redacted(command)}") from None
    took_s = time.monotonic() - began
    keep(f"{when} {name}: {redacted(command)}\n{redacted(output)}ended with {code} after {took_s:.1f} s\n\n")
    return code, output


def _say(note: Callable[[str], None], text: str) -> None:
    """Tell it, unless the output is gone: a closed terminal, or a `tee` that the same Ctrl-C has ended."""
    with suppress(OSError):
        note(text)


def _last_words(output: str) -> str:
    return redacted("; ".join(output.splitlines()[-LAST_WORDS:])) or "it printed nothing"


def _note(path: Path, run_id: str, commands: Commands) -> TextIO:
    """Write down, before it is done, what has to be reverted; return the file, locked."""
    part = path.with_suffix(".part")  # whoever finds it under its own name finds it whole, and locked
    file = part.open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    known = {
        "run": run_id,
        "host": os.uname().nodename,
        "boot": boot_id(),
        "folder": str(Path.cwd()),
        "commands": asdict(commands),
    }
    json.dump(known, file)
    file.flush()
    os.fsync(file.fileno())
    part.replace(path)
    return file


def _remove(path: Path) -> None:
    """Remove the note of what is reverted, and of its command."""
    path.unlink(missing_ok=True)
    path.with_suffix(COMMAND).unlink(missing_ok=True)


def _held(file: TextIO) -> bool:
    """Take the file's lock; return whether nobody else has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
