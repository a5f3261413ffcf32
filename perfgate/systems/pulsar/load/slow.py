"""pulsar_batch.c once more in Python, for machines on which it cannot be compiled: the same functions, slower.

libpulsar's callbacks take the interpreter's lock for every message here, 20 us where the compiled ones take 1
(docs/performance.md). Rounds that this limits are INVALID as of any load generator that was too slow.
"""

from __future__ import annotations

import base64
import ctypes
import threading
from collections import deque
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perfgate.load.schedule import now
from perfgate.systems.pulsar.load import native
from perfgate.systems.pulsar.load.positions import position_of

FULL, AT_END, STRANGE, TIMED_OUT = -184, -191, -201, 3
WARNING = 2
FIELDS = 5
_P = c_void_p
_SENT, _RESULT = CFUNCTYPE(None, c_int, _P, _P), CFUNCTYPE(None, c_int, _P)
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
    "consumer_receive_with_timeout": CFUNCTYPE(c_int, _P, POINTER(_P), c_int),
    "consumer_receive_async": CFUNCTYPE(None, _P, _SENT, _P),
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
    consumer: Any
    end: int
    at_end: bool = False
    busy: bool = False
    """A callback of its is due."""
    gone: bool = False
    came: deque[tuple[int, Any]] = field(default_factory=deque)
    """Result and message (None: of a seek) of a callback."""


@dataclass(slots=True)
class _Reader:
    parts: list[_Part | None]
    next: int = 0
    bell: threading.Event = field(default_factory=threading.Event)


