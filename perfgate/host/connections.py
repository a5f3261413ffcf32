"""Times of TCP connections: the length of a path, which slow servers make no longer."""

from __future__ import annotations

import socket
import statistics
import time

from perfgate.model.errors import BrokersFailedError

CONNECTIONS, TIMEOUT_S = 7, 5


def connect_ms(host: str, port: int) -> float:
    """Return the median time of a connection, without the look-up of the host's name, in ms; each is closed at once.

    Raises BrokersFailedError when none is taken.
    """
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
