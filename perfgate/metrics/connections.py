"""Bytes that processes of this machine received and sent over their open TCP connections, as the kernel counts them.

Linux tells them over netlink (sock_diag(7), what `ss -i` prints) without privileges; a process' own connections are
those whose sockets are among its open files.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
"""Linux' linux/netlink.h and linux/sock_diag.h, as the numbers below: Python's `socket` does not name them."""
NLMSG_ERROR, NLMSG_DONE = 2, 3
REQUEST_DUMP = 0x301
INET_DIAG_INFO = 2
EVERY_STATE, TIME_WAIT, LISTEN = 0xFFF, 1 << 6, 1 << 10
HEADER = struct.Struct("=IHHII")
MESSAGE_BYTES, INODE_AT = 72, 68
"""inet_diag_msg, and where its inode stands."""
ACKED_AND_RECEIVED = struct.Struct("=QQ")
ACKED_AT = 120
"""Where tcpi_bytes_acked stands in tcp_info; tcpi_bytes_received follows. Both since Linux 4.1."""
ANSWER_BYTES = 1 << 20

Traffic = Mapping[int, tuple[int, int]]
"""By socket (its inode): bytes received, and bytes sent that the other side has acknowledged."""


def traffic_of(pids: Iterable[int]) -> dict[int, Traffic]:
    """Return the traffic of every process that can be looked at, by its id; nothing where the kernel does not tell."""
    try:
        everybody = {inode: told for family in (socket.AF_INET, socket.AF_INET6) for inode, told in _dump(family)}
    except (OSError, struct.error):
        return {}
    found: dict[int, Traffic] = {}
    for pid in pids:
        sockets = _sockets(pid)
        if sockets is not None:
            found[pid] = {inode: everybody[inode] for inode in sockets if inode in everybody}
    return found


def _sockets(pid: int) -> list[int] | None:
    """Return the inodes of a process' sockets; None where its open files cannot be looked at."""
    found = []
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                at = str(entry.readlink())
            except FileNotFoundError:  # closed since
                continue
            if at.startswith("socket:["):
                found.append(int(at[len("socket:[") : -1]))
    except OSError:
        return None
    return found


def _dump(family: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the traffic of every TCP connection of this network namespace. Raises OSError where it is not told."""
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
    """Yield the inode and the traffic in one message, if both are in it."""
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
