"""The manifest of a run on real brokers: what it makes, written down before it is made, for the next start to clean up.

One file per run and cluster start, a JSON object a line, flushed to the disk at each line. A topic is known by its id,
which no other topic can have; until the brokers have told it, by its name and what it holds. The writer holds a lock on
its file (flock), which the kernel lets go when it ends, however it ends: so a run is known to be gone, also from within
another container that sees the same folder.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TextIO

from perfgate.host.state import a_folder_that_works, own_folder
from perfgate.model.errors import ConfigurationError, TargetError

SUFFIX = ".jsonl"
MACHINE_ID, BOOT_ID = Path("/etc/machine-id"), Path("/proc/sys/kernel/random/boot_id")
"""See machine-id(5) and random(4)."""


class Away(NamedTuple):
    """A broker that a fault took away: its address (host:port), and the fault command that brings it back."""

    address: str
    back: str
    taken: bool = False
    """Whether it had gone: what the command does that takes it away is done."""


class Machine(NamedTuple):
    """Where a run was: the name of its host, numbers of the machine, of the start of its kernel, and of a mount."""

    host: str
    number: str
    boot: str
    device: str


def this_machine(mount: int) -> Machine:
    """Return where this process is, which has a manifest through a mount (`st_dev`); what is not told is empty."""
    return Machine(os.uname().nodename, _told(MACHINE_ID), _told(BOOT_ID), str(mount))


def _told(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


@dataclass
class Leftover:
    """What a run that is gone had made on one cluster: topic ids by name ("" where the id was not learnt)."""

    path: Path
    cluster_id: str
    run_id: str
    machine: Machine
    here: Machine
    """Where it is read."""
    noted_at: float
    """When its run last noted something, in s since the epoch."""
    target: str
    """The target file, and the servers that it named."""
    topics: dict[str, str] = field(default_factory=dict)
    configs: list[dict[str, str | None]] = field(default_factory=list)
    """Broker settings that were changed: broker, name, the value before (None: it was not set), the effective one then,
    and the run's own."""
    away: dict[int, Away] = field(default_factory=dict)
    """Brokers that a fault took away, by id."""

    @property
    def has_ended(self) -> bool:
        """Whether it is certain that the run has: it was on this machine, whose kernel tells whether its lock is held.

        Of another machine a lock may tell nothing. A container that has the folder is on the machine whose kernel it
        shares; a machine that was started again since is known by its name and number.
        """
        if self.machine.boot == self.here.boot != "":
            return self.machine.device == self.here.device  # through another mount a lock may not be seen
        return self.machine[:2] == self.here[:2] and self.here.number != ""

    @property
    def text(self) -> str:
        """What it is, for a person."""
        days = (time.time() - self.noted_at) / 86_400
        what = [f"broker {broker} away ({back})" for broker, (_, back, _) in self.away.items()]
        what += [f"{one['name']} of broker {one['broker']} changed" for one in self.configs]
        what += [f"topic {name}" for name in self.topics]
        return f"run {self.run_id} of host {self.machine.host}, {days:.1f} days ago: {', '.join(what) or 'nothing'}"


class Manifest:
    """The file of the run that writes. Its notes raise TargetError where they cannot be written."""

    def __init__(self, folder: Path, *, cluster_id: str, run_id: str, target: str = "") -> None:
        """`target`: the target file and its servers, by which its next start knows it before it is connected.

        Raises ConfigurationError when the folder is not this user's alone, or does not work; TargetError as its notes.
        """
        self.cluster_id = cluster_id
        """Of the cluster that the run began on."""
        own_folder(folder)
        with a_folder_that_works(folder):
            self._path, self._file = _new_file(folder, run_id)
            fcntl.flock(self._file, fcntl.LOCK_EX)
        self._outstanding: set[str] = set()
        self._changed: set[tuple[str, str]] = set()
        self._away: set[int] = set()
        here = this_machine(os.fstat(self._file.fileno()).st_dev)
        self._write({"run": run_id, "cluster": cluster_id, "target": target, **here._asdict()})

    def plans(self, topic: str) -> None:
        """Note that the topic is about to be made."""
        self._write({"topic": topic})
        self._outstanding.add(topic)

    def made(self, topic: str, topic_id: str) -> None:
        """Note the id that the brokers gave the topic."""
        self._write({"topic": topic, "id": topic_id})

    def gone(self, topic: str) -> None:
        """Note that the topic is deleted, or was refused."""
        self._outstanding.discard(topic)
        self._write({"gone": topic})

    def changes(self, broker: str, name: str, before: str | None, effective: str, value: str) -> None:
        """Note that a broker setting is about to be changed to `value`, what was set dynamically and what counted."""
        self._write({"broker": broker, "name": name, "before": before, "effective": effective, "value": value})
        self._changed.add((broker, name))

    def restored(self, broker: str, name: str) -> None:
        """Note that the setting is no longer this run's."""
        self._changed.discard((broker, name))
        self._write({"restored": broker, "name": name})

    def takes(self, broker: int, address: str, back: str) -> None:
        """Note that a fault is about to take a broker away, and the command that brings it back."""
        self._write({"away": str(broker), "address": address, "back": back})
        self._away.add(broker)

    def has_taken(self, broker: int) -> None:
        """Note that the broker has gone: what the command does that takes it away is done."""
        self._write({"taken": str(broker)})

    def gives_back(self, broker: int) -> None:
        """Note that the broker is back."""
        self._away.discard(broker)
        self._write({"back again": str(broker)})

    def close(self) -> None:
        """Remove the file, unless something has not been put back: the next start then sees to it."""
        with suppress(OSError):  # a full disk: what could not be noted was not done, or is done with
            self._file.close()
        if not (self._outstanding or self._changed or self._away):
            self._path.unlink(missing_ok=True)

    def _write(self, entry: dict[str, str | None]) -> None:
        try:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise TargetError(
                f"{self._path}: {error.strerror or error}; what is done to these brokers is noted there first: nothing "
                "more is done to them"
            ) from error


