"""The target file of real brokers: read strictly, with its secrets in the environment or in separate files."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from perfgate.host.ports import is_this_machine
from perfgate.load.hosts_file import HostsFile
from perfgate.model import MIB, Settings
from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import Secret, redacted
from perfgate.model.structured import toml_of
from perfgate.model.target import ACTIONS, PREFIX
from perfgate.systems.kafka.attached.client_settings import (
    SECRET_HEADERS,
    SECRET_SETTINGS,
    as_stated,
    inlined,
    is_elsewhere,
    refuse_unknown_settings,
    refuse_what_is_no_client,
    resolved,
)
from perfgate.systems.kafka.attached.java_properties import Convert, Translated, read_properties, translated
from perfgate.systems.kafka.client import iam

_LEGAL = {
    "": "name bootstrap-servers cluster-id brokers insecure profile kafka-version on-this-host dedicated topic-prefix "
    "client zones limits broker-config prometheus faults",
    "zones": "cross-zone",
    "faults": f"{' '.join(ACTIONS)} timeout-s brokers two-down",
    "limits": "bytes mib-per-s read-mib-per-s partitions minutes under-replicated-partitions produce-error-rate "
    "transactions time-outs",
    "broker-config": "allowed",
}
LEGAL: Mapping[str, Sequence[str]] = {table: keys.split() for table, keys in _LEGAL.items()}
AT_THE_TOP = "at the top of the file, before any [table]"
PROPERTIES_FILE = "properties-file"
CONNECTION = re.compile(
    r"security\.protocol|(sasl|ssl|enable\.ssl|socket|broker\.address|reconnect\.backoff|retry\.backoff)\..+"
    r"|enable\.sasl\..+|client\.(id|rack|dns\.lookup)|metadata\.max\.age\.ms|topic\.metadata\..+|bootstrap\.servers"
    r"|connections\.max\.idle\.ms|api\.version\..+|broker\.version\.fallback|request\.timeout\.ms"
    r"|log\.connection\.close|metadata\.recovery\..+|enable\.metrics\.push|https\..+"
)
"""Settings that a client needs to connect, in librdkafka's names."""
CLIENT_ID = "kafka-perf-gate"
"""The suite's clients unless the file says otherwise: a quota can be put on it."""
CLEAR_URL = re.compile(r"http://(?!(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]*)?(/|\Z))", re.IGNORECASE)
"""Clear text over a network; this machine's own loopback is none, but a name that begins like it is."""
FAULT_TIMEOUT_S = 60.0
MOST_BROKERS = 10_000
USUAL_PARTITIONS = 300
"""Of one topic, replicas counted, where a file states nothing: each round makes such a topic anew."""
SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)\s*")
UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits of a run, replicas counted: bytes in all, bytes/s, how long; and when it stops at once.

    `read_bytes_per_s`: of its consumers. `partitions`: of one topic. `under_replicated`: partitions anywhere in the
    cluster. `error_rate`: share of failed sends. `transactions`: whether it may write in transactions, whose ids the
    brokers keep for days. `time_outs`: whether scenarios may run that offer more than the brokers take.
    """

    total_bytes: float
    bytes_per_s: float
    read_bytes_per_s: float = math.inf
    partitions: int = USUAL_PARTITIONS
    most_s: float = math.inf
    under_replicated: int = 0
    error_rate: float = 0.0
    transactions: bool = False
    time_outs: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class DescribedTarget:
    """Real brokers as their file describes them. `client` holds librdkafka's settings, secrets among them."""

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
    kafka_version: str = ""
    stated_on_this_host: bool | None = None
    """Stated where addresses do not show it, as those of containers; None: not stated."""
    dedicated: bool = False
    """Whether the brokers have no other clients while a run lasts: their failures are their own then."""
    topic_prefix: str = ""
    """In front of PREFIX in the names of topics, groups and transactional ids, for users of one prefix."""
    cross_zone_bootstrap: str = ""
    broker_config_allowed: bool = False
    prometheus: Mapping[str, Any] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    """Command lines by action on a broker, with {host}, {port} and {broker}."""
    fault_timeout_s: float = FAULT_TIMEOUT_S
    fault_brokers: tuple[int, ...] = ()
    """Those that faults may take away; empty: any."""
    two_down_allowed: bool = False
    left_out: tuple[str, ...] = ()
    """Unused settings of a Java client's properties, with the reason."""

    @property
    def prefix(self) -> str:
        """Of the names of topics, groups and transactional ids of runs."""
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
    def weaknesses(self) -> tuple[str, ...]:
        """Checks that its connections lack, for a person."""
        client, found = dict(self.client), []
        protocol = client.get("security.protocol", "plaintext").lower()
        for part in ("sasl", "ssl"):
            stated = next((name for name in client if name.startswith(f"{part}.")), "")
            if stated and part not in protocol.split("_"):
                found.append(f"{stated} and the like have no effect: security.protocol is {protocol.upper()}")
        if protocol in ("ssl", "sasl_ssl"):
            if client.get("enable.ssl.certificate.verification", "true").lower() == "false":
                found.append("the brokers' certificates are not verified: whoever answers there is believed")
            elif client.get("ssl.endpoint.identification.algorithm", "https") == "none":
                found.append("the host names in the brokers' certificates are not verified")
        return tuple(found)

    @property
    def on_this_host(self) -> bool:
        """Whether the brokers share this machine's cores: as stated, or because all bootstrap servers are its own."""
        if self.stated_on_this_host is not None:
            return self.stated_on_this_host
        return all(is_this_machine(server.rpartition(":")[0].strip("[]")) for server in self.bootstrap.split(","))


