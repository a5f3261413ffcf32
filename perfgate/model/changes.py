"""Changes of a scenario by dotted path: one way for declarations, `--set`, change files and what a run imposes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from perfgate.model.declared import (
    DEFAULT_KAFKA_VERSION,
    LINKS,
    UNKNOWN_VERSION,
    Keys,
    Payload,
    Scenario,
    Settings,
    with_settings,
)
from perfgate.model.errors import ConfigurationError

Changes = tuple[tuple[str, Any], ...]
"""Dotted paths with their values, in the order in which they are laid over a scenario."""
SETTINGS = ("producer", "consumer", "topic", "broker")
"""What stands before a Kafka setting's name in a path."""
MOST = 1_000_000_000
MOST_OF_KNEE = 2.0
MOST_TRANSACTION_MS = 30_000
"""A quarter of the time after which brokers abort it (transaction.timeout.ms) where a scenario states none."""


@dataclass(frozen=True, slots=True)
class _Path:
    """What a path that is no Kafka setting takes, and what it changes."""

    read: Callable[[str, object], Any]
    lay: Callable[[Scenario, Any], Scenario]


def _whole(most: int) -> Callable[[str, object], int]:
    def read(path: str, value: object) -> int:
        number = _number(value)
        if number is None or number != int(number) or not 1 <= number <= most:
            raise ConfigurationError(f"{path} = {value!r} must be a whole number from 1 to {most:,}")
        return int(number)

    return read


def _amount(least: float, most: float, unit: str) -> Callable[[str, object], float]:
    def read(path: str, value: object) -> float:
        number = _number(value)
        if number is None or not least <= number <= most:
            raise ConfigurationError(f"{path} = {value!r} must be a number of {unit} from {least:g} to {most:g}")
        return number

    return read


SHARE_OF_KNEE = re.compile(r"(\d+(?:\.\d+)?) ?x ?knee")


@dataclass(frozen=True, slots=True)
class _OfKnee:
    share: float


def _rate(path: str, value: object) -> float | _OfKnee:
    """Read records/s, or `SHARE x knee` for a share of the knee that was measured on the target."""
    found = SHARE_OF_KNEE.fullmatch(value) if isinstance(value, str) else None
    if found and 0 < float(found[1]) <= MOST_OF_KNEE:
        return _OfKnee(float(found[1]))
    try:
        return _amount(0.01, MOST, "records/s")(path, value)
    except ConfigurationError as error:
        told = f'{error}, or a share of the knee, above 0 and up to {MOST_OF_KNEE:g}, as in "0.5 x knee"'
        raise ConfigurationError(told) from None


def _lay_rate(scenario: Scenario, value: float | _OfKnee) -> Scenario:
    """Lay a rate over loads that have one; a share of the knee over paced loads alone."""
    load = scenario.load
    at = load.at_share_of_knee(value.share) if isinstance(value, _OfKnee) else load.at_rate(value)
    return replace(scenario, load=at)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _link(path: str, value: object) -> str:
    if not isinstance(value, str) or value not in LINKS:
        raise ConfigurationError(f"{path} = {value!r} is no link; legal: {', '.join(LINKS)}")
    return str(value)


def _payload(path: str, value: object) -> Payload:
    """Read `random`, or `text:RATIO` for one that gzip makes RATIO times smaller."""
    kind, _, ratio = str(value).partition(":")
    number = _number(ratio)
    if kind == "text" and number is not None and 1 <= number <= 100:
        return Payload(kind="text", ratio=number)
    if value != "random":
        raise ConfigurationError(
            f"{path} = {value!r} is no payload; legal: random, text:RATIO with a ratio of 1 to 100"
        )
    return Payload()


def _keys(path: str, value: object) -> Keys:
    """Read `none`, `random`, or how many keys there are."""
    number = _number(value)
    if number is not None and number == int(number) and 1 <= number <= MOST:
        return Keys(kind="set", count=int(number))
    if value not in ("none", "random"):
        raise ConfigurationError(f"{path} = {value!r} are no keys; legal: none, random, or how many there are")
    return Keys(kind="random" if value == "random" else "none")


def _membership(path: str, value: object) -> str:
    if value not in ("group", "assigned", "share"):
        raise ConfigurationError(f"{path} = {value!r} is no membership; legal: group, assigned, share")
    return str(value)


def _security(path: str, value: object) -> str:
    if value not in ("plaintext", "tls", "sasl-tls"):
        raise ConfigurationError(f"{path} = {value!r} is no security; legal: plaintext, tls, sasl-tls")
    return str(value)


def _lay_image(scenario: Scenario, value: str) -> Scenario:
    """Run it on this image, whose version is the tag's, or the one that is stated beside it."""
    tag = re.search(r"\d+\.\d+\.\d+", value.rpartition("/")[2].partition(":")[2])
    stated = scenario.cluster.kafka_version
    version = tag[0] if tag else UNKNOWN_VERSION if stated == DEFAULT_KAFKA_VERSION else stated
    return replace(scenario, cluster=replace(scenario.cluster, image=value, home="", kafka_version=version))


