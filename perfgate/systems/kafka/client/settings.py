"""Kafka settings that may be named (--set, a change, scenarios): of topics and brokers theirs, else librdkafka's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perfgate.model import Scenario
from perfgate.model.changes import SETTINGS, read_value, setting_of
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.client.foreign_code import refuse_code
from perfgate.systems.kafka.client.plain_numbers import not_plain

# The union of what DescribeConfigs lists on Kafka 4.3.1 and 3.9.1, less what the embedded target sets itself
# (listeners, ids, racks, log folders).
_DESCRIBED: dict[str, list[str]] = json.loads(Path(__file__).with_suffix(".json").read_text())
# librdkafka has no list to ask for; these are the ones a scenario usually varies.
USUAL_PRODUCER_SETTINGS = (
    "acks",
    "batch.num.messages",
    "batch.size",
    "client.id",
    "compression.level",
    "compression.type",
    "delivery.timeout.ms",
    "enable.idempotence",
    "linger.ms",
    "max.in.flight.requests.per.connection",
    "message.max.bytes",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "request.timeout.ms",
    "retries",
    "retry.backoff.ms",
    "socket.nagle.disable",
    "socket.send.buffer.bytes",
    "socket.timeout.ms",
    "sticky.partitioning.linger.ms",
)
# Two names for one setting in one client would leave it to chance which of them counts.
_ALIASES = {
    "compression.codec": "compression.type",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
}
_CONNECTION = re.compile(
    r"security\.protocol|(enable\.)?(sasl|ssl)[._].+|https\..+|bootstrap\.servers|metadata\.broker\.list"
)
"""Which brokers clients talk with, and what they prove and check: a scenario's word would count before the target's,
whose passwords would then go where its file would not have let them, and one stated here would stand in run.json."""


def checked(path: str, value: object, told: str = "", *, code_allowed: bool = False) -> tuple[str, Any]:
    """Return a change, a client's setting under its usual name. Raises ConfigurationError, naming what is legal.

    `told`: how the person wrote it, where that was not `--set`. `code_allowed`: whether it may load code.
    """
    told = told or f"--set {path}={value}"
    try:
        read = read_value(path, value)
    except ConfigurationError as error:
        raise ConfigurationError(f"{told}: {error}") from error
    if not code_allowed:
        refuse_code(path, read, told)
    if (setting := setting_of(path)) is None:
        return path, read
    scope, name = setting
    return f"{scope}.{_usual(scope, name, read, told)}", read


def check_settings(scenario: Scenario, *, code_allowed: bool = False) -> None:
    """Raise ConfigurationError for a Kafka setting of this scenario that `--set` would refuse or call by another name.

    An alias beside the usual name, which each scenario has from the suite, would leave it to chance which one counts.
    """
    consumers = scenario.consumers.config if scenario.consumers else ()
    if not code_allowed:
        refuse_code("cluster.jvm", scenario.cluster.jvm_options, f"{scenario.name}: cluster.jvm")
    stated = (scenario.producer, consumers, scenario.topic.config, scenario.cluster.config)
    for scope, pairs in zip(SETTINGS, stated, strict=True):
        for name, value in pairs:
            told = f"{scenario.name}: {scope}.{name}={value}"
            if not code_allowed:  # librdkafka loads a library as soon as it is asked whether it would
                refuse_code(f"{scope}.{name}", value, told)
            if (usual := _usual(scope, name, str(value), told)) != name:
                raise ConfigurationError(f"{told}: an alias; write {usual}")


def _usual(scope: str, name: str, value: str, told: str) -> str:
    """Return the setting's usual name. Raises ConfigurationError, with what was `told`, for one that is refused."""
    if scope in ("producer", "consumer") and _CONNECTION.fullmatch(name):
        raise ConfigurationError(  # without the value, which may be a password
            f"{told.partition('=')[0].rstrip()}: it belongs in the target file's [client]; the suite's own brokers are "
            "secured by cluster.security"
        )
    if scope == "producer":
        _check_producer(name, value, told)
    elif scope == "consumer":
        _check_consumer(name, value, told)
    elif name not in (known := _DESCRIBED[scope]):
        stem = name.partition(".")[0]
        near = [other for other in known if other.startswith(f"{stem}.")] or known
        raise ConfigurationError(f"{told}: unknown {scope} setting {name!r}; legal: {', '.join(near)}")
    return _ALIASES.get(name, name) if scope in ("producer", "consumer") else name


def _check_consumer(key: str, value: str, told: str) -> None:
    """Refuse what librdkafka's consumer refuses, or reads in part. Raises ConfigurationError, with what was `told`."""
    legal = "librdkafka's consumer settings"
    _check(key, value, told, legal, lambda other: _refusal_of_consumer(key, other))


def _check_producer(key: str, value: str, told: str) -> None:
    legal = f"librdkafka's producer settings, among them {', '.join(USUAL_PRODUCER_SETTINGS)}"
    _check(key, value, told, legal, lambda other: _refusal_of_producer(key, other))


def _check(key: str, value: str, told: str, legal: str, refusal: Callable[[str], str]) -> None:
    if words := refusal(value):
        raise ConfigurationError(f"{told}: {words}; legal: {legal}")
    if words := not_plain(key, value, lambda other: not refusal(other)):
        raise ConfigurationError(f"{told}: {key} {words}")


def _refusal_of_consumer(key: str, value: str) -> str:
    from confluent_kafka import Consumer, KafkaException  # only settings that were named need librdkafka

    try:
        Consumer({key: value, "group.id": "check", "bootstrap.servers": "", "log_level": 0}).close()
    except (KafkaException, TypeError, ValueError) as error:
        return _words(error)
    return ""


def _refusal_of_producer(key: str, value: str) -> str:
    from confluent_kafka import KafkaException, Producer

    try:
        Producer({key: value, "bootstrap.servers": "", "log_level": 0})
    except (KafkaException, TypeError, ValueError) as error:
        return _words(error)
    return ""


def _words(error: Exception) -> str:
    from confluent_kafka import KafkaException

    return str(error.args[0].str()) if isinstance(error, KafkaException) else str(error)
