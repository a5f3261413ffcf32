"""Kafka settings that scenarios and changes may name: legal names, plain numbers, no foreign code, room for records."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from perfgate.host.java import loading_option, refuse
from perfgate.model import MIB, Scenario, with_settings
from perfgate.model.changes import SETTINGS, as_written, read_value, setting_of
from perfgate.model.errors import ConfigurationError

# The union of what DescribeConfigs lists on Kafka 4.3.1 and 3.9.1, less what the embedded target sets itself
# (listeners, ids, racks, log folders).
_DESCRIBED: dict[str, list[str]] = json.loads(Path(__file__).with_suffix(".json").read_text())
# librdkafka has no list to ask for; these are the ones a scenario usually varies.
USUAL_PRODUCER_SETTINGS = """
    acks batch.num.messages batch.size client.id compression.level compression.type delivery.timeout.ms
    enable.idempotence linger.ms max.in.flight.requests.per.connection message.max.bytes queue.buffering.max.kbytes
    queue.buffering.max.messages request.timeout.ms retries retry.backoff.ms socket.nagle.disable
    socket.send.buffer.bytes socket.timeout.ms sticky.partitioning.linger.ms
"""
# Two names for a setting in the same client would leave it to chance which of them counts.
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
"""Which brokers clients use, and what they prove and check: a scenario's value would replace the target's, whose
passwords would then go elsewhere, and a password stated here would appear in run.json."""
PLAIN = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")
LIKE_A_NUMBER = re.compile(r"\s*[-+]?(0x|\d[\d_,]*\.?\d*(?:e[-+]?\d+)?|\.\d+|nan)\s*(.*)", re.IGNORECASE | re.DOTALL)
LARGEST_NUMBER = 2**31 - 1
"""librdkafka's; of a larger number the lower 32 bits remain."""
MILLISECONDS = {"ms": 1.0, "s": 1e3, "sec": 1e3, "m": 6e4, "min": 6e4, "h": 3.6e6}
OF_CLIENTS = re.compile(
    # librdkafka's, and those of the Java client, which the official tools are.
    r"plugin\..+|ssl\.(engine\..+|providers?)|sasl\.kerberos\.kinit\.cmd|.+\.(class|classes|reporters)"
    r"|(key|value)\.(de)?serializer|config\.providers.*|security\.providers|sasl\.(login|client)\..*(class|config)"
)
OF_BROKERS = re.compile(
    r".+\.(class(\.name|\.path)?|reporters|assignors)|config\.providers.*|security\.providers|ssl\.provider"
    r"|sasl\.(jaas\.config|kerberos\.kinit\.cmd|oauthbearer\..+\.(url|file))|zookeeper\.clientCnxnSocket"
)
"""A login module is a class, too; a token endpoint's or assertion's address may be a file of this machine."""
KAFKAS_OWN = re.compile(r"org\.apache\.kafka\.[\w.$]+|uniform|range|simple")
"""A class of Kafka itself, or an assignor by its short name."""
OF_SCOPES = {"producer": OF_CLIENTS, "consumer": OF_CLIENTS, "broker": OF_BROKERS}
AROUND_BYTES = 1024
"""A batch and a request around a record take less than this."""
CLIENT, TOPIC = "message.max.bytes", "max.message.bytes"
TAKEN: Mapping[str, int] = {CLIENT: 1_000_000, TOPIC: 1_048_588}
BUFFER, BUFFERED_KIB, BUFFERED = "queue.buffering.max.kbytes", 32_768, 4
"""A producer's buffer unless stated, and how many of the largest records it must hold at least."""
FETCHED, RECEIVED = 50 * MIB, 100_000_000
"""What a consumer asks for at a time, and the largest answer that it takes, unless stated."""
OF_THE_SUITE: Mapping[str, str] = {
    "group.id": "each round has groups of its own",
    "allow.auto.create.topics": "each round has topics of its own",
}
"""Client settings that have another value than a scenario's in every round: a change of them would be the same."""
REQUEST, TAKEN_IN_REQUEST = "socket.request.max.bytes", 100 * MIB


