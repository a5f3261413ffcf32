"""The target file of real Pulsar brokers: read strictly, with its token in the environment or in a file of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from perfgate.host.disk import is_there
from perfgate.load.hosts_file import HostsFile
from perfgate.model import System
from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import Secret, revealed
from perfgate.model.target import PREFIX
from perfgate.systems.attached.stated import all_resolved, is_elsewhere, path_of
from perfgate.systems.attached.target_file import (
    AT_THE_TOP,
    BROKER_CONFIG,
    CLEAR_URL,
    FAULTS,
    LIMITS,
    MOST_BROKERS,
    OF_EVERY_SYSTEM,
    TABLES,
    Described,
    Table,
    holds_a_secret,
    of_every_system,
    prometheus_of,
    reading,
    tables_of,
)
from perfgate.systems.pulsar.client import TLS_PLUGINS, TOKEN_PLUGINS, servers_of
from perfgate.systems.pulsar.client.http import token_of

TOKEN = "token"
FLAGS = ("tlsAllowInsecureConnection", "tlsHostnameVerificationEnable")
FILES = ("tlsTrustCertsFilePath", "tlsCertificateFilePath", "tlsKeyFilePath")
CLIENT = (TOKEN, "authPlugin", "authParams", *FILES, *FLAGS)
"""Connection settings of a client, in the Java client's names; `token` stands for authPlugin and authParams."""
KEYS: Mapping[str, Mapping[str, str]] = {
    "": {
        "system": "pulsar",
        "name": OF_EVERY_SYSTEM["name"],
        "service-url": "pulsar:// or pulsar+ssl:// and host:port of brokers, with commas between them",
        "admin-url": "http:// or https:// and host:port of the brokers' admin interface, with commas between them",
        "tenant": "the tenant in which a run makes its namespace, and removes it; required",
        "namespace-prefix": "in front of the namespace's name",
        "cluster": "required name of the cluster; left out: any",
        "bookies": "required number of bookies; left out: any number",
        "durability": "`fsync` or `page cache`: journalSyncData of the bookies, which nobody tells",
        **{key: words for key, words in OF_EVERY_SYSTEM.items() if key != "cluster-id"},
        "client": f"{', '.join(CLIENT)}; secrets by `env` or `file`",
    },
    "zones": {"cross-zone": "service URL that clients of the cross-zone scenarios use"},
    "limits": LIMITS,
    "broker-config": BROKER_CONFIG,
    "faults": FAULTS,
}
"""Keys of each table, with their meaning; "" for those above all tables."""
LEGAL: Mapping[str, Sequence[str]] = {name: (*keys, *(() if name else TABLES)) for name, keys in KEYS.items()}
DURABILITIES = ("page cache", "fsync")
"""Place of a message's bytes on a bookie when it is acknowledged: journalSyncData=false, or true."""
SERVER = r"(\[[0-9a-fA-F:]+\]|[\w.-]+):\d{1,5}"
SERVICE_URL = re.compile(rf"(?P<scheme>pulsar(\+ssl)?)://(?P<servers>{SERVER}(,{SERVER})*)/?")
ADMIN_URL = re.compile(rf"(?P<scheme>https?)://(?P<servers>{SERVER}(,{SERVER})*)/?")
CLEAR_SERVICE = re.compile(r"pulsar://(?!(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]*)?(/|,|\Z))", re.IGNORECASE)
NAME = re.compile(r"[-=:.\w]{1,60}")
"""Legal names of tenants, namespaces and clusters (Pulsar's NamedEntity)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DescribedPulsar(Described):
    """Pulsar's brokers as their file describes them. `bootstrap`: the service URL; `client`: the client's settings.

    `cluster_id`: Pulsar's name of the cluster, which other clusters may have too. `bookies`: their number, where the
    brokers do not report it.
    """

    system: ClassVar[System] = "pulsar"
    admin_urls: tuple[str, ...]
    tenant: str
    bookies: int = 0
    durability: str = ""

    @property
    def servers(self) -> tuple[str, ...]:
        return servers_of(self.bootstrap)

    @property
    def identity(self) -> str:
        return f"{self.path.resolve()} {self.bootstrap} {','.join(self.admin_urls)}"

    def permissions(self, *, transactions: bool, broker_config: bool, faults: bool) -> list[str]:
        if broker_config or faults:
            return ["a superuser's role (dynamic settings of brokers, and whether a fault does others harm)"]
        return [
            f"a role that is an admin of tenant {self.tenant} (namespaces {self.prefix}*, and topics in them)",
            "a superuser's role (without it the run cannot see whether brokers are gone)",
        ]

    @property
    def weaknesses(self) -> tuple[str, ...]:
        client, weaknesses = dict(self.client), []
        over_tls = [url.startswith(("pulsar+ssl:", "https:")) for url in (self.bootstrap, *self.admin_urls)]
        if not any(over_tls) and (stated := next((name for name in client if name.startswith("tls")), "")):
            weaknesses.append(f"{stated} and the like have no effect: neither URL is of TLS")
        if any(over_tls):
            if client.get("tlsAllowInsecureConnection") == "true":
                weaknesses.append("the brokers' certificates are not verified: whoever answers there is believed")
            elif client.get("tlsHostnameVerificationEnable") == "false":
                weaknesses.append("the host names in the brokers' certificates are not verified")
        return tuple(weaknesses)

    def namespace(self, run_id: str, number: int) -> str:
        """Name of a run's namespace, as tenant/namespace; `number` of the cluster in the run."""
        return f"{self.tenant}/{self.topic_prefix}{PREFIX}{run_id}-{number}"

    def _for_others(self, file: HostsFile) -> Self:
        if names := [name for name, _ in self.client if name in FILES]:
            raise ConfigurationError(
                f"target file {self.path}: {names[0]} names a file of this machine, which load hosts do not have; "
                "libpulsar takes no certificate as a text: leave --hosts out, or use local:N"
            )
        if revealed(self.client).get("authParams", "").startswith("file:"):
            raise ConfigurationError(
                f"target file {self.path}: authParams names a file of this machine, which load hosts do not have; "
                'token = { file = "PATH" } sends them its text: state that, leave --hosts out, or use local:N'
            )
        return self


