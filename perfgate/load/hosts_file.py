"""Strict parser for --hosts FILE.toml, and the zones of its hosts: unknown and contradictory keys are errors."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le

from perfgate.model import Link
from perfgate.model.errors import ConfigurationError
from perfgate.model.pages import page
from perfgate.model.structured import shallow, strict, structured, toml_of

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
SCHEDULER = re.compile(r"tcp://[^\s/]+:[0-9]{1,5}")
DESTINATION = re.compile(r"[^\s-]\S*")
"""OpenSSH would take a name that begins with "-" for an option."""
Port = Annotated[int, Ge(1), Le(65535), "must be a port, 1 to 65535"]
MOST_HOSTS = 64
EXAMPLE = '[[host]], name = "load-1", ssh = "gate@10.0.0.7", install = true'


@dataclass(frozen=True, kw_only=True, slots=True)
class Zones:
    """The zone of each load host, by name, and that of the brokers; all empty where a file states none."""

    brokers: str
    of: Mapping[str, str]

    @property
    def real(self) -> bool:
        """Whether a host is in another zone than the brokers: links across zones are then real ones."""
        return any(zone != self.brokers for zone in self.of.values())

    def hosts(self, link: Link) -> tuple[str, ...]:
        """The hosts that have this link to the brokers, or have it emulated."""
        away = link.crosses_zones and self.real
        return tuple(name for name, zone in self.of.items() if (zone != self.brokers) is away)

    def cannot(self, link: Link) -> str | None:
        """The reason why no host has this link; None when some host does."""
        if self.hosts(link):
            return None
        others = ", ".join(f"{name} ({zone})" for name, zone in self.of.items())
        return f"no load host is in the zone of the brokers, {self.brokers}: there are {others}"

    def facts(self) -> dict[str, object]:
        """Their part of run.json."""
        return {
            "zone_of_brokers": self.brokers,
            "zones": dict(self.of),
            "cross_zone": "real: hosts of another zone" if self.real else "emulated, where a scenario asks for it",
        }


@strict
class LoadHost:
    """One `[[host]]`: reached by OpenSSH, this machine (`local`), or a worker of the file's scheduler.

    `ssh`: user@host, or an alias of the user's ssh_config; `ssh_options` as after `ssh -o`. `python`: the interpreter
    there; `folder`: the checkout there. With `install` the suite puts itself there; `pip_options` are then given to
    pip. `address` at which the run reaches the host; empty: that of the ssh connection.
    """

    name: str
    zone: str = ""
    ssh: str = ""
    local: bool = False
    port: Port | None = None
    identity: str = ""
    ssh_options: tuple[str, ...] = ()
    python: str = ""
    folder: str = ""
    address: str = ""
    install: bool = False
    pip_options: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """Its name in messages."""
        return f"{self.name} ({self.ssh or 'this machine'})"

    @property
    def interpreter(self) -> str:
        """The Python that is started on the host; relative to the home folder there."""
        usual = "python3" if self.install else f"{self.folder}/.venv/bin/python"
        return (self.python or usual).removeprefix("~/")


@strict
class _Top:
    brokers_zone: str = ""
    scheduler: str = ""
    address: str = ""
    port: Port | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class HostsFile:
    """`scheduler`: a running one, whose workers the hosts are; empty: the run starts its own, on `port` (None: any).

    `address` at which the hosts reach the run; empty: from which its ssh connections came.
    """

    path: Path
    hosts: tuple[LoadHost, ...]
    brokers_zone: str = ""
    scheduler: str = ""
    address: str = ""
    port: int | None = None

    @property
    def zones(self) -> Zones:
        return Zones(brokers=self.brokers_zone, of={host.name: host.zone for host in self.hosts})

    @property
    def digest(self) -> str:
        """A hash of the file's content: figures of other hosts are not comparable."""
        return hashlib.sha256(repr(replace(self, path=Path())).encode()).hexdigest()[:12]

    @property
    def here(self) -> bool:
        """Whether all hosts are this machine."""
        return all(host.local for host in self.hosts)