def load_target(path: Path, convert: Convert) -> DescribedTarget:
    """Return the described target. Raises ConfigurationError naming file, table and key, never a secret's value."""
    document = toml_of(path, f"target file {path}", missing="docs/targets.md has an example")
    try:
        return _described(path, document, convert)
    except ConfigurationError as error:
        raise ConfigurationError(redacted(f"target file {path}: {error}")) from None


def _described(path: Path, document: Mapping[str, Any], convert: Convert) -> DescribedTarget:
    tables: dict[str, _Table] = {}
    for table, legal in LEGAL.items():
        tables[table] = _Table(document, table)
        for key in tables[table].values:
            if key not in legal:
                where = f"[{table}] has" if table else "there is an"
                above = f"; {key} stands {AT_THE_TOP}" if table and key in LEGAL[""] else ""
                raise ConfigurationError(f"{where} unknown key {key!r}; legal: {', '.join(legal)}{above}")
    top, zones, faults = tables[""], tables["zones"], tables["faults"]
    # Before `convert` starts a process, which is not to inherit what the environment holds for either.
    prometheus = _prometheus(path.parent, _Table(document, "prometheus").values)
    client, left_out = _client(path.parent, _Table(document, "client").values, convert)
    bootstrap = top.servers("bootstrap-servers", client.pop("bootstrap.servers", None))
    commands = _faults(faults.values)
    refuse_unknown_settings(client)
    refuse_what_is_no_client(client, bootstrap)
    _refuse_clear_secrets(client, prometheus, insecure=top.flag("insecure"))
    return DescribedTarget(
        name=top.text("name", path.stem, empty=False),
        path=path,
        bootstrap=bootstrap,
        client=tuple(sorted(client.items())),
        limits=_limits(tables["limits"]),
        cluster_id=top.text("cluster-id"),
        brokers=top.count("brokers", MOST_BROKERS),
        profile=top.text("profile"),
        kafka_version=top.text("kafka-version"),
        stated_on_this_host=top.flag("on-this-host") if "on-this-host" in document else None,
        dedicated=top.flag("dedicated"),
        topic_prefix=top.prefix("topic-prefix"),
        cross_zone_bootstrap=zones.servers("cross-zone") if "cross-zone" in zones.values else "",
        broker_config_allowed=tables["broker-config"].flag("allowed"),
        prometheus=prometheus,
        faults=commands,
        fault_timeout_s=faults.number("timeout-s", FAULT_TIMEOUT_S, 1, 3600),
        fault_brokers=faults.ids("brokers"),
        two_down_allowed=faults.flag("two-down"),
        left_out=left_out,
    )


