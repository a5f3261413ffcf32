"""Changes of a scenario by dotted path: the same for declarations, `--set`, change files and what a run imposes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from perfgate.model.declared import (
    LINKS,
    MEMBERSHIPS,
    UNKNOWN_VERSION,
    Keys,
    Part,
    Payload,
    Scenario,
    Settings,
    with_settings,
)
from perfgate.model.errors import ConfigurationError
from perfgate.model.shape import read_shape
from perfgate.model.sizes import read_sizes
from perfgate.model.system import DEFAULT_VERSIONS, SYSTEM_NAMES, SYSTEMS, System

Changes = tuple[tuple[str, Any], ...]
"""Dotted paths with their values, in the order in which they apply."""
SETTING_FIELDS: Mapping[str, str] = {
    "producer": "producer",
    "consumer": "consumers.config",
    "topic": "topic.config",
    "broker": "cluster.config",
    "bookie": "cluster.bookie_config",
}
"""What stands before a setting's name in a path, and the scenario's field that holds such settings."""
SETTINGS = ("producer", "consumer", "topic", "broker")
SCOPES: Mapping[System, tuple[str, ...]] = {"kafka": SETTINGS, "pulsar": (*SETTINGS, "bookie")}
"""Of these, those of each system."""
MOST = 1_000_000_000
MOST_OF_KNEE = 2.0
MOST_TOPICS = 1_000
MOST_WORK_MS = 600_000
MOST_CONNECTIONS = 100_000
MOST_TRANSACTION_MS = 30_000
"""A quarter of the time after which brokers abort it (transaction.timeout.ms) where a scenario states none."""


@dataclass(frozen=True, slots=True)
class _Path:
    """How a path that is no setting of the system reads its value, and changes a scenario.

    `read` is a reader, or that of each system for which the path has a meaning; `only`: the single such system.
    `field`: that of the scenario, or of a part of it, which gets the value; empty: it is called as the path. `lay`:
    what changes the scenario, where that is not all.
    """

    read: Callable[[str, object], Any] | Mapping[System, Callable[[str, object], Any]]
    field: str = ""
    lay: Callable[[Scenario, Any], Scenario] | None = None
    only: System | None = None

    def reader(self, system: System) -> Callable[[str, object], Any]:
        return self.read[system] if isinstance(self.read, Mapping) else self.read


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
    match = SHARE_OF_KNEE.fullmatch(value) if isinstance(value, str) else None
    if match and 0 < float(match[1]) <= MOST_OF_KNEE:
        return _OfKnee(float(match[1]))
    try:
        return _amount(0.01, MOST, "records/s")(path, value)
    except ConfigurationError as error:
        reason = f'{error}, or a share of the knee, above 0 and up to {MOST_OF_KNEE:g}, as in "0.5 x knee"'
        raise ConfigurationError(reason) from None


def _lay_rate(scenario: Scenario, value: float | _OfKnee) -> Scenario:
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


def _payload(path: str, value: object) -> Payload:
    kind, _, ratio = str(value).partition(":")
    number = _number(ratio)
    if kind == "text" and number is not None and 1 <= number <= 100:
        return Payload(kind="text", ratio=number)
    if value != "random":
        raise ConfigurationError(
            f"{path} = {value!r} is no payload; legal: random, text:RATIO with a ratio of 1 to 100"
        )
    return Payload()


KEYS = re.compile(r"(zipf|newest):count=(\d+),exponent=(\d+(?:\.\d+)?)|hot:count=(\d+),share=(0?\.\d+)")
MOST_KEYS = 1_000_000
"""Of keys that are not each as often: the memory that a generator has for them."""
MOST_EXPONENT = 10.0


def _keys(path: str, value: object) -> Keys:
    number = _number(value)
    if number is not None and number == int(number) and 1 <= number <= MOST:
        return Keys(kind="set", count=int(number))
    if value in ("none", "random"):
        return Keys(kind="random" if value == "random" else "none")
    match = KEYS.fullmatch(str(value))
    count = int(match[2] or match[4]) if match else 0
    share = float(match[5] or 1) if match else 0.0
    if match is None or not (2 <= count <= MOST_KEYS and float(match[3] or 0) <= MOST_EXPONENT and share):
        raise ConfigurationError(
            f"{path} = {value!r} are no keys; legal: none, random, how many there are, zipf:count=N,exponent=X, "
            f"newest:count=N,exponent=X, hot:count=N,share=0.X, of 2 to {MOST_KEYS:,} keys and an exponent of at most "
            f"{MOST_EXPONENT:g}"
        )
    if match[1] is None:
        return Keys(kind="hot", count=count, share=share)
    return Keys(kind="zipf" if match[1] == "zipf" else "newest", count=count, exponent=float(match[3]))


def _one_of(thing: str, *legal: str) -> Callable[[str, object], str]:
    def read(path: str, value: object) -> str:
        if value not in legal:
            raise ConfigurationError(f"{path} = {value!r} is no {thing}; legal: {', '.join(legal)}")
        return str(value)

    return read


def _yes_or_no(path: str, value: object) -> bool:
    if str(value).lower() not in ("true", "false"):
        raise ConfigurationError(f"{path} = {value!r} must be true or false")
    return str(value).lower() == "true"


def _text(pattern: str, words: str) -> Callable[[str, object], str]:
    """Return a reader of texts of this pattern; `words`: the error for any other value, with what is legal."""

    def read(path: str, value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise ConfigurationError(words.format(path, value))
        return value

    return read


def _lay_image(scenario: Scenario, value: str) -> Scenario:
    """The version is the tag's, or that which is stated besides."""
    tag = re.search(r"\d+\.\d+\.\d+", value.rpartition("/")[2].partition(":")[2])
    stated = scenario.cluster.version
    version = tag[0] if tag else UNKNOWN_VERSION if stated == DEFAULT_VERSIONS[scenario.cluster.system] else stated
    return _with_cluster(scenario, image=value, home="", version=version)


