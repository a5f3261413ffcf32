"""What stands for the settings of real brokers, so that a later run can tell that they are others now."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from confluent_kafka.admin import AdminClient, ConfigSource

from perfgate.model.errors import TargetError
from perfgate.systems.kafka.client.admin import broker_config

OF_ONE = re.compile(r"(broker|node)\.id|broker\.rack|(.+\.)?listeners|(metadata\.)?log\.dirs?|zookeeper\.connect")
"""Settings that differ from broker to broker, or move with one, and change nothing of how fast they are."""


def settings_digest(admin: AdminClient, brokers: Iterable[int]) -> str:
    """Return a digest of what is set otherwise than by default on these brokers; empty where one does not tell.

    Secrets are not told by brokers, and take no part.
    """
    found: set[tuple[str, str]] = set()
    try:
        for broker in brokers:
            for name, entry in broker_config(admin, str(broker)).items():
                default = entry.source in (ConfigSource.DEFAULT_CONFIG.value, ConfigSource.UNKNOWN_CONFIG.value)
                if not default and not entry.is_sensitive and not OF_ONE.fullmatch(name):
                    found.add((name, str(entry.value)))
    except TargetError:
        return ""
    return hashlib.sha256(repr(sorted(found)).encode()).hexdigest()[:12] if found else ""
