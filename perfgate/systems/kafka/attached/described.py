"""The target file of real brokers: read strictly, with its secrets in the environment or in separate files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from perfgate.host.disk import is_there
from perfgate.load.hosts_file import HostsFile
from perfgate.model import System
from perfgate.model.errors import ConfigurationError
from perfgate.systems.attached.stated import all_resolved, as_stated, is_elsewhere
from perfgate.systems.attached.target_file import (
    AT_THE_TOP,
    BROKER_CONFIG,
    CLEAR_URL,
    FAULTS,
    LIMITS,
    OF_EVERY_SYSTEM,
    TABLES,
    USUAL_TOPICS,
    Described,
    Table,
    holds_a_secret,
    of_every_system,
    prometheus_of,
    reading,
    tables_of,
)
from perfgate.systems.kafka.attached.client_settings import (
    INSIDE,
    NAMES_A_FILE,
    inlined,
    refuse_unknown_settings,
    refuse_what_is_no_client,
)
from perfgate.systems.kafka.attached.java_properties import Convert, Translated, read_properties, translated
from perfgate.systems.kafka.client import iam

KEYS: Mapping[str, Mapping[str, str]] = {
    "": {
        "system": "kafka, or left out",
        "name": OF_EVERY_SYSTEM["name"],
        "bootstrap-servers": "host:port of brokers to begin with, with commas between them",
        "kafka-version": "the brokers' release, where they do not say it (from 4.0 on)",
        **OF_EVERY_SYSTEM,
        "topic-prefix": "in front of the names of topics, groups and transactional ids",
        "client": "librdkafka's settings, in quotes, or `properties-file` of a Java client; secrets by `env` or `file`",
    },
    "zones": {"cross-zone": "bootstrap servers that clients of the cross-zone scenarios use"},
    "limits": {
        **LIMITS,
        "topics": f"most topics of a round (default: {USUAL_TOPICS})",
        "under-replicated-partitions": "as many may be while a run goes on, anywhere in the cluster (default: 0)",
    },
    "broker-config": BROKER_CONFIG,
    "faults": FAULTS,
}
"""The keys of each table, "" for what stands above all, with their meaning."""
LEGAL: Mapping[str, Sequence[str]] = {name: (*keys, *(() if name else TABLES)) for name, keys in KEYS.items()}
PROPERTIES_FILE = "properties-file"
CONNECTION = re.compile(
    r"security\.protocol|(sasl|ssl|enable\.ssl|socket|broker\.address|reconnect\.backoff|retry\.backoff)\..+"
    r"|enable\.sasl\..+|client\.(id|rack|dns\.lookup)|metadata\.max\.age\.ms|topic\.metadata\..+|bootstrap\.servers"
    r"|connections\.max\.idle\.ms|api\.version\..+|broker\.version\.fallback|request\.timeout\.ms"
    r"|log\.connection\.close|metadata\.recovery\..+|enable\.metrics\.push|https\..+"
)
"""Settings that a client needs to connect, in librdkafka's names."""
PERMISSIONS = (
    "topics {prefix}* (prefixed): Create, Describe, DescribeConfigs, Write, Read, Delete",
    "consumer groups {prefix}* (prefixed): Read, Describe, Delete",
    "all topics: Describe (without it the run cannot see whether the cluster is well)",
)
IN_TRANSACTIONS = "transactional ids {prefix}* (prefixed): Write, Describe"
OF_BROKERS = "cluster: DescribeConfigs, AlterConfigs (dynamic settings of brokers)"
OF_FAULTS = "cluster: DescribeConfigs (the session of the brokers, which outages are held against)"
CLIENT_ID = "kafka-perf-gate"
"""The suite's clients unless the file says otherwise: a quota can be put on it."""
MECHANISM, ALIAS = "sasl.mechanisms", "sasl.mechanism"
VERIFICATION, NAMES_CHECK = "enable.ssl.certificate.verification", "ssl.endpoint.identification.algorithm"
NO = ("0", "f", "false")
"""What librdkafka takes for false, in any case."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DescribedTarget(Described):
    """Kafka's brokers as their file describes them. `bootstrap`: host:port,...; `client`: librdkafka's settings."""

    system: ClassVar[System] = "kafka"

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(self.bootstrap.split(","))

    @property
    def user(self) -> str:
        return dict(self.client).get("sasl.username", "this client")

    def permissions(self, *, transactions: bool, broker_config: bool, faults: bool) -> list[str]:
        needed = [*PERMISSIONS, *([IN_TRANSACTIONS] if transactions else [])]
        needed += [OF_BROKERS] if broker_config else [OF_FAULTS] if faults else []
        return [permission.format(prefix=self.prefix) for permission in needed]

    @property
    def weaknesses(self) -> tuple[str, ...]:
        client, weaknesses = dict(self.client), []
        protocol = client.get("security.protocol", "plaintext").lower()
        for part in ("sasl", "ssl"):
            stated = next((name for name in client if name.startswith(f"{part}.")), "")
            if stated and part not in protocol.split("_"):
                weaknesses.append(f"{stated} and the like have no effect: security.protocol is {protocol.upper()}")
        if protocol in ("ssl", "sasl_ssl"):
            if client.get(VERIFICATION) == "false":
                weaknesses.append("the brokers' certificates are not verified: whoever answers there is believed")
            elif client.get(NAMES_CHECK) == "none":
                weaknesses.append("the host names in the brokers' certificates are not verified")
        return tuple(weaknesses)

    def _for_others(self, file: HostsFile) -> Self:
        if iam.logs_in_by_iam(dict(self.client)):
            raise ConfigurationError(
                f"target file {self.path}: --hosts with {iam.MECHANISM}: each client signs with AWS credentials, and "
                "those of this machine are not taken to others; leave --hosts out or use local:N"
            )
        if file.scheduler:  # its workers are refused settings to log in
            return self
        return replace(self, client=inlined(self.client, self.path))


def load_target(path: Path, convert: Convert) -> DescribedTarget:
    """Return the described target. Raises ConfigurationError naming file, table and key, never a secret's value."""
    with reading(path) as document:
        tables = tables_of(document, LEGAL)
        top, zones = tables[""], tables["zones"]
        # Before `convert` starts a process, which is not to inherit what the environment holds for either.
        prometheus = prometheus_of(path.parent, Table(document, "prometheus").values)
        client, left_out = _client(path.parent, Table(document, "client").values, convert)
        bootstrap = top.servers("bootstrap-servers", client.pop("bootstrap.servers", None))
        refuse_unknown_settings(client)
        refuse_what_is_no_client(client, bootstrap)
        _refuse_clear_secrets(client, prometheus, insecure=top.flag("insecure"))
        return DescribedTarget(
            **of_every_system(path, document, tables),
            bootstrap=bootstrap,
            client=tuple(sorted(client.items())),
            cluster_id=top.text("cluster-id", empty=False),
            version=top.text("kafka-version"),
            topic_prefix=top.prefix("topic-prefix"),
            cross_zone_bootstrap=zones.servers("cross-zone") if "cross-zone" in zones.values else "",
            prometheus=prometheus,
            left_out=left_out,
        )


