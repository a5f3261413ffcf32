"""pulsar_batch.c in Python, for machines on which it cannot be compiled: the same functions, slower.

libpulsar's callbacks take the interpreter's lock for every message here: 28 us of CPU a record of 1 KiB in all, 5 with
the compiled half (a round each, 2 cores, other work beside). Rounds that this limits are INVALID, like those of any
load generator that was too slow.
"""

from __future__ import annotations

import base64
import ctypes
import threading
import time
from collections import deque
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from perfgate.load.positions import position_of
from perfgate.load.schedule import now
from perfgate.systems.pulsar.load import native

MOST_WAITING, FULL_S = 8_192, 0.0002
WARNING = 2
FIELDS = 5
_P = c_void_p
_SENT, _RESULT = CFUNCTYPE(None, c_int, _P, _P), CFUNCTYPE(None, c_int, _P)
_LISTENER = CFUNCTYPE(None, _P, _P, _P)
_LOGS, _LOG = CFUNCTYPE(ctypes.c_bool, c_int, _P), CFUNCTYPE(None, c_int, c_char_p, c_int, c_char_p, _P)
_CALLED: dict[str, Any] = {
    "message_create": CFUNCTYPE(_P),
    "message_free": CFUNCTYPE(None, _P),
    "message_set_content": CFUNCTYPE(None, _P, _P, c_size_t),
    "message_set_partition_key": CFUNCTYPE(None, _P, c_char_p),
    "message_get_data": CFUNCTYPE(_P, _P),
    "message_get_length": CFUNCTYPE(c_uint32, _P),
    "message_get_redelivery_count": CFUNCTYPE(c_int, _P),
    "message_get_message_id": CFUNCTYPE(_P, _P),
    "message_id_serialize": CFUNCTYPE(_P, _P, POINTER(c_int)),
    "message_id_deserialize": CFUNCTYPE(_P, c_char_p, c_uint32),
    "message_id_earliest": CFUNCTYPE(_P),
    "message_id_free": CFUNCTYPE(None, _P),
    "producer_send_async": CFUNCTYPE(None, _P, _P, _SENT, _P),
    "consumer_acknowledge_async": CFUNCTYPE(None, _P, _P, _P, _P),
    "consumer_acknowledge_cumulative_async": CFUNCTYPE(None, _P, _P, _P, _P),
    "consumer_seek_async": CFUNCTYPE(None, _P, _P, _RESULT, _P),
    "consumer_get_last_message_id": CFUNCTYPE(c_int, _P, _P),
}


@dataclass(slots=True)
class _Sender:
    slots: int
    most_bytes: int
    producers: list[Any]
    bell: threading.Event = field(default_factory=threading.Event)
    under_way: int = 0
    bytes: int = 0
    heard: deque[tuple[Any, ...]] = field(default_factory=deque)


@dataclass(slots=True)
class _Part:
    owner: _Reader
    partition: int
    consumer: Any = None
    end: int = -1
    at_end: bool = False


@dataclass(slots=True)
class _Reader:
    parts: list[int] = field(default_factory=list)
    """Handle of each partition's part."""
    bell: threading.Event = field(default_factory=threading.Event)
    received: deque[tuple[int, ...]] = field(default_factory=deque)
    """Rows that were received."""
    closing: bool = False


