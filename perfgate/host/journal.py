"""Journal of changes to undo: noted before they are made, locked while their owner lives, undone by the next start.

A note is a line of JSON in a file of its owner; a temporary folder is a note of its own; what a container engine keeps
is labelled with a mark of its owner. The owner holds a lock (flock) on file or folder, which the kernel releases
however the owner ends. The next start undoes what it can lock, holds that lock meanwhile, and removes the note last: so
nothing is undone while its owner lives, nor by two processes at once, and what was not undone stays noted.

`perfgate.host.guard` and `perfgate.load.boot` clean up by themselves: they run without this package.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import psutil

from perfgate.model.errors import ConfigurationError, TargetError

Entry = Mapping[str, Any]
PART = ".part"
"""Ends the name of a file whose first note is being written."""
MACHINE_ID, BOOT_ID = Path("/etc/machine-id"), Path("/proc/sys/kernel/random/boot_id")
"""See machine-id(5) and random(4)."""
PID_NAMESPACE = Path("/proc/self/ns/pid")
"""See pid_namespaces(7)."""
PREFIX = "kafka-perf-gate-agent-"


class Machine(NamedTuple):
    """An owner's place: the host's name, ids of the machine, of its kernel's boot, and of the file's mount."""

    host: str
    number: str
    boot: str
    device: str

    @classmethod
    def of(cls, entry: Entry) -> Machine:
        """The machine that a journal's first note names; fields that it lacks are empty."""
        return cls(*(str(entry.get(name, "")) for name in cls._fields))

    def locks_count(self, here: Machine) -> bool:
        """Whether this machine's locks are seen from `here`, so that an owner there without its lock has ended.

        Another machine's lock may not be seen here. A container that has the folder is on the machine whose kernel it
        shares; a machine that was started again since is known by its name and number.
        """
        if self.boot == here.boot != "":
            return self.device == here.device  # through another mount a lock may not be seen
        return self[:2] == here[:2] and here.number != ""


def this_machine(mount: int) -> Machine:
    """The place of this process, for a file on a mount (`st_dev`); unknown fields are empty."""
    return Machine(os.uname().nodename, _text_of(MACHINE_ID), _text_of(BOOT_ID), str(mount))


def _text_of(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


class Journal:
    """The notes of this process, in a new file that is visible once it is locked and has its first note."""

    def __init__(self, folder: Path, name: str, suffix: str, first: Entry) -> None:
        """`first`: the note that names the owner; the machine is added.

        Raises ConfigurationError when the folder is not this user's alone, or does not work; TargetError as `note`.
        """
        own_folder(folder)
        with a_folder_that_works(folder), ExitStack() as unless_noted:
            self.path, part, self.file = _new_file(folder, name, suffix)
            unless_noted.callback(part.unlink, missing_ok=True)
            unless_noted.callback(self.close, undone=False)
            fcntl.flock(self.file, fcntl.LOCK_EX)
            here = this_machine(os.fstat(self.file.fileno()).st_dev)
            self.note({**first, **here._asdict()})
            part.replace(self.path)
            unless_noted.pop_all()

    def note(self, entry: Entry) -> None:
        """Write another note to the disk. Raises TargetError where that fails: then nothing may be done."""
        try:
            self.file.write(json.dumps(entry) + "\n")
            self.file.flush()
            os.fsync(self.file.fileno())
        except OSError as error:
            raise TargetError(
                f"{self.path}: {error.strerror or error}; what is done to these brokers is noted there first: nothing "
                "more is done to them"
            ) from error

    def close(self, *, undone: bool) -> str:
        """Release the lock, and first remove the notes where all is `undone`; return a message where that fails."""
        stays = ""
        if undone and not self.file.closed:
            try:
                self.path.unlink(missing_ok=True)
            except OSError as error:
                stays = (
                    f"all is put back, but the notes of it cannot be removed ({error.strerror or error}): remove "
                    f"{self.path} once that works; the next start would put back once more"
                )
        with suppress(OSError):  # a full disk: what could not be noted was not done, or needs no note any more
            self.file.close()
        return stays


def _new_file(folder: Path, name: str, suffix: str) -> tuple[Path, Path, TextIO]:
    """A free path, the file to be renamed to it, and that file open: an earlier journal of this name stays."""
    for number in itertools.count():
        path = folder / f"{name}{f'.{number}' if number else ''}{suffix}"
        part = path.with_name(path.name + PART)
        with suppress(FileExistsError):
            if not path.exists():
                return path, part, part.open("x")
    raise AssertionError("unreachable")


@dataclass(frozen=True, kw_only=True, slots=True)
class Notes:
    """The notes of an owner that is gone. `noted_at`: time of the last one, in s since the epoch."""

    path: Path
    entries: tuple[Entry, ...]
    noted_at: float
    here: Machine
    """Where they are read."""

    def add(self, entry: Entry) -> None:
        """Note that something is undone. Lost on a full disk: then it is undone once more."""
        with suppress(OSError), self.path.open("a") as file:
            file.write("\n" + json.dumps(entry) + "\n")  # the last line may have been cut off

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def journals(folder: Path, suffix: str) -> list[Path]:
    """All journals in the folder, of living owners too. Raises ConfigurationError for a folder not to be trusted."""
    own_folder(folder)
    return sorted(folder.glob(f"*{suffix}"))


@contextmanager
def claimed(path: Path) -> Iterator[Notes | None]:
    """Lock and read a journal while the context is open: this process alone may then undo its notes.

    None while its owner lives or another process undoes it, once that is done, and for a link. A line that was cut off
    is skipped. Raises ConfigurationError when the folder does not work.
    """
    with ExitStack() as stack:
        notes = None
        with a_folder_that_works(path.parent), suppress(FileNotFoundError):
            if not path.is_symlink():
                file = stack.enter_context(path.open("r+", errors="replace"))
                if locked(file) and (status := os.fstat(file.fileno())).st_nlink:  # else just undone and removed
                    here = this_machine(status.st_dev)
                    notes = Notes(path=path, entries=tuple(_entries(file)), noted_at=status.st_mtime, here=here)
        yield notes


def _entries(file: TextIO) -> Iterator[Entry]:
    for line in file.read().splitlines():
        with suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict):
                yield entry