def connects(name: str) -> bool:
    """Whether a client's setting says which brokers it uses, or what it proves and checks."""
    return _CONNECTION.fullmatch(name) is not None


def checked(path: str, value: object, written: str = "", *, code_allowed: bool = False) -> tuple[str, Any]:
    """Return a change, a client's setting under its usual name. Raises ConfigurationError, naming what is legal.

    `written`: how the person wrote it, where that was not `--set`. `code_allowed`: whether it may load code.
    """
    written = written or f"--set {path}={value}"
    try:
        read = read_value(path, value)
    except ConfigurationError as error:
        raise ConfigurationError(f"{written}: {error}") from error
    if not code_allowed:
        refuse_code(path, read, written)
    if (setting := setting_of(path)) is None:
        return path, as_written(value, read)
    scope, name = setting
    return f"{scope}.{_usual(scope, name, read, written)}", read


def check_settings(scenario: Scenario, *, code_allowed: bool = False) -> None:
    """Raise ConfigurationError for a setting that `--set` would refuse, or an alias: two names leave it to chance."""
    consumers = scenario.consumers.config if scenario.consumers else ()
    if not code_allowed:
        refuse_code("cluster.jvm", scenario.cluster.jvm_options, f"{scenario.name}: cluster.jvm")
    stated = (scenario.producer, consumers, scenario.topic.config, scenario.cluster.config)
    for scope, pairs in zip(SETTINGS, stated, strict=True):
        for name, value in pairs:
            written = f"{scenario.name}: {scope}.{name}={value}"
            if not code_allowed:  # librdkafka loads a library as soon as the setting is tried
                refuse_code(f"{scope}.{name}", value, written)
            if (usual := _usual(scope, name, str(value), written)) != name:
                raise ConfigurationError(f"{written}: an alias; write {usual}")


def _usual(scope: str, name: str, value: str, written: str) -> str:
    """Return a setting's usual name. Raises ConfigurationError for a name that is not legal."""
    if scope in ("producer", "consumer"):
        if connects(name):
            raise ConfigurationError(  # without the value, which may be a password
                f"{written.partition('=')[0].rstrip()}: it belongs in the target file's [client]; the suite's own "
                "brokers are secured by cluster.security"
            )
        if name in OF_THE_SUITE:
            raise ConfigurationError(f"{written}: {OF_THE_SUITE[name]}, whatever it states: leave it out")
        _check_client(scope, name, value, written)
        return _ALIASES.get(name, name)
    if name not in (known := _DESCRIBED[scope]):
        stem = name.partition(".")[0]
        near = [other for other in known if other.startswith(f"{stem}.")] or known
        raise ConfigurationError(f"{written}: unknown {scope} setting {name!r}; legal: {', '.join(near)}")
    return name


def _check_client(scope: str, key: str, value: str, written: str) -> None:
    usual = f", among them {', '.join(USUAL_PRODUCER_SETTINGS.split())}" if scope == "producer" else ""
    if words := _refusal(scope, key, value):
        raise ConfigurationError(f"{written}: {words}; legal: librdkafka's {scope} settings{usual}")
    if words := not_plain(key, value, lambda other: not _refusal(scope, key, other)):
        raise ConfigurationError(f"{written}: {key} {words}")


def _refusal(scope: str, key: str, value: str) -> str:
    from confluent_kafka import Consumer, KafkaException, Producer  # only settings that were named need librdkafka

    config: dict[str, Any] = {key: value, "bootstrap.servers": "", "log_level": 0}
    try:
        if scope == "producer":
            Producer(config)
        else:
            Consumer({**config, "group.id": "check"}).close()
    except KafkaException as error:
        return str(error.args[0].str())
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


def not_plain(name: str, value: str, takes: Callable[[str], bool]) -> str:
    """Reason why librdkafka reads another number (16k as 16, 010 as 8), and which to write; else empty.

    `takes`: whether the client takes another value of the setting, which distinguishes texts from numbers.
    """
    if (plain := PLAIN.fullmatch(value)) and abs(float(value)) <= LARGEST_NUMBER and not float(plain[2] or 0):
        return ""
    if not LIKE_A_NUMBER.match(value) or takes("x") or (plain and abs(float(value)) <= LARGEST_NUMBER and takes(".5")):
        return ""
    if plain:
        return f"must be a whole number from {-LARGEST_NUMBER:d} to {LARGEST_NUMBER:d}"
    return f"must be a plain number{_meant(name, value.strip())}; librdkafka would read another"


