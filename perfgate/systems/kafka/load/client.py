"""One librdkafka client and its transactions: made from settings, connected, woken by its own queue."""

from __future__ import annotations

import ctypes
import json
import math
import os
import select
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from perfgate.load.clients import LoadClientError, TransactionError, UnansweredError
from perfgate.load.schedule import now
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.client.iam import logs_in_by_iam, tokens, without_iam
from perfgate.systems.kafka.load import clib
from perfgate.systems.kafka.load.clib import lib

METADATA_TIMEOUT_MS = 15_000
TIMER_SLACK_NS = 1_000
PR_SET_TIMERSLACK = 29

_libc = ctypes.CDLL(None)
INIT_TIMEOUT_MS = 30_000
ABORT_TIMEOUT_MS = 5_000
NO_ANSWER = "_TIMED_OUT"
NO_ANSWERS = (NO_ANSWER, "_TRANSPORT", "_ALL_BROKERS_DOWN")
"""librdkafka's names of missing answers."""
FLUSH_MS = 1
"""Longest wait of one check whether all is flushed: an acknowledgement may be dated this late then."""


def precise_timers() -> None:
    """Let the calling thread's waits end when they should; Linux adds 50 us by default."""
    _libc.prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(TIMER_SLACK_NS))


def _failed(reason: str, code: int) -> LoadClientError:
    """Return the error: that of brokers by name, or one of librdkafka itself."""
    name = clib.error_name(code)
    theirs = not name.startswith("_") or name in NO_ANSWERS
    return UnansweredError(reason, name) if theirs else LoadClientError(reason)


class Client:
    """A producer or consumer of one topic; it ends with its process. Not thread-safe: one thread per client."""

    def __init__(
        self,
        kind: int,
        settings: Mapping[str, str],
        topic: str,
        on_stats: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        """Raises LoadClientError with librdkafka's words when a setting is refused."""
        self.topic = topic.encode()
        self._told_stats = on_stats
        self.errors: dict[str, str] = {}
        self.failed: Counter[str] = Counter()
        self.throttled_ms = 0
        """Time for which brokers held their answers back because of a quota."""
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
        self.topic_handle = lib.rd_kafka_topic_new(self.handle, self.topic, None)
        if kind == clib.CONSUMER:
            lib.rd_kafka_poll_set_consumer(self.handle)
            self.queue = lib.rd_kafka_queue_get_consumer(self.handle)
        else:
            self.queue = lib.rd_kafka_queue_get_main(self.handle)
        self._woken, self._wakes = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wakes, False)
        lib.rd_kafka_queue_io_event_enable(self.queue, self._wakes, b"!", 1)

    def connect(self, partitions: int) -> None:
        """Learn where the topic's partitions are. Raises LoadClientError when they are not as many, or not in time."""
        found = ctypes.POINTER(clib.Metadata)()
        code = lib.rd_kafka_metadata(self.handle, 0, self.topic_handle, ctypes.byref(found), METADATA_TIMEOUT_MS)
        if code:
            cause = "; ".join(self.errors.values())
            reason = f"no metadata of {self.topic.decode()}: {clib.error_text(code)} {cause}".rstrip()
            raise _failed(reason, code)
        topic = found.contents.topics[0]
        error, count = topic.err, topic.partition_cnt
        lib.rd_kafka_metadata_destroy(found)
        if error or count != partitions:
            if error:
                raise _failed(f"topic {self.topic.decode()}: {clib.error_text(error)}", error)
            raise LoadClientError(f"topic {self.topic.decode()}: it has {count} partitions, not {partitions}")

    def wait(self, seconds: float) -> None:
        """Wait until something lies in the queue, for `seconds` at most (microseconds count)."""
        if select.select([self._woken], [], [], max(0.0, seconds))[0]:
            os.read(self._woken, 4096)

    def rotate(self) -> None:
        """Have each broker's thread begin with its next partition. With linger.ms above 0 batches might end early."""
        lib.rd_kafka_flush(self.handle, 0)  # wakes these threads, and waits for nothing

    def note_error(self, code: int, text: str) -> None:
        """Remember the first words of each kind of error."""
        self.errors.setdefault(clib.error_name(code), text)

    def count_failure(self, code: int, records: int) -> None:
        self.failed[clib.error_name(code)] += records
        self.note_error(code, clib.error_text(code))

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
        if self._told_stats is not None:
            self._told_stats(json.loads(ctypes.string_at(text, size)))
        return 0


def id_of(spec: Mapping[str, Any], number: int) -> dict[str, str]:
    """The setting that names this client to the transaction coordinator; none without transactions."""
    return {"transactional.id": f"{spec['transactional_id']}-{number}"} if spec["transaction_ms"] else {}


class Transactions:
    """Keeps one transaction open for `open_s`, commits it, begins the next; with 0 s there are none.

    A commit writes one control record, a marker, into each partition that the transaction wrote to. All records of a
    committed transaction were acknowledged, so that these are the partitions whose count of them has grown.
    """

    def __init__(self, client: Client, open_s: float, acked_by_partition: npt.NDArray[np.int64]) -> None:
        """`acked_by_partition`: the records acknowledged so far, counted by the caller."""
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
        if self.used:
            self._must(lib.rd_kafka_begin_transaction(self._client.handle), "beginning")
            self._acked_before[:] = self._acked
            self._ends = now() + self._open_s

    def due(self, moment: float) -> bool:
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
        # Delivery reports come as events, so that librdkafka's own flush waits until they are taken.
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
