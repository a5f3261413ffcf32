"""Which library hands batches to libpulsar: the compiled one, or the slow one where it cannot be had."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from perfgate.systems.pulsar.load import native
from perfgate.systems.pulsar.load.slow import Slow


@cache
def batches() -> Any:
    """Return the library. Raises LoadClientError without libpulsar."""
    pulsar = ctypes.CDLL(str(native.libpulsar()))

    def address_of(name: str) -> int:
        return ctypes.cast(getattr(pulsar, name), ctypes.c_void_p).value or 0

    if native.cannot_have():
        return Slow(address_of)
    library = native.load(native.place())
    native.bind(library, address_of)
    return library
