"""Counters of broker processes of this machine, from the kernel: psutil, /proc and netlink.

Linux counts the bytes of TCP connections and gives them over netlink (sock_diag(7), as `ss -i` prints) without
privileges; a process' own connections are those whose sockets are among its open files.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path

import psutil

from perfgate.metrics.usage import CounterSampler, Usage

COMPILER_THREADS = ("C1 CompilerThre", "C2 CompilerThre")
"""HotSpot's compiler threads, as far as Linux keeps a thread's name (15 characters)."""
WHY_MISSING = "the kernel did not tell the bytes of all brokers' TCP connections (INET_TCP_DIAG, /proc/PID/fd)"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
"""Linux' linux/netlink.h and linux/sock_diag.h, as the numbers below: Python's `socket` does not name them."""
NLMSG_ERROR, NLMSG_DONE = 2, 3
REQUEST_DUMP = 0x301
INET_DIAG_INFO = 2
EVERY_STATE, TIME_WAIT, LISTEN = 0xFFF, 1 << 6, 1 << 10
HEADER = struct.Struct("=IHHII")
MESSAGE_BYTES, INODE_AT = 72, 68
"""Size of inet_diag_msg, and the position of its inode."""
ACKED_AND_RECEIVED = struct.Struct("=QQ")
ACKED_AT = 120
"""Position of tcpi_bytes_acked in tcp_info; tcpi_bytes_received follows. Both since Linux 4.1."""
ANSWER_BYTES = 1 << 20
Traffic = Mapping[int, tuple[int, int]]
"""By socket (its inode): bytes received, and bytes sent that the other side has acknowledged."""


def process_sampler(
    pids: Callable[[], Mapping[int, int]], role_of: Callable[[int], str] | None = None
) -> CounterSampler:
    """A sampler of the processes with these ids, by broker id; `role_of`: of each, where they are not all brokers."""

    def counters() -> tuple[dict[int, Usage], Mapping[int, int]]:
        by_broker = pids()
        return {broker: usage for broker, pid in by_broker.items() if (usage := _usage(pid))}, by_broker

    def read() -> dict[int, Usage]:
        usages, by_broker = counters()  # of all brokers, before the slow reads
        return {broker: replace(usage, compiling_s=compiling(by_broker[broker])) for broker, usage in usages.items()}

    def edge() -> dict[int, Usage]:
        usages, by_broker = counters()
        # Before the slow reads: a generator that is done ends, and with it the connections that count.
        traffic = traffic_of(by_broker[broker] for broker in usages)
        return {
            broker: replace(usage, traffic=traffic.get(by_broker[broker]), compiling_s=compiling(by_broker[broker]))
            for broker, usage in usages.items()
        }

    def glance() -> dict[int, Usage]:
        return counters()[0]  # reading all threads of three brokers takes 11 ms of CPU; without that 1 ms

    return CounterSampler(read, pids(), glance=glance, edge=edge, why_missing=WHY_MISSING, role_of=role_of)


def _usage(pid: int) -> Usage | None:
    """Counters of a process without its threads; None when it has ended."""
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
    """Seconds of CPU of each of a JVM's compiler threads, by thread id; None where they cannot be read."""
    seconds = {}
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            # proc(5): the name stands in brackets, utime and stime are fields 14 and 15.
            name, _, fields = (task / "stat").read_text().partition("(")[2].rpartition(")")
            if name.startswith(COMPILER_THREADS):
                user, system = fields.split()[11:13]
                seconds[int(task.name)] = (int(user) + int(system)) / TICKS_PER_S
    except OSError:
        return None
    return seconds or None


def traffic_of(pids: Iterable[int]) -> dict[int, Traffic]:
    """The traffic of every process whose files can be read, by its id; nothing where the kernel gives none."""
    try:
        connections = dict(chain(_dump(socket.AF_INET), _dump(socket.AF_INET6)))
    except (OSError, struct.error):
        return {}
    return {
        pid: {inode: connections[inode] for inode in sockets if inode in connections}
        for pid in pids
        if (sockets := _sockets(pid)) is not None
    }


def _sockets(pid: int) -> list[int] | None:
    inodes = []
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                at = str(entry.readlink())
            except FileNotFoundError:  # closed since
                continue
            if at.startswith("socket:["):
                inodes.append(int(at[len("socket:[") : -1]))
    except OSError:
        return None
    return inodes


def _dump(family: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the traffic of every TCP connection of this network namespace. Raises OSError where that is denied."""
    wanted = struct.pack(
        "=BBBxI48x", family, socket.IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), EVERY_STATE & ~(TIME_WAIT | LISTEN)
    )
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(1.0)
        kernel.send(HEADER.pack(HEADER.size + len(wanted), SOCK_DIAG_BY_FAMILY, REQUEST_DUMP, 1, 0) + wanted)
        while True:
            answer = kernel.recv(ANSWER_BYTES)
            at = 0
            while at < len(answer):
                length, kind, *_ = HEADER.unpack_from(answer, at)
                if kind == NLMSG_DONE:
                    return
                if kind == NLMSG_ERROR:
                    raise OSError("the kernel tells nothing of TCP connections")
                yield from _connection(answer[at + HEADER.size : at + length])
                at += _aligned(length)


def _connection(message: bytes) -> Iterator[tuple[int, tuple[int, int]]]:
    (inode,) = struct.unpack_from("=I", message, INODE_AT)
    at = MESSAGE_BYTES
    while inode and at < len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if kind == INET_DIAG_INFO and length >= 4 + ACKED_AT + ACKED_AND_RECEIVED.size:
            acked, received = ACKED_AND_RECEIVED.unpack_from(message, at + 4 + ACKED_AT)
            yield inode, (received, acked)
        at += _aligned(length)


def _aligned(length: int) -> int:
    if length < 4:
        raise OSError("a message of the kernel that has no length")
    return (length + 3) & ~3