class Slow:
    """The functions of the compiled library. Rows are those of native.py."""

    def __init__(self, address_of: Callable[[str], int]) -> None:
        """`address_of` a function of libpulsar by its name."""
        self._pulsar = {name: kind(address_of(f"pulsar_{name}")) for name, kind in _CALLED.items()}
        self._objects: dict[int, Any] = {}
        """Senders, readers with their parts, and messages in flight, by handle."""
        self._handles = 0
        self._lock = threading.Lock()
        self._at_once = threading.local()
        """Of each thread the handle of the message that it is sending, and the code that refused it in that call."""
        self._words, self._warnings = b"", 0
        self._sent, self._sought = _SENT(self._on_sent), _RESULT(self._on_sought)
        self.kpg_listener = _LISTENER(self._listen)
        self.kpg_log_enabled, self.kpg_log = _LOGS(lambda level, _: bool(level >= WARNING)), _LOG(self._on_log)
        self._free_memory = ctypes.CDLL(None).free
        self._free_memory.argtypes = (c_void_p,)

    def kpg_words(self, into: Any, size: int) -> int:
        into.value = self._words[: size - 1]
        return self._warnings

    def kpg_sender_new(self, partitions: int, slots: int, most_bytes: int) -> int:
        return self._keep(_Sender(slots, most_bytes, [None] * partitions))

    def kpg_sender_set(self, sender: Any, partition: int, producer: Any) -> None:
        self._of(sender).producers[partition] = producer

    def kpg_sender_free(self, sender: Any) -> None:
        del self._objects[_number(sender)]

    kpg_reader_free = kpg_sender_free

    def kpg_under_way(self, sender: Any) -> int:
        return int(self._of(sender).under_way)

    def kpg_send(self, sender: Any, address: int, count: int, partition: int) -> int:
        to, rows, taken = self._of(sender), _rows(address, count), 0
        for index in range(count):
            row = rows[index]
            if to.under_way == to.slots or (to.under_way and to.bytes + int(row["len"]) > to.most_bytes):
                rows["err"][index:] = native.FULL
                break
            taken += self._send(to, row, partition)
        return taken

    def kpg_take(self, sender: Any, address: int, most: int) -> int:
        of, count = self._of(sender), 0
        of.bell.clear()
        rows = _rows(address, most)
        while count < most and of.heard:
            private, size, partition, err, offset, at = of.heard.popleft()
            rows[count] = (0, size, 0, 0, private, offset, partition, err, int(at * 1e9), 0, 0, 0)
            of.under_way -= 1
            of.bytes -= size
            count += 1
        if of.heard:
            of.bell.set()
        return count

    def kpg_sender_wait(self, sender: Any, nanoseconds: int) -> None:
        self._of(sender).bell.wait(nanoseconds * 1e-9)

    kpg_reader_wait = kpg_sender_wait

    def kpg_reader_new(self, partitions: int) -> int:
        reader = _Reader()
        reader.parts = [self._keep(_Part(reader, partition)) for partition in range(partitions)]
        return self._keep(reader)

    def kpg_reader_part(self, reader: Any, partition: int) -> int:
        return int(self._of(reader).parts[partition])

    def kpg_reader_set(self, reader: Any, partition: int, consumer: Any, end: int) -> None:
        part = self._part(reader, partition)
        part.consumer, part.end = consumer, end

    def kpg_reader_close(self, reader: Any) -> None:
        self._of(reader).closing = True

    def kpg_last_position(self, consumer: Any, position: Any) -> int:
        pulsar = self._pulsar
        data = self._serialised(pulsar["message_id_earliest"]())
        id_ = pulsar["message_id_deserialize"](data, len(data))
        result = int(pulsar["consumer_get_last_message_id"](consumer, id_))
        ctypes.cast(position, POINTER(ctypes.c_int64))[0] = -1 if result else self._position(id_)
        pulsar["message_id_free"](id_)
        return result

    def kpg_rewind(self, reader: Any, partition: int) -> None:
        part = self._part(reader, partition)
        part.at_end = False
        earliest = self._pulsar["message_id_earliest"]()
        self._pulsar["consumer_seek_async"](part.consumer, earliest, self._sought, self._of(reader).parts[partition])

    def kpg_receive(self, reader: Any, address: int, most: int) -> int:
        of, count = self._of(reader), 0
        of.bell.clear()
        rows = _rows(address, most)
        while count < most and of.received:
            rows[count] = of.received.popleft()
            count += 1
        if of.received:
            of.bell.set()
        return count

    def kpg_done(self, reader: Any, address: int, count: int, acknowledge: int) -> None:
        of, rows = self._of(reader), _rows(address, count)
        done: set[int] = set()
        for handle, partition in zip(rows["handle"].tolist()[::-1], rows["partition"].tolist()[::-1], strict=True):
            if not handle:
                continue
            consumer = self._objects[of.parts[partition]].consumer
            if acknowledge == 1 and partition not in done:
                self._pulsar["consumer_acknowledge_cumulative_async"](consumer, handle, None, None)
            if acknowledge == 2:
                self._pulsar["consumer_acknowledge_async"](consumer, handle, None, None)
            done.add(partition)
            self._pulsar["message_free"](handle)

    def _send(self, to: _Sender, row: Any, partition: int) -> int:
        pulsar, size = self._pulsar, int(row["len"])
        message = pulsar["message_create"]()
        pulsar["message_set_content"](message, int(row["payload"]), size)
        if row["key_len"]:
            text = key_text(ctypes.string_at(int(row["key"]), int(row["key_len"])))
            pulsar["message_set_partition_key"](message, text)
            partition = partition_of(text, len(to.producers)) if partition < 0 else partition
        partition = max(0, partition)
        number = self._keep((to, int(row["private"]), size, partition))
        self._at_once.number, self._at_once.refused = number, None
        pulsar["producer_send_async"](to.producers[partition], message, self._sent, number)
        self._at_once.number = 0
        pulsar["message_free"](message)
        if self._at_once.refused is not None:
            row["err"] = self._at_once.refused
            return 0
        to.under_way += 1
        to.bytes += size
        row["partition"] = partition
        return 1

    def _on_sent(self, result: int, id_: int | None, number: int) -> None:
        to, private, size, partition = self._objects.pop(number)
        offset = -1
        if id_:
            if not result:
                offset = self._position(id_)
            self._pulsar["message_id_free"](id_)
        if getattr(self._at_once, "number", 0) == number:
            self._at_once.refused = result
            return
        to.heard.append((private, size, partition, result, offset, now()))
        to.bell.set()

    def _listen(self, _consumer: int, message: int, number: int) -> None:
        pulsar, part = self._pulsar, self._objects[number]
        id_ = pulsar["message_get_message_id"](message)
        position = self._position(id_)
        pulsar["message_id_free"](id_)
        of = part.owner
        while len(of.received) >= MOST_WAITING and not of.closing:
            time.sleep(FULL_S)
        if of.closing:
            pulsar["message_free"](message)
            return
        payload, size = pulsar["message_get_data"](message) or 0, pulsar["message_get_length"](message)
        err, again = (native.STRANGE if position < 0 else 0), pulsar["message_get_redelivery_count"](message)
        of.received.append((payload, size, 0, 0, 0, position, part.partition, err, int(now() * 1e9), message, again, 0))
        if 0 <= part.end <= position and not part.at_end:
            part.at_end = True
            of.received.append((0, 0, 0, 0, 0, part.end, part.partition, native.AT_END, 0, 0, 0, 0))
        of.bell.set()

    def _on_sought(self, result: int, number: int) -> None:
        if result:
            part = self._objects[number]
            part.owner.received.append((0, 0, 0, 0, 0, -1, part.partition, result, 0, 0, 0, 0))
            part.owner.bell.set()

    def _on_log(self, _level: int, _file: bytes, _line: int, message: bytes, _context: int) -> None:
        self._words = message
        self._warnings += 1

    def _serialised(self, id_: int) -> bytes:
        size = c_int()
        data = self._pulsar["message_id_serialize"](id_, ctypes.byref(size))
        serialised = ctypes.string_at(data, size.value)
        self._free_memory(data)
        return serialised

    def _position(self, id_: int) -> int:
        return parsed(self._serialised(id_))

    def _keep(self, kept: Any) -> int:
        with self._lock:
            self._handles += 1
            self._objects[self._handles] = kept
            return self._handles

    def _of(self, handle: Any) -> Any:
        return self._objects[_number(handle)]

    def _part(self, reader: Any, partition: int) -> Any:
        return self._objects[self._of(reader).parts[partition]]