def _client(folder: Path, table: Mapping[str, Any], convert: Convert) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the client's settings: those of a Java properties file, then those stated here, which win.

    Second, notes on what of that file is not used.
    """
    values = {name: resolved(folder, name, value) for name, value in table.items()}
    found = Translated({})
    if location := values.pop(PROPERTIES_FILE, ""):
        properties = {
            name: as_stated(name, value, elsewhere=False) for name, value in read_properties(folder / location).items()
        }
        try:
            found = translated(properties, convert)
        except ConfigurationError as error:
            raise ConfigurationError(f"{folder / location}: {error}") from None
    for name in values:
        if name in LEGAL[""]:
            raise ConfigurationError(f"[client] {name}: it stands {AT_THE_TOP}")
        if not CONNECTION.fullmatch(name):
            raise ConfigurationError(
                f"[client] {name}: only what a client needs to connect belongs here (security.protocol, sasl.*, ssl.*, "
                "socket.*, client.id and the like); what a producer or consumer does is the scenario's: --set "
                f"producer.{name}=VALUE, or a change file for --compare"
            )
    client = {
        name: as_stated(name, value, elsewhere=is_elsewhere(table.get(name)))
        for name, value in {"client.id": CLIENT_ID, **found.settings, **values}.items()
    }
    return client, tuple(f"{location}: {note}" for note in found.notes)


def _prometheus(folder: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table with its secrets resolved; :mod:`perfgate.metrics.prometheus_source` checks the rest."""
    found = dict(table)
    for key in ("username", "password", "token"):
        if key in table:
            value = resolved(folder, key, table[key], where="[prometheus]")
            found[key] = (
                as_stated(key, value, elsewhere=is_elsewhere(table[key])) if key == "username" else Secret(value)
            )
    if isinstance(headers := table.get("headers"), dict):
        found["headers"] = {
            # A tenant's name is none, and would be found in half of what a run writes.
            n: Secret(text) if isinstance(v, dict) or SECRET_HEADERS.fullmatch(n) else text
            for n, v in headers.items()
            for text in [resolved(folder, n, v, where="[prometheus] headers")]
        }
    return found


def _refuse_clear_secrets(client: Mapping[str, str], prometheus: Mapping[str, Any], *, insecure: bool) -> None:
    tokens = ("sasl.oauthbearer.token.endpoint.url", client.get("sasl.oauthbearer.token.endpoint.url", ""))
    secret = any(isinstance(value, Secret) for value in (*prometheus.values(), *prometheus.get("headers", {}).values()))
    for name, url in (tokens, ("[prometheus] url", str(prometheus.get("url", "")) if secret else "")):
        if CLEAR_URL.match(url) and not insecure:
            raise ConfigurationError(
                f"{name} is http: a password or token would go there in clear text: use https, or, knowing that anyone "
                f"on the way can read it, state insecure = true {AT_THE_TOP}"
            )
    mechanism, protocol = iam.mechanism_of(client), client.get("security.protocol", "plaintext").lower()
    if protocol == "sasl_plaintext" and mechanism in ("PLAIN", "OAUTHBEARER", iam.MECHANISM) and not insecure:
        what = "the password" if mechanism == "PLAIN" else "the token"
        raise ConfigurationError(
            f'[client] security.protocol = "SASL_PLAINTEXT" with {mechanism} sends {what} in clear text: use SASL_SSL, '
            f"or, knowing that anyone on the way can read it, state insecure = true {AT_THE_TOP}"
        )


def _faults(table: Mapping[str, Any]) -> dict[str, str]:
    commands = {name: value for name, value in table.items() if name in ACTIONS}
    for name, value in commands.items():
        if not isinstance(value, str) or not value.strip():
            raise ConfigurationError(f"[faults] {name} must be a command line")
        try:
            value.format(host="", port="", broker="")
        except (KeyError, IndexError, ValueError):
            raise ConfigurationError(
                f"[faults] {name}: only {{host}}, {{port}} and {{broker}} stand for something; write {{{{ for a brace"
            ) from None
    return commands


def _limits(table: _Table) -> Limits:
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
        most_s=table.number("minutes", math.inf, 1, 1e5) * 60,
        under_replicated=int(table.number("under-replicated-partitions", 0, 0, 1e6)),
        error_rate=table.number("produce-error-rate", 0, 0, 1),
        transactions=table.flag("transactions"),
        time_outs=table.flag("time-outs"),
    )


def for_load_hosts(described: DescribedTarget, file: HostsFile | None) -> DescribedTarget:
    """Return the target as the hosts of the file need it; None: no file. Raises ConfigurationError.

    Clients in a real other zone use the same servers as the others.
    """
    if file is None:
        return described
    if iam.logs_in_by_iam(dict(described.client)) and not file.here:
        raise ConfigurationError(
            f"target file {described.path}: --hosts with {iam.MECHANISM}: each client signs with AWS credentials, and "
            "those of this machine are not taken to others; leave --hosts out or use local:N"
        )
    if not file.here and not file.scheduler:  # a scheduler's workers are refused settings to log in
        described = replace(described, client=inlined(described.client, described.path))
    return replace(described, cross_zone_bootstrap=described.bootstrap) if file.zones.real else described


class _Table:
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
        if not isinstance(value, str) or not (value.strip() or empty) or "\n" in value or len(value) > 80:
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
        if not isinstance(value, list) or not all(type(one) is int for one in value):
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
