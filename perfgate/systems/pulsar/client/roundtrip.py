"""Round trips to Pulsar's brokers: PING to PONG on a raw connection of the binary protocol.

A frame is its length, its command's length (4 bytes each) and the command, a protobuf message BaseCommand: field 1 is
its type, and the field whose number is the type's holds the command of that type (PulsarApi.proto, "BaseCommand").
"""

from __future__ import annotations

import socket
import statistics
import struct
import time
from collections.abc import Callable
from functools import partial

from perfgate.host.ports import connect_ms, read_whole
from perfgate.model.errors import BrokersFailedError
from perfgate.systems.pulsar.client import servers_of

CONNECT, CONNECTED, ERROR, PING, PONG = 2, 3, 14, 18, 19
CLIENT = b"kafka-perf-gate"
PROTOCOL_VERSION = 12
LENGTHS = struct.Struct(">II")
VARINT, BYTES = 0, 2
"""Wire types of protobuf: a number, and a length with its bytes."""
LARGEST = 1 << 20
"""Bound on the length of answers to these commands."""
SAMPLES = 30
TIMEOUT_S = 5.0
OF_PINGS = "PING to PONG on a raw connection, median of the brokers"


def connect() -> bytes:
    """The frame that opens a connection. CommandConnect: client_version is field 1, protocol_version 4."""
    return _frame(CONNECT, _field(1, CLIENT) + _number(4, PROTOCOL_VERSION))


def ping() -> bytes:
    """The frame that asks for a PONG."""
    return _frame(PING, b"")


def read_type(read: Callable[[int], bytes]) -> int:
    """The type of the command in the frame that `read` (a number of bytes) gives. Raises ValueError for no frame."""
    total, size = LENGTHS.unpack(read(LENGTHS.size))
    if not size or total < size + 4 or total > LARGEST:
        raise ValueError(f"a frame of {total} bytes with a command of {size}")
    command = read(total - 4)[:size]
    key, at = _varint(command, 0)
    if key != (1 << 3 | VARINT):
        raise ValueError(f"a command that does not begin with its type: {command[:8].hex()}")
    return _varint(command, at)[0]


def _frame(kind: int, body: bytes) -> bytes:
    command = _number(1, kind) + _field(kind, body)
    return LENGTHS.pack(len(command) + 4, len(command)) + command


def _number(field: int, value: int) -> bytes:
    return _as_varint(field << 3 | VARINT) + _as_varint(value)


def _field(field: int, value: bytes) -> bytes:
    return _as_varint(field << 3 | BYTES) + _as_varint(len(value)) + value


def _as_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] <= 0x7F:
            return value, at
    raise ValueError("a number that does not end")


def ping_rtt_ms(host: str, port: int) -> float:
    """Median time, in ms, of SAMPLES PINGs on a connection. Raises BrokersFailedError without a PONG."""
    try:
        with socket.create_connection((host, port), timeout=TIMEOUT_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _ask(connection, connect(), CONNECTED)
            times = []
            for _ in range(SAMPLES):
                begin = time.perf_counter()
                _ask(connection, ping(), PONG)
                times.append(time.perf_counter() - begin)
            return statistics.median(times) * 1e3
    except (OSError, ValueError) as error:
        raise BrokersFailedError(f"no round trip to {host}:{port}: {error}", perhaps_late=True) from error


def connect_rtt_ms(service_url: str) -> float:
    """Median time, in ms, of a TCP connection to each server that accepts one. Raises BrokersFailedError if none."""
    times, failures = [], []
    for host, _, port in (server.rpartition(":") for server in servers_of(service_url)):
        try:
            times.append(connect_ms(host.strip("[]"), int(port)))
        except BrokersFailedError as error:
            failures.append(error)
    if not times:
        raise failures[0]
    return statistics.median(times)


def _ask(connection: socket.socket, frame: bytes, wanted: int) -> None:
    """Send a frame, and read until the answer: brokers may send a PING of their own in between."""
    connection.sendall(frame)
    while (answer := read_type(partial(read_whole, connection))) != wanted:
        if answer == ERROR:
            raise ConnectionError("the broker answered with an error")
