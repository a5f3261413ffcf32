"""Nodes of a Pulsar cluster of other owners, as far as they can be seen, and their health."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType

from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.model.pages import page
from perfgate.systems.pulsar.attached.described import DescribedPulsar
from perfgate.systems.pulsar.client.admin import Admin
from perfgate.systems.pulsar.client.http import RefusedError

DENIED = (401, 403)
FIRST_BOOKIE = 11
"""The first id of bookies; brokers' begin with 1, as in the suite's own clusters."""
NO_SUPERUSER = (
    "its role is no superuser: which brokers there are, and whether one is gone, cannot be seen "
    f"({page('targets-pulsar')})"
)
ANSWER_WITHIN_S = 5.0
"""For a broker's own addresses: one that stands still is asked for them at each look, and does not hold a start up."""
OF_ONE = ("advertised", "bind", "brokerServicePort", "webServicePort", "brokerId", "numHttpServerThreads", "haProxy")
"""Prefixes of settings that differ from broker to broker and do not affect their speed."""


def role_of(node: int) -> str:
    """The role of a node by its id, as in the names of metrics."""
    return "bookies" if node >= FIRST_BOOKIE else "brokers"


@dataclass(frozen=True, kw_only=True, slots=True)
class Nodes:
    """The nodes of a cluster, in order of their names. `id`: of the cluster, by its name and the place of its metadata.

    `brokers`: host:port of their web service by id; empty where the role is no superuser. `urls`: base URLs of the
    brokers that answer there, by id. `bookies`: ids by host:port, also of those that are away.
    """

    id: str
    name: str
    brokers: Mapping[int, str] = field(default_factory=dict)
    urls: Mapping[int, str] = field(default_factory=dict)
    bookies: Mapping[str, int] = field(default_factory=dict)

    @property
    def measured(self) -> Mapping[int, str]:
        """Brokers and bookies, host:port by id; the metadata store cannot be seen."""
        return {**self.brokers, **{number: at for at, number in self.bookies.items()}}

    @property
    def blind(self) -> str:
        """The reason why it cannot be seen whether brokers are gone; empty: it can."""
        return "" if self.brokers else NO_SUPERUSER

    def url_of(self, address: str) -> str:
        """The base URL at which the broker of an address answers; empty where none does."""
        return next((self.urls.get(number, "") for number, at in self.brokers.items() if at == address), "")

    @property
    def each_answers(self) -> bool:
        return bool(self.brokers) and set(self.urls) == set(self.brokers)


UNKNOWN = Nodes(id="", name="")
"""Before brokers have answered."""


def nodes_of(admin: Admin, described: DescribedPulsar) -> Nodes:
    id_ = id_of(admin, described)
    try:
        active, bookies = admin.brokers(), admin.bookies()
    except RefusedError as refused:
        if refused.status not in DENIED:
            raise
        return Nodes(id=id_, name=name_in(id_))
    brokers, urls = dict(enumerate(active, 1)), urls_of(admin, described, active)
    return Nodes(
        id=id_,
        name=name_in(id_),
        brokers=MappingProxyType(brokers),
        urls=MappingProxyType({number: urls[at] for number, at in brokers.items() if at in urls}),
        bookies=MappingProxyType({at: FIRST_BOOKIE + number for number, at in enumerate(bookies)}),
    )


def id_of(admin: Admin, described: DescribedPulsar) -> str:
    clusters = [name for name in admin.clusters() if name != "global"]
    stated = described.cluster_id
    name = stated if stated in clusters else ",".join(clusters)
    try:
        internal = admin.internal_configuration()
        where = f"{internal.get('metadataStoreUrl')} {internal.get('ledgersRootPath')}"
    except RefusedError as refused:
        if refused.status not in DENIED:
            raise
        where = " ".join(sorted(described.admin_urls))
    return f"{name}-{hashlib.sha256(where.encode()).hexdigest()[:12]}"


def answers(url: str, described: DescribedPulsar, cluster_id: str) -> bool:
    """Whether the broker at a base URL is of the cluster of this id, and says that it is ready."""
    broker = Admin([url], described.client, tries=1)
    with suppress(TargetError):
        return id_of(broker, described) == cluster_id and broker.is_ready()
    return False


def name_in(id_: str) -> str:
    return id_.rpartition("-")[0]


