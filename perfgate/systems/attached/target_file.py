"""The target file of real brokers, as far as it is the same for every system: read strictly."""

from __future__ import annotations

import hashlib
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self

from perfgate.host.ports import is_this_machine
from perfgate.load.hosts_file import HostsFile
from perfgate.model import MIB, Settings, System
from perfgate.model.errors import ConfigurationError
from perfgate.model.pages import page
from perfgate.model.secret import Secret, redacted
from perfgate.model.structured import toml_of
from perfgate.model.target import ACTIONS, PREFIX
from perfgate.systems.attached.command_faults import FaultCommands
from perfgate.systems.attached.stated import SECRET_HEADERS, SECRET_SETTINGS, as_stated, is_elsewhere, resolved

AT_THE_TOP = "at the top of the file, before any [table]"
CLEAR_URL = re.compile(r"http://(?!(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]*)?(/|\Z))", re.IGNORECASE)
"""Clear text over a network; this machine's own loopback is none, but a name that begins like it is."""
FAULT_TIMEOUT_S = 60.0
NO_FAULTS = FaultCommands({}, FAULT_TIMEOUT_S)
MOST_BROKERS = 10_000
USUAL_PARTITIONS = 300
"""Of a round's topics, replicas counted, where a file states nothing: each round makes them anew."""
USUAL_TOPICS = 10
SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)\s*")
UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
TABLES = ("zones", "limits", "broker-config", "prometheus", "faults")
OF_EVERY_SYSTEM: Mapping[str, str] = {
    "name": "what results and thresholds call it (default: the file's name)",
    "cluster-id": "required id of the cluster; left out: any",
    "brokers": "required number of brokers; left out: any number",
    "profile": "the thresholds file that it is held against, whatever the machine",
    "insecure": "true: a password or token may go in clear text",
    "on-this-host": "true: they share this machine's cores (default: by their addresses)",
    "dedicated": "true: they have no other load while a run lasts, so that what they fail to do is BROKEN",
}
"""Keys that stand above all tables, with their meaning."""
LIMITS: Mapping[str, str] = {
    "bytes": "most that a run writes, replicas counted, as in `60 GB`; required",
    "mib-per-s": "most that it writes in a second, replicas counted (MiB); required",
    "read-mib-per-s": "most that its consumers read in a second (MiB)",
    "partitions": f"most partitions of a round's topics, replicas counted (default: {USUAL_PARTITIONS})",
    "minutes": "a run is stopped after so long",
    "produce-error-rate": "share of sends that may fail before a run stops (default: 0)",
    "transactions": "true: it may write in transactions, whose ids brokers keep for days",
    "time-outs": "true: scenarios may run that offer more than the brokers take",
}
BROKER_CONFIG: Mapping[str, str] = {"allowed": "true: a change may set dynamic settings of brokers, and puts them back"}
FAULTS: Mapping[str, str] = {
    **{action: f"command that does it to {{broker}} at {{host}}:{{port}}: {action}" for action in ACTIONS},
    "timeout-s": f"how long a command may take (s; default: {FAULT_TIMEOUT_S:g})",
    "brokers": "ids of brokers that faults may take away (default: any)",
    "two-down": "true: two may be away at once",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits of a run, replicas counted: bytes in all, bytes/s, how long; and when it stops at once."""

    total_bytes: float
    bytes_per_s: float
    read_bytes_per_s: float = math.inf
    partitions: int = USUAL_PARTITIONS
    topics: int = USUAL_TOPICS
    most_s: float = math.inf
    under_replicated: int = 0
    error_rate: float = 0.0
    transactions: bool = False
    time_outs: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Described(ABC):
    """Real brokers as their file describes them. `bootstrap`: where a client with the settings `client` begins."""

    system: ClassVar[System]
    name: str
    path: Path
    bootstrap: str
    client: Settings
    limits: Limits
    cluster_id: str = ""
    """Required id of the cluster; empty: any."""
    brokers: int = 0
    """Required number of brokers; 0: any."""
    profile: str = ""
    version: str = ""
    """The system's, where the file states it."""
    stated_on_this_host: bool | None = None
    """Stated where addresses do not show it, as those of containers; None: not stated."""
    dedicated: bool = False
    """Whether the brokers have no other clients while a run lasts: their failures are their own then."""
    topic_prefix: str = ""
    """In front of PREFIX in the names of topics, groups and transactional ids, for users with a prefix of their own."""
    cross_zone_bootstrap: str = ""
    broker_config_allowed: bool = False
    prometheus: Mapping[str, Any] = field(default_factory=dict)
    faults: FaultCommands = NO_FAULTS
    """By action on a broker; their lines have {host}, {port} and {broker}."""
    fault_brokers: tuple[int, ...] = ()
    """Those that faults may take away; empty: any."""
    two_down_allowed: bool = False
    left_out: tuple[str, ...] = ()
    """Unused settings of a Java client's properties, with the reason."""

    @property
    def prefix(self) -> str:
        return f"{self.topic_prefix}{PREFIX}"

    @property
    def identity(self) -> str:
        """Identity of the cluster before it is connected: this file, and the servers that it names."""
        return f"{self.path.resolve()} {self.bootstrap}"

    @property
    def connection_digest(self) -> str:
        """Digest of how clients connect, secrets left out: figures of another way are not comparable."""
        client = [(key, value) for key, value in self.client if not SECRET_SETTINGS.fullmatch(key)]
        ways = (self.bootstrap, self.cross_zone_bootstrap, self.on_this_host, client)
        return hashlib.sha256(repr(ways).encode()).hexdigest()[:12]

    @property
    @abstractmethod
    def servers(self) -> tuple[str, ...]:
        """Host:port of each server that a client begins with."""

    @property
    @abstractmethod
    def weaknesses(self) -> tuple[str, ...]:
        """Checks that its connections lack, for a person."""

    @abstractmethod
    def permissions(self, *, transactions: bool, broker_config: bool, faults: bool) -> list[str]:
        """Permissions that its owner has to grant for a run with these."""

    @abstractmethod
    def _for_others(self, file: HostsFile) -> Self:
        """Return the target as load hosts need it, where not all are this machine. Raises ConfigurationError."""

    def for_load_hosts(self, file: HostsFile) -> Self:
        """Return the target as the hosts of a file need it, with the same servers in a real other zone."""
        target = self if file.here else self._for_others(file)
        return replace(target, cross_zone_bootstrap=target.bootstrap) if file.zones.real else target

    @property
    def on_this_host(self) -> bool:
        """Whether the brokers share this machine's cores: as stated, or because all servers are its own."""
        if self.stated_on_this_host is not None:
            return self.stated_on_this_host
        return all(is_this_machine(server.rpartition(":")[0].strip("[]")) for server in self.servers)


@contextmanager
def reading(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield a target file's document. Errors inside name the file, and never a secret's value."""
    document = toml_of(path, f"target file {path}", missing=f"{page('targets')} has an example")
    try:
        yield document
    except ConfigurationError as error:
        raise ConfigurationError(redacted(f"target file {path}: {error}")) from None


def tables_of(document: Mapping[str, Any], legal: Mapping[str, Sequence[str]]) -> dict[str, Table]:
    """Return the document's tables by name, "" for what stands above all. Raises ConfigurationError for other keys."""
    tables: dict[str, Table] = {}
    for table, keys in legal.items():
        tables[table] = Table(document, table)
        for key in tables[table].values:
            if key not in keys:
                where = f"[{table}] has" if table else "there is an"
                above = f"; {key} stands {AT_THE_TOP}" if table and key in legal[""] else ""
                raise ConfigurationError(f"{where} unknown key {key!r}; legal: {', '.join(keys)}{above}")
    return tables


def of_every_system(path: Path, document: Mapping[str, Any], tables: Mapping[str, Table]) -> dict[str, Any]:
    """Return the fields of :class:`Described` whose keys every system has. Raises ConfigurationError."""
    top, faults = tables[""], tables["faults"]
    return {
        "name": top.text("name", path.stem, empty=False),
        "path": path,
        "limits": limits_of(tables["limits"]),
        "brokers": top.count("brokers", MOST_BROKERS),
        "profile": top.text("profile"),
        "stated_on_this_host": top.flag("on-this-host") if "on-this-host" in document else None,
        "dedicated": top.flag("dedicated"),
        "broker_config_allowed": tables["broker-config"].flag("allowed"),
        "faults": FaultCommands(faults_of(faults.values), faults.number("timeout-s", FAULT_TIMEOUT_S, 1, 3600)),
        "fault_brokers": faults.ids("brokers"),
        "two_down_allowed": faults.flag("two-down"),
    }


def holds_a_secret(prometheus: Mapping[str, Any]) -> bool:
    """Whether a table that :func:`prometheus_of` has resolved sends a password or token."""
    headers = prometheus.get("headers")
    values = (*prometheus.values(), *(headers.values() if isinstance(headers, dict) else ()))
    return any(isinstance(value, Secret) for value in values)


def prometheus_of(folder: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table with its secrets resolved; :mod:`perfgate.metrics.prometheus_source` checks the rest."""
    settings = dict(table)
    for key in ("username", "password", "token"):
        if key in table:
            value = resolved(folder, key, table[key], where="[prometheus]")
            settings[key] = (
                as_stated(key, value, elsewhere=is_elsewhere(table[key])) if key == "username" else Secret(value)
            )
    if isinstance(headers := table.get("headers"), dict):
        settings["headers"] = {
            # A tenant's name is no secret, and would be masked in half of what a run writes.
            n: Secret(text) if isinstance(v, dict) or SECRET_HEADERS.fullmatch(n) else text
            for n, v in headers.items()
            for text in [resolved(folder, n, v, where="[prometheus] headers")]
        }
    return settings


def faults_of(table: Mapping[str, Any]) -> dict[str, str]:
    commands = {name: value for name, value in table.items() if name in ACTIONS}
    for name, value in commands.items():
        if not isinstance(value, str) or not value.strip():
            raise ConfigurationError(f"[faults] {name} must be a command line")
        try:
            value.format(host="", port="", broker=0)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise ConfigurationError(
                f"[faults] {name}: only {{host}}, {{port}} and {{broker}} stand for something; write {{{{ for a brace"
            ) from None
    return commands


def limits_of(table: Table) -> Limits:
    missing = [key for key in ("bytes", "mib-per-s") if key not in table.values]
    if missing:
        raise ConfigurationError(
            f"[limits] lacks {' and '.join(missing)}: say how much a run may write, replicas counted, "
            'as in: bytes = "20 GB", mib-per-s = 50'
        )
    size = SIZE.fullmatch(str(table.values["bytes"]))
    if not size:
        raise ConfigurationError(f'[limits] bytes = {table.values["bytes"]!r} must be a size, as in "20 GB"')
    return Limits(
        total_bytes=float(size[1]) * UNITS[size[2]],
        bytes_per_s=table.number("mib-per-s", 0, 0.001, 1e6) * MIB,
        read_bytes_per_s=table.number("read-mib-per-s", math.inf, 0.001, 1e6) * MIB,
        partitions=int(table.number("partitions", USUAL_PARTITIONS, 1, 1e6)),
        topics=int(table.number("topics", USUAL_TOPICS, 1, 1e6)),
        most_s=table.number("minutes", math.inf, 1, 1e5) * 60,
        under_replicated=int(table.number("under-replicated-partitions", 0, 0, 1e6)),
        error_rate=table.number("produce-error-rate", 0, 0, 1),
        transactions=table.flag("transactions"),
        time_outs=table.flag("time-outs"),
    )


class Table:
    """A table of the file, read strictly: each error names key, value and what is legal."""

    def __init__(self, document: Mapping[str, Any], name: str = "") -> None:
        self.values: Mapping[str, Any] = document.get(name, {}) if name else document
        self._at = f"[{name}] " if name else ""
        if not isinstance(self.values, dict):
            raise ConfigurationError(f"{name} must be a table [{name}]")

    def _fail(self, key: str, value: object, must: str) -> NoReturn:
        raise ConfigurationError(f"{self._at}{key} = {value!r} must {must}")

    def text(self, key: str, default: str = "", *, empty: bool = True) -> str:
        value = self.values.get(key, default)
        may_lack = empty or key not in self.values
        if not isinstance(value, str) or not (value.strip() or may_lack) or "\n" in value or len(value) > 80:
            self._fail(key, value, "be a short text")
        return value.strip()

    def prefix(self, key: str) -> str:
        value = self.values.get(key, "")
        if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9._-]{0,60}", value):
            self._fail(key, value, "be up to 60 letters, digits, dots, hyphens and underscores")
        return value

    def servers(self, key: str, default: str | None = None) -> str:
        value = self.values.get(key, default)
        servers = value.split(",") if isinstance(value, str) else value
        if not isinstance(servers, list) or not servers or not all(map(_is_server, servers)):
            self._fail(key, value, 'name servers, as in "kafka-1:9093,kafka-2:9093"')
        return ",".join(server.strip() for server in servers)

    def ids(self, key: str) -> tuple[int, ...]:
        value = self.values.get(key, [])
        named = isinstance(value, list) and all(type(broker) is int for broker in value)
        if not named or (key in self.values and not value):  # an empty list would allow all
            self._fail(key, value, "list broker ids, as in [1, 2]")
        return tuple(value)

    def flag(self, key: str) -> bool:
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            self._fail(key, value, "be true or false")
        return value

    def count(self, key: str, at_most: int) -> int:
        value = self.values.get(key, 0)
        if key in self.values and not (type(value) is int and 1 <= value <= at_most):
            self._fail(key, value, f"be a whole number from 1 to {at_most}")
        return int(value)

    def number(self, key: str, default: float, at_least: float, at_most: float) -> float:
        value = self.values.get(key, default)
        if key in self.values and not (type(value) in (int, float) and at_least <= value <= at_most):
            self._fail(key, value, f"be a number from {at_least:g} to {at_most:g}")
        return float(value)


def _is_server(server: object) -> bool:
    return isinstance(server, str) and re.fullmatch(r"\s*(\[[0-9a-fA-F:]+\]|[\w.-]+):\d{1,5}\s*", server) is not None