def _number(handle: Any) -> int:
    return (handle.value or 0) if isinstance(handle, c_void_p) else int(handle)


def _rows(address: int, count: int) -> Any:
    memory = (ctypes.c_char * (count * native.ROW.itemsize)).from_address(address)
    return np.ndarray(count, native.ROW, memoryview(memory).cast("B"))


def parsed(data: bytes) -> int:
    """The position of a serialised message id: its numbers 1, 2 and 4, as protobuf."""
    numbers, at = [-1] * FIELDS, 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7:  # a bit set follows the numbers
            break
        value, at = _varint(data, at)
        if tag >> 3 < FIELDS:
            numbers[tag >> 3] = value - (1 << 64) if value >> 63 else value
    return position_of(numbers[1], numbers[2], numbers[4])


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(data):
        byte, at = data[at], at + 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return number, at


def key_text(key: bytes) -> bytes:
    """A key as text: as it is where that is printable, otherwise in Base64."""
    return key if all(32 < byte < 127 for byte in key) else base64.b64encode(key)


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key by String.hashCode() of Java."""
    hashed = 0
    for byte in key:
        hashed = (hashed * 31 + byte) & 0xFFFFFFFF
    return (hashed & 0x7FFFFFFF) % partitions


@cache
def batches() -> Any:
    """The compiled library, or the slow functions. Raises LoadClientError without libpulsar."""
    pulsar = ctypes.CDLL(str(native.libpulsar()))

    def address_of(name: str) -> int:
        return ctypes.cast(getattr(pulsar, name), ctypes.c_void_p).value or 0

    if native.cannot_have():
        return Slow(address_of)
    library = native.load(native.place())
    native.bind(library, address_of)
    return library
