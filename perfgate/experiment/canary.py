"""A fixed load on the machine itself, before, between and after the rounds: is it as quick, and as quiet, as it was?"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import psutil

from perfgate.model import MIB, CanaryReading

CPU_S = 0.2
LOOPBACK_S = 0.2
DEFLATE_LEVEL = 6
BLOCK = bytes(random.Random(1).choices(b"abcdefgh", k=16 * 1024))
"""Text of eight letters: it has matches to be looked for, and none that is long."""
PING = b"!" * 64
PRESSURE = Path("/proc/pressure/cpu")


def read_canary(brokers_cpu_s: Callable[[], float] = lambda: 0.0) -> CanaryReading:
    """Take a reading; about half a second. `brokers_cpu_s` tells the CPU that the suite's own brokers have used."""
    began, pressure, (stolen, cpu_s), brokers_s = time.monotonic(), _pressure_us(), _cpu_s(), brokers_cpu_s()
    cpu, loopback = _deflate_on_all_cores(), _ping_over_loopback()
    seconds, (stolen_after, cpu_after_s) = time.monotonic() - began, _cpu_s()
    return CanaryReading(
        deflate_mib_per_s=cpu,
        loopback_per_s=loopback,
        pressure=(_pressure_us() - pressure) / 1e6 / seconds,
        steal=(stolen_after - stolen) / (cpu_after_s - cpu_s) if cpu_after_s > cpu_s else 0.0,
        brokers=(brokers_cpu_s() - brokers_s) / seconds / usable_cores(),
    )


def usable_cores() -> int:
    """Return how many processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _deflate_on_all_cores() -> float:
    """Return the MiB/s that all cores together compress (deflate, which runs without Python's lock).

    Not a hash: processors with instructions for SHA-256 are 8 times as fast at that, and 4 times as fast at Kafka.
    Matching strings is what brokers' code is made of: branches and loads that depend on one another.
    """
    cores = usable_cores()
    done = [0] * cores
    ends = time.monotonic() + CPU_S

    def work(number: int) -> None:
        while time.monotonic() < ends:
            zlib.compress(BLOCK, DEFLATE_LEVEL)
            done[number] += len(BLOCK)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(cores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / MIB / CPU_S


def _ping_over_loopback() -> float:
    """Return the round trips per second of 64 bytes between two threads over TCP on loopback."""
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
    """Return for how many microseconds some task has waited for a processor (Linux), or 0 where it is not told."""
    try:
        return int(PRESSURE.read_text().split("\n")[0].rpartition("=")[2])
    except (OSError, ValueError):
        return 0


def _cpu_s() -> tuple[float, float]:
    """Return the processors' times in s: stolen from this machine, and all. A guest's count as user time already."""
    times = psutil.cpu_times()._asdict()
    return times.get("steal", 0.0), sum(s for name, s in times.items() if not name.startswith("guest"))
