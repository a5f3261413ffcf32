"""Manifest of a run on real brokers: what it makes there, noted before, for the next start to clean up.

One journal (:mod:`perfgate.host.journal`) per run and start of a cluster. A topic (of Pulsar: a namespace) is known by
its id, which no other can have; until that is known, by its name and what it holds.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from perfgate.host.journal import Entry, Journal, Machine, Notes, claimed, journals, lock_of

SUFFIX = ".jsonl"


class Away(NamedTuple):
    """A broker that a fault took away: its address (host:port), and the fault command that brings it back."""

    address: str
    back: str
    taken: bool = False
    """Whether it had gone: the command that takes it away has had its effect."""


@dataclass(kw_only=True)
class Outstanding:
    """Changes on a cluster that notes report as made, and not as undone."""

    topics: dict[str, str] = field(default_factory=dict)
    """Ids by name; "" where the id is not known."""
    configs: list[dict[str, Any]] = field(default_factory=list)
    """Changed broker settings: broker, name, dynamic (None: not set) and effective value before, the run's value."""
    quotas: set[str] = field(default_factory=set)
    """Client ids of the run's own that have a quota."""
    away: dict[int, Away] = field(default_factory=dict)

    def take(self, entry: Entry) -> None:
        match entry:
            case {"topic": topic}:
                self.topics[topic] = entry.get("id", "")
            case {"gone": topic}:
                self.topics.pop(topic, None)
            case {"quota": client_id}:
                self.quotas.add(client_id)
            case {"no quota": client_id}:
                self.quotas.discard(client_id)
            case {"restored": broker, "name": name}:
                self.configs = [c for c in self.configs if (c["broker"], c["name"]) != (broker, name)]
            case {"restored": _}:
                self.configs.clear()
            case {"away": broker, "address": address, "back": back}:
                self.away[int(broker)] = Away(address, back)
            case {"taken": broker} if int(broker) in self.away:
                self.away[int(broker)] = self.away[int(broker)]._replace(taken=True)
            case {"back again": broker}:
                self.away.pop(int(broker), None)
            case {"broker": _, "name": _, "before": _}:
                self.configs.append(dict(entry))


@dataclass(kw_only=True)
class Leftover(Outstanding):
    """The changes that a run which is gone has left on a cluster."""

    notes: Notes
    cluster_id: str
    run_id: str
    machine: Machine
    target: str
    """The target file, and the servers that it named."""

    @property
    def path(self) -> Path:
        return self.notes.path

    @property
    def has_ended(self) -> bool:
        """Whether it is certain that the run has: a lock of another machine may not be seen here."""
        return self.machine.locks_count(self.notes.here)

    @property
    def text(self) -> str:
        days = (time.time() - self.notes.noted_at) / 86_400
        what = [f"broker {broker} away ({back})" for broker, (_, back, _) in self.away.items()]
        what += [f"{change['name']} of broker {change['broker']} changed" for change in self.configs]
        what += [f"a quota of client {client_id}" for client_id in sorted(self.quotas)]
        what += [f"topic {name}" for name in self.topics]
        return f"run {self.run_id} of host {self.machine.host}, {days:.1f} days ago: {', '.join(what) or 'nothing'}"

    def came_back(self, broker: int) -> None:
        del self.away[broker]
        self.notes.add({"back again": str(broker)})

    def restored(self, change: Entry) -> None:
        """Note that a setting is as it was, or its owner's, once that holds for each of the run's changes of it."""
        self.configs.remove(dict(change))
        broker, name = change["broker"], change["name"]
        if not any((other["broker"], other["name"]) == (broker, name) for other in self.configs):
            self.notes.add({"restored": broker, "name": name})


