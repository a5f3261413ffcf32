"""Counters of broker containers: from the kernel where they run on this machine, else from the Docker engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import docker
import docker.errors
import requests

from perfgate.metrics.process import compiling
from perfgate.metrics.usage import CounterSampler, Usage

CLOCK_OFF_S = 0.01
"""The engine's clock is as good as this machine's up to this difference."""
WHY_MISSING = "neither the kernel nor the engine tells it of containers"
"""The engine's counters of interfaces come up to a second late, in short windows a quarter of all sent (20.10)."""
CPU, MEMORY = "cpuacct", "memory"
"""Version 1 has a hierarchy for each of these controllers; version 2 has one for all."""


def container_sampler(ids: Mapping[int, str], role_of: Callable[[int], str] | None = None) -> CounterSampler:
    """A sampler of the containers with these ids, by broker id. `role_of`: of each, where they are not all brokers.

    An engine elsewhere takes a second for an answer (20.10, one-shot or not), which is unavailable for short windows.
    """
    engine = docker.from_env().api
    groups = {broker: group for broker, id_ in ids.items() if (group := _group_of(engine, id_))}

    def at_once(*, whole: bool = True) -> dict[int, Usage]:
        return {broker: usage for broker, group in groups.items() if (usage := group.usage(whole=whole))}

    if groups.keys() >= ids.keys():
        glance = partial(at_once, whole=False)
        return CounterSampler(at_once, ids, glance=glance, why_missing=WHY_MISSING, role_of=role_of)

    ahead_s = clock_ahead_s(engine)

    def ask(id_: str) -> Usage | None:
        try:
            asked = time.monotonic()
            stats = engine.stats(id_, stream=False, one_shot=True)
            return dated(usage_of(stats, time.time() + ahead_s - time.monotonic()), asked, time.monotonic())
        except (docker.errors.DockerException, requests.RequestException, KeyError):
            return None  # the container does not run

    def read() -> dict[int, Usage]:
        with ThreadPoolExecutor(len(ids)) as threads:
            usages = threads.map(ask, ids.values())
            return {broker: usage for broker, usage in zip(ids, usages, strict=True) if usage}

    return CounterSampler(read, ids, why_missing=WHY_MISSING, elsewhere=True, role_of=role_of)


def _group_of(engine: Any, id_: str) -> ControlGroup | None:
    try:
        return control_group(engine.inspect_container(id_)["State"]["Pid"], id_)
    except (docker.errors.DockerException, requests.RequestException, KeyError):
        return None


def usage_of(stats: Mapping[str, Any], clocks_apart_s: float = 0.0) -> Usage:
    """The counters in an answer to a stats call; `clocks_apart_s`: the engine's wall clock less monotonic here."""
    memory = stats["memory_stats"]
    detail = memory.get("stats", {})
    # The page cache can be taken back: `docker stats` leaves it out too.
    cache = detail.get("total_inactive_file", detail.get("inactive_file", 0))  # control groups v1, v2
    writes = (stats.get("blkio_stats") or {}).get("io_service_bytes_recursive") or []
    return Usage(
        at=_seconds(stats["read"]) - clocks_apart_s,
        cpu_s=stats["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9,
        rss_bytes=max(0, memory["usage"] - cache),
        written_bytes=sum(entry["value"] for entry in writes if entry["op"].lower() == "write"),
    )


def clock_ahead_s(engine: Any) -> float:
    """Seconds by which the engine's clock is ahead of this machine's; 0 when less than half a round trip."""
    before = time.time()
    there = _seconds(engine.info()["SystemTime"])
    after = time.time()
    ahead = there - (before + after) / 2
    return ahead if abs(ahead) > (after - before) / 2 else 0.0


def dated(usage: Usage, asked: float, answered: float) -> Usage:
    """Counters with a moment between question and answer: the latest, where the engine's clock was set since."""
    possible = asked - CLOCK_OFF_S <= usage.at <= answered + CLOCK_OFF_S
    return usage if possible else replace(usage, at=answered)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """The folders of a control group by controller, all the same in version 2, and its first process."""

    version: int
    folders: dict[str, Path]
    pid: int
    proc: Path
    """Folder of the kernel's files of processes."""

    def usage(self, *, whole: bool = True) -> Usage | None:
        """The counters, with those of a JVM's compiler threads if `whole`; None when the group is gone."""
        try:
            counters = self._first_version() if self.version == 1 else self._second_version()
        except (OSError, ValueError, KeyError):
            return None
        return replace(counters, compiling_s=compiling(self.pid)) if whole else counters

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
        """Bytes that the first process wrote, if the kernel shows them: the group's leave out the page cache's."""
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
    """The group of the container with this id and first process; None where the kernel here does not show it."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
        mounts = [line.split() for line in (proc / "self" / "mounts").read_text().splitlines()]
    except OSError:
        return None
    groups = {names: path for _, names, path in (line.split(":", 2) for line in lines) if container in path}
    own = {name: path for names, path in groups.items() for name in names.split(",")}
    where = {name: Path(at) for _, at, kind, options, *_ in mounts if kind == "cgroup" for name in options.split(",")}
    if {CPU, MEMORY} <= own.keys() & where.keys():
        version, folders = 1, {name: where[name] / own[name].lstrip("/") for name in (CPU, MEMORY)}
    elif "" in own and (unified := [Path(at) for _, at, kind, *_ in mounts if kind == "cgroup2"]):
        version, folders = 2, dict.fromkeys((CPU, MEMORY), unified[0] / own[""].lstrip("/"))
    else:
        return None
    group = ControlGroup(version=version, folders=folders, pid=pid, proc=proc)
    return group if group.usage() else None


def _pairs(path: Path, between: str = " ") -> Iterator[tuple[str, int]]:
    for line in path.read_text().splitlines():
        name, _, value = line.partition(between)
        yield name, int(value)
