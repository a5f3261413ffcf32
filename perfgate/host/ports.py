"""Free loopback ports for brokers and proxies."""

from __future__ import annotations

import random
import socket

from perfgate.model.errors import ConfigurationError

HOST = "127.0.0.1"
# Below Linux's ephemeral range (32768 up), so that no outgoing connection takes a port between choice and use.
FIRST, LAST = 20_000, 32_000
TRIES = 2_000
_given: set[int] = set()
"""Handed out by this process: what will listen there may not have begun to."""


def free_ports(count: int) -> list[int]:
    """Return `count` distinct ports that nothing listens on now, and that were not handed out before.

    Raises ConfigurationError when too few can be had.
    """
    fresh = [port for port in range(FIRST, LAST) if port not in _given]
    if len(fresh) < TRIES:  # a very long process: what it was given first is free again by now, or does not bind
        _given.clear()
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
            _given.update(chosen)
            return chosen
    raise ConfigurationError(f"ports taken: found {len(chosen)} of {count} free ports on {HOST} in {FIRST}-{LAST}")


def listens(address: str, timeout_s: float) -> bool:
    """Return whether something listens at the address (host:port)."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s).close()
    except (OSError, ValueError):
        return False
    return True
