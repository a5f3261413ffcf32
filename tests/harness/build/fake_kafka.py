"""A broker that answers the few requests that a crowd of connections makes, and keeps what it is sent."""

import selectors
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager


class FakeKafka:
    """One broker with one topic; `answered`: connections that get answers, from the first on, the others none.

    The first connection is that for the metadata.
    """

    def __init__(self, partitions: int, answered: int = 1_000_000, error: int = 0) -> None:
        self.partitions, self.error = partitions, error
        self.ends = [0] * partitions
        self.accepted = 0
        self.asked = Counter[int]()
        self.read_error = 0
        self.waits_for = 0
        """Bytes for which a broker would wait as the last fetch asks: no more than its answer may have."""
        self._drops = threading.Event()
        self._answered = answered
        self._kinds: Mapping[int, Callable[[bytes], bytes]] = {
            0: self._produced,
            1: self._fetched,
            3: self._metadata,
            18: lambda _: bytes(6),
        }
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def drop(self) -> None:
        """Close all connections that there are, soon."""
        self._drops.set()

    def _serve(self) -> None:
        while not self._ended.is_set():
            if self._drops.is_set():
                self._drops.clear()
                for key in [key for key in self._selector.get_map().values() if key.data is not None]:
                    self._selector.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
            for key, _ in self._selector.select(0.02):
                if key.data is None:
                    connection, _ = self._listener.accept()
                    self.accepted += 1
                    self._selector.register(connection, selectors.EVENT_READ, (self.accepted, bytearray()))
                    continue
                assert isinstance(key.fileobj, socket.socket)
                number, heard = key.data
                try:
                    data = key.fileobj.recv(65_536)
                except ConnectionResetError:  # its process has ended
                    data = b""
                if not data:
                    self._selector.unregister(key.fileobj)
                    key.fileobj.close()
                    continue
                heard += data
                if number <= self._answered:
                    self._answer(key.fileobj, heard)

    def _answer(self, connection: socket.socket, heard: bytearray) -> None:
        while len(heard) >= 4 and len(heard) >= 4 + (length := struct.unpack_from(">i", heard)[0]):
            kind, _version, number, client = struct.unpack_from(">hhih", heard, 4)
            body = bytes(heard[14 + client : 4 + length])
            del heard[: 4 + length]
            self.asked[kind] += 1
            answer = self._kinds[kind](body)
            connection.sendall(struct.pack(">ii", 4 + len(answer), number) + answer)

    def _produced(self, body: bytes) -> bytes:
        (length,) = struct.unpack_from(">h", body, 12)
        name = body[14 : 14 + length]
        (partition,) = struct.unpack_from(">i", body, 18 + length)
        offset = self.ends[partition]
        self.ends[partition] += not self.error
        head = struct.pack(">ih", 1, length) + name
        return head + struct.pack(">iihqqi", 1, partition, self.error, offset, -1, 0)

    def _fetched(self, body: bytes) -> bytes:
        least, most = struct.unpack_from(">ii", body, 8)
        self.waits_for = min(least, most)
        (length,) = struct.unpack_from(">h", body, 21)
        name, (partition,) = body[23 : 23 + length], struct.unpack_from(">i", body, 27 + length)
        head = struct.pack(">iih", 0, 1, length) + name
        end = -1 if self.read_error else self.ends[partition]
        return head + struct.pack(">iihqqii", 1, partition, self.read_error, end, 0, 0, 0)

    def _metadata(self, body: bytes) -> bytes:
        (length,) = struct.unpack_from(">h", body, 4)
        name, host = body[6 : 6 + length], b"127.0.0.1"
        brokers = struct.pack(">iih", 1, 7, len(host)) + host + struct.pack(">ih", self.port, -1)
        each = b"".join(struct.pack(">hiiiiii", 0, p, 7, 1, 7, 1, 7) for p in range(self.partitions))
        topic = struct.pack(">hh", 0, length) + name + b"\0" + struct.pack(">i", self.partitions) + each
        return brokers + struct.pack(">ii", 7, 1) + topic


@contextmanager
def fake_kafka(partitions: int = 3, answered: int = 1_000_000, error: int = 0) -> Iterator[FakeKafka]:
    broker = FakeKafka(partitions, answered, error)
    try:
        yield broker
    finally:
        broker.close()
