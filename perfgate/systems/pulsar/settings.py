"""Pulsar settings that scenarios and changes may name: legal names, no foreign code, room for messages."""

from __future__ import annotations

import re
from typing import Any

from perfgate.host.java import loading_option, refuse
from perfgate.model import MIB, Scenario
from perfgate.model.changes import as_written, read_value, setting_of
from perfgate.model.errors import ConfigurationError
from perfgate.systems.pulsar.client.policies import OF_A_TOPIC, requests, wanted
from perfgate.systems.pulsar.load.settings import refuses

OF_CLASSES = re.compile(
    r".*(class(name)?(es)?|providers?|factory|interceptors?|handlers?|servlets?|plugins?|offload\w*|filters?"
    r"|classpath|directory|script|command|nar\w*)",
    re.IGNORECASE,
)
"""Settings of brokers and bookies that name a class, a file with classes, or a command."""
CONNECTION = re.compile(r"serviceUrl|listenerName|auth\w*|tls\w*")
"""Clients' brokers, log-in and TLS: these are the target's, and a password would be in run.json."""
NODE_SETTING = re.compile(r"[A-Za-z][\w.\-]*")
MOST_BYTES = 5 * MIB - 200
"""A message that brokers take with their own maxMessageSize (5 MiB) and the metadata around it (measured, 4.0.8)."""
MOST = "maxMessageSize"


def checked(path: str, value: object, written: str = "", *, code_allowed: bool = False) -> tuple[str, Any]:
    """A change of a setting, as `written` (else by `--set`). Raises ConfigurationError, naming the legal values."""
    written = written or f"--set {path}={value}"
    try:
        read = read_value(path, value, "pulsar")
    except ConfigurationError as error:
        raise ConfigurationError(f"{written}: {error}") from error
    if path == "cluster.jvm" and not code_allowed:
        refuse(loading_option(read), written)
    if (setting := setting_of(path)) is not None:
        _check(*setting, str(read), written, code_allowed=code_allowed)
    return path, as_written(value, read)


DURABILITY = ("bookie", "journalSyncData")
"""Figures with and without it are not comparable; a bookie ends when it is neither true nor false."""


def check_settings(scenario: Scenario, *, code_allowed: bool = False) -> None:
    """Raise ConfigurationError for a setting of this scenario that `--set` would refuse."""
    cluster = scenario.cluster
    if not code_allowed:
        refuse(loading_option(cluster.jvm_options), f"{scenario.name}: cluster.jvm")
    stated = {
        "producer": scenario.producer,
        "consumer": scenario.consumers.config if scenario.consumers else (),
        "topic": scenario.topic.config,
        "broker": cluster.config,
        "bookie": cluster.bookie_config,
    }
    for scope, pairs in stated.items():
        for name, value in pairs:
            written = f"{scenario.name}: {scope}.{name}={value}"
            _check(scope, name, value, written, code_allowed=code_allowed)


def _check(scope: str, name: str, value: str, written: str, *, code_allowed: bool) -> None:
    if scope in ("producer", "consumer"):
        if CONNECTION.fullmatch(name):
            raise ConfigurationError(  # without the value, which may be a password
                f"{written.partition('=')[0].rstrip()}: it belongs in the target file's [client]"
            )
        if reason := refuses({name: value}, scope):
            raise ConfigurationError(f"{written}: {reason}")
        return
    if scope == "topic":
        if name not in OF_A_TOPIC:
            legal = ", ".join(OF_A_TOPIC)
            raise ConfigurationError(f"{written}: {name} is no policy of a Pulsar namespace; legal: {legal}")
        if not name.startswith("retention"):  # time and size go together, and may be stated one after the other
            try:
                requests(((name, value),))
            except ConfigurationError as error:
                raise ConfigurationError(f"{written}: {error}") from error
        return
    if not NODE_SETTING.fullmatch(name):
        raise ConfigurationError(
            f"{written}: {name!r} is no name of a {scope}'s setting, as in managedLedgerCacheSizeMB"
        )
    if (scope, name) == DURABILITY and value not in ("true", "false"):
        raise ConfigurationError(f"{written}: durability is true (fsync) or false (page cache)")
    if OF_CLASSES.fullmatch(name) and not code_allowed:
        refuse(name, written)


def made_room(scenario: Scenario) -> Scenario:
    """The scenario unchanged. Raises ConfigurationError for messages that are too large, or impossible policies."""
    stated = dict(scenario.cluster.config).get(MOST, "")
    most = int(stated) - 200 if stated.isdecimal() else MOST_BYTES
    if scenario.largest_bytes > most:
        raise ConfigurationError(
            f"{scenario.name}: messages of {scenario.largest_bytes:,} bytes: brokers take {most:,} at most ({MOST}): "
            f"smaller records, or --set broker.{MOST}={scenario.largest_bytes + 200}"
        )
    topic = scenario.topic
    try:
        wanted(topic)
    except ConfigurationError as error:
        raise ConfigurationError(f"{scenario.name}: {error}") from error
    if not 1 <= topic.acks <= topic.replication_factor <= topic.ensemble:
        raise ConfigurationError(
            f"{scenario.name}: quorums {topic.quorums} (ensemble, write, ack) must not rise from left to right"
        )
    return scenario
