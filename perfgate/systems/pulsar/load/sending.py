"""A producer client on libpulsar: :class:`perfgate.load.clients.SendingClient`."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import byref, c_ulong, c_void_p
from typing import Any

import numpy as np
import numpy.typing as npt

from perfgate.load.clients import Hear, LoadClientError, Rows, Transactions
from perfgate.load.schedule import now
from perfgate.systems.pulsar.load import clib, native
from perfgate.systems.pulsar.load.client import TRUE, Client
from perfgate.systems.pulsar.load.settings import COMPRESSIONS, MOST_PENDING, complete, most_pending
from perfgate.systems.pulsar.load.slow import batches

TAKEN = 8_192


class PulsarSender(Client):
    """Sends by a producer for each partition: a partitioned producer would choose a partition for every message."""

    row = native.ROW
    FULL, PURGED = native.FULL, clib.PURGED
    TIMED_OUT: tuple[int, ...] = (clib.TIMED_OUT,)

    def __init__(self, spec: Mapping[str, Any]) -> None:
        """Raises LoadClientError when a setting is refused, or without libpulsar."""
        self._settings = complete(spec["client"], "producer")
        super().__init__(self._settings, spec["topics"][0])
        self._batch = batches()
        self._slots = 0
        self._sender = c_void_p()
        self._producers: list[c_void_p] = []
        self._rows = np.zeros(TAKEN, native.ROW)

    def connect(self, partitions: int) -> None:
        names = self.partitions_of(partitions)
        self._slots = most_pending(self._settings, partitions)
        self._sender = c_void_p(
            self._batch.kpg_sender_new(partitions, self._slots, int(self._settings["maxPendingBytes"]))
        )
        if not self._sender:
            raise LoadClientError(f"no memory for {self._slots:,} pending messages")
        conf = self._producer_conf()
        for partition, name in enumerate(names):
            producer = c_void_p()
            self.must(
                self._lib.pulsar_client_create_producer(self._client, name.encode(), conf, byref(producer)),
                f"no producer for partition {partition}",
            )
            self._producers.append(producer)
            self._batch.kpg_sender_set(self._sender, partition, producer)

    def send(self, rows: Rows, partition: int) -> int:
        return int(self._batch.kpg_send(self._sender, rows.ctypes.data, len(rows), partition))

    def under_way(self) -> int:
        return int(self._batch.kpg_under_way(self._sender))

    def withdraw(self) -> None:
        """Do nothing: libpulsar has no call for it."""

    def take(self, hear: Hear, most_s: float) -> int:
        until, taken = now() + most_s, 0
        while count := int(self._batch.kpg_take(self._sender, self._rows.ctypes.data, TAKEN)):
            rows = self._rows[:count]
            hear(rows, rows["at_ns"] * 1e-9)
            taken += count
            if now() > until:
                break
        return taken

    def wait(self, seconds: float) -> None:
        self._batch.kpg_sender_wait(self._sender, max(0, int(seconds * 1e9)))

    def rotate(self) -> None:
        """Do nothing: each partition's producer sends by itself."""

    def transactions(self, open_s: float, acked_by_partition: npt.NDArray[np.int64]) -> Transactions:
        raise LoadClientError("libpulsar has no transactions")

    def _producer_conf(self) -> Any:
        settings = self._settings
        conf = c_void_p(self._lib.pulsar_producer_configuration_create())
        clib.put(
            conf,
            "pulsar_producer_configuration_set_",
            {
                "send_timeout": int(settings["sendTimeoutMs"]),
                "compression_type": COMPRESSIONS.index(settings["compressionType"]),
                # The bounds are kept before: a row that libpulsar itself rejected would be a failure.
                "max_pending_messages": self._slots,
                "max_pending_messages_across_partitions": MOST_PENDING * 1_000,
                "block_if_queue_full": 0,
                "batching_enabled": int(settings["batchingEnabled"] == TRUE),
                "batching_max_messages": int(settings["batchingMaxMessages"]),
                "batching_max_allowed_size_in_bytes": c_ulong(int(settings["batchingMaxBytes"])),
                "batching_max_publish_delay_ms": c_ulong(int(settings["batchingMaxPublishDelayMicros"]) // 1_000),
            },
        )
        return conf
