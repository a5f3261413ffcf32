"""Single requests to brokers that are not ours: every failure is a TargetError that says what was tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from perfgate.model import Settings
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.systems.kafka.client.topics import REQUEST_TIMEOUT_S, admin_client, answer

CONNECT_S = 5.0


def cluster_id_at(server: str, client: Settings) -> str:
    """Return the id of the cluster that this server (host:port) is of; empty when it does not tell."""
    try:
        admin = admin_client(server, client)  # which has to be there until the answer is
        asked = admin.describe_cluster(request_timeout=CONNECT_S)
        return str(answer(asked, f"asking {server} for its cluster").cluster_id)
    except TargetError:
        return ""


def topic_ids(admin: AdminClient, names: Iterable[str]) -> dict[str, str]:
    """Return the ids of those topics that exist, by name."""
    names = list(names)
    if not names:
        return {}
    found = {}
    for name, reply in admin.describe_topics(TopicCollection(names), request_timeout=REQUEST_TIMEOUT_S).items():
        try:
            found[name] = str(reply.result(timeout=REQUEST_TIMEOUT_S + 5).topic_id)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise TargetError(f"describing topic {name}: {error}") from error
    return found


def sees_all_topics(admin: AdminClient) -> bool:
    """Return whether this client may describe topics of any name: brokers deny it even one that does not exist."""
    name = "kafka-perf-gate-may-i-see-this"
    reply = admin.describe_topics(TopicCollection([name]), request_timeout=REQUEST_TIMEOUT_S)[name]
    try:
        reply.result(timeout=REQUEST_TIMEOUT_S + 5)
    except KafkaException as error:
        return bool(error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED)
    return True


def version_of(admin: AdminClient, broker: int) -> str:
    """Return the brokers' Kafka line as far as they tell it (until 3.9), else "unknown": state kafka-version then."""
    try:
        entry = broker_config(admin, str(broker)).get("inter.broker.protocol.version")
    except TargetError:
        return "unknown"
    return str(entry.value).partition("-")[0] if entry is not None and entry.value else "unknown"


def broker_config(admin: AdminClient, broker: str) -> Mapping[str, Any]:
    """Return a broker's settings by name."""
    resource = ConfigResource(ResourceType.BROKER, broker)
    reply = admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)[resource]
    found: Mapping[str, Any] = answer(reply, f"reading the settings of broker {broker}")
    return found


def dynamic_value(admin: AdminClient, broker: str, name: str) -> str | None:
    """Return what was set for this broker dynamically, or None when nothing was.

    Raises ConfigurationError for a value that brokers keep to themselves: nobody could put it back.
    """
    entry = broker_config(admin, broker).get(name)
    if entry is not None and entry.is_sensitive:
        raise ConfigurationError(
            f"{name} of broker {broker} is sensitive, so that the brokers do not tell its value: a run could "
            "not put it back, and does not change it"
        )
    return str(entry.value) if entry is not None and entry.source == ConfigSource.DYNAMIC_BROKER_CONFIG.value else None


def set_broker(admin: AdminClient, broker: str, name: str, value: str | None) -> None:
    """Set one dynamic setting of one broker; None takes it away."""
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(name, value, incremental_operation=operation)
    resource = ConfigResource(ResourceType.BROKER, broker, incremental_configs=[entry])
    reply = admin.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_S)[resource]
    answer(reply, f"setting {name} = {value} on broker {broker}")
