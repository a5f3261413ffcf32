"""A librdkafka producer and its transactions, as the load's senders use them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from perfgate.load.clients import BY_KEY, Hear, Rows, TransactionError
from perfgate.load.schedule import now
from perfgate.systems.kafka.load import clib
from perfgate.systems.kafka.load.clib import lib
from perfgate.systems.kafka.load.client import Client

MOST_RECORDS = 32_768
"""Outcomes taken at a time."""
POINTERS = 65_536
INIT_TIMEOUT_MS = 30_000
ABORT_TIMEOUT_MS = 5_000
FLUSH_MS = 1
"""Longest wait of a check whether all is flushed: an acknowledgement may be dated this late then."""


class Producer(Client):
    """See :class:`perfgate.load.clients.SendingClient`."""

    row = clib.MESSAGE
    FULL, PURGED, TIMED_OUT = clib.ERR_QUEUE_FULL, clib.ERR_PURGE_QUEUE, clib.TIMED_OUT

    def __init__(self, settings: Mapping[str, str], topics: Sequence[str]) -> None:
        super().__init__(clib.PRODUCER, settings, topics)
        self._by_key = 0
        """Number of batches whose partitions keys have chosen."""
        self._pointers = np.zeros(POINTERS, np.uint64)

    def send(self, rows: Rows, partition: int) -> int:
        if partition == BY_KEY:  # in one topic, and the next batch in the next topic
            topic, self._by_key = self._by_key % len(self.topics), self._by_key + 1
        else:
            topic, partition = self.place_of(partition)
        handle = self.topic_handles[topic]
        return int(lib.rd_kafka_produce_batch(handle, partition, clib.F_COPY, rows.ctypes.data, len(rows)))

    def under_way(self) -> int:
        return int(lib.rd_kafka_outq_len(self.handle))

    def withdraw(self) -> None:
        lib.rd_kafka_purge(self.handle, clib.PURGE_F_QUEUE)

    def take(self, hear: Hear, most_s: float) -> int:
        """Take available reports, bounded, and note errors; return the number of records."""
        queue, pointers = self.queue, self._pointers.ctypes.data
        events, count, taken = [], 0, 0
        until = now() + most_s
        while taken + count < MOST_RECORDS and (event := lib.rd_kafka_queue_poll(queue, 0)):
            events.append(event)
            if lib.rd_kafka_event_type(event) != clib.EVENT_DR:
                words = lib.rd_kafka_event_error_string(event) or b""
                self.note_error(lib.rd_kafka_event_error(event), words.decode())
                continue
            while more := lib.rd_kafka_event_message_array(event, pointers + 8 * count, POINTERS - count):
                count += more
                if count == POINTERS:
                    self._pass_on(hear, count)
                    taken, count = taken + count, 0
            if now() > until:
                break
        if count:
            self._pass_on(hear, count)
        for event in events:
            lib.rd_kafka_event_destroy(event)
        return taken + count

    def rotate(self) -> None:
        """Have each broker's thread begin with its next partition.

        A broker's connection serves its partitions in turn, one further at each wake-up, and while its requests in
        flight are used up there are often two wake-ups for each that may be sent: of two partitions the same always
        wins, and the other's records wait until there are no more for the first. Kafka's own producer sends a request
        with a batch of each partition. (6 partitions, 3 brokers, 5,000 records/s, acks=-1: p99 of 1.1 to 2.7 s without,
        of 40 to 72 ms with.) With linger.ms above 0 batches might end early.
        """
        lib.rd_kafka_flush(self.handle, 0)  # wakes these threads, and waits for nothing

    def transactions(self, open_s: float, acked_by_partition: npt.NDArray[np.int64]) -> KafkaTransactions:
        return KafkaTransactions(self, open_s, acked_by_partition)

    def _pass_on(self, hear: Hear, count: int) -> None:
        heard = now()
        hear(self.read(self._pointers[:count]), heard)


class KafkaTransactions:
    """See :class:`perfgate.load.clients.Transactions`.

    A commit writes a control record, a marker, into each partition that the transaction wrote to. All records of a
    committed transaction were acknowledged, so that these are the partitions whose count of them has grown.
    """

    def __init__(self, client: Producer, open_s: float, acked_by_partition: npt.NDArray[np.int64]) -> None:
        self._client, self._open_s, self._acked = client, open_s, acked_by_partition
        self._acked_before = acked_by_partition.copy()
        self._ends = math.inf
        self.markers_by_partition = np.zeros_like(acked_by_partition)

    def init(self) -> None:
        self._must(lib.rd_kafka_init_transactions(self._client.handle, INIT_TIMEOUT_MS), "registering its id")

    def begin(self) -> None:
        self._must(lib.rd_kafka_begin_transaction(self._client.handle), "beginning")
        self._acked_before[:] = self._acked
        self._ends = now() + self._open_s

    def due(self, moment: float) -> bool:
        return moment >= self._ends

    def commit(self, hear: Callable[[], int], within_s: float) -> None:
        """See the protocol. A transaction that takes longer is aborted."""
        deadline = now() + within_s
        hear()
        # Delivery reports come as events, so that librdkafka's own flush waits until they are taken.
        while lib.rd_kafka_flush(self._client.handle, FLUSH_MS) and now() < deadline:
            hear()
        left_ms = max(1, int((deadline - now()) * 1e3))
        self._must(lib.rd_kafka_commit_transaction(self._client.handle, left_ms), "committing")
        self.markers_by_partition += self._acked > self._acked_before

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
