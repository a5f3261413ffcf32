"""Records beyond what clients and topics take unless told: limits that have to grow with them, and those that cannot.

Sources: librdkafka's CONFIGURATION.md (message.max.bytes, queue.buffering.max.kbytes, receive.message.max.bytes) and
Kafka's (max.message.bytes, socket.request.max.bytes) for the names, defaults and what each one counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from perfgate.model import MIB, Scenario, with_settings
from perfgate.model.errors import ConfigurationError

AROUND_BYTES = 1024
"""A batch and a request around a record take less than this."""
CLIENT, TOPIC = "message.max.bytes", "max.message.bytes"
TAKEN: Mapping[str, int] = {CLIENT: 1_000_000, TOPIC: 1_048_588}
BUFFER, BUFFERED_KIB, BUFFERED = "queue.buffering.max.kbytes", 32_768, 4
"""What a producer buffers unless stated, and how many of the largest records it must hold at least."""
FETCHED, RECEIVED = 50 * MIB, 100_000_000
"""What a consumer asks for at a time, and the largest answer that it takes, unless stated."""
REQUEST, TAKEN_IN_REQUEST = "socket.request.max.bytes", 100 * MIB


def made_room(scenario: Scenario) -> Scenario:
    """Return the scenario with limits of its clients and topic that its records fit in, where it states none.

    Raises ConfigurationError for a stated limit, and for brokers' own, that its records do not fit in.
    """
    needed = _largest(scenario) + AROUND_BYTES
    if needed <= TAKEN[CLIENT]:
        return scenario
    most = int(dict(scenario.cluster.config).get(REQUEST, TAKEN_IN_REQUEST))
    if needed > most:
        raise ConfigurationError(
            f"{scenario.name}: records of {needed - AROUND_BYTES:,} bytes: brokers take requests of {most:,} bytes "
            f"({REQUEST}): smaller records, or --set broker.{REQUEST}={needed}"
        )
    producer, topic = dict(scenario.producer), dict(scenario.topic.config)
    for scope, name, stated in (("producer", CLIENT, producer), ("topic", TOPIC, topic)):
        if name in stated and int(stated[name]) < needed:
            raise ConfigurationError(
                f"{scenario.name}: records of {needed - AROUND_BYTES:,} bytes, and {scope}.{name} = {stated[name]} "
                f"refuses them: --set {scope}.{name}={needed}, or leave it out"
            )
    client = {CLIENT: str(needed), BUFFER: str(max(BUFFERED_KIB, BUFFERED * needed // 1024 + 1))}
    scenario = replace(scenario, producer=with_settings(scenario.producer, client | producer))
    if needed > TAKEN[TOPIC]:
        config = with_settings(scenario.topic.config, {TOPIC: str(needed)} | topic)
        scenario = replace(scenario, topic=replace(scenario.topic, config=config))
    if scenario.consumers:
        fetched = max(FETCHED, needed)
        client = {CLIENT: str(needed), "fetch.max.bytes": str(fetched)}
        client |= {"receive.message.max.bytes": str(max(RECEIVED, fetched + MIB))}
        config = with_settings(scenario.consumers.config, client | dict(scenario.consumers.config))
        scenario = replace(scenario, consumers=replace(scenario.consumers, config=config))
    return scenario


def _largest(scenario: Scenario) -> int:
    """Return the bytes of the scenario's largest record, its key included."""
    beside = scenario.logged_bytes - scenario.record_bytes
    if scenario.payload.kind != "lines":
        return scenario.record_bytes + beside
    try:
        lines = Path(scenario.payload.path).read_bytes().splitlines()
    except OSError:  # told where the file is read for its records
        return scenario.record_bytes + beside
    return max(map(len, lines), default=0) + beside
