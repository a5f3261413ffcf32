"""The counters of broker processes of this machine, from the kernel (psutil)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import psutil

from perfgate.metrics.connections import traffic_of
from perfgate.metrics.usage import CounterSampler, Usage

COMPILER_THREADS = ("C1 CompilerThre", "C2 CompilerThre")
"""HotSpot's compiler threads, as far as Linux keeps a thread's name (15 characters)."""
UNTOLD = "the kernel did not tell the bytes of all brokers' TCP connections (INET_TCP_DIAG, /proc/PID/fd)"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def process_sampler(pids: Callable[[], Mapping[int, int]]) -> CounterSampler:
    """Return a sampler of the processes with these ids, by broker id; a broker that restarts gets another."""

    def counters() -> tuple[dict[int, Usage], Mapping[int, int]]:
        by_broker = pids()
        return {broker: usage for broker, pid in by_broker.items() if (usage := _usage(pid))}, by_broker

    def read() -> dict[int, Usage]:
        found, by_broker = counters()  # of all brokers, before what takes long
        return {broker: replace(usage, compiling_s=compiling(by_broker[broker])) for broker, usage in found.items()}

    def edge() -> dict[int, Usage]:
        found, by_broker = read(), pids()
        traffic = traffic_of(by_broker[broker] for broker in found)
        return {broker: replace(usage, traffic=traffic.get(by_broker[broker])) for broker, usage in found.items()}

    # To look through all threads of three brokers takes 11 ms of CPU; without that 1 ms.
    return CounterSampler(read, pids(), glance=lambda: counters()[0], edge=edge, untold=UNTOLD)


def _usage(pid: int) -> Usage | None:
    """Return the counters of a process, without its threads; None when there is none of this id, or it has ended."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            if process.status() == psutil.STATUS_ZOMBIE:
                return None
            cpu = process.cpu_times()
            return Usage(
                at=time.monotonic(),
                cpu_s=cpu.user + cpu.system,
                rss_bytes=process.memory_info().rss,
                written_bytes=process.io_counters().write_bytes,
            )
    except psutil.Error:
        return None


def compiling(pid: int) -> dict[int, float] | None:
    """Return the seconds of CPU of each of a JVM's compiler threads, by thread id; None where that cannot be read.

    From /proc/<pid>/task/<tid>/stat (proc(5)): the name stands in brackets, utime and stime are fields 14 and 15.
    """
    found = {}
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            name, _, fields = (task / "stat").read_text().partition("(")[2].rpartition(")")
            if name.startswith(COMPILER_THREADS):
                user, system = fields.split()[11:13]
                found[int(task.name)] = (int(user) + int(system)) / TICKS_PER_S
    except OSError:
        return None
    return found or None
