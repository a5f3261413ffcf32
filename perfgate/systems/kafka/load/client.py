"""A librdkafka client: made from settings, connected, woken by its own queue."""

from __future__ import annotations

import ctypes
import json
import os
import select
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from perfgate.load.clients import LoadClientError, Pointers, UnansweredError
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.client.iam import logs_in_by_iam, tokens, without_iam
from perfgate.systems.kafka.load import clib
from perfgate.systems.kafka.load.clib import lib

METADATA_TIMEOUT_MS = 15_000
NO_ANSWER = "_TIMED_OUT"
NO_ANSWERS = (NO_ANSWER, "_TRANSPORT", "_ALL_BROKERS_DOWN")
"""librdkafka's names of missing answers."""


def _failed(reason: str, code: int) -> LoadClientError:
    name = clib.error_name(code)
    of_brokers = not name.startswith("_") or name in NO_ANSWERS
    return UnansweredError(reason, name) if of_brokers else LoadClientError(reason)


class Failures:
    """Errors of a client by librdkafka's names, in its words; half of :class:`perfgate.load.clients.BrokerClient`."""

    NO_ANSWER = NO_ANSWER

    def __init__(self) -> None:
        self.errors: dict[str, str] = {}
        self.failed: Counter[str] = Counter()
        self.throttled_ms = 0

    def note_error(self, code: int, text: str) -> None:
        self.errors.setdefault(clib.error_name(code), text)

    def count_failure(self, code: int, records: int) -> None:
        self.failed[clib.error_name(code)] += records
        self.note_error(code, clib.error_text(code))


