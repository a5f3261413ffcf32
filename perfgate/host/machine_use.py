"""Use of this machine between two readings of its counters, whole and by some processes; a bound on a process's CPU."""

from __future__ import annotations

import math
import platform
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from perfgate.model import MIB
from perfgate.model.errors import ConfigurationError
from perfgate.model.measured import MachineUse

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
SNMP = Path("/proc/net/snmp")
CGROUPS = Path("/sys/fs/cgroup")
GROUPS = (CGROUPS, CGROUPS / "cpu")
"""Folders of control groups of version 2 and 1; inside a container its own group is there."""
OF_THIS_PROCESS = Path("/proc/self/cgroup")
LOOPBACK = "lo"
PERIOD_US = 20_000
"""Short, so that a bounded broker pauses for milliseconds, not for the 100 ms of Linux's default period."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """Counters since the machine started, read at `at` (s, monotonic).

    `cores`: busy s of each processor. `bytes_`: sent and received by each interface. `segments`: TCP segments sent, and
    retransmitted. `periods`: of this container's CPU quota, and those of them in which it was throttled.
    """

    at: float
    cores: Sequence[float]
    bytes_: Mapping[str, tuple[int, int]]
    segments: tuple[int, int]
    periods: tuple[int, int] = (0, 0)


@cache
def boot_id() -> str:
    """Id of the running kernel, the same in all its namespaces and containers."""
    return BOOT_ID.read_text().strip() if BOOT_ID.exists() else platform.node()


def look() -> Look:
    """Read the counters of this machine, and those of the network namespace that this process is in."""
    periods = periods_of_groups()
    return Look(
        at=time.monotonic(),
        cores=[_busy(times) for times in psutil.cpu_times(percpu=True)],
        bytes_={name: (io.bytes_sent, io.bytes_recv) for name, io in psutil.net_io_counters(pernic=True).items()},
        segments=segments_of(SNMP.read_text()) if SNMP.exists() else (0, 0),
        periods=(sum(all_ for all_, _ in periods), sum(throttled for _, throttled in periods)),
    )


def periods_of_groups() -> list[tuple[int, int]]:
    """Quota periods so far, and those that throttled this process, of its control group and each above with a quota."""
    return [periods_of(path.read_text()) for path in _cpu_stats()]


@cache
def _cpu_stats(cgroup: Path = OF_THIS_PROCESS, roots: tuple[Path, ...] = GROUPS) -> tuple[Path, ...]:
    """The cpu.stat of every control group that a process is in, and of those above; `cgroup`: its /proc/PID/cgroup."""
    own = cgroup.read_text().splitlines() if cgroup.exists() else []
    entries = [line.split(":", 2) for line in own]
    names = [name for number, controllers, name in entries if number == "0" or "cpu" in controllers.split(",")]
    folders = {
        root / above.relative_to("/")
        for name in names or ["/"]
        for above in (Path(name), *Path(name).parents)
        for root in roots
        if above.is_absolute()
    }
    return tuple(path for folder in sorted(folders) if (path := folder / "cpu.stat").exists())


def own_groups(cgroup: str) -> list[Path]:
    """The folders of this process's control group (v2) and those above; `cgroup`: as the kernel reports it."""
    own = Path(next((line.split(":", 2)[2] for line in cgroup.splitlines() if line.startswith("0::")), "/"))
    return [CGROUPS / str(above).lstrip("/") for above in (own, *own.parents)]


def room_of(cgroup: str, read: Callable[[Path], str]) -> float | None:
    """The least memory, in bytes, that those groups still give, caches of files not counted; None: no limit."""
    rooms = []
    with suppress(OSError, ValueError, KeyError):
        taken = dict(line.split() for line in read(CGROUPS / "memory" / "memory.stat").splitlines())["total_rss"]
        rooms.append(float(read(CGROUPS / "memory" / "memory.limit_in_bytes")) - float(taken))
    for folder in own_groups(cgroup):
        try:
            most = read(folder / "memory.max").strip()
            used = dict(line.split() for line in read(folder / "memory.stat").splitlines())["anon"]
        except (OSError, ValueError, KeyError):
            continue
        if most != "max":
            rooms.append(float(most) - float(used))
    return min(rooms, default=None)


def available_memory() -> float:
    """The memory, in bytes, that processes of this one can still take: the machine's, and that of its groups."""
    cgroup = OF_THIS_PROCESS.read_text() if OF_THIS_PROCESS.exists() else ""
    room = room_of(cgroup, Path.read_text)
    return min(psutil.virtual_memory().available, math.inf if room is None else room)


