"""The counters of a control group, from the kernel's files: at once, where a container engine takes a second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from perfgate.metrics.process import compiling
from perfgate.metrics.usage import Usage

CPU, MEMORY = "cpuacct", "memory"
"""Version 1 has a hierarchy for each of these controllers; version 2 has one for all."""


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """The folders of a control group by controller, all the same one in version 2, and its first process."""

    version: int
    folders: dict[str, Path]
    pid: int
    proc: Path
    """Where the kernel's files of processes are."""

    def usage(self, *, whole: bool = True) -> Usage | None:
        """Return the counters, those of a JVM's compiler threads if it is to be the `whole`.

        None when the group is no longer there. Memory is what the group holds less the page cache that the kernel can
        take back, as `docker stats` shows it.
        """
        try:
            found = self._first_version() if self.version == 1 else self._second_version()
        except (OSError, ValueError, KeyError):
            return None
        return replace(found, compiling_s=compiling(self.pid)) if whole else found

    def _first_version(self) -> Usage:
        cpu, memory = (self.folders[name] for name in (CPU, MEMORY))
        cached = dict(_pairs(memory / "memory.stat"))["total_inactive_file"]
        return Usage(
            at=time.monotonic(),
            cpu_s=int((cpu / "cpuacct.usage").read_text()) / 1e9,
            rss_bytes=max(0, int((memory / "memory.usage_in_bytes").read_text()) - cached),
            written_bytes=self._written(),
        )

    def _written(self) -> int | None:
        """Return what the first process has written; None where the kernel tells that to its owner alone.

        The first version's own counters leave out what the page cache writes later: they stay 0.
        """
        try:
            return dict(_pairs(self.proc / str(self.pid) / "io", ":"))["write_bytes"]
        except OSError:
            return None

    def _second_version(self) -> Usage:
        folder = self.folders[CPU]
        cached = dict(_pairs(folder / "memory.stat"))["inactive_file"]
        written = (word for word in (folder / "io.stat").read_text().split() if word.startswith("wbytes="))
        return Usage(
            at=time.monotonic(),
            cpu_s=dict(_pairs(folder / "cpu.stat"))["usage_usec"] / 1e6,
            rss_bytes=max(0, int((folder / "memory.current").read_text()) - cached),
            written_bytes=sum(int(word.partition("=")[2]) for word in written),
        )


def control_group(pid: int, container: str, proc: Path = Path("/proc")) -> ControlGroup | None:
    """Return the control group of the container whose first process this is.

    None where the process is another machine's, or the kernel does not show the group's counters here. `container`: its
    id, which is part of the group's name. `proc`: where the kernel's files are.
    """
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
        mounts = [line.split() for line in (proc / "self" / "mounts").read_text().splitlines()]
    except OSError:
        return None
    groups = {names: path for _, names, path in (line.split(":", 2) for line in lines) if container in path}
    own = {name: path for names, path in groups.items() for name in names.split(",")}
    where = {name: Path(at) for _, at, kind, options, *_ in mounts if kind == "cgroup" for name in options.split(",")}
    if {CPU, MEMORY} <= own.keys() & where.keys():
        folders = {name: where[name] / own[name].lstrip("/") for name in (CPU, MEMORY)}
        found = ControlGroup(version=1, folders=folders, pid=pid, proc=proc)
    elif "" in own and (unified := [Path(at) for _, at, kind, *_ in mounts if kind == "cgroup2"]):
        folders = dict.fromkeys((CPU, MEMORY), unified[0] / own[""].lstrip("/"))
        found = ControlGroup(version=2, folders=folders, pid=pid, proc=proc)
    else:
        return None
    return found if found.usage() else None


def _pairs(path: Path, between: str = " ") -> Iterator[tuple[str, int]]:
    for line in path.read_text().splitlines():
        name, _, value = line.partition(between)
        yield name, int(value)
