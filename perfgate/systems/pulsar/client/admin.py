"""Requests of Pulsar's admin interface, as its REST API states them (pulsar.apache.org/admin-rest-api, version 2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from perfgate.model.errors import TargetError
from perfgate.systems.pulsar.client.http import RefusedError, WebService

NOT_FOUND, CONFLICT, PRECONDITION = 404, 409, 412
LEDGER = re.compile(r"ensembleSize=(\d+), writeQuorumSize=(\d+), ackQuorumSize=(\d+)")
ENSEMBLES = re.compile(r"ensembles=\{(.*?)\}, ")
BOOKIES = re.compile(r"\d+=\[([^\]]*)\]")
"""BookKeeper's LedgerMetadata, as it prints itself in a topic's internal statistics."""
NAME = re.compile(r"(?P<domain>persistent)://(?P<tenant>[^/]+)/(?P<namespace>[^/]+)/(?P<local>[^/]+)")


SECRETS = ("password", "secret", "token", "authparams", "authenticationparameters", "privatekey", "credential")
"""In the names of settings whose values are secrets, which brokers report in clear text: none is read or changed."""


def may_hold_a_secret(name: str) -> bool:
    """Whether a setting of brokers is named like one that holds a secret."""
    return any(word in name.lower() for word in SECRETS)


@dataclass(frozen=True, slots=True)
class TopicName:
    """A topic's full name in parts. `namespace`: tenant/namespace."""

    namespace: str
    local: str

    @classmethod
    def of(cls, name: str) -> TopicName:
        """Return the parts of a name as persistent://tenant/namespace/topic. Raises TargetError for another text."""
        found = NAME.fullmatch(name)
        if found is None:
            raise TargetError(f"topic {name!r} has no full name, as persistent://tenant/namespace/topic")
        return cls(f"{found['tenant']}/{found['namespace']}", found["local"])

    @property
    def path(self) -> str:
        """Return its part of a request's path."""
        return f"persistent/{self.namespace}/{quote(self.local, safe='')}"

    def partition(self, number: int) -> TopicName:
        """Return the topic that is this one's partition."""
        return TopicName(self.namespace, f"{self.local}-partition-{number}")

    def __str__(self) -> str:
        return f"persistent://{self.namespace}/{self.local}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """One ledger of a partition: where its entries are.

    `quorums`: ensemble, write and ack quorum; `bookies`: of its newest ensemble, as host:port.
    """

    quorums: tuple[int, ...]
    bookies: tuple[str, ...]

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Ledger:
        """Read it from internal statistics with metadata. Raises TargetError where its quorums are not stated."""
        text = str(found.get("metadata", ""))
        quorums, ensembles = LEDGER.search(text), ENSEMBLES.search(text)
        if quorums is None or ensembles is None:
            raise TargetError(f"ledger {found.get('ledgerId')}: its metadata states no ensemble: {text[:200]!r}")
        last = BOOKIES.findall(ensembles[1])[-1]
        return cls(
            quorums=tuple(map(int, quorums.groups())),
            bookies=tuple(bookie.strip() for bookie in last.split(",")),
        )


class Admin(WebService):
    """One cluster's admin interface. Each request raises as :meth:`WebService.ask`."""

    # The cluster

    def clusters(self, at: str = "") -> list[str]:
        """Return the names of the clusters that a broker (base URL; empty: any) knows: of one, it is its own."""
        found = self.get("/admin/v2/clusters", f"asking {at or 'brokers'} for the clusters", at)
        return sorted(str(name) for name in found)

    def version(self) -> str:
        """Return the release of the broker that answers, as in 4.0.8."""
        return str(self.get("/admin/v2/brokers/version", "asking for the version")).strip()

    def brokers(self) -> list[str]:
        """Return the active brokers (host:port of their web service), in order. Needs a superuser."""
        return sorted(str(at) for at in self.get("/admin/v2/brokers", "asking for the brokers"))

    def bookies(self) -> list[str]:
        """Return all bookies that have ever registered (host:port), in order: those that are away too."""
        found = self.get("/admin/v2/bookies/all", "asking for the bookies")
        return sorted(str(one["bookieId"]) for one in found["bookies"])

    def own_addresses(self, at: str) -> dict[str, str]:
        """Return the addresses that a broker (base URL) has for itself: webServiceUrl, webServiceUrlTls,
        pulsarServiceUrl, pulsarServiceUrlTls; those of another broker behind a proxy. Needs a superuser.
        """
        found = self.get("/admin/v2/broker-stats/load-report", f"asking {at} for its load", at)
        return {name: str(url) for name, url in found.items() if url and str(name).removesuffix("Tls").endswith("Url")}

    def internal_configuration(self) -> dict[str, str]:
        """Return where the cluster keeps its metadata (metadataStoreUrl, ledgersRootPath ...). Needs a superuser."""
        path = "/admin/v2/brokers/internal-configuration"
        return {str(name): str(value) for name, value in self.get(path, "asking for the metadata store").items()}

    def is_ready(self, at: str = "") -> bool:
        """Whether a broker (base URL; empty: any) says that it has started."""
        with suppress(TargetError):
            return str(self.get("/admin/v2/brokers/ready", "asking whether it is ready", at)) == "ok"
        return False

    def check_health(self, at: str = "") -> None:
        """Have a broker (base URL; empty: any) write a message and read it. Raises what it says. Needs a superuser."""
        self.get("/admin/v2/brokers/health", f"health check of {at or 'a broker'}", at)

    # Dynamic configuration of brokers

    def dynamic_names(self) -> list[str]:
        """Return the names of the settings that brokers take while they run."""
        return [str(name) for name in self.get("/admin/v2/brokers/configuration", "asking for dynamic settings")]

    def dynamic_values(self) -> dict[str, str]:
        """Return what is set dynamically, for all brokers of the cluster."""
        found = self.get("/admin/v2/brokers/configuration/values", "asking for dynamic settings")
        return {str(name): str(value) for name, value in (found or {}).items()}

    def effective(self, names: Sequence[str], at: str = "") -> dict[str, str]:
        """Return what takes effect of these settings on a broker (base URL); of an unknown one nothing.

        The answer holds every setting, passwords too: no other is kept.
        """
        found = self.get("/admin/v2/brokers/configuration/runtime", "asking for settings", at)
        return {name: str(found[name]) for name in names if name in found}

    def harmless_settings(self, at: str = "") -> dict[str, str]:
        """Return what takes effect of all settings on a broker (base URL) but for those that may hold secrets."""
        found = self.get("/admin/v2/brokers/configuration/runtime", "asking for settings", at)
        return {name: str(value) for name, value in found.items() if not may_hold_a_secret(name)}

    def set_dynamic(self, name: str, value: str) -> None:
        """Set it for all brokers, which take it some ms later."""
        path = f"/admin/v2/brokers/configuration/{quote(name, safe='')}/{quote(value, safe='')}"
        self.ask("POST", path, f"setting {name} = {value} of the brokers")

    def remove_dynamic(self, name: str) -> None:
        """Remove what is set dynamically."""
        path = f"/admin/v2/brokers/configuration/{quote(name, safe='')}"
        with _but_for(NOT_FOUND):
            self.ask("DELETE", path, f"removing the dynamic setting {name} of the brokers")

    # Tenants and namespaces

    def create_tenant(self, tenant: str, clusters: Sequence[str], roles: Sequence[str] = ()) -> None:
        """Create a tenant of these clusters, whose admins have these roles."""
        body = {"allowedClusters": list(clusters), "adminRoles": list(roles)}
        self._create(f"/admin/v2/tenants/{tenant}", f"creating tenant {tenant}", body)

    def namespaces(self, tenant: str) -> list[str]:
        """Return its namespaces, each as tenant/namespace."""
        return [str(name) for name in self.get(f"/admin/v2/namespaces/{tenant}", f"asking for those of {tenant}")]

    def create_namespace(self, namespace: str, policies: Mapping[str, object]) -> None:
        """Create tenant/namespace with these policies (of Pulsar's Policies: bundles, properties, persistence ...)."""
        self._create(f"/admin/v2/namespaces/{namespace}", f"creating namespace {namespace}", dict(policies))

    def delete_namespace(self, namespace: str) -> None:
        """Delete a namespace that has no topics; one that is gone already is none."""
        with _but_for(NOT_FOUND):
            self.ask("DELETE", f"/admin/v2/namespaces/{namespace}", f"deleting namespace {namespace}")

    def policies(self, namespace: str) -> dict[str, Any]:
        """Return all policies of tenant/namespace, in the words of Pulsar's Policies."""
        return dict(self.get(f"/admin/v2/namespaces/{namespace}", f"asking for the policies of {namespace}"))

    def properties(self, namespace: str, at: str = "") -> dict[str, str] | None:
        """Return the properties that were given to tenant/namespace; None: there is none.

        `at`: asked at this base URL alone.
        """
        path, doing = f"/admin/v2/namespaces/{namespace}/properties", f"asking for properties of {namespace}"
        with _but_for(NOT_FOUND):
            found = self.get(path, doing, at)
            return {str(name): str(value) for name, value in (found or {}).items()}
        return None

    def set_policy(self, namespace: str, endpoint: str, value: object, method: str = "POST") -> None:
        """Set a policy by the last part of its path (persistence, retention, messageTTL, publishRate ...)."""
        path, doing = f"/admin/v2/namespaces/{namespace}/{endpoint}", f"setting {endpoint} of namespace {namespace}"
        self.ask(method, path, doing, body=value)

    def remove_policy(self, namespace: str, endpoint: str) -> None:
        """Remove a policy, so that the brokers' own counts."""
        path, doing = f"/admin/v2/namespaces/{namespace}/{endpoint}", f"removing {endpoint} of namespace {namespace}"
        with _but_for(NOT_FOUND):
            self.ask("DELETE", path, doing)

    # Topics

    def create_topic(self, topic: TopicName, partitions: int) -> None:
        self._create(f"/admin/v2/{topic.path}/partitions", f"creating topic {topic}", partitions)

    def partitions(self, topic: TopicName) -> int:
        """Return how many partitions the topic has; 0: there is no such partitioned topic."""
        with _but_for(NOT_FOUND):
            found = self.get(f"/admin/v2/{topic.path}/partitions", f"asking for topic {topic}")
            return int(found.get("partitions", 0))
        return 0

    def topics(self, namespace: str) -> list[str]:
        """Return the full names of the partitioned topics of tenant/namespace."""
        path = f"/admin/v2/persistent/{namespace}/partitioned"
        return [str(name) for name in self.get(path, f"asking for the topics of {namespace}")]

    def loose_topics(self, namespace: str) -> list[str]:
        """Return the full names of all topics of tenant/namespace, each partition by its own."""
        return [str(name) for name in self.get(f"/admin/v2/persistent/{namespace}", f"asking for {namespace}")]

    def delete_topic(self, topic: TopicName) -> None:
        """Delete a partitioned topic with its subscriptions, whoever is connected; one that is gone already is none."""
        path = f"/admin/v2/{topic.path}/partitions"
        with _but_for(NOT_FOUND):
            self.ask("DELETE", path, f"deleting topic {topic}", query={"force": True})

    def delete_loose_topic(self, topic: TopicName) -> None:
        """Delete a topic that has no partitions, or one partition that its topic has left behind."""
        with _but_for(NOT_FOUND):
            self.ask("DELETE", f"/admin/v2/{topic.path}", f"deleting topic {topic}", query={"force": True})

    def owner(self, topic: TopicName) -> dict[str, str]:
        """Return the addresses of the broker that serves a partition: brokerUrl, httpUrl and others.

        An unserved one gets a broker by this, as by any client's look-up.
        """
        found = self.get(f"/lookup/v2/topic/{topic.path}", f"looking {topic} up")
        return {str(name): str(url) for name, url in found.items() if url}

    def bundle(self, topic: TopicName) -> str:
        """Return the range of hashes, as 0x..._0x..., of its namespace's bundle that a partition is in."""
        return str(self.get(f"/lookup/v2/topic/{topic.path}/bundle", f"asking for the bundle of {topic}")).strip()

    def unload_bundle(self, namespace: str, bundle: str, destination: str) -> None:
        """Have a bundle's broker give it up; the next look-up gives it to the destination (its registered name).

        Needs a superuser.
        """
        path, doing = f"/admin/v2/namespaces/{namespace}/{bundle}/unload", f"giving {bundle} to {destination}"
        self.ask("PUT", path, doing, query={"destinationBroker": destination})

    def stats(self, topic: TopicName) -> dict[str, Any]:
        """Return a partition's statistics: since its broker has loaded it."""
        return dict(self.get(f"/admin/v2/{topic.path}/stats", f"asking for statistics of {topic}"))

    def internal_stats(self, topic: TopicName) -> dict[str, Any]:
        """Return a partition's internal statistics, its ledgers' metadata among them."""
        path = f"/admin/v2/{topic.path}/internalStats"
        return dict(self.get(path, f"asking for internal statistics of {topic}", metadata=True))

    def ledgers(self, topic: TopicName) -> list[Ledger]:
        """Return a partition's ledgers, oldest first."""
        return [Ledger.of(one) for one in self.internal_stats(topic)["ledgers"] if one.get("metadata")]

    # Subscriptions

    def subscribe(self, topic: TopicName, subscription: str) -> None:
        """Make a subscription of a partition, at its end; one that is there already stays."""
        path = f"/admin/v2/{topic.path}/subscription/{quote(subscription, safe='')}"
        with _but_for(CONFLICT):
            self.ask("PUT", path, f"subscribing {subscription} to {topic}")

    def analyzed(self, topic: TopicName, subscription: str, start: tuple[int, int] | None = None) -> dict[str, Any]:
        """Have the broker read what a subscription of a partition has before it; return what it counted.

        `start`: ledger and entry to begin at; without it the subscription's position. A broker ends after its own
        limits (subscriptionBacklogScanMaxEntries, ...MaxTimeMs) with `aborted` true.
        """
        path = f"/admin/v2/{topic.path}/subscription/{quote(subscription, safe='')}/analyzeBacklog"
        body = None if start is None else {"ledgerId": start[0], "entryId": start[1], "partitionIndex": -1}
        return dict(self.ask("POST", path, f"reading {subscription} of {topic}", body=body))

    def _create(self, path: str, doing: str, body: object) -> None:
        try:
            self.ask("PUT", path, doing, body=body)
        except RefusedError as refused:
            if not (refused.repeated and refused.status == CONFLICT):
                raise


@contextmanager
def _but_for(*statuses: int) -> Iterator[None]:
    try:
        yield
    except RefusedError as refused:
        if refused.status not in statuses:
            raise