def load_target(path: Path) -> DescribedPulsar:
    """The described target. Raises ConfigurationError naming file, table and key, never a secret's value."""
    with reading(path) as document:
        tables = tables_of(document, LEGAL)
        top, zones = tables[""], tables["zones"]
        prometheus = prometheus_of(path.parent, Table(document, "prometheus").values)
        client = _client(path.parent, Table(document, "client").values)
        service = _url(top.values, "service-url", SERVICE_URL, "pulsar+ssl://broker-1:6651,broker-2:6651")
        admin = _url(top.values, "admin-url", ADMIN_URL, "https://broker-1:8443,https://broker-2:8443")
        admin_urls = _each(admin)
        cross_zone = ""
        if "cross-zone" in zones.values:
            cross_zone = _url(zones.values, "cross-zone", SERVICE_URL, "pulsar+ssl://broker-1.zone-b:6651")
        token = bool(token_of(client)) or client.get("authPlugin", "") in TOKEN_PLUGINS
        _refuse_clear_token([service, cross_zone, *admin_urls], token, prometheus, insecure=top.flag("insecure"))
        durability = top.text("durability")
        if durability not in ("", *DURABILITIES):
            raise ConfigurationError(f"durability = {durability!r} must be {' or '.join(map(repr, DURABILITIES))}")
        return DescribedPulsar(
            **of_every_system(path, document, tables),
            bootstrap=service,
            admin_urls=admin_urls,
            tenant=_name(top, "tenant"),
            client=tuple(sorted(client.items())),
            cluster_id=_name(top, "cluster", needed=False),
            bookies=top.count("bookies", MOST_BROKERS),
            durability=durability,
            topic_prefix=top.prefix("namespace-prefix"),
            cross_zone_bootstrap=cross_zone,
            prometheus=prometheus,
        )


