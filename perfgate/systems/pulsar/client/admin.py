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
"""BookKeeper's LedgerMetadata, as printed in a topic's internal statistics."""
NAME = re.compile(r"(?P<domain>persistent)://(?P<tenant>[^/]+)/(?P<namespace>[^/]+)/(?P<local>[^/]+)")
SECRETS = ("password", "secret", "token", "authparams", "authenticationparameters", "privatekey", "credential")
"""Parts of the names of secret settings, which brokers report in clear text: none is read or changed."""


def may_hold_a_secret(name: str) -> bool:
    """Whether the name of a broker setting is like that of a secret."""
    return any(word in name.lower() for word in SECRETS)


@dataclass(frozen=True, slots=True)
class TopicName:
    """A topic's full name in parts. `namespace`: tenant/namespace."""

    namespace: str
    local: str

    @classmethod
    def of(cls, name: str) -> TopicName:
        """The parts of a name as persistent://tenant/namespace/topic. Raises TargetError for another text."""
        parts = NAME.fullmatch(name)
        if parts is None:
            raise TargetError(f"topic {name!r} has no full name, as persistent://tenant/namespace/topic")
        return cls(f"{parts['tenant']}/{parts['namespace']}", parts["local"])

    @property
    def path(self) -> str:
        return f"persistent/{self.namespace}/{quote(self.local, safe='')}"

    def partition(self, number: int) -> TopicName:
        return TopicName(self.namespace, f"{self.local}-partition-{number}")

    def __str__(self) -> str:
        return f"persistent://{self.namespace}/{self.local}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """A ledger of a partition. `quorums`: ensemble, write and ack; `bookies` of its newest ensemble, as host:port."""

    quorums: tuple[int, ...]
    bookies: tuple[str, ...]

    @classmethod
    def of(cls, stats: Mapping[str, Any]) -> Ledger:
        """The ledger of internal statistics with metadata. Raises TargetError where its quorums are not stated."""
        text = str(stats.get("metadata", ""))
        quorums, ensembles = LEDGER.search(text), ENSEMBLES.search(text)
        if quorums is None or ensembles is None:
            raise TargetError(f"ledger {stats.get('ledgerId')}: its metadata states no ensemble: {text[:200]!r}")
        last = BOOKIES.findall(ensembles[1])[-1]
        return cls(
            quorums=tuple(map(int, quorums.groups())), bookies=tuple(bookie.strip() for bookie in last.split(","))
        )


class Admin(WebService):
    """A cluster's admin interface. Each request raises as :meth:`WebService.ask`."""

    # The cluster

    def clusters(self, at: str = "") -> list[str]:
        """Names of the clusters that a broker (base URL; empty: any) knows; a single one is its own."""
        return sorted(map(str, self.get("/admin/v2/clusters", f"asking {at or 'brokers'} for the clusters", at)))

    def version(self) -> str:
        """Release of the broker that answers, as in 4.0.8."""
        return str(self.get("/admin/v2/brokers/version", "asking for the version")).strip()

    def brokers(self) -> list[str]:
        """The active brokers (host:port of their web service), in order. Needs a superuser."""
        return sorted(map(str, self.get("/admin/v2/brokers", "asking for the brokers")))

    def bookies(self) -> list[str]:
        """All bookies that have ever registered (host:port), in order, also those that are away."""
        bookies = self.get("/admin/v2/bookies/all", "asking for the bookies")["bookies"]
        return sorted(str(bookie["bookieId"]) for bookie in bookies)

    def own_addresses(self, at: str) -> dict[str, str]:
        """Addresses that a broker (base URL) reports of itself: webServiceUrl, webServiceUrlTls,
        pulsarServiceUrl, pulsarServiceUrlTls; behind a proxy, of any broker. Needs a superuser.
        """
        report = self.get("/admin/v2/broker-stats/load-report", f"asking {at} for its load", at)
        return {name: str(url) for name, url in report.items() if url and str(name).removesuffix("Tls").endswith("Url")}

    def internal_configuration(self) -> dict[str, str]:
        """Place of the cluster's metadata (metadataStoreUrl, ledgersRootPath ...). Needs a superuser."""
        path = "/admin/v2/brokers/internal-configuration"
        return {str(name): str(value) for name, value in self.get(path, "asking for the metadata store").items()}

    def is_ready(self, at: str = "") -> bool:
        """Whether a broker (base URL; empty: any) reports that it has started."""
        with suppress(TargetError):
            return str(self.get("/admin/v2/brokers/ready", "asking whether it is ready", at)) == "ok"
        return False

    def check_health(self, at: str = "") -> None:
        """Have a broker (base URL; empty: any) write a message and read it. Needs a superuser."""
        self.get("/admin/v2/brokers/health", f"health check of {at or 'a broker'}", at)

    # Dynamic configuration of brokers

    def dynamic_names(self) -> list[str]:
        return [str(name) for name in self.get("/admin/v2/brokers/configuration", "asking for dynamic settings")]

    def dynamic_values(self) -> dict[str, str]:
        values = self.get("/admin/v2/brokers/configuration/values", "asking for dynamic settings")
        return {str(name): str(value) for name, value in (values or {}).items()}

    def effective(self, names: Sequence[str], at: str = "") -> dict[str, str]:
        """These settings in effect on a broker, if known. The answer has all, passwords too: no other is kept."""
        settings = self.get("/admin/v2/brokers/configuration/runtime", "asking for settings", at)
        return {name: str(settings[name]) for name in names if name in settings}

    def harmless_settings(self, at: str = "") -> dict[str, str]:
        """Effective values of all settings on a broker (base URL), without those that may hold secrets."""
        settings = self.get("/admin/v2/brokers/configuration/runtime", "asking for settings", at)
        return {name: str(value) for name, value in settings.items() if not may_hold_a_secret(name)}

    def set_dynamic(self, name: str, value: str) -> None:
        """Set a dynamic setting of all brokers, which take it some ms later."""
        path = f"/admin/v2/brokers/configuration/{quote(name, safe='')}/{quote(value, safe='')}"
        self.ask("POST", path, f"setting {name} = {value} of the brokers")

    def remove_dynamic(self, name: str) -> None:
        path = f"/admin/v2/brokers/configuration/{quote(name, safe='')}"
        with _but_for(NOT_FOUND):
            self.ask("DELETE", path, f"removing the dynamic setting {name} of the brokers")

    # Tenants and namespaces

    def create_tenant(self, tenant: str, clusters: Sequence[str], roles: Sequence[str] = ()) -> None:
        body = {"allowedClusters": list(clusters), "adminRoles": list(roles)}
        self._create(f"/admin/v2/tenants/{tenant}", f"creating tenant {tenant}", body)

    def namespaces(self, tenant: str) -> list[str]:
        """The tenant's namespaces, each as tenant/namespace."""
        return [str(name) for name in self.get(f"/admin/v2/namespaces/{tenant}", f"asking for those of {tenant}")]

    def create_namespace(self, namespace: str, policies: Mapping[str, object]) -> None:
        """Create tenant/namespace with these policies (of Pulsar's Policies: bundles, properties, persistence ...)."""
        self._create(f"/admin/v2/namespaces/{namespace}", f"creating namespace {namespace}", dict(policies))

    def delete_namespace(self, namespace: str) -> None:
        """Delete a namespace without topics, if it exists."""
        with _but_for(NOT_FOUND):
            self.ask("DELETE", f"/admin/v2/namespaces/{namespace}", f"deleting namespace {namespace}")

    def policies(self, namespace: str) -> dict[str, Any]:
        """All policies of tenant/namespace, by the names of Pulsar's Policies."""
        return dict(self.get(f"/admin/v2/namespaces/{namespace}", f"asking for the policies of {namespace}"))

    def properties(self, namespace: str, at: str = "") -> dict[str, str] | None:
        """The properties of tenant/namespace; None where it does not exist. `at`: the only base URL to ask."""
        path, doing = f"/admin/v2/namespaces/{namespace}/properties", f"asking for properties of {namespace}"
        with _but_for(NOT_FOUND):
            properties = self.get(path, doing, at)
            return {str(name): str(value) for name, value in (properties or {}).items()}
        return None

    def set_policy(self, namespace: str, endpoint: str, value: object, method: str = "POST") -> None:
        """Set a policy by the last part of its path (persistence, retention, messageTTL, publishRate ...)."""
        path, doing = f"/admin/v2/namespaces/{namespace}/{endpoint}", f"setting {endpoint} of namespace {namespace}"
        self.ask(method, path, doing, body=value)

    def remove_policy(self, namespace: str, endpoint: str) -> None:
        """Remove a policy, so that the brokers' own value counts."""
        path, doing = f"/admin/v2/namespaces/{namespace}/{endpoint}", f"removing {endpoint} of namespace {namespace}"
        with _but_for(NOT_FOUND):
            self.ask("DELETE", path, doing)

    # Topics

    def create_topic(self, topic: TopicName, partitions: int) -> None:
        self._create(f"/admin/v2/{topic.path}/partitions", f"creating topic {topic}", partitions)

    def partitions(self, topic: TopicName) -> int:
        """Number of the topic's partitions; 0: there is no such partitioned topic."""
        with _but_for(NOT_FOUND):
            metadata = self.get(f"/admin/v2/{topic.path}/partitions", f"asking for topic {topic}")
            return int(metadata.get("partitions", 0))
        return 0

    def topics(self, namespace: str) -> list[str]:
        """Full names of the partitioned topics of tenant/namespace."""
        path = f"/admin/v2/persistent/{namespace}/partitioned"
        return [str(name) for name in self.get(path, f"asking for the topics of {namespace}")]

    def loose_topics(self, namespace: str) -> list[str]:
        """Full names of all topics of tenant/namespace, each partition by its own."""
        return [str(name) for name in self.get(f"/admin/v2/persistent/{namespace}", f"asking for {namespace}")]

    def delete_topic(self, topic: TopicName) -> None:
        """Delete a partitioned topic, if it exists, with its subscriptions, also while clients are connected."""
        path = f"/admin/v2/{topic.path}/partitions"
        with _but_for(NOT_FOUND):
            self.ask("DELETE", path, f"deleting topic {topic}", query={"force": "true"})

    def delete_loose_topic(self, topic: TopicName) -> None:
        """Delete a topic without partitions, or a partition that its topic has left behind."""
        with _but_for(NOT_FOUND):
            self.ask("DELETE", f"/admin/v2/{topic.path}", f"deleting topic {topic}", query={"force": "true"})

    def owner(self, topic: TopicName) -> dict[str, str]:
        """Addresses (brokerUrl, httpUrl ...) of the partition's broker; one without gets one, as by any look-up."""
        addresses = self.get(f"/lookup/v2/topic/{topic.path}", f"looking {topic} up")
        return {str(name): str(url) for name, url in addresses.items() if url}

    def bundle(self, topic: TopicName) -> str:
        """The range of hashes, as 0x..._0x..., of the namespace bundle that a partition is in."""
        return str(self.get(f"/lookup/v2/topic/{topic.path}/bundle", f"asking for the bundle of {topic}")).strip()

    def unload_bundle(self, namespace: str, bundle: str, destination: str) -> None:
        """Unload a bundle; the next look-up gives it to `destination` (a registered name). Needs a superuser."""
        path, doing = f"/admin/v2/namespaces/{namespace}/{bundle}/unload", f"giving {bundle} to {destination}"
        self.ask("PUT", path, doing, query={"destinationBroker": destination})

    def stats(self, topic: TopicName) -> dict[str, Any]:
        """A partition's statistics since its broker loaded it."""
        return dict(self.get(f"/admin/v2/{topic.path}/stats", f"asking for statistics of {topic}"))

    def internal_stats(self, topic: TopicName) -> dict[str, Any]:
        """A partition's internal statistics, with its ledgers' metadata."""
        path = f"/admin/v2/{topic.path}/internalStats"
        return dict(self.get(path, f"asking for internal statistics of {topic}", metadata="true"))

    def ledgers(self, topic: TopicName) -> list[Ledger]:
        """A partition's ledgers, oldest first."""
        ledgers = self.internal_stats(topic)["ledgers"]
        return [Ledger.of(ledger) for ledger in ledgers if ledger.get("metadata")]

    # Subscriptions

    def subscribe(self, topic: TopicName, subscription: str) -> None:
        """Create a subscription of a partition, at its end, unless it exists."""
        path = f"/admin/v2/{topic.path}/subscription/{quote(subscription, safe='')}"
        with _but_for(CONFLICT):
            self.ask("PUT", path, f"subscribing {subscription} to {topic}")

    def analyzed(self, topic: TopicName, subscription: str, start: tuple[int, int] | None = None) -> dict[str, Any]:
        """Have the broker read a subscription's backlog in a partition from `start` (ledger, entry); return counts.

        It ends at its own limits (subscriptionBacklogScanMaxEntries, ...MaxTimeMs) with `aborted` true.
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
