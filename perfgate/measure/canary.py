"""A fixed load on the machine itself, before, between and after the rounds: is it as quick, and as quiet, as it was?"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from perfgate.model import MIB, CanaryReading

CPU_S = 0.2
LOOPBACK_S = 0.2
DEFLATE_LEVEL = 6
BLOCK = bytes(random.Random(1).choices(b"abcdefgh", k=16 * 1024))
"""Text of eight letters: it has matches to look for, and none that is long."""
PING = b"!" * 64
PRESSURE = Path("/proc/pressure/cpu")


def read_canary(brokers_cpu_s: Callable[[], float] = lambda: 0.0) -> CanaryReading:
    """Take a reading, in about half a second; `brokers_cpu_s`: returns the CPU in s of the suite's own brokers."""
    cores, processes = usable_cores(), processes_cpu_s()
    began, pressure, before = time.monotonic(), _pressure_us(), _cpu_s()
    own_s, brokers_s = time.process_time(), brokers_cpu_s()
    cpu, per_cpu_s = _deflate_on_all_cores()
    between, brokers_between_s = time.monotonic(), brokers_cpu_s()
    loopback = _ping_over_loopback()
    ended, brokers_after_s = time.monotonic(), brokers_cpu_s()
    seconds, after, own_s = ended - began, _cpu_s(), time.process_time() - own_s
    stolen_s, busy_s, all_s = (new - old for old, new in zip(before, after, strict=True))
    others_s = busy_s - own_s - (brokers_after_s - brokers_s)
    return CanaryReading(
        deflate_mib_per_s=cpu,
        loopback_per_s=loopback,
        pressure=(_pressure_us() - pressure) / 1e6 / seconds,
        steal=stolen_s / all_s if all_s > 0 else 0.0,
        # Each load by itself: brokers that finish something are busy in the first only.
        brokers=max(
            (brokers_between_s - brokers_s) / (between - began) / cores,
            (brokers_after_s - brokers_between_s) / (ended - between) / cores,
        ),
        others=min(1.0, max(0.0, others_s / seconds / (os.cpu_count() or 1))),
        busiest=busiest(processes, processes_cpu_s(), os.getpid()),
        deflate_mib_per_cpu_s=per_cpu_s,
    )


class ProcessCpu(NamedTuple):
    """A process: its name, its parent's id, and the CPU in clock ticks that it has used."""

    name: str
    parent: int
    ticks: int


def processes_cpu_s(folder: Path = Path("/proc")) -> dict[int, ProcessCpu]:
    """All processes of this machine by id; empty where it is no Linux."""
    processes = {}
    for path in folder.glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):  # it has just ended
            # The name stands in parentheses and may hold any character; man 5 proc.
            head, _, rest = path.read_text(errors="replace").rpartition(")")
            values = rest.split()
            name = head.partition("(")[2]
            processes[int(path.parent.name)] = ProcessCpu(name, int(values[1]), int(values[11]) + int(values[12]))
    return processes


def busiest(before: Mapping[int, ProcessCpu], after: Mapping[int, ProcessCpu], run: int) -> str:
    """Name of the process that used most CPU in between, the run and its own processes apart."""
    own = {run}
    while more := {pid for pid, cpu in after.items() if cpu.parent in own and pid not in own}:
        own |= more
    used = {
        pid: cpu.ticks - (before[pid].ticks if pid in before else 0) for pid, cpu in after.items() if pid not in own
    }
    most = max(used, key=lambda pid: used[pid], default=None)
    return after[most].name if most is not None and used[most] > 0 else ""


def usable_cores() -> int:
    return len(os.sched_getaffinity(0))


def _deflate_on_all_cores() -> tuple[float, float | None]:
    """Compression by all cores together, in MiB/s, and in MiB per second of their own time.

    Deflate runs without Python's lock. Not a hash: processors with instructions for SHA-256 are 8 times as fast at
    that, and 4 times as fast at Kafka. Matching strings is branches and dependent loads, as brokers' code is.
    """
    ends = time.monotonic() + CPU_S

    def work(_number: int) -> tuple[int, float]:
        began_s, done = time.thread_time(), 0
        while time.monotonic() < ends:
            zlib.compress(BLOCK, DEFLATE_LEVEL)
            done += len(BLOCK)
        return done, time.thread_time() - began_s

    with ThreadPoolExecutor(cores := usable_cores()) as threads:
        work_done = list(threads.map(work, range(cores)))
    mib, used_s = sum(done for done, _ in work_done) / MIB, sum(seconds for _, seconds in work_done)
    return mib / CPU_S, mib / used_s if used_s > 0 else None


def _ping_over_loopback() -> float:
    """Round trips per second of 64 bytes between two threads over TCP on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()

    def answer() -> None:
        with far:
            while data := far.recv(len(PING)):
                far.sendall(data)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    trips, ends = 0, time.monotonic() + LOOPBACK_S
    with near:
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while time.monotonic() < ends:
            near.sendall(PING)
            near.recv(len(PING))
            trips += 1
    thread.join()
    return trips / LOOPBACK_S


def _pressure_us() -> int:
    """Microseconds for which some task has waited for a processor (Linux); 0 where that is not known."""
    try:
        return int(PRESSURE.read_text().split("\n")[0].rpartition("=")[2])
    except (OSError, ValueError):
        return 0


def _cpu_s() -> tuple[float, float, float]:
    """The processors' times in s: stolen from this machine, spent on anything, and all."""
    times = {name: s for name, s in psutil.cpu_times()._asdict().items() if not name.startswith("guest")}  # user's too
    stolen, idle = times.get("steal", 0.0), times.get("idle", 0.0) + times.get("iowait", 0.0)
    return stolen, sum(times.values()) - stolen - idle, sum(times.values())