class Occupied(Exception):
    """Another run is on the cluster."""


def occupy(folder: Path, cluster_id: str) -> TextIO:
    """Return an open file that says, as long as this process lives, that a run is on the cluster.

    Raises Occupied, and ConfigurationError when the folder does not work.
    """
    own_folder(folder)
    with a_folder_that_works(folder):
        file = (folder / f"{re.sub(r'[^A-Za-z0-9_-]', '_', cluster_id)}.lock").open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            if isinstance(error, BlockingIOError):
                raise Occupied from None
            raise
    return file


def _new_file(folder: Path, run_id: str) -> tuple[Path, TextIO]:
    """Return a file of the run's that is new: what an earlier one of the same run could not put back stays there."""
    for number in itertools.count():
        path = folder / f"{run_id}{f'.{number}' if number else ''}{SUFFIX}"
        try:
            return path, path.open("x")
        except FileExistsError:
            continue
    raise AssertionError("unreachable")


def leftovers(folder: Path, cluster_id: str) -> Iterator[Leftover]:
    """Give what runs that are no longer alive have left on this cluster."""
    return (found for found in _all(folder) if found.cluster_id == cluster_id)


def away_from(folder: Path, target: str) -> Iterator[Leftover]:
    """Give those that have taken a broker away from the cluster that this file, with these servers, described."""
    return (found for found in _all(folder) if found.away and found.target == target)


def came_back(leftover: Leftover, broker: int) -> None:
    """Note that a broker which the run had taken away is back."""
    del leftover.away[broker]
    with suppress(OSError), leftover.path.open("a") as file:  # a full disk: its command is run once more
        file.write("\n" + json.dumps({"back again": str(broker)}) + "\n")  # the last line may have been cut off


def _all(folder: Path) -> Iterator[Leftover]:
    own_folder(folder)
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        found = None if path.is_symlink() else _read(path)
        if found is not None:
            yield found


def _read(path: Path) -> Leftover | None:
    """Return what the file says, or None when its run lives. A last line that was cut off does not count."""
    found: Leftover | None = None
    try:
        with a_folder_that_works(path.parent), path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lines = file.read().splitlines()
            status = os.fstat(file.fileno())
    except BlockingIOError:
        return None
    except ConfigurationError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None  # its run has just ended, and left nothing
        raise
    here = this_machine(status.st_dev)
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        match entry:
            case {"run": run, "cluster": cluster, "host": host}:
                number = entry.get("number", here.number)  # an earlier version noted the host alone
                machine = Machine(host, number, entry.get("boot", ""), entry.get("device", ""))
                found = found or Leftover(
                    path=path,
                    cluster_id=cluster,
                    run_id=run,
                    machine=machine,
                    here=here,
                    noted_at=status.st_mtime,
                    target=entry.get("target", ""),
                )
            case {"topic": topic} if found:
                found.topics[topic] = entry.get("id", "")
            case {"gone": topic} if found:
                found.topics.pop(topic, None)
            case {"restored": broker, "name": name} if found:
                found.configs = [one for one in found.configs if (one["broker"], one["name"]) != (broker, name)]
            case {"restored": _} if found:
                found.configs.clear()
            case {"away": broker, "address": address, "back": back} if found:
                found.away[int(broker)] = Away(address, back)
            case {"taken": broker} if found and int(broker) in found.away:
                found.away[int(broker)] = found.away[int(broker)]._replace(taken=True)
            case {"back again": broker} if found:
                found.away.pop(int(broker), None)
            case {"broker": _, "name": _, "before": _} if found:
                found.configs.append(entry)
    return found
