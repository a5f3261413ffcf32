"""Bases of the targets and clusters of Pulsar that this suite starts: ports on loopback, readiness, topics, watches."""

from __future__ import annotations

import math
import socket
import statistics
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

from perfgate.host.ports import HOST, free_ports, listens
from perfgate.host.toxiproxy import ToxiproxyApi, ask_here
from perfgate.model import ClusterSpec, Link, Scenario, Settings
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.systems import unable
from perfgate.systems.own_target import NodeFaults, OwnTarget, StartedCluster
from perfgate.systems.pulsar.client import servers_of
from perfgate.systems.pulsar.client.admin import Admin, TopicName
from perfgate.systems.pulsar.client.live_settings import LiveSettings
from perfgate.systems.pulsar.client.roundtrip import OF_PINGS, ping_rtt_ms
from perfgate.systems.pulsar.client.topics import BUNDLES, Topics, place
from perfgate.systems.pulsar.managed.nodes import (
    CLUSTER,
    CROSS_ZONE_LISTENER,
    METADATA_STORE,
    SAME_ZONE_LISTENER,
    Role,
    bookie_ids,
    bookie_settings,
    broker_settings,
    default_quorums,
    metadata_store_settings,
    needed_mib,
    node_ids,
    node_name,
    role_of,
)
from perfgate.systems.pulsar.observe import ANSWER_WITHIN_S as WATCH_ANSWER_WITHIN_S
from perfgate.systems.pulsar.observe import OwnerWatch

TENANT, NAMESPACE = "kpg", "run"
PREFIX = f"persistent://{TENANT}/{NAMESPACE}/kpg-"
HEALTH: Mapping[Role, str] = {"bookie": "/api/v1/bookie/is_ready", "broker": "/admin/v2/brokers/ready"}
NOT_READY = "Pulsar's nodes were not ready"
SERVES = b"srvr"
"""ZooKeeper's four-letter command that it answers once it serves."""
ANSWER_WITHIN_S, ASK_HEALTH_EVERY_S = 2.0, 1.0


class PulsarFaults(NodeFaults):
    """Faults of brokers (1, 2, ...), bookies (11, ...), the metadata store (21); see `perfgate.model.target.Faults`."""

    active_controller = unable("Pulsar has no controller")
    move_replicas = unable("Pulsar moves no replicas: an entry stays on the bookies that it was written to")
    drop_cache = unable("Pulsar's bookies keep entries in caches of their own, which cannot be dropped")
    local_share = unable("Pulsar's offloading is not measured")

    def changes(self, topic: str) -> None:
        """None: no node keeps a log of the partitions' owners."""