def _client(folder: Path, table: Mapping[str, Any], convert: Convert) -> tuple[dict[str, str], tuple[str, ...]]:
    values = all_resolved(folder, table)
    java = Translated({})
    if location := values.pop(PROPERTIES_FILE, ""):
        properties = {
            name: as_stated(name, value, elsewhere=False) for name, value in read_properties(folder / location).items()
        }
        try:
            java = translated(properties, convert)
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
    if ALIAS in values:  # of two names in a client librdkafka takes the last, and the file has the other
        if values.get(MECHANISM, values[ALIAS]) != values[ALIAS]:
            raise ConfigurationError(f"[client] {ALIAS} and {MECHANISM} are two names of one setting: state one")
        values[MECHANISM] = values.pop(ALIAS)
    for name in [name for name in (*INSIDE, *NAMES_A_FILE) if name in values]:
        if "-----BEGIN" in values[name]:  # a key's text is not to be shown
            instead = f"; the text goes into {INSIDE[name]}" if name in INSIDE else ""
            raise ConfigurationError(f"[client] {name} must be the path of a file, and is a file's text{instead}")
        if not is_there(Path(str(values[name]))) and is_there(beside := folder / str(values[name])):
            values[name] = str(beside)  # as every other path of the file
    client = {
        name: as_stated(name, _as_compared(name, value), elsewhere=is_elsewhere(table.get(name)))
        for name, value in {"client.id": CLIENT_ID, **java.settings, **values}.items()
    }
    return client, tuple(f"{location}: {note}" for note in java.notes)


def _as_compared(name: str, value: str) -> str:
    """The setting's value in the spelling that this package compares with: librdkafka takes other spellings, too."""
    if name == VERIFICATION and value.lower() in NO:
        return "false"
    if name == NAMES_CHECK:
        return value.strip().lower()
    return value.strip() if name == "security.protocol" else value


def _refuse_clear_secrets(client: Mapping[str, str], prometheus: Mapping[str, Any], *, insecure: bool) -> None:
    tokens = ("sasl.oauthbearer.token.endpoint.url", client.get("sasl.oauthbearer.token.endpoint.url", ""))
    secret = holds_a_secret(prometheus)
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