def speeds() -> dict[str, float]:
    """Speeds of the interfaces that state them, in bytes/s in each direction."""
    return {name: stats.speed * 1e6 / 8 for name, stats in psutil.net_if_stats().items() if stats.speed > 0}


def use(before: Look, after: Look, speed: Mapping[str, float], *, with_run: bool) -> MachineUse:
    """The machine's use between two looks; `speed`: of its interfaces, in bytes/s."""
    seconds = after.at - before.at
    cores = [(now - then) / seconds for then, now in zip(before.cores, after.cores, strict=True)]
    rates = {
        name: tuple((now - then) / seconds for then, now in zip(before.bytes_[name], counts, strict=True))
        for name, counts in after.bytes_.items()
        if name in before.bytes_ and name != LOOPBACK
    }
    shares = {name: max(rates[name]) / speed[name] for name in rates if name in speed}
    busiest = max(shares, key=lambda name: shares[name], default="")
    periods, held_back = (now - then for then, now in zip(before.periods, after.periods, strict=True))
    return MachineUse(
        with_run=with_run,
        cores=len(cores),
        cpu_share=sum(cores) / len(cores),
        busiest_core_share=max(cores),
        sent_mib_per_s=sum(sent for sent, _ in rates.values()) / MIB,
        received_mib_per_s=sum(received for _, received in rates.values()) / MIB,
        network=busiest,
        network_share=shares.get(busiest),
        tcp_sent=after.segments[0] - before.segments[0],
        tcp_sent_again=after.segments[1] - before.segments[1],
        throttled_share=held_back / periods if periods else None,
    )


def segments_of(snmp: str) -> tuple[int, int]:
    """TCP segments sent first (tcpOutSegs, RFC 1213) and again (tcpRetransSegs), of a /proc/net/snmp."""
    names, values = (line.split()[1:] for line in snmp.splitlines() if line.startswith("Tcp: "))
    counters = dict(zip(names, values, strict=True))
    return int(counters["OutSegs"]), int(counters["RetransSegs"])


def periods_of(stat: str) -> tuple[int, int]:
    """Periods of a quota, and those in which it throttled its group, of a cpu.stat."""
    counters = dict(line.split() for line in stat.splitlines())
    return int(counters.get("nr_periods", 0)), int(counters.get("nr_throttled", 0))


def _busy(times: Any) -> float:
    """All time but the idle, in s. Stolen time was wanted, and counts; guests are counted in user and nice already."""
    idle = times.idle + getattr(times, "iowait", 0.0)
    return float(sum(times) - idle - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0))


class Usage:
    """CPU and memory of some processes, and of their busiest thread, between two looks."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._processes = [psutil.Process(pid) for pid in pids]
        self._looks: list[tuple[float, float, dict[int, float]]] = []
        self._rss_bytes = 0

    @property
    def looks(self) -> int:
        return len(self._looks)

    def look(self) -> None:
        """Read the counters. Raises psutil.NoSuchProcess when a process has ended."""
        cpu = sum(times.user + times.system for times in (p.cpu_times() for p in self._processes))
        threads = {t.id: t.user_time + t.system_time for p in self._processes for t in p.threads()}
        self._rss_bytes = max(self._rss_bytes, *(p.memory_info().rss for p in self._processes))
        self._looks.append((time.monotonic(), cpu, threads))

    def span(self) -> dict[str, float]:
        """Cores of all processes and of the busiest thread, largest memory. Raises ValueError without two looks."""
        (opened, before, earlier), (closed, after, later) = self._looks
        busiest = max(later[thread] - earlier.get(thread, 0.0) for thread in later)
        return {
            "cpu_cores": (after - before) / (closed - opened),
            "busiest_thread_cores": busiest / (closed - opened),
            "rss_mib": self._rss_bytes / MIB,
        }


def limit_cpu(pid: int, cores: float) -> Path:
    """Bound all threads of the process to `cores`, by a Linux control group (version 1 or 2); return its folder.

    The folder has to be removed once the process has ended. Raises ConfigurationError where the suite may set no bound.
    """
    version_1 = (CGROUPS / "cpu" / "cpu.shares").exists()
    folder = (CGROUPS / "cpu" if version_1 else CGROUPS) / f"kafka-perf-gate-{secrets.token_hex(6)}"
    quota = max(1000, round(cores * PERIOD_US))
    try:
        folder.mkdir()
        if version_1:
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (folder / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        (folder / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        with suppress(OSError):
            folder.rmdir()
        raise ConfigurationError(
            f"a bound on brokers' CPU (--broker-cpus, cluster.cpus) needs the right to make control groups ({error}); "
            "run as root, or leave it out"
        ) from error
    return folder