class Slow:
    """Has the functions of the compiled library. Rows are those of native.py."""

    def __init__(self, address_of: Callable[[str], int]) -> None:
        """`address_of`: of a function of libpulsar by its name."""
        self._pulsar = {name: kind(address_of(f"pulsar_{name}")) for name, kind in _CALLED.items()}
        self._made: dict[int, Any] = {}
        """Senders and readers, messages on their way and consumers that answer later, by number."""
        self._numbers = 0
        self._lock = threading.Lock()
        self._at_once: tuple[int, int] | None = None
        """Thread and number of the message that is being handed over."""
        self._refused = 0
        self._words, self._warnings = b"", 0
        self._sent, self._received, self._sought = (
            _SENT(self._on_sent),
            _SENT(self._on_received),
            _RESULT(self._on_sought),
        )
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
        del self._made[_number(sender)]

    kpg_reader_free = kpg_sender_free

    def kpg_under_way(self, sender: Any) -> int:
        return int(self._of(sender).under_way)

    def kpg_send(self, sender: Any, address: int, count: int, partition: int) -> int:
        to, rows, taken = self._of(sender), _rows(address, count), 0
        for index in range(count):
            row = rows[index]
            if to.under_way == to.slots or (to.under_way and to.bytes + int(row["len"]) > to.most_bytes):
                rows["err"][index:] = FULL
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

    kpg_pause = kpg_sender_wait

    def kpg_reader_new(self, partitions: int) -> int:
        return self._keep(_Reader([None] * partitions))

    def kpg_reader_set(self, reader: Any, partition: int, consumer: Any, end: int) -> None:
        self._of(reader).parts[partition] = _Part(consumer, end)

    def kpg_last_position(self, consumer: Any, position: Any) -> int:
        pulsar = self._pulsar
        data = self._serialised(pulsar["message_id_earliest"]())
        id_ = pulsar["message_id_deserialize"](data, len(data))
        result = int(pulsar["consumer_get_last_message_id"](consumer, id_))
        found = -1 if result else self._position(id_)
        ctypes.cast(position, POINTER(ctypes.c_int64))[0] = found
        pulsar["message_id_free"](id_)
        return result

    def kpg_rewind(self, reader: Any, partition: int) -> None:
        of = self._of(reader)
        part = of.parts[partition]
        part.at_end, part.busy = False, True
        earliest = self._pulsar["message_id_earliest"]()
        self._pulsar["consumer_seek_async"](part.consumer, earliest, self._sought, self._keep((of, part)))

    def kpg_receive(self, reader: Any, address: int, most: int) -> int:
        of, count = self._of(reader), 0
        of.bell.clear()
        rows, partitions = _rows(address, most), len(of.parts)
        for number in range(partitions):
            partition = (of.next + number) % partitions
            if (part := of.parts[partition]) and not part.gone:
                count = self._receive(part, partition, rows, count)
        of.next = (of.next + 1) % partitions
        return count

    def kpg_reader_wait(self, reader: Any, nanoseconds: int) -> None:
        of = self._of(reader)
        for part in of.parts:
            if part and not part.busy and not part.gone and not part.came:
                part.busy = True
                self._pulsar["consumer_receive_async"](part.consumer, self._received, self._keep((of, part)))
        of.bell.wait(nanoseconds * 1e-9)

    def kpg_done(self, reader: Any, address: int, count: int, acknowledge: int) -> None:
        of, rows = self._of(reader), _rows(address, count)
        handles, partitions = rows["handle"].tolist(), rows["partition"].tolist()
        for index, (handle, partition) in enumerate(zip(handles, partitions, strict=True)):
            if not handle:
                continue
            consumer, after = of.parts[partition].consumer, index + 1
            last = after == count or partitions[after] != partition or not handles[after]
            if acknowledge == 1 and last:
                self._pulsar["consumer_acknowledge_cumulative_async"](consumer, handle, None, None)
            if acknowledge == 2:
                self._pulsar["consumer_acknowledge_async"](consumer, handle, None, None)
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
        self._at_once = (threading.get_ident(), number)
        pulsar["producer_send_async"](to.producers[partition], message, self._sent, number)
        refused, self._at_once = self._at_once is None, None
        pulsar["message_free"](message)
        if refused:
            row["err"] = self._refused
            return 0
        to.under_way += 1
        to.bytes += size
        row["partition"] = partition
        return 1

    def _on_sent(self, result: int, id_: int | None, number: int) -> None:
        to, private, size, partition = self._made.pop(number)
        offset = -1
        if id_:
            if not result and (offset := self._position(id_)) < 0:
                result = STRANGE
            self._pulsar["message_id_free"](id_)
        if self._at_once == (threading.get_ident(), number):
            self._at_once, self._refused = None, result
            return
        to.heard.append((private, size, partition, result, offset, now()))
        to.bell.set()

    def _on_received(self, result: int, message: int | None, number: int) -> None:
        of, part = self._made.pop(number)
        part.came.append((result, message))
        part.busy = False
        of.bell.set()

    def _on_sought(self, result: int, number: int) -> None:
        self._on_received(result, None, number)

    def _on_log(self, _level: int, _file: bytes, _line: int, message: bytes, _context: int) -> None:
        self._words = message
        self._warnings += 1

    def _receive(self, part: _Part, partition: int, rows: Any, count: int) -> int:
        if part.busy:
            return count
        if part.came:
            result, message = part.came.popleft()
            if result:
                part.gone = True
                if message:
                    self._pulsar["message_free"](message)
                return _add(rows, count, partition, err=result)
            if message:
                count = self._fill(part, partition, rows, count, message)
        received = c_void_p()
        while count < len(rows) - 1:
            result = self._pulsar["consumer_receive_with_timeout"](part.consumer, ctypes.byref(received), 0)
            if result == TIMED_OUT:
                break
            if result:
                part.gone = True
                return _add(rows, count, partition, err=result)
            count = self._fill(part, partition, rows, count, received.value or 0)
        return count

    def _fill(self, part: _Part, partition: int, rows: Any, count: int, message: int) -> int:
        pulsar = self._pulsar
        id_ = pulsar["message_get_message_id"](message)
        position = self._position(id_)
        pulsar["message_id_free"](id_)
        count = _add(
            rows,
            count,
            partition,
            payload=pulsar["message_get_data"](message) or 0,
            len=pulsar["message_get_length"](message),
            offset=position,
            err=STRANGE if position < 0 else 0,
            handle=message,
            redelivered=pulsar["message_get_redelivery_count"](message),
        )
        if 0 <= part.end <= position and not part.at_end:
            part.at_end = True
            count = _add(rows, count, partition, err=AT_END, offset=part.end)
        return count

    def _serialised(self, id_: int) -> bytes:
        size = c_int()
        data = self._pulsar["message_id_serialize"](id_, ctypes.byref(size))
        found = ctypes.string_at(data, size.value)
        self._free_memory(data)
        return found

    def _position(self, id_: int) -> int:
        return parsed(self._serialised(id_))

    def _keep(self, made: Any) -> int:
        with self._lock:
            self._numbers += 1
            self._made[self._numbers] = made
            return self._numbers

    def _of(self, handle: Any) -> Any:
        return self._made[_number(handle)]


def _number(handle: Any) -> int:
    return (handle.value or 0) if isinstance(handle, c_void_p) else int(handle)


def _rows(address: int, count: int) -> Any:
    memory = (ctypes.c_char * (count * native.ROW.itemsize)).from_address(address)
    return np.ndarray(count, native.ROW, memoryview(memory).cast("B"))


def _add(rows: Any, count: int, partition: int, *, offset: int = -1, **fields: int) -> int:
    rows[count] = np.zeros((), native.ROW)
    row = rows[count]
    row["partition"], row["offset"] = partition, offset
    for name, value in fields.items():
        row[name] = value
    return count + 1


def parsed(data: bytes) -> int:
    """Return the position of a serialised message id: numbers 1 to 4 of it, as protobuf."""
    found, at = [-1] * FIELDS, 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7:  # a bit set follows the numbers
            break
        value, at = _varint(data, at)
        if tag >> 3 < FIELDS:
            found[tag >> 3] = value - (1 << 64) if value >> 63 else value
    return position_of(found[1], found[2], found[4])


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
    """Return a key as text: as it is where that is printable, otherwise in Base64."""
    return key if all(32 < byte < 127 for byte in key) else base64.b64encode(key)


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key by String.hashCode() of Java."""
    hashed = 0
    for byte in key:
        hashed = (hashed * 31 + byte) & 0xFFFFFFFF
    return (hashed & 0x7FFFFFFF) % partitions
