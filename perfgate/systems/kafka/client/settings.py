"""What `--set` and a change may name: topic and broker settings as brokers describe them, others as librdkafka does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from perfgate.model import Override
from perfgate.model.errors import ConfigurationError

# The union of what DescribeConfigs lists on Kafka 4.3.1 and 3.9.1, less what the embedded target sets itself
# (listeners, ids, racks, log folders).
_DESCRIBED: dict[str, list[str]] = json.loads(Path(__file__).with_suffix(".json").read_text())
# librdkafka has no list to ask for; these are the ones a scenario usually varies.
USUAL_PRODUCER_SETTINGS = (
    "acks", "batch.num.messages", "batch.size", "client.id", "compression.level", "compression.type",
    "delivery.timeout.ms", "enable.idempotence", "linger.ms", "max.in.flight.requests.per.connection",
    "message.max.bytes", "queue.buffering.max.kbytes", "queue.buffering.max.messages", "request.timeout.ms", "retries",
    "retry.backoff.ms", "socket.nagle.disable", "socket.send.buffer.bytes", "socket.timeout.ms",
    "sticky.partitioning.linger.ms",
)  # fmt: skip
# Two names for one setting in one client would leave it to chance which of them counts.
_ALIASES = {
    "compression.codec": "compression.type",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
}


def checked(override: Override, told: str = "") -> Override:
    """Return the override under its setting's usual name. Raises ConfigurationError, naming what is legal.

    `told`: how the person wrote it, where that was not `--set`.
    """
    told = told or f"--set {override}"
    if override.scope == "producer":
        _check_producer(override, told)
        return replace(override, key=_ALIASES.get(override.key, override.key))
    if override.key not in (known := _DESCRIBED[override.scope]):
        stem = override.key.partition(".")[0]
        near = [name for name in known if name.startswith(f"{stem}.")] or known
        raise ConfigurationError(f"{told}: unknown {override.scope} setting {override.key!r}; legal: {', '.join(near)}")
    return override


def check_consumer(key: str, value: str, told: str) -> None:
    """Refuse what librdkafka's consumer refuses. Raises ConfigurationError, with what was `told`."""
    from confluent_kafka import Consumer, KafkaException  # only settings that were named need librdkafka

    try:
        Consumer({key: value, "group.id": "check", "bootstrap.servers": "", "log_level": 0}).close()
    except (KafkaException, TypeError, ValueError) as error:
        raise ConfigurationError(f"{told}: {_words(error)}; legal: librdkafka's consumer settings") from error


def _check_producer(override: Override, told: str) -> None:
    from confluent_kafka import KafkaException, Producer

    try:
        Producer({override.key: override.value, "bootstrap.servers": "", "log_level": 0})
    except (KafkaException, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{told}: {_words(error)}; legal: librdkafka's producer settings, among them "
            f"{', '.join(USUAL_PRODUCER_SETTINGS)}"
        ) from error


def _words(error: Exception) -> str:
    from confluent_kafka import KafkaException

    return str(error.args[0].str()) if isinstance(error, KafkaException) else str(error)
