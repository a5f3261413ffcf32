"""The transactions of one producer client: begun, committed every so many ms, and their control records counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from perfgate.load.window import now
from perfgate.systems.kafka.load.clib import lib
from perfgate.systems.kafka.load.client import Client
from perfgate.systems.kafka.load.errors import TransactionError

INIT_TIMEOUT_MS = 30_000
ABORT_TIMEOUT_MS = 5_000
FLUSH_MS = 1
"""How long one look whether all is flushed takes at most: an acknowledgement may be heard so much late then."""


def id_of(spec: Mapping[str, Any], number: int) -> dict[str, str]:
    """Return the setting that names this client to the transaction coordinator; none without transactions."""
    return {"transactional.id": f"{spec['transactional_id']}-{number}"} if spec["transaction_ms"] else {}


class Transactions:
    """Keeps one transaction open for `open_s`, commits it, begins the next; with 0 s there are none.

    A commit writes one control record, a marker, into each partition that the transaction wrote to. All records of a
    transaction that is committed were acknowledged, so that these are the partitions whose count of them has grown.
    """

    def __init__(self, client: Client, open_s: float, acked_by_partition: npt.NDArray[np.int64]) -> None:
        """`acked_by_partition`: the records acknowledged so far, which somebody else counts up."""
        self._client, self._open_s, self._acked = client, open_s, acked_by_partition
        self._acked_before = acked_by_partition.copy()
        self.used = open_s > 0
        self._ends = math.inf
        self.markers_by_partition = np.zeros_like(acked_by_partition)

    def init(self) -> None:
        """Register the transactional.id, which ends what its last user left open. Raises TransactionError."""
        if self.used:
            self._must(lib.rd_kafka_init_transactions(self._client.handle, INIT_TIMEOUT_MS), "registering its id")

    def begin(self) -> None:
        """Begin the next one. Raises TransactionError."""
        if self.used:
            self._must(lib.rd_kafka_begin_transaction(self._client.handle), "beginning")
            self._acked_before[:] = self._acked
            self._ends = now() + self._open_s

    def due(self, moment: float) -> bool:
        """Return whether the open one is to be committed."""
        return moment >= self._ends

    def commit(self, hear: Callable[[], int], within_s: float) -> bool:
        """Wait until all records of the open one are acknowledged, which `hear` counts, then commit it.

        Return whether there was one. Raises TransactionError with the reason when one of its records was not
        acknowledged, or when it takes longer: then it is aborted.
        """
        if not self.used:
            return False
        deadline = now() + within_s
        hear()
        # Delivery reports come as events, so that librdkafka's own flush waits for whoever takes them.
        while lib.rd_kafka_flush(self._client.handle, FLUSH_MS) and now() < deadline:
            hear()
        left_ms = max(1, int((deadline - now()) * 1e3))
        self._must(lib.rd_kafka_commit_transaction(self._client.handle, left_ms), "committing")
        self.markers_by_partition += self._acked > self._acked_before
        return True

    def _must(self, error: int | None, doing: str) -> None:
        if not error:
            return
        words, code = lib.rd_kafka_error_string(error).decode(), lib.rd_kafka_error_name(error).decode()
        if lib.rd_kafka_error_txn_requires_abort(error):
            lib.rd_kafka_error_destroy(error)
            words += ", aborted"
            error = lib.rd_kafka_abort_transaction(self._client.handle, ABORT_TIMEOUT_MS)
            words += f"; aborting: {lib.rd_kafka_error_string(error).decode()}" if error else ""
        if error:
            lib.rd_kafka_error_destroy(error)
        causes = [text for text in self._client.errors.values() if text not in words]
        raise TransactionError("; ".join([f"transaction: {doing}: {words}", *causes]), code)