class Client(Failures):
    """See :class:`perfgate.load.clients.BrokerClient`."""

    def __init__(self, kind: int, settings: Mapping[str, str], topics: Sequence[str]) -> None:
        """Raises LoadClientError with librdkafka's words when a setting is refused."""
        super().__init__()
        self.topics = [topic.encode() for topic in topics]
        self.each = 0
        """Partitions of each topic, once connected."""
        text = ctypes.create_string_buffer(clib.TEXT_BYTES)
        conf = lib.rd_kafka_conf_new()
        self._token = tokens(settings) if (by_iam := logs_in_by_iam(settings)) else None
        for name, value in (without_iam(settings) if by_iam else settings).items():
            if lib.rd_kafka_conf_set(conf, name.encode(), value.encode(), text, clib.TEXT_BYTES):
                lib.rd_kafka_conf_destroy(conf)
                raise LoadClientError(text.value.decode())
        self._on_throttled = clib.THROTTLE_CALLBACK(self._note_throttle)
        lib.rd_kafka_conf_set_throttle_cb(conf, self._on_throttled)
        if by_iam:
            self._on_token = clib.TOKEN_CALLBACK(self._give_token)
            lib.rd_kafka_conf_set_oauthbearer_token_refresh_cb(conf, self._on_token)
            lib.rd_kafka_conf_enable_sasl_queue(conf, 1)
        if kind == clib.PRODUCER:
            lib.rd_kafka_conf_set_events(conf, clib.EVENT_DR | clib.EVENT_ERROR)
        else:  # fetched records come without events, and so does the rest
            self._callbacks = (clib.ERROR_CALLBACK(self._on_error), clib.STATS_CALLBACK(self._on_stats))
            lib.rd_kafka_conf_set_error_cb(conf, self._callbacks[0])
            lib.rd_kafka_conf_set_stats_cb(conf, self._callbacks[1])
        self.handle = lib.rd_kafka_new(kind, conf, text, clib.TEXT_BYTES)
        if not self.handle:
            lib.rd_kafka_conf_destroy(conf)
            raise LoadClientError(text.value.decode())
        if by_iam:  # in a thread of librdkafka, whatever this client is busy with
            lib.rd_kafka_sasl_background_callbacks_enable(self.handle)
        self.topic_handles = [lib.rd_kafka_topic_new(self.handle, topic, None) for topic in self.topics]
        self._handles = np.sort(np.array(self.topic_handles, np.uint64))
        self._first = np.zeros(len(topics), np.int32)
        """Number of the first partition of each topic, in the order of their handles."""
        if kind == clib.CONSUMER:
            lib.rd_kafka_poll_set_consumer(self.handle)
            self.queue = lib.rd_kafka_queue_get_consumer(self.handle)
        else:
            self.queue = lib.rd_kafka_queue_get_main(self.handle)
        self._woken, self._wakes = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wakes, False)
        lib.rd_kafka_queue_io_event_enable(self.queue, self._wakes, b"!", 1)

    def connect(self, partitions: int, timeout_ms: int = METADATA_TIMEOUT_MS) -> None:
        """Learn where the partitions are. Raises LoadClientError for another number, or when they stay unknown."""
        self.number(partitions)
        metadata = ctypes.POINTER(clib.Metadata)()
        # Without a topic's handle: the metadata of all topics that this client has handles of.
        only = self.topic_handles[0] if len(self.topics) == 1 else None
        code = lib.rd_kafka_metadata(self.handle, 0, only, ctypes.byref(metadata), timeout_ms)
        if code:
            cause = "; ".join(self.errors.values())
            more = f" and {len(self.topics) - 1:,} more" if len(self.topics) > 1 else ""
            reason = f"no metadata of {self.topics[0].decode()}{more}: {clib.error_text(code)} {cause}".rstrip()
            raise _failed(reason, code)
        topics = [metadata.contents.topics[number] for number in range(metadata.contents.topic_cnt)]
        known = {topic.name: (topic.err, topic.partition_cnt) for topic in topics}
        lib.rd_kafka_metadata_destroy(metadata)
        for topic in self.topics:
            error, count = known.get(topic, (clib.ERR_UNKNOWN_TOPIC, 0))
            if error:
                raise _failed(f"topic {topic.decode()}: {clib.error_text(error)}", error)
            if count != self.each:
                raise LoadClientError(f"topic {topic.decode()}: it has {count} partitions, not {self.each}")

    def number(self, partitions: int) -> None:
        """Number the partitions through all topics, equally many of each."""
        self.each = partitions // len(self.topics)
        self._first = (np.argsort(np.array(self.topic_handles, np.uint64)) * self.each).astype(np.int32)

    def place_of(self, partition: int) -> tuple[int, int]:
        """Return the topic's index, and the partition's number in it, of a partition of all."""
        return divmod(partition, self.each) if len(self.topics) > 1 else (0, partition)

    def read(self, pointers: Pointers) -> npt.NDArray[Any]:
        """Return copies of messages; their partitions are numbered over all topics."""
        rows = clib.read_messages(pointers)
        if len(self.topics) > 1:
            rows["partition"] += self._first[np.searchsorted(self._handles, rows["topic"])]
        return rows

    def wait(self, seconds: float) -> None:
        if select.select([self._woken], [], [], max(0.0, seconds))[0]:
            os.read(self._woken, 4096)

    def _note_throttle(self, _handle: int, _name: bytes, _broker: int, milliseconds: int, _opaque: int) -> None:
        self.throttled_ms += milliseconds

    def _give_token(self, handle: int, _config: bytes, _opaque: int) -> None:
        assert self._token is not None
        failure = ctypes.create_string_buffer(clib.TEXT_BYTES)
        try:
            text, expires_s = self._token()
        except ConfigurationError as error:
            lib.rd_kafka_oauthbearer_set_token_failure(handle, str(error).encode())
            return
        lasts_ms = int(1e3 * expires_s)
        if lib.rd_kafka_oauthbearer_set_token(handle, text.encode(), lasts_ms, b"", None, 0, failure, clib.TEXT_BYTES):
            lib.rd_kafka_oauthbearer_set_token_failure(handle, failure.value)

    def _on_error(self, _handle: int, code: int, text: bytes, _opaque: int) -> None:
        self.note_error(code, text.decode())

    def _on_stats(self, _handle: int, text: int, size: int, _opaque: int) -> int:
        self._take_stats(json.loads(ctypes.string_at(text, size)))
        return 0

    def _take_stats(self, statistics: dict[str, Any]) -> None:
        """Do nothing; a consumer counts its fetches."""