def _cluster(**fields: Any) -> Callable[[Scenario, Any], Scenario]:
    """Return what sets this field of the cluster; `fields`: its name, and others with what they become."""

    def lay(scenario: Scenario, value: Any) -> Scenario:
        given = {name: value if other is ... else other for name, other in fields.items()}
        return replace(scenario, cluster=replace(scenario.cluster, **given))

    return lay


def _part(part: str, field: str) -> Callable[[Scenario, Any], Scenario]:
    """Return what sets a field of the topic, the load or the consumers; where a scenario has none, nothing."""

    def lay(scenario: Scenario, value: Any) -> Scenario:
        whole: Any = getattr(scenario, part)
        return scenario if whole is None else replace(scenario, **{part: replace(whole, **{field: value})})

    return lay


def _load(field: str) -> Callable[[Scenario, Any], Scenario]:
    """Return what sets a field of loads that take it, and changes nothing of others."""
    lay = _part("load", field)
    return lambda scenario, value: lay(scenario, value) if field in scenario.load.takes else scenario


def _own(field: str) -> Callable[[Scenario, Any], Scenario]:
    return lambda scenario, value: replace(scenario, **{field: value})


def release(path: str, value: object) -> str:
    """Return `value` if it reads like a Kafka release. Raises ConfigurationError, with the `path` or option."""
    if not isinstance(value, str) or not re.fullmatch(r"\d+\.\d+\.\d+([.-][A-Za-z0-9][\w.-]*)?", value):
        raise ConfigurationError(
            f"{path} {value!r} is not a Kafka release; write it as in 4.3.1, or as a build of your own is called in "
            "your Maven repository, as in 4.4.0-SNAPSHOT"
        )
    return value


def release_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers in front of a version: (4, 3, 1) of 4.3.1, (4, 4, 0) of 4.4.0-SNAPSHOT; none of no version."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _client_version(path: str, value: object) -> str:
    """Return a release of confluent-kafka. Raises ConfigurationError."""
    if not isinstance(value, str) or not re.fullmatch(r"\d+\.\d+\.\d+", value):
        raise ConfigurationError(f"{path} {value!r} is no release of confluent-kafka; write it as in 2.11.0")
    return value


def _image(path: str, value: object) -> str:
    """Return the name of an image. Raises ConfigurationError."""
    if not isinstance(value, str) or not re.fullmatch(r"[\w.\-/:@]+", value):
        raise ConfigurationError(f'{path} = {value!r} must name an image, as in "apache/kafka:4.3.1"')
    return value


def home(path: str, value: object) -> str:
    """Return where a build of Kafka is. Raises ConfigurationError."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{path} = {value!r} must name a folder or an archive of Kafka")
    return value.strip()


def _options(path: str, value: object) -> tuple[str, ...]:
    """Return options of a JVM, which may stand in one text. Raises ConfigurationError."""
    options = value.split() if isinstance(value, str) and value.startswith("-") else value
    if not isinstance(options, list | tuple) or not all(
        isinstance(option, str) and re.match(r"-\S+$", option) for option in options
    ):
        raise ConfigurationError(f'{path} = {value!r} must be a list of texts like "-Xmx1g"')
    return tuple(options)


PATHS: Mapping[str, _Path] = {
    "record.bytes": _Path(_whole(1 << 30), _own("record_bytes")),
    "record.payload": _Path(_payload, _own("payload")),
    "record.keys": _Path(_keys, _own("keys")),
    "load.rate": _Path(_rate, _lay_rate),
    "load.records": _Path(_whole(MOST), _load("records")),
    "load.level-p99-ms": _Path(_amount(0.01, 1e6, "ms"), _load("level_p99_ms")),
    "link": _Path(_link, lambda scenario, value: replace(scenario, link=LINKS[value])),
    "topic.partitions": _Path(_whole(100_000), _part("topic", "partitions")),
    "topic.replicas": _Path(_whole(100), _part("topic", "replication_factor")),
    "producers.processes": _Path(_whole(1000), _own("producers")),
    "producers.threads": _Path(_whole(1000), _own("threads")),
    "producers.transaction.ms": _Path(_amount(0, MOST_TRANSACTION_MS, "ms"), _own("transaction_ms")),
    "consumers.groups": _Path(_whole(100), _part("consumers", "groups")),
    "consumers.processes": _Path(_whole(1000), _part("consumers", "processes")),
    "consumers.threads": _Path(_whole(1000), _part("consumers", "threads")),
    "consumers.membership": _Path(_membership, _part("consumers", "membership")),
    "client.version": _Path(_client_version, _own("client_version")),
    "cluster.brokers": _Path(_whole(100), _cluster(brokers=...)),
    "cluster.controllers": _Path(_whole(9), _cluster(controllers=...)),
    # Another version is another official image, whatever image the scenario is run on otherwise.
    "cluster.version": _Path(release, _cluster(kafka_version=..., image="", home="")),
    "cluster.image": _Path(_image, _lay_image),
    "cluster.home": _Path(home, _cluster(home=..., image="")),
    "cluster.jvm": _Path(_options, _cluster(jvm_options=...)),
    "cluster.cpus": _Path(_amount(0.05, 1024, "cores"), _cluster(cpus_per_broker=...)),
    "cluster.log-dirs": _Path(_whole(16), _cluster(log_dirs=...)),
    "cluster.security": _Path(_security, _cluster(security=...)),
    "cluster.memory-mib": _Path(_whole(1 << 24), _cluster(memory_mib_per_broker=...)),
}
LEGAL = (*PATHS, *(f"{scope}.<Kafka setting>" for scope in SETTINGS))


def setting_of(path: str) -> tuple[str, str] | None:
    """Return scope and name of the Kafka setting that a path names, or None when it names none."""
    scope, _, name = path.partition(".")
    return (scope, name) if scope in SETTINGS and name and path not in PATHS else None


def read_value(path: str, value: object) -> Any:
    """Return what a person wrote as the path's value. Raises ConfigurationError with what is legal."""
    if path in PATHS:
        return PATHS[path].read(path, value)
    if setting_of(path) is None:
        raise ConfigurationError(f"unknown path {path!r}; legal: {', '.join(LEGAL)}")
    if not isinstance(value, str | int | float | bool):
        raise ConfigurationError(f"{path} = {value!r} must be a text, a number, true or false")
    return str(value).lower() if isinstance(value, bool) else str(value)