def urls_of(admin: Admin, described: DescribedPulsar, addresses: Collection[str]) -> dict[str, str]:
    """Base URLs at which brokers (host:port of their web service) answer; without brokers that do not.

    A broker that speaks TLS and clear text is listed with the port of the latter, and reports the other.
    """
    scheme = described.admin_urls[0].partition("://")[0]
    known, admin = dict[str, str](), admin.impatient(ANSWER_WITHIN_S)
    for at in dict.fromkeys((*described.admin_urls, *(f"{scheme}://{address}" for address in addresses))):
        if at.partition("://")[2] in known:
            continue
        try:
            own = admin.own_addresses(at)
        except TargetError:
            continue
        url = own.get("webServiceUrlTls" if scheme == "https" else "webServiceUrl", at)
        if url == at or admin.is_ready(url):  # behind a proxy it may not be reached from here
            names = [name for name in ("webServiceUrl", "webServiceUrlTls") if name in own]
            known |= {own[name].partition("://")[2]: url for name in names}
    return {address: known[address] for address in addresses if address in known}


def unwell(admin: Admin, nodes: Nodes, excused: Collection[int] = ()) -> str:
    """The brokers' problem; empty: all of the start but those `excused` take part. Raises TargetError: no answer."""
    if not nodes.brokers:
        if admin.is_ready():
            return ""
        raise TargetError("no broker says that it is ready")
    active = set(admin.brokers())
    if gone := [number for number, at in nodes.brokers.items() if at not in active and number not in excused]:
        return f"{listed(nodes, gone)} no longer takes part in the cluster"
    silent = [n for n, url in nodes.urls.items() if n not in excused and not admin.is_ready(url)]
    return f"{listed(nodes, silent)} does not say that it is ready" if silent else ""


def not_well(admin: Admin, nodes: Nodes) -> frozenset[int]:
    """Brokers that do not say that they are ready, or do not answer at their own address where others do."""
    silent = set(nodes.brokers) - set(nodes.urls) if nodes.urls else set()
    return frozenset(silent | {number for number, url in nodes.urls.items() if not admin.is_ready(url)})


def unhealthy(admin: Admin, nodes: Nodes) -> str:
    """The problem that a broker's health check reports, which writes a message and reads it. Needs a superuser."""
    if nodes.brokers and not nodes.urls:  # behind a proxy, which chooses a broker
        try:
            admin.check_health()
        except TargetError as error:
            return str(error)
    for number, url in nodes.urls.items():
        try:
            admin.check_health(url)
        except TargetError as error:
            return f"{listed(nodes, [number])}: {error}"
    return ""


def listed(nodes: Nodes, numbers: Collection[int]) -> str:
    return ", ".join(f"broker {number} ({nodes.brokers[number]})" for number in numbers)


def refuse_others(admin: Admin, described: DescribedPulsar, nodes: Nodes) -> None:
    """Raise ConfigurationError when the file names another cluster, or an address that answers is of another."""
    if described.cluster_id and nodes.name != described.cluster_id:
        raise ConfigurationError(
            f"{described.path}: cluster is {described.cluster_id}, and these brokers are of cluster {nodes.name}: "
            "nothing was done to them"
        )
    for url in described.admin_urls:
        try:
            clusters = [name for name in admin.clusters(url) if name != "global"]
        except TargetError:
            continue
        if nodes.name not in (*clusters, ",".join(clusters)):
            raise ConfigurationError(
                f"{described.path}: its addresses are not of one cluster: {url} of {', '.join(clusters)}, the others "
                f"of {nodes.name}; nothing was done to them"
            )


def refuse_another_number(described: DescribedPulsar, nodes: Nodes) -> None:
    """Raise ConfigurationError unless there are as many brokers as stated, and at least as many bookies."""
    for kind, stated, there, wrong in (
        ("brokers", described.brokers, len(nodes.brokers), described.brokers != len(nodes.brokers)),
        ("bookies", described.bookies, len(nodes.bookies), described.bookies > len(nodes.bookies)),
    ):
        if stated and there and wrong:
            raise ConfigurationError(
                f"{described.path}: {kind} = {stated}, and the cluster has {there}: wait until all are there, or state "
                "the number that there are"
            )


def settings_of(admin: Admin, nodes: Nodes) -> Iterator[tuple[str, str]]:
    """The brokers' settings that affect speed, without secrets. Raises TargetError where brokers do not report them."""
    for url in nodes.urls.values():
        yield from (pair for pair in admin.harmless_settings(url).items() if not pair[0].startswith(OF_ONE))