class Manifest:
    """The notes of the run that writes. Each raises TargetError where it cannot be written."""

    def __init__(self, folder: Path, *, cluster_id: str, run_id: str, target: str = "") -> None:
        """`target`: file and servers, by which the next start knows it unconnected. Raises as :class:`Journal`."""
        self.cluster_id = cluster_id
        """Of the cluster that the run began on."""
        self.journal = Journal(folder, run_id, SUFFIX, {"run": run_id, "cluster": cluster_id, "target": target})
        self._outstanding = Outstanding()

    def plans(self, topic: str) -> None:
        self._before({"topic": topic})

    def made(self, topic: str, topic_id: str) -> None:
        self._before({"topic": topic, "id": topic_id})

    def gone(self, topic: str) -> None:
        self._undone({"gone": topic})

    def changes(self, broker: str, name: str, before: str | None, effective: str, value: str) -> None:
        """Note that a broker setting is about to get this value; `before`: its dynamic value, `effective`: in force."""
        self._before({"broker": broker, "name": name, "before": before, "effective": effective, "value": value})

    def restored(self, broker: str, name: str) -> None:
        self._undone({"restored": broker, "name": name})

    def limits(self, client_id: str) -> None:
        self._before({"quota": client_id})

    def unlimited(self, client_id: str) -> None:
        self._undone({"no quota": client_id})

    def takes(self, broker: int, address: str, back: str) -> None:
        self._before({"away": str(broker), "address": address, "back": back})

    def has_taken(self, broker: int) -> None:
        self._before({"taken": str(broker)})

    def gives_back(self, broker: int) -> None:
        self._undone({"back again": str(broker)})

    def close(self) -> str:
        """Remove the file, unless something is to be put back; return a note for a person where that fails."""
        return self.journal.close(undone=self._outstanding == Outstanding())

    def _before(self, entry: Entry) -> None:
        self.journal.note(entry)
        self._outstanding.take(entry)

    def _undone(self, entry: Entry) -> None:
        self._outstanding.take(entry)  # first: on a full disk it is undone no less
        self.journal.note(entry)


class Occupied(Exception):
    """Another run is on the cluster."""


def occupy(folder: Path, cluster_id: str, *, beside: bool = False) -> TextIO:
    """Return an open file that says, as long as this process lives, that a run is on the cluster.

    `beside`: others may be, each with a file of its own. Raises Occupied and ConfigurationError.
    """
    name = re.sub(r"[^A-Za-z0-9_-]", "_", cluster_id)
    first = lock_of(folder, f"{name}.lock")
    if beside:
        return first or next(filter(None, (lock_of(folder, f"{name}.{number}.lock") for number in count(1))))
    if first is None:
        raise Occupied
    for path in folder.glob(f"{name}.*.lock"):  # a run that began beside another may have outlived it
        other = lock_of(folder, path.name)
        if other is None:
            first.close()
            raise Occupied
        other.close()
    return first


def leftovers(folder: Path, cluster_id: str) -> Iterator[Leftover]:
    """Give what runs that are no longer alive have left on this cluster."""
    return (left for left in _all(folder) if left.cluster_id == cluster_id)


def away_from(folder: Path, target: str) -> Iterator[Leftover]:
    """Give those that have taken a broker away from the cluster that this file, with these servers, described."""
    return (left for left in _all(folder) if left.away and left.target == target)


def _all(folder: Path) -> Iterator[Leftover]:
    for path in journals(folder, SUFFIX):
        with claimed(path) as notes:
            left = read_leftover(notes)
        if left is not None:
            yield left


def read_leftover(notes: Notes | None) -> Leftover | None:
    """The leftover that the notes describe; None where they do not name their run: nothing was done then."""
    left: Leftover | None = None
    for entry in notes.entries if notes else ():
        match entry:
            case {"run": run, "cluster": cluster, "host": _} if notes:
                machine = Machine.of(entry)
                target = entry.get("target", "")
                left = left or Leftover(notes=notes, cluster_id=cluster, run_id=run, machine=machine, target=target)
            case _ if left:
                left.take(entry)
    return left
