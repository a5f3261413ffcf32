"""Use of this machine as a whole between two looks: processors, network against its speed, segments sent again."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from perfgate.model import MIB
from perfgate.model.hosts import MachineUse

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
SNMP = Path("/proc/net/snmp")
GROUPS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu"))
"""Where control groups are, of version 2 or 1; inside a container its own one stands there."""
OF_THIS_PROCESS = Path("/proc/self/cgroup")
LOOPBACK = "lo"


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """Counters since the machine started, read at `at` (s, monotonic).

    `cores`: busy s of each processor. `bytes_`: sent and received by each interface. `segments`: TCP segments sent, and
    sent again. `periods`: of the quota of this container, and those of them in which it held the container back.
    """

    at: float
    cores: Sequence[float]
    bytes_: Mapping[str, tuple[int, int]]
    segments: tuple[int, int]
    periods: tuple[int, int] = (0, 0)


@cache
def boot_id() -> str:
    """Return what all namespaces and containers of one running kernel have in common."""
    return BOOT_ID.read_text().strip() if BOOT_ID.exists() else platform.node()


def look() -> Look:
    """Read the counters of this machine, and those of the network namespace that this process is in."""
    return Look(
        at=time.monotonic(),
        cores=[_busy(times) for times in psutil.cpu_times(percpu=True)],
        bytes_={name: (io.bytes_sent, io.bytes_recv) for name, io in psutil.net_io_counters(pernic=True).items()},
        segments=segments_of(SNMP.read_text()) if SNMP.exists() else (0, 0),
        periods=periods(),
    )


def periods_of_groups() -> list[tuple[int, int]]:
    """Return the periods so far, and those that held this process back, of its control group and of each above it.

    Groups without a quota count none.
    """
    return [periods_of(path.read_text()) for path in _cpu_stats()]


def periods() -> tuple[int, int]:
    """Return the same of all these groups together."""
    found = periods_of_groups()
    return sum(every for every, _ in found), sum(held for _, held in found)


@cache
def _cpu_stats() -> tuple[Path, ...]:
    own = OF_THIS_PROCESS.read_text().splitlines() if OF_THIS_PROCESS.exists() else []
    entries = [line.split(":", 2) for line in own]
    names = [name for number, controllers, name in entries if number == "0" or "cpu" in controllers.split(",")]
    folders = {
        root / above.relative_to("/")
        for name in names or ["/"]
        for above in (Path(name), *Path(name).parents)
        for root in GROUPS
        if above.is_absolute()
    }
    return tuple(path for folder in sorted(folders) if (path := folder / "cpu.stat").exists())


def speeds() -> dict[str, float]:
    """Return the speed of each interface that states one, in bytes/s in each direction."""
    return {name: stats.speed * 1e6 / 8 for name, stats in psutil.net_if_stats().items() if stats.speed > 0}


def use(before: Look, after: Look, speed: Mapping[str, float], *, with_run: bool) -> MachineUse:
    """Return what the machine did between two looks; `speed`: of its interfaces, in bytes/s."""
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
    """Return the TCP segments sent, and sent again, that a /proc/net/snmp tells of; the first do not hold the second.

    RFC 1213: tcpOutSegs, tcpRetransSegs.
    """
    names, values = (line.split()[1:] for line in snmp.splitlines() if line.startswith("Tcp: "))
    found = dict(zip(names, values, strict=True))
    return int(found["OutSegs"]), int(found["RetransSegs"])


def periods_of(stat: str) -> tuple[int, int]:
    """Return the periods of a quota, and those in which it held its group back, that a cpu.stat tells of."""
    found = dict(line.split() for line in stat.splitlines())
    return int(found.get("nr_periods", 0)), int(found.get("nr_throttled", 0))


def _busy(times: Any) -> float:
    """Return all time but the idle. What a hypervisor stole was wanted; guests are counted in user and nice already."""
    idle = times.idle + getattr(times, "iowait", 0.0)
    return float(sum(times) - idle - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0))
