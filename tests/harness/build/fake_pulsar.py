"""Functions in the place of libpulsar's, for pulsar_batch.c: they keep what they are given and answer when told to."""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from collections import deque
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import Any

from perfgate.systems.pulsar.load import native
from perfgate.systems.pulsar.load.slow import Slow

SENT = CFUNCTYPE(None, c_int, c_void_p, c_void_p)
LISTENER = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)
RESULT = CFUNCTYPE(None, c_int, c_void_p)
_libc = ctypes.CDLL(None)
_libc.malloc.restype, _libc.malloc.argtypes = c_void_p, (c_size_t,)


def serialised(ledger: int, entry: int, index: int) -> bytes:
    """A message id as protobuf: numbers 1, 2 and 4, the last left out where it is -1."""
    fields = [(1, ledger), (2, entry), (3, -1), *([(4, index)] if index >= 0 else [])]
    return b"".join(_varint(number << 3) + _varint(value & (1 << 64) - 1) for number, value in fields)


def _varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found, number = found + bytes([number & 127 | 128]), number >> 7
    return found + bytes([number])


def _own_copy(address_of: Callable[[str], int]) -> ctypes.CDLL:
    """The compiled library once more: what it calls is kept in it, and this process may need the real one, too."""
    assert native.cannot_have() is None
    with tempfile.TemporaryDirectory() as folder:
        library = native.load(Path(shutil.copy(native.place(), folder)))
    native.bind(library, address_of)
    return library


class FakePulsar:
    """libpulsar, in as far as pulsar_batch.c calls it. Handles of producers, consumers and messages are numbers."""

    def __init__(self, kind: str = "compiled") -> None:
        """`kind`: whether it is called by the "compiled" library or the "slow" one."""
        self.refusal = 0
        """Code with which messages are refused in the call that hands them over; 0: none."""
        self.pending: deque[tuple[Any, int]] = deque()
        """Callback and its context of messages that were handed over."""
        self.handed_over: list[tuple[int, bytes, bytes]] = []
        """Producer, value and key of each of them."""
        self.contents: dict[int, bytes] = {}
        self._keys: dict[int, bytes] = {}
        self.ids: dict[int, tuple[int, int, int]] = {1: (-1, -1, -1)}
        self.last: dict[int, tuple[int, int, int]] = {}
        self.sought: list[tuple[int, Any, int]] = []
        self.acknowledged: list[tuple[str, int, tuple[int, int, int]]] = []
        self._message_ids: dict[int, tuple[int, int, int]] = {}
        self._buffers: dict[int, Any] = {}
        self._next = 1
        self._kept = {name: kind(getattr(self, name)) for name, kind in self._kinds().items()}
        self.library: Any = Slow(self._address_of) if kind == "slow" else _own_copy(self._address_of)
        listener: Any = self.library.kpg_listener
        self._listener = LISTENER(ctypes.cast(listener, c_void_p).value or 0)

    def answer(self, result: int, id_: tuple[int, int, int] | None = None) -> None:
        """Call back for the message that was handed over first."""
        callback, context = self.pending.popleft()
        callback(result, self._new_id(id_) if id_ else None, context)

    def deliver(self, part: int, value: bytes, id_: tuple[int, int, int]) -> None:
        """Call the listener of a consumer with a message; `part` is the listener's context."""
        handle = self._handle()
        self.contents[handle], self._message_ids[handle] = value, id_
        self._buffers[handle] = ctypes.create_string_buffer(value)
        self._listener(None, handle, part)

    @staticmethod
    def _kinds() -> dict[str, Any]:
        p = c_void_p
        return {
            "message_create": CFUNCTYPE(p),
            "message_free": CFUNCTYPE(None, p),
            "message_set_content": CFUNCTYPE(None, p, p, c_size_t),
            "message_set_partition_key": CFUNCTYPE(None, p, c_char_p),
            "message_get_data": CFUNCTYPE(p, p),
            "message_get_length": CFUNCTYPE(c_uint32, p),
            "message_get_redelivery_count": CFUNCTYPE(c_int, p),
            "message_get_message_id": CFUNCTYPE(p, p),
            "message_id_serialize": CFUNCTYPE(p, p, POINTER(c_int)),
            "message_id_deserialize": CFUNCTYPE(p, p, c_uint32),
            "message_id_earliest": CFUNCTYPE(p),
            "message_id_free": CFUNCTYPE(None, p),
            "producer_send_async": CFUNCTYPE(None, p, p, SENT, p),
            "consumer_acknowledge_async": CFUNCTYPE(None, p, p, p, p),
            "consumer_acknowledge_cumulative_async": CFUNCTYPE(None, p, p, p, p),
            "consumer_seek_async": CFUNCTYPE(None, p, p, RESULT, p),
            "consumer_get_last_message_id": CFUNCTYPE(c_int, p, p),
        }

    def _address_of(self, name: str) -> int:
        return ctypes.cast(self._kept[name.removeprefix("pulsar_")], c_void_p).value or 0

    def _handle(self) -> int:
        self._next += 1
        return self._next

    def _new_id(self, id_: tuple[int, int, int]) -> int:
        handle = self._handle()
        self.ids[handle] = id_
        return handle

    def message_create(self) -> int:
        handle = self._handle()
        self.contents[handle] = b""
        return handle

    def message_free(self, message: int) -> None:
        del self.contents[message]
        self._buffers.pop(message, None)

    def message_set_content(self, message: int, data: int, size: int) -> None:
        self.contents[message] = ctypes.string_at(data, size)

    def message_set_partition_key(self, message: int, key: bytes) -> None:
        self._keys[message] = key

    def message_get_data(self, message: int) -> int:
        return ctypes.addressof(self._buffers[message])

    def message_get_length(self, message: int) -> int:
        return len(self.contents[message])

    def message_get_redelivery_count(self, message: int) -> int:
        return 0

    def message_get_message_id(self, message: int) -> int:
        return self._new_id(self._message_ids[message])

    def message_id_serialize(self, id_: int, size: Any) -> int:
        data = serialised(*self.ids[id_])
        size[0] = len(data)
        memory = int(_libc.malloc(len(data)))
        ctypes.memmove(memory, data, len(data))
        return memory

    def message_id_deserialize(self, data: int, size: int) -> int:
        return self._new_id((-1, -1, -1))

    def message_id_earliest(self) -> int:
        return 1

    def message_id_free(self, id_: int) -> None:
        del self.ids[id_]

    def producer_send_async(self, producer: int, message: int, callback: Any, context: int) -> None:
        if self.refusal:
            callback(self.refusal, None, context)
        else:
            self.handed_over.append((producer, self.contents[message], self._keys.get(message, b"")))
            self.pending.append((callback, context))

    def consumer_acknowledge_async(self, consumer: int, message: int, callback: int, context: int) -> None:
        self.acknowledged.append(("one", consumer, self._message_ids[message]))

    def consumer_acknowledge_cumulative_async(self, consumer: int, message: int, callback: int, context: int) -> None:
        self.acknowledged.append(("all", consumer, self._message_ids[message]))

    def consumer_seek_async(self, consumer: int, id_: int, callback: Any, context: int) -> None:
        self.sought.append((consumer, callback, context))

    def consumer_get_last_message_id(self, consumer: int, id_: int) -> int:
        self.ids[id_] = self.last[consumer]
        return 0
