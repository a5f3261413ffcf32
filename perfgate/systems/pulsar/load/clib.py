"""libpulsar's C interface, of the Python client's wheel: functions that are called a few times in a client's life.

Those that are called for every message are in native/pulsar_batch.c.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, byref, c_char_p, c_int, c_void_p
from functools import cache

from perfgate.load.clients import Signatures, declare
from perfgate.systems.pulsar.load import native
from perfgate.systems.pulsar.load.slow import batches

TIMED_OUT, PURGED = 3, -152
"""PURGED comes from no call: libpulsar cannot withdraw records."""
EARLIEST = 1
TYPES: Mapping[str, int] = {"exclusive": 0, "shared": 1, "failover": 2, "key-shared": 3}
OUR_NAMES: Mapping[int, str] = {
    native.FULL: "BufferIsFull",
    native.AT_END: "EndOfBacklog",
    native.STRANGE: "PositionTooLarge",
    PURGED: "Withdrawn",
}
_Out = POINTER(c_void_p)
_SIGNATURES: Signatures = {
    "pulsar_result_str": (c_char_p, (c_int,)),
    "pulsar_authentication_create": (c_void_p, (c_char_p, c_char_p)),
    "pulsar_client_configuration_create": (c_void_p, ()),
    "pulsar_client_configuration_set_auth": (None, (c_void_p, c_void_p)),
    "pulsar_client_create": (c_void_p, (c_char_p, c_void_p)),
    "pulsar_client_get_topic_partitions": (c_int, (c_void_p, c_char_p, _Out)),
    "pulsar_string_list_size": (c_int, (c_void_p,)),
    "pulsar_string_list_get": (c_char_p, (c_void_p, c_int)),
    "pulsar_string_list_free": (None, (c_void_p,)),
    "pulsar_client_create_producer": (c_int, (c_void_p, c_char_p, c_void_p, _Out)),
    "pulsar_producer_configuration_create": (c_void_p, ()),
    "pulsar_client_subscribe": (c_int, (c_void_p, c_char_p, c_char_p, c_void_p, _Out)),
    "pulsar_consumer_configuration_create": (c_void_p, ()),
    "pulsar_consumer_pause_message_listener": (c_int, (c_void_p,)),
    "resume_message_listener": (c_int, (c_void_p,)),
    "pulsar_consumer_close": (c_int, (c_void_p,)),
    "pulsar_consumer_unsubscribe": (c_int, (c_void_p,)),
}
"""Types of the functions but for setters, whose values have theirs; see :func:`put`."""


class Logger(ctypes.Structure):
    """``pulsar_logger_t``: a context, a function for whether a level is logged, and a function that logs a line."""

    _fields_ = (("context", c_void_p), ("is_enabled", c_void_p), ("log", c_void_p))


@cache
def lib() -> ctypes.CDLL:
    """libpulsar, its functions declared. Raises LoadClientError without it."""
    library = ctypes.CDLL(str(native.libpulsar()))
    declare(library, _SIGNATURES)
    set_logger = library.pulsar_client_configuration_set_logger_t
    set_logger.restype, set_logger.argtypes = None, (c_void_p, Logger)
    return library


def put(conf: c_void_p, setters: str, values: Mapping[str, object]) -> None:
    """Call a configuration's setters of this prefix, with C's ints or types of ctypes, but for empty texts."""
    for name, value in values.items():
        if value != b"":
            getattr(lib(), f"{setters}{name}")(conf, value)


def silence(conf: c_void_p) -> None:
    """Let libpulsar keep its last warning instead of logging to the standard output."""
    batch = batches()
    enabled, log = (ctypes.cast(function, c_void_p) for function in (batch.kpg_log_enabled, batch.kpg_log))
    lib().pulsar_client_configuration_set_logger_t(conf, Logger(None, enabled, log))


def last_warning() -> str:
    """libpulsar's last warning in this process; empty without a warning."""
    text = ctypes.create_string_buffer(400)
    batches().kpg_words(text, len(text))
    return text.value.decode(errors="replace")


def error_name(code: int) -> str:
    return OUR_NAMES.get(code) or str(lib().pulsar_result_str(code).decode())


def last_position(consumer: c_void_p) -> tuple[int, int]:
    """libpulsar's error code of a query for a partition's last message, and its position (-1: none)."""
    position = native.I64()
    return batches().kpg_last_position(consumer, byref(position)), position.value