def locked(file: int | TextIO) -> bool:
    """Lock an open file or folder until it is closed; False where another process has. Raises OSError without locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_of(folder: Path, name: str) -> TextIO | None:
    """An open file of this name, locked until it is closed; None: another process has it. Raises ConfigurationError."""
    own_folder(folder)
    with a_folder_that_works(folder), ExitStack() as unless_locked:
        file = unless_locked.enter_context((folder / name).open("a"))
        if locked(file):
            unless_locked.pop_all()
            return file
    return None


def own_folder(folder: Path) -> None:
    """Create the folder, or make sure that no other user could have written there. Raises ConfigurationError."""
    with a_folder_that_works(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if folder.is_symlink() or status.st_uid != os.getuid():
            raise ConfigurationError(
                f"{folder} is a link or another user's: what it holds is acted upon on the brokers; remove it, or set "
                "XDG_STATE_HOME to a folder of your own"
            )
        if status.st_mode & 0o077:
            folder.chmod(0o700)


@contextmanager
def a_folder_that_works(folder: Path) -> Iterator[None]:
    """Turn errors of the folder's file system into a ConfigurationError."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"{folder}: {error.strerror or error}; what a run does to real brokers is noted there, under a lock: set "
            "XDG_STATE_HOME to a local folder of your own"
        ) from error


class LockedFolder:
    """A new folder in the folder for temporary files (TMPDIR), locked by this process until it ends."""

    def __init__(self, prefix: str = PREFIX) -> None:
        """Raises OSError when it cannot be created, on a full disk, say."""
        self._lock: int | None = None
        while self._lock is None:
            self.path = Path(tempfile.mkdtemp(prefix=prefix))
            self._lock = self._acquired()

    def _acquired(self) -> int | None:
        """The lock; None where another process has taken the new folder for a leftover."""
        try:
            lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return None
        try:
            held = locked(lock)
        except OSError:  # a file system without locks: no other process gets a lock either
            held = True
        if held and self.path.exists():
            return lock
        os.close(lock)
        return None

    def delete(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None


def delete_left_over(prefix: str = PREFIX) -> None:
    """Delete folders of this user's ended processes. Raises OSError without a folder for temporary files."""
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):  # another process deletes it too
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.getuid() and locked(lock):
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)


def mark_of_this_process() -> str:
    """A mark unique to this process: pid@start@host@namespace of the pid."""
    pid = os.getpid()
    return f"{pid}@{started_at(pid):.2f}@{os.uname().nodename}@{PID_NAMESPACE.readlink()}"


def is_alive(mark: str) -> bool:
    """Whether the marked process lives, or may live: those of another machine or container cannot be seen."""
    pid, started, *place = mark.split("@")
    if place != [os.uname().nodename, str(PID_NAMESPACE.readlink())]:
        return True
    return process_of(int(pid), float(started)) is not None


def started_at(pid: int) -> float:
    """When a process was started, in s since the machine was, whatever the clock. Raises psutil.NoSuchProcess."""
    machine_s = psutil.boot_time()
    return psutil.Process(pid).create_time() - machine_s


def process_of(pid: int, started: float) -> psutil.Process | None:
    """The process of this id and start (:func:`started_at`); None when it has ended: ids are used again."""
    try:
        return psutil.Process(pid) if abs(started_at(pid) - started) < 1 else None
    except psutil.NoSuchProcess:
        return None
