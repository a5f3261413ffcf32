"""The target file of real brokers: read strictly, with its secrets in the environment or in separate files."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perfgate.host.ports import is_this_machine
from perfgate.load.hosts_file import HostsFile
from perfgate.model import MIB, Settings
from perfgate.model.errors import ConfigurationError
from perfgate.model.nodes import ACTIONS
from perfgate.model.secret import Secret, redacted
from perfgate.model.structured import toml_of
from perfgate.model.target import PREFIX
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
    for table, legal in LEGAL.items():
        for key in table_of(document, table) if table else document:
            if key not in legal:
                where = f"[{table}] has" if table else "there is an"
                above = f"; {key} stands {AT_THE_TOP}" if table and key in LEGAL[""] else ""
                raise ConfigurationError(f"{where} unknown key {key!r}; legal: {', '.join(legal)}{above}")
    # Before `convert` starts a process, which is not to inherit what the environment holds for either.
    prometheus = _prometheus(path.parent, table_of(document, "prometheus"))
    client, left_out = _client(path.parent, table_of(document, "client"), convert)
    bootstrap = servers_of(
        "bootstrap-servers", document.get("bootstrap-servers", client.pop("bootstrap.servers", None))
    )
    zones, broker_config = table_of(document, "zones"), table_of(document, "broker-config")
    by_command = table_of(document, "faults")
    timeout, faults = by_command.get("timeout-s", FAULT_TIMEOUT_S), _faults(by_command)
    refuse_unknown_settings(client)
    refuse_what_is_no_client(client, bootstrap)
    _refuse_clear_secrets(client, prometheus, insecure=flag_of("insecure", document.get("insecure", False)))
    return DescribedTarget(
        name=text_of("name", document.get("name", path.stem)),
        path=path,
        bootstrap=bootstrap,
        client=tuple(sorted(client.items())),
        limits=_limits(table_of(document, "limits")),
        cluster_id=text_of("cluster-id", document.get("cluster-id", ""), empty=True),
        brokers=count_of("brokers", document["brokers"], MOST_BROKERS) if "brokers" in document else 0,
        profile=text_of("profile", document.get("profile", ""), empty=True),
        kafka_version=text_of("kafka-version", document.get("kafka-version", ""), empty=True),
        stated_on_this_host=flag_of("on-this-host", document["on-this-host"]) if "on-this-host" in document else None,
        dedicated=flag_of("dedicated", document.get("dedicated", False)),
        topic_prefix=prefix_of("topic-prefix", document.get("topic-prefix", "")),
        cross_zone_bootstrap=servers_of("[zones] cross-zone", zones["cross-zone"]) if "cross-zone" in zones else "",
        broker_config_allowed=flag_of("[broker-config] allowed", broker_config.get("allowed", False)),
        prometheus=prometheus,
        faults=faults,
        fault_timeout_s=number_of("[faults] timeout-s", timeout, 1, 3600),
        fault_brokers=ids_of("[faults] brokers", by_command.get("brokers", [])),
        two_down_allowed=flag_of("[faults] two-down", by_command.get("two-down", False)),
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


def _limits(table: Mapping[str, Any]) -> Limits:
    missing = [key for key in ("bytes", "mib-per-s") if key not in table]
    if missing:
        raise ConfigurationError(
            f"[limits] lacks {' and '.join(missing)}: say how much a run may write, replicas counted, "
            'as in: bytes = "20 GB", mib-per-s = 50'
        )
    size = SIZE.fullmatch(str(table["bytes"]))
    if not size:
        raise ConfigurationError(f'[limits] bytes = {table["bytes"]!r} must be a size, as in "20 GB"')

    def number(key: str, default: float, at_least: float, at_most: float) -> float:
        return number_of(f"[limits] {key}", table[key], at_least, at_most) if key in table else default

    return Limits(
        total_bytes=float(size[1]) * UNITS[size[2]],
        bytes_per_s=number("mib-per-s", 0, 0.001, 1e6) * MIB,
        read_bytes_per_s=number("read-mib-per-s", math.inf, 0.001, 1e6) * MIB,
        partitions=int(number("partitions", USUAL_PARTITIONS, 1, 1e6)),
        most_s=number("minutes", math.inf, 1, 1e5) * 60,
        under_replicated=int(number("under-replicated-partitions", 0, 0, 1e6)),
        error_rate=number("produce-error-rate", 0, 0, 1),
        transactions=flag_of("[limits] transactions", table.get("transactions", False)),
        time_outs=flag_of("[limits] time-outs", table.get("time-outs", False)),
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


SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)\s*")
UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def table_of(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = document.get(name, {})
    if not isinstance(value, dict):
        raise ConfigurationError(f"{name} must be a table [{name}]")
    return value


def text_of(key: str, value: object, *, empty: bool = False) -> str:
    if not isinstance(value, str) or not (value.strip() or empty) or "\n" in value or len(value) > 80:
        raise ConfigurationError(f"{key} = {value!r} must be a short text")
    return value.strip()


def prefix_of(key: str, value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9._-]{0,60}", value):
        raise ConfigurationError(f"{key} = {value!r} must be up to 60 letters, digits, dots, hyphens and underscores")
    return value


def servers_of(key: str, value: object) -> str:
    servers = value.split(",") if isinstance(value, str) else value
    if not isinstance(servers, list) or not servers or not all(_is_server(server) for server in servers):
        raise ConfigurationError(f'{key} = {value!r} must name servers, as in "kafka-1:9093,kafka-2:9093"')
    return ",".join(server.strip() for server in servers)


def _is_server(server: object) -> bool:
    return isinstance(server, str) and re.fullmatch(r"\s*(\[[0-9a-fA-F:]+\]|[\w.-]+):\d{1,5}\s*", server) is not None


def ids_of(key: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in value):
        raise ConfigurationError(f"{key} = {value!r} must list broker ids, as in [1, 2]")
    return tuple(value)


def flag_of(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{key} = {value!r} must be true or false")
    return value


def count_of(key: str, value: object, at_most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= at_most:
        raise ConfigurationError(f"{key} = {value!r} must be a whole number from 1 to {at_most}")
    return value


def number_of(key: str, value: object, at_least: float, at_most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not at_least <= value <= at_most:
        raise ConfigurationError(f"{key} = {value!r} must be a number from {at_least:g} to {at_most:g}")
    return float(value)
