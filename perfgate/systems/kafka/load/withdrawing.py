"""Withdraws what waits in a client's buffer when its time to send is over: it never left, so none of it is in the log.

What is in flight gets its answer. Every withdrawn record is told of.
"""

from __future__ import annotations

import math

from perfgate.load.window import Window
from perfgate.systems.kafka.load import clib
from perfgate.systems.kafka.load.clib import lib
from perfgate.systems.kafka.load.client import Client
from perfgate.systems.kafka.load.outcomes import Outcomes

ABOVE_S = 0.5
"""What a capped load's buffer holds at the end of the window is withdrawn when sending it would take longer than this.
Not always: librdkafka ends the connection of a request that it had begun to send, so that what was in flight on it is
sent again. Buffers that empty quickly are those of large requests, for which that is likely."""
IN_GAP = 0.75
"""What it still holds after this share of the gap between two turns is withdrawn, so that slow brokers are not busy
with it in the other side's turn. A buffer drains in a quarter of the gap, and what is in flight has the rest of it."""


class Withdrawing:
    """Of one client of a capped load: at the window's end, or in the gap (s) after each turn."""

    def __init__(self, client: Client, window: Window, outcomes: Outcomes, gap_s: float) -> None:
        self._client, self._window, self._outcomes, self._gap_s = client, window, outcomes, gap_s
        self._turn = math.inf
        """The end of the turn that was seen to last."""

    def at_the_end(self) -> None:
        """Withdraw what the brokers would be busy with for long at the window's rate."""
        waiting, window_s = lib.rd_kafka_outq_len(self._client.handle), self._window.closes - self._window.opens
        if waiting * window_s > ABOVE_S * self._outcomes.acked_in_window:
            self._withdraw()

    def in_gap(self, moment: float) -> None:
        """Withdraw, once a turn, what is left when most of the gap after it has gone; without turns do nothing."""
        closes = self._window.closes
        if self._gap_s and closes != self._turn and moment > closes + IN_GAP * self._gap_s:
            self._turn = closes
            if lib.rd_kafka_outq_len(self._client.handle):
                self._withdraw()

    def _withdraw(self) -> None:
        lib.rd_kafka_purge(self._client.handle, clib.PURGE_F_QUEUE)
