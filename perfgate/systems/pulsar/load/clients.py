"""Pulsar's clients of generator processes, made as their specs say; see :class:`perfgate.load.clients.ClientModule`."""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from perfgate.load.clients import ReadingClient, SendingClient
from perfgate.model.errors import BrokersFailedError
from perfgate.systems.pulsar.load.reading import PulsarReader
from perfgate.systems.pulsar.load.sending import PulsarSender

CONNECTIONS, TIMEOUT_S = 7, 5


def sending(spec: Mapping[str, Any], number: int) -> SendingClient:
    """See the protocol."""
    return PulsarSender(spec)


def reading(spec: Mapping[str, Any], number: int, counts: Callable[[], bool]) -> ReadingClient:
    """See the protocol."""
    return PulsarReader(spec, number)


def round_trip_ms(spec: Mapping[str, Any]) -> float:
    """Median over the brokers of the service URL of the time of a TCP connection, in ms. Raises BrokersFailedError."""
    brokers = spec["bootstrap"].partition("#")[0].partition("://")[2].rstrip("/").split(",")
    return statistics.median(_connect_ms(broker) for broker in brokers)


def _connect_ms(broker: str) -> float:
    """Median time of a connection, without the look-up of the host's name, in ms."""
    host, _, port = broker.rpartition(":")
    times = []
    try:
        *kind, _, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        for _ in range(CONNECTIONS):
            with socket.socket(*kind) as connection:
                connection.settimeout(TIMEOUT_S)
                begin = time.perf_counter()
                connection.connect(address)
                times.append(time.perf_counter() - begin)
    except OSError as error:
        raise BrokersFailedError(f"no connection to {broker}: {error}", perhaps_late=True) from error
    return statistics.median(times) * 1e3
