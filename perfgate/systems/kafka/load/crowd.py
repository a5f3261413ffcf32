"""A crowd: producers with a connection each, and idle consumers, in a single thread.

librdkafka has a thread for each client and broker (docs/performance.md); a thousand clients of it are thousands of
threads. Here a connection is a socket in an epoll. Each producer has a single request under way, with a single record,
and asks nothing again: what its connection loses is a failed send. The first record due on a connection opens it, so
that a load of a record a second each opens all of them within a second, as an application that restarts does.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import resource
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from perfgate.load.clients import Hear, LoadClientError, Rows, Transactions, UnansweredError
from perfgate.load.schedule import now
from perfgate.systems.kafka.client import wire
from perfgate.systems.kafka.load import clib
from perfgate.systems.kafka.load.client import Failures

PLAINTEXT = "plaintext"
ANSWER_S = 15.0
"""For the metadata before the load."""
TRIED_S = 3.0
"""For a connection to one of several addresses of a broker."""
FILES = 200
"""Files besides connections."""
WITHIN_S = 1.0
"""Idle consumers connect in this time from the first record on."""
IDLE_WAIT_MS, IDLE_BYTES = 500, 1 << 30
"""A consumer at the end of its partition asks twice a second (Kafka's fetch.max.wait.ms); that much is never there."""
QUEUED = 64
"""Records that wait on a connection at most."""
TRANSPORT, TIMED_OUT = -195, -192
"""librdkafka's codes: a connection was lost, and a record was not acknowledged in time."""
MOST_BYTES = 1 << 16


class _Connection:
    """A connection to the leader of a partition; `records`: those that wait, the first of them under way."""

    def __init__(self, *, idle: bool) -> None:
        self.partition, self.idle = 0, idle
        self.socket: socket.socket | None = None
        self.ready = self.busy = False
        self.records: deque[tuple[int, int, bytes, float]] = deque()
        """Number, bytes of the value, batch, and until when it may take."""
        self.unsent = b""
        self.received = bytearray()
        self.offset = 0
        self.reached = False


class Crowd(Failures):
    """See :class:`perfgate.load.clients.SendingClient`."""

    row = clib.MESSAGE
    FULL, PURGED = clib.ERR_QUEUE_FULL, clib.ERR_PURGE_QUEUE
    TIMED_OUT = clib.TIMED_OUT

    def __init__(self, settings: Mapping[str, str], topic: str, *, connections: int, idle: int) -> None:
        """Raises LoadClientError where brokers want more than plain text, or this machine has too few files."""
        if (protocol := settings.get("security.protocol", PLAINTEXT).lower()) != PLAINTEXT:
            raise LoadClientError(f"a crowd of connections has no log-in and no TLS: security.protocol is {protocol}")
        self._allow(connections + idle)
        super().__init__()
        self.topic = topic.encode()
        self._servers = [_address(server) for server in settings["bootstrap.servers"].split(",")]
        self._acks = -1 if settings["acks"] in ("-1", "all") else int(settings["acks"])
        self._request_ms = int(settings.get("request.timeout.ms", "30000"))
        self._within_s = float(settings["delivery.timeout.ms"]) / 1e3
        self._connections = [_Connection(idle=False) for _ in range(connections)]
        self._idle = [_Connection(idle=True) for _ in range(idle)]
        self._turn: list[Iterator[_Connection]] = []
        self._epoll = select.epoll()
        self._by_file: dict[int, _Connection] = {}
        self._numbers = itertools.count(1)
        self._again: deque[tuple[float, _Connection]] = deque()
        """Idle consumers that got an error or lost their connection, and from when on they ask again."""
        self._outcomes: list[tuple[int, int, int, int, int, float]] = []
        """Number, partition, offset, bytes, error, and when it was known."""
        self._under_way = self._opened_idle = self.reached = 0
        self._began = self._settled = 0.0
        self._looked = 0.0

    @staticmethod
    def _allow(connections: int) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = connections + FILES
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise LoadClientError(
                f"{connections:,} connections need {wanted:,} open files, and a process may have {hard:,} here"
            )
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

    def connect(self, partitions: int) -> None:
        """Learn who leads the partitions; the first record due on each connection of the crowd opens it."""
        topic = self._topic()
        if topic.error:
            name = clib.error_name(topic.error)
            raise UnansweredError(f"topic {self.topic.decode()}: {clib.error_text(topic.error)}", name)
        if len(topic.leaders) != partitions:
            words = f"it has {len(topic.leaders)} partitions, not {partitions}"
            raise LoadClientError(f"topic {self.topic.decode()}: {words}")
        if any(leader not in topic.brokers for leader in topic.leaders):
            raise UnansweredError(f"topic {self.topic.decode()}: a partition has no leader", "LEADER_NOT_AVAILABLE")
        addresses = {leader: _resolved(*topic.brokers[leader]) for leader in set(topic.leaders)}
        self._leaders = [addresses[leader] for leader in topic.leaders]
        for number, connection in enumerate((*self._connections, *self._idle)):
            connection.partition = number % partitions
        self._turn = [
            itertools.cycle([c for c in self._connections if c.partition == partition] or self._connections)
            for partition in range(partitions)
        ]

    def _topic(self) -> wire.Topic:
        """The topic by the first server that answers. Raises UnansweredError."""
        reason = ""
        for host, port in self._servers:
            try:
                with socket.create_connection((host, port), ANSWER_S) as connection:
                    return wire.topic_of(wire.asked(connection, wire.metadata(0, self.topic)))
            except (OSError, struct.error) as error:
                reason = f"{host}:{port}: {error}"
        raise UnansweredError(f"no metadata of {self.topic.decode()}: {reason}", "_TRANSPORT")

    def send(self, rows: Rows, partition: int) -> int:
        moment, taken = now(), 0
        self._began = self._began or moment
        for row in rows:
            connection = next(self._turn[partition])
            if len(connection.records) >= QUEUED:
                row["err"] = self.FULL
                continue
            value = ctypes.string_at(int(row["payload"]), int(row["len"]))
            batch = wire.batch_of(value, time.time_ns() // 1_000_000)
            connection.records.append((int(row["private"]), len(value), batch, moment + self._within_s))
            self._under_way += 1
            taken += 1
            self._next(connection)
        return taken

    def under_way(self) -> int:
        return self._under_way + len(self._outcomes)

    def withdraw(self) -> None:
        """Do nothing: a crowd holds next to nothing back."""

    def rotate(self) -> None:
        """Do nothing: each connection has its own partition."""

    def transactions(self, open_s: float, acked_by_partition: npt.NDArray[np.int64]) -> Transactions:
        raise LoadClientError("a crowd of connections has no transactions")

    def wait(self, seconds: float) -> None:
        if not self._outcomes and seconds > 0:
            self._epoll.poll(seconds, 1)

    def take(self, hear: Hear, most_s: float) -> int:
        until = now() + most_s
        self._open_idle()
        self._ask_again()
        while events := self._epoll.poll(0, 256):
            for file, event in events:
                if (connection := self._by_file.get(file)) is not None:
                    self._serve(connection, event)
            if now() > until:
                break
        self._end_late()
        if not (count := len(self._outcomes)):
            return 0
        rows = np.zeros(count, self.row)
        fields = list(zip(*self._outcomes, strict=True))
        for name, values in zip(("private", "partition", "offset", "len", "err"), fields, strict=False):
            rows[name] = values
        heard = np.array(fields[5])
        self._outcomes.clear()
        hear(rows, heard)
        return count

    def more(self) -> dict[str, list[int]]:
        """Return how many connections there should be, how many got an answer, and the time of the last answer (us)."""
        asked = len(self._connections) + len(self._idle)
        settled_us = round(1e6 * (self._settled - self._began)) if self.reached == asked else 0
        return {"crowd": [asked, self.reached, settled_us]}

    def _open_idle(self) -> None:
        if not self._began or self._opened_idle == len(self._idle):
            return
        due = min(1.0, (now() - self._began) / WITHIN_S) * len(self._idle)
        while self._opened_idle < due:
            self._next(self._idle[self._opened_idle])
            self._opened_idle += 1

    def _ask_again(self) -> None:
        while self._again and self._again[0][0] <= now():
            self._next(self._again.popleft()[1])

    def _put_off(self, connection: _Connection) -> None:
        """Count an idle consumer as unanswered until its next answer; asked at once, errors would be a flood."""
        self.reached -= connection.reached
        connection.reached = False
        self._again.append((now() + IDLE_WAIT_MS / 1e3, connection))

    def _next(self, connection: _Connection) -> None:
        if connection.socket is None:
            self._open(connection)
        elif connection.ready and not connection.busy and (connection.records or connection.idle):
            connection.busy = True
            head = next(self._numbers), self.topic, connection.partition
            if connection.idle:
                request = wire.fetch(*head, connection.offset, wait_ms=IDLE_WAIT_MS, least=IDLE_BYTES)
            else:
                batch = connection.records[0][2]
                request = wire.produce(*head, batch, acks=self._acks, timeout_ms=self._request_ms)
            self._write(connection, request)

    def _open(self, connection: _Connection) -> None:
        family, address = self._leaders[connection.partition]
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.socket, connection.ready, connection.busy = sock, False, True
        connection.unsent = wire.api_versions(next(self._numbers))
        connection.received.clear()
        self._by_file[sock.fileno()] = connection
        self._epoll.register(sock.fileno(), select.EPOLLIN | select.EPOLLOUT)
        code = sock.connect_ex(address)
        if code == errno.EADDRNOTAVAIL:
            raise LoadClientError(f"this machine has no port left for a connection ({os.strerror(code)})")
        if code not in (0, errno.EINPROGRESS):
            self._lost(connection, os.strerror(code))

    def _write(self, connection: _Connection, data: bytes) -> None:
        assert connection.socket is not None
        connection.unsent += data
        try:
            sent = connection.socket.send(connection.unsent)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._lost(connection, str(error))
            return
        connection.unsent = connection.unsent[sent:]
        events = select.EPOLLIN | (select.EPOLLOUT if connection.unsent else 0)
        self._epoll.modify(connection.socket.fileno(), events)

    def _serve(self, connection: _Connection, event: int) -> None:
        assert connection.socket is not None
        if event & select.EPOLLOUT and connection.unsent:
            if code := connection.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._lost(connection, os.strerror(code))
                return
            self._write(connection, b"")
        if connection.socket is None or not event & ~select.EPOLLOUT:
            return
        try:
            data = connection.socket.recv(MOST_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(connection, str(error))
            return
        if not data:
            self._lost(connection, "closed by the broker")
            return
        received = connection.received
        received += data
        if len(received) >= 4 and len(received) >= 4 + (length := struct.unpack_from(">i", received)[0]):
            body = bytes(received[8 : 4 + length])
            del received[: 4 + length]
            self._answered(connection, body)

    def _answered(self, connection: _Connection, body: bytes) -> None:
        connection.busy = False
        if not connection.ready:
            connection.ready = True
        elif connection.idle:
            error, watermark = wire.fetched(body)
            if error:
                self.note_error(error, clib.error_text(error))
                self._put_off(connection)
                return
            connection.offset = watermark
            self._note_reached(connection)
        else:
            error, offset, throttled_ms = wire.produced(body)
            self.throttled_ms += throttled_ms
            number, length, _, _ = connection.records.popleft()
            self._under_way -= 1
            self._outcomes.append((number, connection.partition, offset, length, error, now()))
            if not error:
                self._note_reached(connection)
        self._next(connection)

    def _note_reached(self, connection: _Connection) -> None:
        if not connection.reached:
            connection.reached, self.reached, self._settled = True, self.reached + 1, now()

    def _lost(self, connection: _Connection, reason: str, code: int = TRANSPORT) -> None:
        """End a connection: what was to go over it has failed. The next record, or question, opens it anew."""
        assert connection.socket is not None
        _, (host, port, *_) = self._leaders[connection.partition]
        self.note_error(code, f"{host}:{port}: {reason}")
        del self._by_file[connection.socket.fileno()]
        connection.socket.close()  # which takes it out of the epoll
        connection.socket, connection.ready, connection.busy, connection.unsent = None, False, False, b""
        moment = now()
        for number, length, _, _ in connection.records:
            self._outcomes.append((number, connection.partition, -1, length, code, moment))
        self._under_way -= len(connection.records)
        connection.records.clear()
        if connection.idle:
            self._put_off(connection)

    def _end_late(self) -> None:
        """End connections whose first record has had no answer for too long; looked for now and then."""
        if (moment := now()) - self._looked < min(1.0, self._within_s / 4):
            return
        self._looked = moment
        for connection in self._connections:
            if connection.records and connection.records[0][3] < moment:
                self._lost(connection, "no answer in time", TIMED_OUT)


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
    """The first of a name's addresses that takes a connection; the first of all where none does."""
    try:
        known = [(family, at) for family, _, _, _, at in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except OSError as error:
        raise UnansweredError(f"{host}:{port}: {error}", "_RESOLVE") from None
    for family, address in known if len(known) > 1 else ():
        with suppress(OSError), socket.socket(family) as tried:
            tried.settimeout(TRIED_S)
            tried.connect(address)
            return family, address
    return known[0]


def _address(server: str) -> tuple[str, int]:
    host, _, port = server.strip().rpartition(":")
    return host.strip("[]"), int(port)