def _with_cluster(scenario: Scenario, **fields: str) -> Scenario:
    cluster: Any = scenario.cluster
    return replace(scenario, cluster=replace(cluster, **fields))


def part_and_field(scenario: Scenario, field: str) -> tuple[Any, str]:
    """Return the part of a scenario that has this field (topic.count), if it has the part, and the field's own name."""
    part, _, name = field.rpartition(".")
    return getattr(scenario, part) if part else scenario, name


def _with_field(scenario: Scenario, field: str, value: Any) -> Scenario:
    """Return the scenario with this value, itself where it lacks the part, or has a load that does not take it."""
    whole, name = part_and_field(scenario, field)
    if whole is None or (whole is scenario.load and name not in whole.takes):
        return scenario
    part = replace(whole, **{name: value})
    changed: Scenario = part if whole is scenario else replace(scenario, **{field.partition(".")[0]: part})
    return changed


def _beside(lay: Callable[[Part, float], Part]) -> Callable[[Scenario, float], Scenario]:
    """Return a function that lays a value on every load beside a scenario's."""
    return lambda scenario, value: replace(scenario, beside=tuple(lay(part, value) for part in scenario.beside))


release = _text(
    r"\d+\.\d+\.\d+([.-][A-Za-z0-9][\w.-]*)?",
    "{} {!r} is not a Kafka release; write it as in 4.3.1, or as a build of your own is called in your Maven "
    "repository, as in 4.4.0-SNAPSHOT",
)
"""Checks a Kafka release, given with its path or option. Raises ConfigurationError."""
pulsar_release = _text(
    r"\d+\.\d+\.\d+([.-][A-Za-z0-9][\w.-]*)?", "{} {!r} is not a Pulsar release; write it as in 4.0.8"
)
"""Checks a Pulsar release, as `release` does."""