def beside_the_point(scenario: Scenario, path: str) -> str:
    """Return why a change of this path changes nothing of the scenario, whatever the value; empty where it may."""
    if path.startswith(("consumer.", "consumers.")) and scenario.consumers is None:
        return "it has no consumers"
    scope, _, field = path.partition(".")
    return scenario.load.lacks(field.replace("-", "_")) if scope == "load" else ""


def with_changes(scenario: Scenario, changes: Iterable[tuple[str, object]]) -> Scenario:
    """Return the scenario with every change laid over it, in their order.

    Raises ConfigurationError for an unknown path or an illegal value. What concerns consumers changes nothing where
    there are none.
    """
    for path, given in changes:
        value = read_value(path, given)
        if path in PATHS:
            scenario = PATHS[path].lay(scenario, value)
            continue
        scope, name = path.split(".", 1)
        change = {name: value}
        if scope == "producer":
            scenario = replace(scenario, producer=with_settings(scenario.producer, change))
        elif scope == "broker":
            scenario = _cluster(config=...)(scenario, with_settings(scenario.cluster.config, change))
        else:
            part = "topic" if scope == "topic" else "consumers"
            whole: Any = getattr(scenario, part)
            if whole is not None:
                scenario = _part(part, "config")(scenario, with_settings(whole.config, change))
    return scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Command lines of the shell that make a change, and unmake it; each is bounded by `timeout_s`."""

    apply: str
    revert: str
    ready: str = ""
    """Ends with 0 once the brokers are as they should be; asked again until then, after the other two."""
    timeout_s: float = 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One change whose effect is asked for. Without `changes` a scenario is compared with itself."""

    name: str
    changes: Changes = ()
    commands: Commands | None = None
    """What makes the change outside of what the suite can change."""
    cluster_file: str = ""
    """The target file of real brokers on which the changed side is measured; empty: those of the run."""
    on_pairs: bool = False
    """Whether it is measured on pairs of clusters, one a side, although the same brokers could serve both."""

    def settings(self, scope: str) -> Settings:
        """Return the Kafka settings of this scope that it changes."""
        named = ((setting_of(path), value) for path, value in self.changes)
        return tuple((found[1], str(value)) for found, value in named if found and found[0] == scope)

    @property
    def records_pairs(self) -> bool:
        """Whether it changes nothing on pairs of clusters: what these scatter by is asked for, not a decision."""
        return self.on_pairs and not self.changes

    @property
    def concerns_brokers(self) -> bool:
        """Whether it changes the brokers themselves; what it takes to do so is theirs to say."""
        return self.restarts_brokers or bool(self.settings("broker"))

    @property
    def restarts_brokers(self) -> bool:
        """Whether brokers have to be started anew for it, whichever settings they change while they run."""
        return any(path.startswith("cluster.") for path, _ in self.changes)

    @property
    def concerns_consumers(self) -> bool:
        """Whether it says something of consumers, so that a scenario without any is not concerned."""
        return any(path.startswith(("consumer.", "consumers.")) for path, _ in self.changes)

    @property
    def concerns_sending_alone(self) -> bool:
        """Whether it says nothing of what is sent, of brokers or of consumers; how batches are compressed is what."""
        how = [path.startswith("producer") and "compression" not in path for path, _ in self.changes]
        return bool(how) and all(how)


def changed(scenario: Scenario, change: Change) -> Scenario:
    """Return the scenario with the change: the candidate that is compared with it as declared."""
    return with_changes(scenario, change.changes)