def _meant(name: str, value: str) -> str:
    match = LIKE_A_NUMBER.fullmatch(value)
    assert match is not None
    try:
        if match[1].lower() == "0x":
            return f", as in {int(value, 16):d}"
        number = float(match[1].replace("_", "").replace(",", "")) * (-1 if value.startswith("-") else 1)
        number *= _unit(name, match[2].lower())
    except (KeyError, ValueError):
        return ""
    return f", as in {number:.6f}".rstrip("0").rstrip(".") if abs(number) <= LARGEST_NUMBER else ""


def _unit(name: str, unit: str) -> float:
    if not unit:
        return 1.0
    if name.endswith(".ms"):
        return MILLISECONDS[unit]
    power = {"": 0, "k": 1, "m": 2, "g": 3}[unit.removesuffix("b").removesuffix("i")]
    if name.endswith("kbytes"):
        return 1024.0 ** (power - 1)
    return (1024.0 if name.endswith(("bytes", "size")) else 1e3) ** power


def loads_code(path: str, value: object) -> str:
    """Return the part of a change that loads foreign code or runs a command; empty where none does."""
    scope, _, name = path.partition(".")
    if path == "cluster.jvm":
        return loading_option(value)
    if scope not in OF_SCOPES or not OF_SCOPES[scope].fullmatch(name):
        return ""
    own = not name.startswith("sasl.") and all(map(KAFKAS_OWN.fullmatch, re.split(r"\s*,\s*", str(value).strip())))
    return "" if own else name


def refuse_code(path: str, value: object, written: str) -> None:
    """Raise ConfigurationError that begins with `written` for a change that loads code or runs a command."""
    refuse(loads_code(path, value), written)


def refuse_code_of_clients(names: Iterable[str], written: str) -> None:
    """The same for settings of clients in a target file that another person named."""
    for name in names:
        refuse_code(f"producer.{name}", "", f"{written}: [client] {name}")


def made_room(scenario: Scenario) -> Scenario:
    """Return the scenario with limits of its clients and topic that its records fit in, where it states none.

    Raises ConfigurationError for stated limits, and for brokers' own, that its records do not fit in. Names and
    defaults: librdkafka's CONFIGURATION.md and Kafka's documentation.
    """
    needed = _largest(scenario) + AROUND_BYTES
    if needed <= TAKEN[CLIENT]:
        return scenario
    most = _number(scenario, f"broker.{REQUEST}", dict(scenario.cluster.config).get(REQUEST, str(TAKEN_IN_REQUEST)))
    if needed > most:
        raise ConfigurationError(
            f"{scenario.name}: records of {needed - AROUND_BYTES:,} bytes: brokers take requests of {most:,} bytes "
            f"({REQUEST}): smaller records, or --set broker.{REQUEST}={needed}"
        )
    producer, topic = dict(scenario.producer), dict(scenario.topic.config)
    for scope, name, stated in (("producer", CLIENT, producer), ("topic", TOPIC, topic)):
        if name in stated and _number(scenario, f"{scope}.{name}", stated[name]) < needed:
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


def _number(scenario: Scenario, path: str, stated: str) -> int:
    if not stated.isdecimal():
        raise ConfigurationError(f"{scenario.name}: {path} = {stated} must be a whole number of bytes")
    return int(stated)


def _largest(scenario: Scenario) -> int:
    beside = scenario.logged_bytes - scenario.record_bytes
    if scenario.payload.kind != "lines":
        return scenario.largest_bytes + beside
    try:
        lines = Path(scenario.payload.path).read_bytes().splitlines()
    except OSError:  # reported where the file is read for its records
        return scenario.record_bytes + beside
    return max(map(len, lines), default=0) + beside