class OwnCluster(StartedCluster):
    """The common half of :class:`perfgate.model.target.Cluster`; starting and watching nodes is the other."""

    prefix = PREFIX
    faults: PulsarFaults
    internal, same_zone = SAME_ZONE_LISTENER, ""
    """Listeners for other brokers, and for clients of this zone; empty: the same."""
    bound = HOST

    def __init__(self, spec: ClusterSpec, logs: Path, *, cross_zone: bool) -> None:
        """`cross_zone`: put proxies in front of the brokers, for clients of another zone."""
        super().__init__(spec, logs)
        self._nodes = node_ids(spec)
        # Ports on this machine, fixed so that a node that is started again keeps them.
        ports = iter(free_ports(2 * len(self._nodes) + len(self._ids) + 1))
        self._ports = {node: next(ports) for node in self._nodes}
        self._web_ports = {node: next(ports) for node in self._nodes}
        """Ports of bookies and brokers for health and metrics."""
        self._proxy_ports = {broker: next(ports) for broker in self._ids} if cross_zone else {}
        self._proxy_api_port = next(ports)
        self._ready: set[int] = set()
        self._registered: tuple[str, ...] = ()
        self._healthy_at: dict[int, float] = {}

    def start(self) -> None:
        self._logs.mkdir(parents=True, exist_ok=True)
        begin = time.monotonic()
        with self._starting():
            self._spawn(METADATA_STORE)
            store = "the metadata store does not answer"
            self._wait(lambda: "" if self._is_healthy(METADATA_STORE) else store, NOT_READY)
            self._set_metadata_up()
            for node in self._nodes:
                if node != METADATA_STORE:
                    self._spawn(node)
            if self._proxy_ports:
                self.proxy = self._started_proxy()
        self._wait(self._not_ready, NOT_READY)
        self.admin.create_tenant(TENANT, [CLUSTER])
        self.admin.create_namespace(f"{TENANT}/{NAMESPACE}", {"bundles": {"numBundles": BUNDLES}})
        self._started_s = time.monotonic() - begin

    @abstractmethod
    def _starting(self) -> AbstractContextManager[None]:
        """Prepare the nodes' files; nodes start inside the context."""

    @abstractmethod
    def _spawn(self, node: int) -> None: ...

    @abstractmethod
    def _set_metadata_up(self) -> None: ...

    @abstractmethod
    def _started_proxy(self) -> ToxiproxyApi:
        """Start Toxiproxy with a delayed proxy to each broker."""

    @abstractmethod
    def _folder(self, node: int) -> object: ...

    @abstractmethod
    def _broker_of(self, name: str) -> int:
        """The broker that registered under this name (host:port)."""

    def _host(self, node: int) -> str:
        return HOST

    def _port(self, node: int, *, web: bool = False) -> int:
        return (self._web_ports if web else self._ports)[node]

    def _at(self, node: int, *, web: bool = False) -> str:
        """Address (host:port) at which other nodes reach a node, or its web service."""
        return f"{self._host(node)}:{self._port(node, web=web)}"

    @cached_property
    def admin(self) -> Admin:
        urls = {broker: f"{HOST}:{self._web_ports[broker]}" for broker in self._ids}
        reached = {self._at(broker, web=True): url for broker, url in urls.items()}
        return Admin([f"http://{url}" for url in urls.values()], reached=reached)

    def _begin_at(self, *, cross_zone: bool) -> str:
        ports, listener = (self._proxy_ports, CROSS_ZONE_LISTENER) if cross_zone else (self._ports, self.same_zone)
        url = "pulsar://" + ",".join(f"{HOST}:{ports[broker]}" for broker in self._ids)
        return f"{url}#{listener}" if listener else url

    def client_settings(self) -> Settings:
        return ()

    def watch(self, topic: str, link: Link) -> OwnerWatch:
        """A watch of the topic's state; `link` plays no part: it asks the brokers' web services."""
        return OwnerWatch(
            self.admin.impatient(WATCH_ANSWER_WITHIN_S),
            topic,
            brokers=self._broker_addresses(),
            bookies={self._at(bookie): bookie for bookie in bookie_ids(self.spec)},
            there=self._others_there,
        )

    def topics(self) -> Topics:
        return self._topics

    @cached_property
    def _topics(self) -> Topics:
        """The same for all benches: it knows the namespace's policies before any topic."""
        return Topics(self.check, self.admin, self._broker_addresses, self._place)

    def live_settings(self) -> LiveSettings:
        return LiveSettings(self.admin, self.admin.urls)

    def limit(self, client_id: str, bytes_per_s: int) -> None:
        """Raise TargetError: no scenario with a quota is run here."""
        raise TargetError(f"no quota is set here ({client_id}: {bytes_per_s:,} bytes/s)")

    def rtt_ms(self, link: Link) -> float:
        addresses = (server.split(":") for server in servers_of(self.bootstrap(link)))
        return statistics.median(ping_rtt_ms(host, int(port)) for host, port in addresses)

    @property
    def node_logs(self) -> Mapping[int, str]:
        return {node: node_name(node) for node in self._nodes}

    def _common_facts(self) -> dict[str, object]:
        return {
            "system": "pulsar",
            "pulsar_version": self.spec.version,
            "brokers": self.spec.brokers,
            "bookies": self.spec.bookies,
            "metadata_stores": 1,
            "quorums": "/".join(map(str, default_quorums(self.spec))),
            "durability": self.spec.durability,
            "rtt_of": OF_PINGS,
            "ready_s": round(self._started_s, 2),
        }

    def _settings(self, node: int) -> Mapping[str, str]:
        metadata = self._at(METADATA_STORE)
        match role_of(node):
            case "metadata store":
                return metadata_store_settings(port=self._port(node), folder=self._folder(node), bound=self.bound)
            case "bookie":
                return bookie_settings(
                    self.spec,
                    port=self._port(node),
                    http_port=self._port(node, web=True),
                    metadata=metadata,
                    folder=self._folder(node),
                    host=self._host(node),
                    bound=self.bound,
                )
            case "broker":
                listeners = {self.internal: self._at(node)}
                if self.same_zone:
                    listeners[self.same_zone] = f"{HOST}:{self._ports[node]}"
                if node in self._proxy_ports:
                    listeners[CROSS_ZONE_LISTENER] = f"{HOST}:{self._proxy_ports[node]}"
                return broker_settings(
                    self.spec,
                    port=self._port(node),
                    web_port=self._port(node, web=True),
                    metadata=metadata,
                    listeners=listeners,
                    bound=self.bound,
                )

    def _setup_arguments(self) -> list[str]:
        store, broker = f"zk:{self._at(METADATA_STORE)}", self._ids[0]
        options = {
            "--cluster": CLUSTER,
            "--metadata-store": store,
            "--configuration-metadata-store": store,
            "--web-service-url": f"http://{self._at(broker, web=True)}",
            "--broker-service-url": f"pulsar://{self._at(broker)}",
        }
        return [word for option in options.items() for word in option]

    def _not_ready(self) -> str:
        """The nodes that are not ready yet; each is asked until it has been ready once."""
        waiting = [node for node in self._nodes if node not in {*self._ready, METADATA_STORE}]
        self._ready |= {node for node in waiting if self._is_healthy(node)}
        if lacking := [node_name(node) for node in waiting if node not in self._ready]:
            return f"not ready: {', '.join(lacking)}"
        try:
            self._registered = tuple(self.admin.brokers())
        except TargetError as error:
            return str(error)
        there, wanted = len(self._registered), len(self._ids)
        return f"{there} of {wanted} brokers are registered" if there < wanted else ""

    def _is_healthy(self, node: int) -> bool:
        if node == METADATA_STORE:
            return serves(self._ports[node])
        url = f"http://{HOST}:{self._web_ports[node]}{HEALTH[role_of(node)]}"
        try:
            ask_here(url, timeout_s=ANSWER_WITHIN_S)
        except OSError:
            return False
        return True

    def _others_there(self) -> list[int]:
        """The metadata store and the bookies that are alive.

        A node is alive while its port is open and it was healthy when it was last asked, a second ago at most: asking
        ten times a second would cost it, and the load beside it, several percent of a core.
        """
        there = []
        for node in (METADATA_STORE, *bookie_ids(self.spec)):
            recently = time.monotonic() - self._healthy_at.get(node, -math.inf) < ASK_HEALTH_EVERY_S
            if not (listens(f"{HOST}:{self._ports[node]}", timeout_s=1) and (recently or self._is_healthy(node))):
                self._healthy_at.pop(node, None)
                continue
            if not recently:
                self._healthy_at[node] = time.monotonic()
            there.append(node)
        return there

    def _broker_addresses(self) -> Mapping[str, int]:
        ports = (self._ports, self._web_ports)
        return {
            **{name: self._broker_of(name) for name in self._registered},
            **{self._at(broker, web=web): broker for web in (False, True) for broker in self._ids},
            **{f"{HOST}:{of[broker]}": broker for of in ports for broker in self._ids},
        }

    def _place(self, topic: TopicName, partitions: int) -> None:
        """Spread a new topic's partitions where all brokers are there; else they stay where Pulsar places them."""
        names = {self._broker_of(name): name for name in self.admin.brokers()}
        if len(names) == len(self._ids):
            addresses = self._broker_addresses()
            place(self.admin, topic, partitions, names=names, brokers=addresses, check=self.check)