def load_hosts_file(path: Path) -> HostsFile:
    """Read the file. Raises ConfigurationError naming file, key, bad value and the legal ones."""
    where = f"hosts file {path}"
    document = toml_of(path, where, missing=f"{page('hosts')} has an example")
    tables = document.pop("host", [])
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise ConfigurationError(f"{where}: lacks a table for each load host, as in {EXAMPLE}")
    legal = [field.name for field in fields(_Top)]
    if wrong := [key for key in document if key not in legal]:
        raise ConfigurationError(f"{where}: unknown key {wrong[0]!r}; legal: {', '.join(legal)}, and tables [[host]]")
    top = structured(_Top, document, f"{where}:")
    hosts = tuple(_host(table, number, where, top) for number, table in enumerate(tables, 1))
    file = HostsFile(path=path, hosts=hosts, **shallow(top))
    for fault in _faults(file):
        raise ConfigurationError(f"{where}: {fault}")
    return file


def _host(table: dict[str, Any], number: int, where: str, top: _Top) -> LoadHost:
    name = table.get("name")
    host = structured(LoadHost, table, f"{where}: [[host]] {name if isinstance(name, str) else number}")
    for fault in _host_faults(host, top):
        raise ConfigurationError(f"{where}: [[host]] {host.name}: {fault}")
    return host


def _host_faults(host: LoadHost, top: _Top) -> Iterator[str]:
    if not NAME.fullmatch(host.name):
        yield f"name = {host.name!r} must be letters, digits, '.', '_' and '-'"
    if bool(host.zone) is not bool(top.brokers_zone):
        lacks, has = ("zone", "brokers_zone") if top.brokers_zone else ("brokers_zone", "zone")
        yield f"the file states {has} and lacks {lacks}: state where the brokers are and where each host is, or neither"
    given = [key for key, value in shallow(host).items() if value not in ("", (), False, None)]
    if top.scheduler:
        if more := [key for key in given if key not in ("name", "zone")]:
            yield f"has {more[0]}, and the file a scheduler, whose workers the hosts are: legal are name and zone"
        return
    if bool(host.ssh) is host.local:
        yield 'needs either ssh = "user@host" or local = true'
    if host.local and (more := [key for key in given if key not in ("name", "zone", "local")]):
        yield f"has {more[0]}, which is for a host reached by ssh; with local = true legal are name and zone"
    if host.ssh and not DESTINATION.fullmatch(host.ssh):
        yield f'ssh = {host.ssh!r} must be "user@host" or an alias of ssh_config'
    if host.ssh and bool(host.folder) is host.install:
        yield "needs either folder (the checkout on the host) or install = true"
    if host.pip_options and not host.install:
        yield "pip_options is for install = true"
    if any(re.search(r"://[^/]*@|[^\s/:@]+:[^\s/@]*@", option) for option in host.pip_options):
        yield "pip_options: no user or password in an address, which everybody on the host may read; use its pip.conf"
    for option in host.ssh_options:
        if not re.fullmatch(r"[A-Za-z]+[= ].+", option):
            yield f'ssh_options: {option!r} must read like "ProxyJump=bastion"'


def _faults(file: HostsFile) -> Iterator[str]:
    if file.scheduler and not SCHEDULER.fullmatch(file.scheduler):
        yield f"scheduler = {file.scheduler!r} must be tcp://HOST:PORT"
    if file.scheduler and (file.address or file.port):
        yield "address and port are those of the run's own scheduler: leave them or scheduler out"
    names = [host.name for host in file.hosts]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        yield f"two hosts have the name {twice!r}"
    if len(names) > MOST_HOSTS:
        yield f"{len(names)} hosts, and one run leads {MOST_HOSTS} at most"
