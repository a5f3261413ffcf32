"""Delivery reports: what became of a producer's records, taken out of librdkafka's queue."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from perfgate.load.window import now
from perfgate.systems.kafka.load import clib
from perfgate.systems.kafka.load.clib import lib
from perfgate.systems.kafka.load.client import Client

MOST_RECORDS = 32_768
MOST_S = 0.002
"""Reports are taken for so long at a time, and no longer: a producer has to offer records as well. Without
acknowledgements there is one for every request, and a burst of them passed for a generator that stands still. Records
that are told of together are dated together, so that this is how late they may be dated."""
POINTERS = 65_536


class Reports:
    """Takes one client's delivery reports, and has it note its errors."""

    def __init__(self, client: Client, told: Callable[[npt.NDArray[np.uint64]], None]) -> None:
        """`told` is given the addresses of records with an outcome, and copies what it needs."""
        self._client, self._told = client, told
        self._pointers = np.zeros(POINTERS, np.uint64)

    def take(self) -> int:
        """Take what is there, bounded; return of how many records."""
        queue, pointers = self._client.queue, self._pointers.ctypes.data
        events, count, taken = [], 0, 0
        until = now() + MOST_S
        while taken + count < MOST_RECORDS and (event := lib.rd_kafka_queue_poll(queue, 0)):
            events.append(event)
            if lib.rd_kafka_event_type(event) != clib.EVENT_DR:
                words = lib.rd_kafka_event_error_string(event) or b""
                self._client.note_error(lib.rd_kafka_event_error(event), words.decode())
                continue
            while more := lib.rd_kafka_event_message_array(event, pointers + 8 * count, POINTERS - count):
                count += more
                if count == POINTERS:
                    self._told(self._pointers[:count])
                    taken, count = taken + count, 0
            if now() > until:
                break
        if count:
            self._told(self._pointers[:count])
        for event in events:
            lib.rd_kafka_event_destroy(event)
        return taken + count
