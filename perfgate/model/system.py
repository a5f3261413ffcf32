"""Systems that are measured: their names, their default releases, and how the facts of a recorded target state them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

System = Literal["kafka", "pulsar"]
"""What is measured."""
SYSTEMS: tuple[System, ...] = get_args(System)
SYSTEM_NAMES: Mapping[System, str] = {"kafka": "Kafka", "pulsar": "Pulsar"}
"""As messages and reports write them."""
DEFAULT_KAFKA_VERSION = "4.3.1"
DEFAULT_PULSAR_VERSION = "4.0.8"
DEFAULT_VERSIONS: Mapping[System, str] = {"kafka": DEFAULT_KAFKA_VERSION, "pulsar": DEFAULT_PULSAR_VERSION}
VERSION_FACTS: Mapping[System, str] = {"kafka": "kafka_version", "pulsar": "pulsar_version"}
"""The fact of a target that states the release of its system."""
CLIENT_FACTS: Mapping[System, tuple[str, ...]] = {
    "kafka": ("confluent_kafka", "librdkafka"),
    "pulsar": ("pulsar_client",),
}
"""The facts of a machine that state the releases of its client."""


def system_of(target: Mapping[str, Any]) -> System:
    """Return the system of a target by its facts, or of a profile by its own; Kafka where none is stated."""
    return cast(System, target.get("system", "kafka"))


def version_of(target: Mapping[str, Any]) -> str:
    """Return the release of a target's system by its facts; "unknown" where it is not stated."""
    return str(target.get(VERSION_FACTS[system_of(target)]) or "unknown")


def release_of(target: Mapping[str, Any]) -> str:
    """Return system and release of a target by its facts, as in "Kafka 4.3.1"."""
    return f"{SYSTEM_NAMES[system_of(target)]} {version_of(target)}"