def release_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers in front of a version: (4, 4, 0) of 4.4.0-SNAPSHOT; none of no version."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def home(path: str, value: object) -> str:
    """Return the folder or archive of a build of Kafka. Raises ConfigurationError."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{path} = {value!r} must name a folder or an archive of Kafka")
    return value.strip()


def _options(path: str, value: object) -> tuple[str, ...]:
    options = value.split() if isinstance(value, str) and value.startswith("-") else value
    if not isinstance(options, list | tuple) or not all(
        isinstance(option, str) and re.match(r"-\S+$", option) for option in options
    ):
        raise ConfigurationError(f'{path} = {value!r} must be a list of texts like "-Xmx1g"')
    return tuple(options)


PATHS: Mapping[str, _Path] = {
    "record.bytes": _Path(
        _whole(1 << 30), "record_bytes", lambda scenario, value: replace(scenario, record_bytes=value, sizes=None)
    ),
    "record.payload": _Path(_payload, "payload"),
    "record.keys": _Path(_keys, "keys"),
    "record.sizes": _Path(
        read_sizes, "sizes", lambda scenario, value: replace(scenario, record_bytes=value.mean, sizes=value)
    ),
    "load.rate": _Path(_rate, lay=_lay_rate),
    "load.shape": _Path(read_shape, lay=lambda scenario, value: replace(scenario, load=scenario.load.in_shape(value))),
    "load.records": _Path(_whole(MOST)),
    "load.level-p99-ms": _Path(_amount(0.01, 1e6, "ms")),
    "link": _Path(_one_of("link", *LINKS), lay=lambda scenario, value: replace(scenario, link=LINKS[value])),
    "beside": _Path(
        _one_of("load beside it", "none"), lay=lambda scenario, _: replace(scenario, beside=()), only="kafka"
    ),
    "beside.rate": _Path(
        _amount(0.01, MOST, "records/s"),
        lay=_beside(lambda part, rate: replace(part, load=part.load.at_rate(rate))),
        only="kafka",
    ),
    "beside.quota-mib-per-s": _Path(
        _amount(0.001, 1e6, "MiB/s"),
        lay=_beside(lambda part, most: replace(part, quota_mib_per_s=most)),
        only="kafka",
    ),
    "topic.count": _Path(_whole(MOST_TOPICS), only="kafka"),
    "topic.partitions": _Path(_whole(100_000)),
    "topic.replicas": _Path(_whole(100), "topic.replication_factor"),
    "topic.ack-quorum": _Path(_whole(100), only="pulsar"),
    "producers.processes": _Path(_whole(1000), "producers"),
    "producers.threads": _Path(_whole(1000), "threads"),
    "producers.transaction.ms": _Path(_amount(0, MOST_TRANSACTION_MS, "ms"), "transaction_ms"),
    "crowd.connections": _Path(_whole(MOST_CONNECTIONS), only="kafka"),
    "crowd.idle": _Path(_whole(MOST_CONNECTIONS), only="kafka"),
    "consumers.groups": _Path(_whole(100)),
    "consumers.processes": _Path(_whole(1000)),
    "consumers.threads": _Path(_whole(1000)),
    "consumers.membership": _Path({system: _one_of("membership", *legal) for system, legal in MEMBERSHIPS.items()}),
    "consumers.work-ms": _Path(_amount(0, MOST_WORK_MS, "ms"), only="kafka"),
    "consumers.work-sigma": _Path(_amount(0, 5, "sigma"), only="kafka"),
    "consumers.work-per": _Path(_one_of("unit of work", "record", "batch"), only="kafka"),
    "consumers.pauses": _Path(_yes_or_no, only="kafka"),
    "consumers.commit-records": _Path(_whole(MOST), only="kafka"),
    "client.version": _Path(
        _text(r"\d+\.\d+\.\d+", "{} {!r} is no release of confluent-kafka; write it as in 2.11.0"),
        "client_version",
        only="kafka",
    ),
    "cluster.brokers": _Path(_whole(100)),
    "cluster.controllers": _Path(_whole(9), only="kafka"),
    "cluster.bookies": _Path(_whole(100), only="pulsar"),
    # Another version is another official image, whatever image the scenario is run on otherwise.
    "cluster.version": _Path(
        {"kafka": release, "pulsar": pulsar_release},
        lay=lambda scenario, value: _with_cluster(scenario, version=value, image="", home=""),
    ),
    "cluster.image": _Path(
        _text(r"[\w.\-/:@]+", '{} = {!r} must name an image, as in "apache/kafka:4.3.1"'), lay=_lay_image
    ),
    "cluster.home": _Path(
        home, lay=lambda scenario, value: _with_cluster(scenario, home=value, image=""), only="kafka"
    ),
    "cluster.jvm": _Path(_options, "cluster.jvm_options"),
    "cluster.cpus": _Path(_amount(0.05, 1024, "cores"), "cluster.cpus_per_broker"),
    "cluster.log-dirs": _Path(_whole(16), only="kafka"),
    "cluster.security": _Path(_one_of("security", "plaintext", "tls", "sasl-tls"), only="kafka"),
    "cluster.memory-mib": _Path(_whole(1 << 24), "cluster.memory_mib_per_broker"),
}


def field_of(path: str) -> str:
    """Return the field of a scenario that a path of PATHS is about, as in topic.replication_factor."""
    return PATHS[path].field or path.replace("-", "_")


def legal_paths(system: System) -> tuple[str, ...]:
    """Return the paths that have a meaning for this system."""
    own = (path for path, meaning in PATHS.items() if meaning.only in (None, system))
    return (*own, *(f"{scope}.<{SYSTEM_NAMES[system]} setting>" for scope in SCOPES[system]))


LEGAL = legal_paths("kafka")


def setting_of(path: str) -> tuple[str, str] | None:
    """Return scope and name of the setting that a path names; None where it names none."""
    scope, _, name = path.partition(".")
    return (scope, name) if any(scope in scopes for scopes in SCOPES.values()) and name and path not in PATHS else None


def not_of(system: System, path: str) -> str:
    """Return the reason why a path has no meaning for this system though it has for another; empty where it has."""
    of = [
        other
        for other in SYSTEMS
        if (PATHS[path].only in (None, other) if path in PATHS else path.partition(".")[0] in SCOPES[other])
    ]
    if not of or system in of or (path not in PATHS and setting_of(path) is None):
        return ""
    names = " and ".join(SYSTEM_NAMES[other] for other in of)
    return f"{path} has no meaning for {SYSTEM_NAMES[system]}: it is a path of {names}"


def read_value(path: str, value: object, system: System = "kafka") -> Any:
    """Return the value of a path as types. Raises ConfigurationError with what is legal for this system."""
    if why := not_of(system, path):
        raise ConfigurationError(f"{why}; legal: {', '.join(legal_paths(system))}")
    if path in PATHS:
        return PATHS[path].reader(system)(path, value)
    if setting_of(path) is None:
        raise ConfigurationError(f"unknown path {path!r}; legal: {', '.join(legal_paths(system))}")
    if not isinstance(value, str | int | float | bool):
        raise ConfigurationError(f"{path} = {value!r} must be a text, a number, true or false")
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_written(value: object, read: Any) -> Any:
    """Return a value as a change keeps it: as it was read, or as it was written where that is a type of the suite's.

    A change is read once more where it is laid, and stands in reports.
    """
    return read if isinstance(read, str | int | float | tuple) else value


def beside_the_point(scenario: Scenario, path: str) -> str:
    """Return the reason why no value of this path changes the scenario; empty where a value may."""
    if path.startswith(("consumer.", "consumers.")) and scenario.consumers is None:
        return "it has no consumers"
    if path.startswith("beside") and not scenario.beside:
        return "no load runs beside it"
    if path.startswith("crowd.") and scenario.crowd is None:
        return "it is no crowd of connections"
    scope, _, field = path.partition(".")
    return scenario.load.lacks(field.replace("-", "_")) if scope == "load" else ""


def with_changes(scenario: Scenario, changes: Iterable[tuple[str, object]]) -> Scenario:
    """Return the scenario with every change, in their order.

    Raises ConfigurationError for a path or value that is not legal for the scenario's system.
    """
    for path, given in changes:
        value = read_value(path, given, scenario.cluster.system)
        if path in PATHS:
            lay = PATHS[path].lay
            scenario = lay(scenario, value) if lay else _with_field(scenario, field_of(path), value)
            continue
        scope, name = path.split(".", 1)
        whole, field = part_and_field(scenario, SETTING_FIELDS[scope])
        if whole is not None:
            stated = with_settings(getattr(whole, field), {name: value})
            scenario = _with_field(scenario, SETTING_FIELDS[scope], stated)
    return scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Shell commands that apply and revert a change, each bounded by `timeout_s`."""

    apply: str
    revert: str
    ready: str = ""
    """Run after the other two, again and again until it ends with 0: the brokers are as they should be."""
    timeout_s: float = 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One change to measure. Without `changes` a scenario is compared with itself."""

    name: str
    changes: Changes = ()
    commands: Commands | None = None
    """What makes a change that the suite cannot make itself."""
    cluster_file: str = ""
    """The target file of real brokers on which the changed side is measured; empty: those of the run."""
    on_pairs: bool = False
    """Whether it is measured on pairs of clusters, one for each side, although the same brokers could serve both."""

    def settings(self, scope: str) -> Settings:
        named = ((setting_of(path), value) for path, value in self.changes)
        return tuple((setting[1], str(value)) for setting, value in named if setting and setting[0] == scope)

    @property
    def records_pairs(self) -> bool:
        """Whether it changes nothing, on pairs of clusters: their scatter is wanted, not a decision."""
        return self.on_pairs and not self.changes

    @property
    def concerns_brokers(self) -> bool:
        return self.restarts_brokers or bool(self.settings("broker"))

    @property
    def restarts_brokers(self) -> bool:
        """Whether brokers or bookies must be started anew for it: a bookie takes no setting while it runs."""
        return any(path.startswith(("cluster.", "bookie.")) for path, _ in self.changes)

    @property
    def concerns_consumers(self) -> bool:
        """Whether it changes nothing of a scenario without consumers."""
        return any(path.startswith(("consumer.", "consumers.")) for path, _ in self.changes)

    @property
    def concerns_sending_alone(self) -> bool:
        """Whether it changes only how records are sent; compression changes what is sent."""
        how = [path.startswith("producer") and "compression" not in path for path, _ in self.changes]
        return bool(how) and all(how)


def changed(scenario: Scenario, change: Change) -> Scenario:
    """Return the scenario with the change: the candidate that is compared with it as declared."""
    return with_changes(scenario, change.changes)
