"""Requests and answers of Kafka's protocol as bytes: the few that a crowd of connections and a round trip need.

Sources: the protocol guide and the record format of Kafka's documentation. The versions are the oldest that brokers of
4.x take (KIP-896), whose encoding has no tagged fields.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from perfgate.host.ports import read_whole

PRODUCE, FETCH, METADATA, API_VERSIONS = (0, 3), (1, 4), (3, 1), (18, 0)
"""Key and version of each request."""
CLIENT_ID = b"kafka-perf-gate"
MAGIC = 2
AROUND_BATCH = 49
"""Bytes of a batch with a single record beside that record, those before its length not counted."""
NO_PRODUCER = -1


def _table() -> tuple[int, ...]:
    """Return CRC-32C of each byte (Castagnoli's polynomial, reflected)."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


TABLE = _table()


def crc32c(data: bytes, table: tuple[int, ...] = TABLE) -> int:
    """Return the CRC-32C of these bytes: 70 us for a KiB."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def varint(number: int) -> bytes:
    """Return a zigzag number of variable length."""
    number = number << 1 ^ number >> 63
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def text(value: bytes) -> bytes:
    return struct.pack(">h", len(value)) + value


def request(kind: tuple[int, int], correlation: int, body: bytes) -> bytes:
    """Return a request with its length in front."""
    head = struct.pack(">hhi", *kind, correlation) + text(CLIENT_ID)
    return struct.pack(">i", len(head) + len(body)) + head + body


def asked(connection: socket.socket, message: bytes) -> bytes:
    """Send a :func:`request`; return the body of its answer. Raises OSError."""
    connection.sendall(message)
    (length,) = struct.unpack(">i", read_whole(connection, 4))
    return read_whole(connection, length)[4:]


def batch_of(value: bytes, at_ms: int) -> bytes:
    """Return a batch of a single record without a key."""
    inside = b"\0" + varint(0) + varint(0) + varint(-1) + varint(len(value)) + value + varint(0)
    record = varint(len(inside)) + inside
    rest = struct.pack(">hiqqqhii", 0, 0, at_ms, at_ms, NO_PRODUCER, NO_PRODUCER, NO_PRODUCER, 1) + record
    length = AROUND_BATCH + len(record)
    return struct.pack(">qiibI", 0, length, -1, MAGIC, crc32c(rest)) + rest


def produce(correlation: int, topic: bytes, partition: int, batch: bytes, *, acks: int, timeout_ms: int) -> bytes:
    body = struct.pack(">hhii", -1, acks, timeout_ms, 1) + text(topic) + struct.pack(">iii", 1, partition, len(batch))
    return request(PRODUCE, correlation, body + batch)


def produced(body: bytes) -> tuple[int, int, int]:
    """Return error, offset and throttling (ms) of the answer to :func:`produce`."""
    (length,) = struct.unpack_from(">h", body, 4)
    error, offset = struct.unpack_from(">hq", body, 6 + length + 4 + 4)
    (throttled_ms,) = struct.unpack_from(">i", body, len(body) - 4)
    return error, offset, throttled_ms


def fetch(correlation: int, topic: bytes, partition: int, offset: int, *, wait_ms: int, least: int) -> bytes:
    """Return a request that waits at a partition's end for `least` bytes, or for `wait_ms`.

    The whole answer is bounded by `least` too; asked for a byte of the partition, brokers give its first batch.
    """
    head = struct.pack(">iiiib", -1, wait_ms, least, least, 0)
    return request(
        FETCH, correlation, head + struct.pack(">i", 1) + text(topic) + struct.pack(">iiqi", 1, partition, offset, 1)
    )


def fetched(body: bytes) -> tuple[int, int]:
    """Return error and high watermark of the answer to :func:`fetch`."""
    (length,) = struct.unpack_from(">h", body, 8)
    error, watermark = struct.unpack_from(">hq", body, 10 + length + 4 + 4)
    return error, watermark


def metadata(correlation: int, topic: bytes) -> bytes:
    return request(METADATA, correlation, struct.pack(">i", 1) + text(topic))


@dataclass(frozen=True, slots=True)
class Topic:
    """The leader of each partition, and every broker's address by its id. `error`: the topic's, 0 for none."""

    error: int
    leaders: tuple[int, ...]
    brokers: Mapping[int, tuple[str, int]]


def topic_of(body: bytes) -> Topic:
    """Return the answer to :func:`metadata`."""
    at = 0

    def take(form: str) -> tuple[int, ...]:
        nonlocal at
        values = struct.unpack_from(form, body, at)
        at += struct.calcsize(form)
        return values

    def words() -> str:
        nonlocal at
        (length,) = take(">h")
        at += max(0, length)
        return body[at - max(0, length) : at].decode()

    brokers = {}
    for _ in range(take(">i")[0]):
        (number,) = take(">i")
        host = words()
        (port,) = take(">i")
        words()  # its rack
        brokers[number] = (host, port)
    take(">i")  # the controller
    take(">i")
    (error,) = take(">h")
    words()
    take(">b")
    leaders = {}
    for _ in range(take(">i")[0]):
        _error, partition, leader = take(">hii")
        leaders[partition] = leader
        for _ in range(2):  # replicas, and those in sync
            (count,) = take(">i")
            at += 4 * count
    return Topic(error, tuple(leaders[partition] for partition in sorted(leaders)), brokers)


def api_versions(correlation: int) -> bytes:
    """Return the request that a client begins a connection with."""
    return request(API_VERSIONS, correlation, b"")
