"""A load with transactions, and mock brokers for it."""

import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_void_p
from dataclasses import replace
from typing import Any

from confluent_kafka import Producer

from perfgate.load.clients import SendingClient
from perfgate.load.producing import Sender
from perfgate.load.schedule import Window
from perfgate.model import Load, Scenario, Settings, TopicSpec, settings
from perfgate.model.load import LoadSpec
from perfgate.systems.kafka.load import clib, clients
from perfgate.systems.kafka.load.librdkafka import KafkaInstructions
from tests.harness.build.rounds import scenario

PARTITIONS = 4
TRANSACTED = replace(
    scenario(),
    topic=TopicSpec(partitions=PARTITIONS, replication_factor=1),
    producer=settings({"acks": -1, "enable.idempotence": "true"}),
    record_bytes=100,
    load=Load(kind="paced", rate=300),
    transaction_ms=100,
)


def request(
    row: Scenario = TRANSACTED,
    bootstrap: str = "",
    run_id: str = "20261123T000000Z-abcd",
    security: Settings = (),
) -> dict[str, Any]:
    spec = LoadSpec(
        scenario=row,
        bootstrap=bootstrap,
        security=security,
        topic="t",
        run_id=run_id,
        seed=1,
        window_s=1,
        warmup_max_s=1,
    )
    return dict(KafkaInstructions().producers_of(spec)["producer-1"])


def sender(
    told: dict[str, Any],
    number: int,
    window: Window,
    *,
    through: Callable[[SendingClient], SendingClient] = lambda client: client,
    sleep: Callable[[float], object] = time.sleep,
) -> Sender:
    """Return Kafka's sender of these instructions, which says nothing on the terminal; it sends `through` what is made
    of its client.
    """
    told = {**told, "client": {"log_level": "0", **told["client"]}}
    client = clients.sending(told, number)
    made = Sender(told, number, window, through(client), sleep)
    weakref.finalize(made, ended, client)
    return made


def ended(client: Any) -> None:
    """End a client of librdkafka, with its threads; those of a load end with its process."""
    clib.lib.rd_kafka_queue_io_event_enable(client.queue, -1, None, 0)
    for one in (client._woken, client._wakes):
        os.close(one)
    ends = clib.lib.rd_kafka_topic_destroy, clib.lib.rd_kafka_queue_destroy, clib.lib.rd_kafka_destroy
    for end, handles in zip(ends, (client.topic_handles, [client.queue], [client.handle]), strict=True):
        for handle in handles:
            end(c_void_p(handle))


@contextmanager
def brokers(count: int, rtt_ms: int = 0) -> Iterator[str]:
    """Mock brokers that hold everything back for so long, with the topic t; their addresses."""
    kind: dict[str, Any] = {"test.mock.num.brokers": count, "test.mock.broker.rtt": rtt_ms}
    cluster = Producer({**kind, "bootstrap.servers": "", "log_level": 0})
    cluster.list_topics("t", timeout=20)
    yield ",".join(f"{one.host}:{one.port}" for one in cluster.list_topics(timeout=20).brokers.values())
    del cluster
