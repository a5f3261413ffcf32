"""Round trips to Pulsar's brokers: PING to PONG on a raw connection of the binary protocol."""

from __future__ import annotations

import socket
import statistics
import time

from perfgate.model.errors import BrokersFailedError
from perfgate.systems.pulsar.client import frames

SAMPLES = 30
TIMEOUT_S = 5.0
OF_PINGS = "PING to PONG on a raw connection, median of the brokers"


def ping_rtt_ms(host: str, port: int) -> float:
    """Return the median time from PING to PONG over SAMPLES of them on one connection, in ms.

    Raises BrokersFailedError when the broker does not answer so.
    """
    try:
        with socket.create_connection((host, port), timeout=TIMEOUT_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _ask(connection, frames.connect(), frames.CONNECTED)
            times = []
            for _ in range(SAMPLES):
                begin = time.perf_counter()
                _ask(connection, frames.ping(), frames.PONG)
                times.append(time.perf_counter() - begin)
            return statistics.median(times) * 1e3
    except (OSError, ValueError) as error:
        raise BrokersFailedError(f"no round trip to {host}:{port}: {error}", perhaps_late=True) from error


def _ask(connection: socket.socket, frame: bytes, wanted: int) -> None:
    """Send a frame, and read until the answer: brokers may send a PING of their own in between."""

    def read(count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = connection.recv(count - len(data))
            if not chunk:
                raise ConnectionError("the broker closed the connection")
            data += chunk
        return data

    connection.sendall(frame)
    while (found := frames.read_type(read)) != wanted:
        if found == frames.ERROR:
            raise ConnectionError("the broker answered with an error")
