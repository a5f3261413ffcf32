"""Free loopback ports for brokers and proxies."""

from __future__ import annotations

import random
import socket

from perfgate.model.errors import ConfigurationError

HOST = "127.0.0.1"
# Below Linux's ephemeral range (32768 up), so that no outgoing connection takes a port between choice and use.
FIRST, LAST = 20_000, 32_000
TRIES = 2_000


def free_ports(count: int) -> list[int]:
    """Return `count` distinct ports that nothing listens on now. Raises ConfigurationError when too few can be had."""
    chosen: list[int] = []
    for port in random.sample(range(FIRST, LAST), TRIES):
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise ConfigurationError(f"ports taken: found {len(chosen)} of {count} free ports on {HOST} in {FIRST}-{LAST}")
