"""Addresses of this machine, free loopback ports for brokers and proxies, and how long connections take."""

from __future__ import annotations

import ipaddress
import random
import socket
import statistics
import time

import psutil

from perfgate.model.errors import BrokersFailedError, ConfigurationError

HOST = "127.0.0.1"
# Below Linux's ephemeral range (32768 up), so that no outgoing connection takes a port between choice and use.
FIRST, LAST = 20_000, 32_000
TRIES = 2_000
CONNECTIONS, TIMEOUT_S = 7, 5


class Ports:
    """Free loopback ports, each given once: what will listen there may not have begun to."""

    def __init__(self) -> None:
        self._given: set[int] = set()

    def free(self, count: int) -> list[int]:
        """Distinct ports, free now and not given before. Raises ConfigurationError when there are too few."""
        fresh = [port for port in range(FIRST, LAST) if port not in self._given]
        if len(fresh) < TRIES:  # a very long process: what it was given first is free again by now, or does not bind
            self._given.clear()
            fresh = list(range(FIRST, LAST))
        chosen: list[int] = []
        for port in random.sample(fresh, min(TRIES, len(fresh))):
            with socket.socket() as probe:
                try:
                    probe.bind((HOST, port))
                except OSError:
                    continue
            chosen.append(port)
            if len(chosen) == count:
                self._given.update(chosen)
                return chosen
        raise ConfigurationError(f"ports taken: found {len(chosen)} of {count} free ports on {HOST} in {FIRST}-{LAST}")


free_ports = Ports().free
"""See :meth:`Ports.free`: those of this process."""


def listens(address: str, timeout_s: float) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s).close()
    except (OSError, ValueError):
        return False
    return True


def is_this_machine(host: str) -> bool:
    """Whether a name or address leads to this machine's own interfaces alone; its containers are other machines."""
    try:
        named = {_address(str(entry[4][0])) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, ValueError):  # ValueError: it is no name
        return False
    own = {
        _address(entry.address)
        for entries in psutil.net_if_addrs().values()
        for entry in entries
        if entry.family in (socket.AF_INET, socket.AF_INET6)
    }
    return bool(named) and all(address.is_loopback or address in own for address in named)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(text.partition("%")[0])  # a link-local address is followed by its interface
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def connect_ms(host: str, port: int) -> float:
    """Median time of a connection, without the look-up of the name, in ms. Raises BrokersFailedError."""
    times = []
    try:
        *kind, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        for _ in range(CONNECTIONS):
            with socket.socket(*kind) as connection:
                connection.settimeout(TIMEOUT_S)
                begin = time.perf_counter()
                connection.connect(address)
                times.append(time.perf_counter() - begin)
    except OSError as error:
        raise BrokersFailedError(f"no connection to {host}:{port}: {error}", perhaps_late=True) from error
    return statistics.median(times) * 1e3


def read_whole(connection: socket.socket, count: int) -> bytes:
    """`count` bytes of an answer. Raises ConnectionError where the broker ends the connection before."""
    data = b""
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        data += chunk
    return data
