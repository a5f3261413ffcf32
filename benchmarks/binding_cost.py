"""The cost of a record in confluent-kafka's Python classes and in this suite's engine, without a broker.

``python -m benchmarks.binding_cost``. Records of 100 B are queued and then purged, so that each is handed over
and comes back once, the same way on both sides; time is the calling thread's CPU.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
from confluent_kafka import KafkaError, Message, Producer

from perfgate.load.producing import CHUNK, Sender
from perfgate.load.schedule import Window, now
from perfgate.systems.kafka.load import clients
from perfgate.systems.kafka.load.clib import lib
from perfgate.systems.kafka.load.client import Client
from perfgate.systems.kafka.load.librdkafka import producer_settings

RECORDS = 204_800
RECORD_BYTES = 100
REPEATS = 5
PURGE_ALL = 0x3
NOWHERE = {
    "bootstrap.servers": "127.0.0.1:1",
    "log_level": "0",
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "1000000",
}


def by_classes() -> dict[str, float]:
    """Return microseconds per record of `produce_batch` with a callback for every record, by step."""
    acked = 0

    def on_delivery(_error: KafkaError | None, _message: Message) -> None:
        nonlocal acked
        acked += 1

    producer = Producer({**producer_settings(()), **NOWHERE})
    body = bytes(RECORD_BYTES)
    begin = time.thread_time()
    batches = [[{"value": bytes(bytearray(body))} for _ in range(CHUNK)] for _ in range(RECORDS // CHUNK)]
    made = time.thread_time()
    for batch in batches:
        producer.produce_batch("t", batch, partition=0, on_delivery=on_delivery)
    handed_over = time.thread_time()
    producer.purge()
    while acked < RECORDS:
        producer.poll(0.1)
    heard = time.thread_time()
    return per_record(begin, made, handed_over, heard)


def by_engine() -> dict[str, float]:
    """Return microseconds per record of the engine's sender, by step."""
    spec = {
        "partitions": 1,
        "paced": False,
        "rate": 1e9,
        "of": 1,
        "records": RECORDS,
        "record_bytes": RECORD_BYTES,
        "payload": {},
        "keys": {},
        "run": 1,
        "seed": 1,
        "drain_s": 1.0,
        "topic": "t",
        "transaction_ms": 0,
        "client_path": "",
        "buffer_bytes": 1 << 30,
        "buffer_records": 1_000_000,
        "compressed": False,
        "lingers": False,
        "client": {**producer_settings(()), **NOWHERE},
    }
    client = clients.sending(spec, 0)
    assert isinstance(client, Client)
    sender = Sender(spec, 0, Window(), client)
    making = sending = 0.0
    for _ in range(RECORDS // CHUNK):
        begin = time.thread_time()
        messages = sender._make(CHUNK, now())
        made = time.thread_time()
        sender._send(messages, 0)
        making, sending = making + made - begin, sending + time.thread_time() - made
    begin = time.thread_time()
    lib.rd_kafka_purge(client.handle, PURGE_ALL)
    while sender.outcomes.counts()["unresolved"]:
        if not sender._hear():
            client.wait(0.1)
    return per_record(0.0, making, making + sending, making + sending + time.thread_time() - begin)


def per_record(begin: float, made: float, handed_over: float, heard: float) -> dict[str, float]:
    """Return the three steps' CPU per record in us, from the moments at which each ended (s)."""
    steps = {"make": made - begin, "hand over": handed_over - made, "hear": heard - handed_over}
    return {name: seconds / RECORDS * 1e6 for name, seconds in steps.items()}


def main() -> None:
    """Print medians of some repeats, interleaved."""
    both = {"confluent-kafka's classes": by_classes, "this engine": by_engine}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in both}
    for _ in range(REPEATS):
        for name, measure in both.items():
            found[name].append(measure())
    for name, runs in found.items():
        medians = {step: statistics.median(run[step] for run in runs) for step in runs[0]}
        steps = ", ".join(f"{step} {value:.2f}" for step, value in medians.items())
        print(f"{name}: {np.sum(list(medians.values())):.2f} us/record ({steps})")


if __name__ == "__main__":
    main()
