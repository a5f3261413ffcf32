"""A consumer client on libpulsar: :class:`perfgate.load.clients.ReadingClient`."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from ctypes import byref, c_long, c_uint64, c_void_p, cast
from typing import Any

import numpy as np

from perfgate.load.clients import Hear
from perfgate.systems.pulsar.load import clib, native
from perfgate.systems.pulsar.load.client import TRUE, Client
from perfgate.systems.pulsar.load.settings import complete
from perfgate.systems.pulsar.load.slow import batches

BATCH = 4_096
NONE, LAST, EACH = 0, 1, 2
ACKNOWLEDGES: Mapping[str, int] = {"exclusive": LAST, "failover": LAST, "shared": EACH, "key-shared": EACH}
"""Where a consumer has a partition to itself, its last message acknowledges all before it."""


class PulsarReader(Client):
    """Receives from a consumer for each partition, which keeps partitions apart and saves a queue.

    Assigned partitions, and a backlog, it reads whole by a subscription of its own, which ends with it. With "laps" a
    partition's end is where it was when the client connected.
    """

    AT_END = native.AT_END

    def __init__(self, spec: Mapping[str, Any], number: int) -> None:
        """Raises LoadClientError when a setting is refused, or without libpulsar."""
        self._settings = complete(spec["client"], "consumer")
        super().__init__(self._settings, spec["topics"][0])
        self._batch = batches()
        self._assigned: list[int] | None = spec["assigned"][number] if spec["assigned"] else None
        self._type: str = spec["subscription_type"]
        self._subscription: str = spec["subscription"]
        self._own = self._assigned is not None or spec["laps"]
        if self._own:
            self._subscription += f"-{uuid.uuid4().hex[:8]}"
        self._name = f"{self._subscription}-{number}"
        self._laps: bool = spec["laps"]
        self.fetches, self.fetch_ms = 0, 0.0  # brokers push; there are no requests
        self.redelivered = self.accepts = 0
        self._resting = False
        self._consumers: dict[int, c_void_p] = {}
        self._reader = c_void_p()
        self._rows = np.zeros(BATCH, native.ROW)

    def connect(self, partitions: int) -> None:
        names = self.partitions_of(partitions)
        self._reader = c_void_p(self._batch.kpg_reader_new(partitions))
        for partition in self._assigned if self._assigned is not None else range(partitions):
            consumer, end, conf = c_void_p(), -1, self._consumer_conf(partition)
            topic, subscription = names[partition].encode(), self._subscription.encode()
            self.must(
                self._lib.pulsar_client_subscribe(self._client, topic, subscription, conf, byref(consumer)),
                f"no consumer for partition {partition}",
            )
            self._consumers[partition] = consumer
            if self._laps:
                code, end = clib.last_position(consumer)
                self.must(code, f"the end of partition {partition} is not known")
            self._batch.kpg_reader_set(self._reader, partition, consumer, end)
            self.must(self._lib.resume_message_listener(consumer), f"partition {partition} is not read")

    def assignment(self) -> int:
        """Number of partitions that it is subscribed to: no call returns those that a subscription assigns to it."""
        return len(self._consumers)

    def take(self, hear: Hear) -> int:
        if self._resting:
            return 0
        count = int(self._batch.kpg_receive(self._reader, self._rows.ctypes.data, BATCH))
        if count:
            rows = self._rows[:count]
            self.redelivered += int(np.count_nonzero(rows["redelivered"]))
            try:
                hear(rows, rows["at_ns"] * 1e-9)
            finally:
                self._batch.kpg_done(self._reader, rows.ctypes.data, count, ACKNOWLEDGES[self._type])
        return count

    def wait(self, seconds: float) -> None:
        if self._resting:  # records that are not taken would wake this thread again and again
            time.sleep(max(0.0, seconds))
        else:
            self._batch.kpg_reader_wait(self._reader, max(0, int(seconds * 1e9)))

    def rest(self, rests: bool) -> None:
        """Pause the listeners: once a partition's receiver queue is full, no more is fetched from its broker."""
        self._resting = rests
        turn = self._lib.pulsar_consumer_pause_message_listener if rests else self._lib.resume_message_listener
        for consumer in self._consumers.values():
            turn(consumer)

    def rewind(self, partition: int) -> None:
        """Begin to read a partition from its start again; a failure comes as a row with its error."""
        self._batch.kpg_rewind(self._reader, partition)

    def close(self) -> None:
        end = self._lib.pulsar_consumer_unsubscribe if self._own else self._lib.pulsar_consumer_close
        self._batch.kpg_reader_close(self._reader)
        for consumer in self._consumers.values():
            end(consumer)

    def _consumer_conf(self, partition: int) -> Any:
        lib, settings = self._lib, self._settings
        conf = c_void_p(lib.pulsar_consumer_configuration_create())
        clib.put(
            conf,
            "pulsar_",
            {
                "consumer_configuration_set_consumer_type": clib.TYPES[self._type],
                "consumer_configuration_set_receiver_queue_size": int(settings["receiverQueueSize"]),
                "consumer_configuration_set_priority_level": int(settings["priorityLevel"]),
                "consumer_configuration_set_batch_index_ack_enabled": int(settings["batchIndexAckEnabled"] == TRUE),
                "consumer_set_consumer_name": self._name.encode(),
                "consumer_set_unacked_messages_timeout_ms": c_uint64(int(settings["ackTimeoutMillis"])),
                "consumer_set_subscription_initial_position": clib.EARLIEST,
                "configure_set_ack_grouping_time_ms": c_long(int(settings["acknowledgementsGroupTimeMicros"]) // 1_000),
                "configure_set_ack_grouping_max_size": c_long(int(settings["maxAcknowledgmentGroupSize"])),
                "configure_set_negative_ack_redelivery_delay_ms": c_long(
                    int(settings["negativeAckRedeliveryDelayMicros"]) // 1_000
                ),
            },
        )
        # Paused until its consumer is known: a listener may be called before the call that subscribes returns.
        lib.pulsar_consumer_configuration_set_start_paused(conf, 1)
        listener, part = cast(self._batch.kpg_listener, c_void_p), self._batch.kpg_reader_part(self._reader, partition)
        lib.pulsar_consumer_configuration_set_message_listener(conf, listener, c_void_p(part))
        return conf