def serves(port: int) -> bool:
    """Whether a metadata store on this machine answers: its port may be open before, or be a proxy's."""
    try:
        with socket.create_connection((HOST, port), timeout=ANSWER_WITHIN_S) as connection:
            connection.sendall(SERVES)
            return b"Mode:" in b"".join(iter(partial(connection.recv, 4096), b""))
    except OSError:
        return False


Started = TypeVar("Started", bound=OwnCluster)


class StartedTarget(OwnTarget[Started]):
    """Starts clusters of Pulsar on this machine; see :class:`perfgate.model.target.Target`."""

    nodes_called = "Pulsar's nodes"

    def facts(self, spec: ClusterSpec) -> Mapping[str, object]:
        return {
            "kind": self.kind,
            "name": self.kind,
            "system": "pulsar",
            "pulsar_version": spec.version,
            "durability": spec.durability,
        }

    def cannot(self, scenario: Scenario) -> str | None:
        """The reason against a scenario that severs links, or lacks bookies for a topic that is not to be refused."""
        topic, bookies = scenario.topic, scenario.cluster.bookies
        if topic.ensemble > bookies and not scenario.refusal:
            return f"quorums {topic.quorums} need {topic.ensemble} bookies; the cluster has {bookies}"
        return "links of Pulsar's nodes cannot be severed here" if scenario.cluster.severable else None

    def _needed_mib(self, spec: ClusterSpec) -> float:
        return needed_mib(spec)


def check_specs(specs: Iterable[ClusterSpec]) -> None:
    """Raise ConfigurationError for a cluster that Pulsar cannot form, wherever it is started."""
    for spec in specs:
        if spec.home:
            raise ConfigurationError("cluster.home is a build of Kafka; Pulsar is started from released jars or images")
        if spec.security != "plaintext":
            raise ConfigurationError("cluster.security: the suite starts Pulsar without security")
        if spec.controllers:
            raise ConfigurationError("cluster.controllers: Pulsar has none; its metadata store is one process")
        if spec.log_dirs != 1:
            raise ConfigurationError("cluster.log-dirs is of Kafka's brokers; a bookie has its journal and its ledgers")
        if not spec.bookies >= 1:
            raise ConfigurationError("cluster.bookies must be 1 or more for Pulsar")