def _client(folder: Path, table: Mapping[str, Any]) -> dict[str, str]:
    for name in table:
        if name in LEGAL[""]:
            raise ConfigurationError(f"[client] {name}: it stands {AT_THE_TOP}")
        if name not in CLIENT:
            raise ConfigurationError(
                f"[client] unknown key {name!r}; legal: {', '.join(CLIENT)}; what a producer or consumer does is the "
                f"scenario's: --set producer.{name}=VALUE, or a change file for --compare"
            )
    values = all_resolved(folder, table)
    for name in FLAGS:
        if values.get(name, "true") not in ("true", "false"):
            raise ConfigurationError(f"[client] {name} must be true or false")
    for name in FILES:
        if name in values:
            file = path_of(folder, values[name])
            if not (is_there(file) and file.is_file()):
                raise ConfigurationError(f"[client] {name}: there is no file {file}")
            values[name] = str(file.resolve())
    if TOKEN in values:
        if "authPlugin" in values or "authParams" in values:
            raise ConfigurationError("[client] token stands for authPlugin and authParams: state one or the other")
        stated = values.pop(TOKEN).strip()
        if not stated or not stated.isascii() or not stated.isprintable() or " " in stated:
            raise ConfigurationError("[client] token must be a text of one word")
        Secret(stated)  # it may be printed without its prefix
        values |= {"authPlugin": TOKEN_PLUGINS[1], "authParams": Secret(f"token:{stated}")}
    elif "authParams" in values:
        stated = values["authParams"]
        if not (stated.startswith("file:") and not is_elsewhere(table["authParams"])):
            Secret(stated.removeprefix("token:"))
            values["authParams"] = Secret(stated)
    if (plugin := values.get("authPlugin", "")) and plugin not in (*TOKEN_PLUGINS, *TLS_PLUGINS):
        raise ConfigurationError(
            f"[client] authPlugin {plugin!r}: the suite's clients log in by {', '.join((*TOKEN_PLUGINS, *TLS_PLUGINS))}"
        )
    if plugin in TLS_PLUGINS and not {"tlsCertificateFilePath", "tlsKeyFilePath"} <= set(values):
        raise ConfigurationError(f"[client] authPlugin {plugin!r} needs tlsCertificateFilePath and tlsKeyFilePath")
    return values


def _url(table: Mapping[str, Any], key: str, legal: re.Pattern[str], example: str) -> str:
    value = table.get(key, "")
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ConfigurationError(f'{key} = {value!r} must be as in "{example}"')
    stated = ",".join(texts).strip()
    if "@" in stated:
        raise ConfigurationError(f"{key} must be without a user and a password")
    scheme = stated.partition("://")[0]
    joined = ",".join(part.strip().removeprefix(f"{scheme}://").rstrip("/") for part in stated.split(","))
    if not legal.fullmatch(f"{scheme}://{joined}"):
        raise ConfigurationError(f'{key} = {value!r} must be as in "{example}"')
    return f"{scheme}://{joined}"


def _name(table: Table, key: str, *, needed: bool = True) -> str:
    value = table.text(key)
    if (needed or value) and not NAME.fullmatch(value):
        raise ConfigurationError(f"{key} = {value!r} must be a name as Pulsar has them: letters, digits and - = : . _")
    return value


def _refuse_clear_token(urls: Sequence[str], token: bool, prometheus: Mapping[str, Any], *, insecure: bool) -> None:
    secret = holds_a_secret(prometheus)
    clear = [url for url in urls if _is_clear(url)] if token else []
    if secret and CLEAR_URL.match(str(prometheus.get("url", ""))):
        clear.append("[prometheus] url")
    if clear and not insecure:
        raise ConfigurationError(
            f"{clear[0]}: a token or password would go there in clear text: use pulsar+ssl and https, or, knowing that "
            f"anyone on the way can read it, state insecure = true {AT_THE_TOP}"
        )


def _is_clear(url: str) -> bool:
    """Whether traffic to any of its servers can be read on the way; not to this machine's loopback."""
    return any(CLEAR_SERVICE.match(each) or CLEAR_URL.match(each) for each in _each(url))


def _each(url: str) -> tuple[str, ...]:
    scheme, _, servers = url.partition("://")
    return tuple(f"{scheme}://{server}" for server in servers.split(","))
