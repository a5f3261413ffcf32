"""Bases of the targets and clusters that this suite starts itself: listeners at known ports of loopback, readiness."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from confluent_kafka import KafkaException

from perfgate.host.ports import HOST, listens
from perfgate.model import SAME_ZONE, ClusterSpec, Link, Settings
from perfgate.model.errors import TargetError
from perfgate.model.load import PREFIX
from perfgate.systems.kafka.client.live_settings import LiveSettings
from perfgate.systems.kafka.client.roundtrip import OF_CLIENTS, client_rtt_ms, request_rtt_ms
from perfgate.systems.kafka.client.topics import Topics, admin_client
from perfgate.systems.kafka.managed.brokers import broker_ids
from perfgate.systems.kafka.managed.faults import KafkaFaults
from perfgate.systems.kafka.managed.monitoring import AGENT_FIRST_PORT
from perfgate.systems.kafka.managed.secured import Secured
from perfgate.systems.kafka.observe import MetadataWatch
from perfgate.systems.own_target import OwnTarget, StartedCluster

LISTENERS = ("SAMEZONE", "CROSSZONE", "PROXY", "AGENT")
"""Of each broker: for clients of its zone, for those of another, the proxy in front of the latter, its JMX exporter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Monitoring:
    """Whether the brokers get a JMX exporter, and which Prometheus scrapes those: the run's own or another."""

    own: bool = False
    url: str = ""
    image: str = ""
    """Of the run's own Prometheus, where brokers are containers."""

    @property
    def wanted(self) -> bool:
        return self.own or bool(self.url)


NOT_MONITORED = Monitoring()


def listener_ports(spec: ClusterSpec, monitoring: Monitoring, free: Iterator[int]) -> dict[str, dict[int, int]]:
    """Return a port for every listener of every broker, by broker id: fixed, so that a restarted broker keeps them.

    A Prometheus that was there before scrapes exporters from AGENT_FIRST_PORT on.
    """
    ports = {name: {broker: next(free) for broker in broker_ids(spec)} for name in LISTENERS}
    if monitoring.url:
        ports["AGENT"] = {broker: AGENT_FIRST_PORT + n for n, broker in enumerate(broker_ids(spec))}
    return ports


class OwnCluster(StartedCluster):
    """The common half of :class:`perfgate.model.target.Cluster`; starting and watching brokers is the other."""

    prefix = PREFIX
    faults: KafkaFaults

    def __init__(
        self, spec: ClusterSpec, ports: Mapping[str, Mapping[int, int]], monitoring: Monitoring, logs: Path
    ) -> None:
        """`ports` on this machine: of every listener by broker id."""
        super().__init__(spec, logs)
        self._ports = ports
        self._monitoring = monitoring
        self._secured: Secured | None = None
        self.prometheus_url = monitoring.url
        """The Prometheus that scrapes these brokers, if any."""

    def agents(self) -> Mapping[str, int]:
        """The broker of every JMX exporter, by the exporter's address as a Prometheus may call it."""
        return {f"{host}:{port}": b for host in (HOST, "localhost") for b, port in self._ports["AGENT"].items()}

    def broker_hosts(self) -> Mapping[int, str]:
        return dict.fromkeys(self._ids, HOST)

    def _begin_at(self, *, cross_zone: bool) -> str:
        return self._addresses("PROXY" if cross_zone else "SAMEZONE")

    def client_settings(self) -> Settings:
        return self._secured.client_settings() if self._secured else ()

    def watch(self, topic: str, link: Link) -> MetadataWatch:
        return MetadataWatch(self.bootstrap(link), self.client_settings(), topic)

    def topics(self) -> Topics:
        return Topics(self)

    def live_settings(self) -> LiveSettings:
        return LiveSettings(admin_client(self.bootstrap(SAME_ZONE), self.client_settings()), list(map(str, self._ids)))

    def limit(self, client_id: str, bytes_per_s: int) -> None:
        self.faults.limit(client_id, bytes_per_s)

    def rtt_ms(self, link: Link) -> float:
        """Median over the brokers of a request's round trip, in ms; of a client's where listeners are secured."""
        if settings := self.client_settings():
            return client_rtt_ms(self.bootstrap(link), settings, link.name)
        addresses = (address.split(":") for address in self.bootstrap(link).split(","))
        return statistics.median(request_rtt_ms(host, int(port)) for host, port in addresses)

    def wait_until_ready(self, *listeners: str) -> None:
        """Wait until every broker is registered and takes connections at these listeners. Raises as `_wait`."""
        admin = admin_client(self.bootstrap(SAME_ZONE), self.client_settings())
        brokers, addresses = self.spec.brokers, self._addresses(*listeners).split(",")

        def missing() -> str:
            try:
                registered = len(admin.list_topics(timeout=1).brokers)
            except KafkaException as error:
                return str(error)
            # A broker is registered a moment before it takes connections.
            closed = [address for address in addresses if not listens(address, timeout_s=1)]
            if registered == brokers and not closed:
                return ""
            return f"{registered} of {brokers} brokers registered, closed: {', '.join(closed) or 'none'}"

        self._wait(missing, f"{brokers} brokers were not ready")

    def _addresses(self, *listeners: str) -> str:
        return ",".join(f"{HOST}:{port}" for name in listeners for port in self._ports[name].values())

    def _common_facts(self) -> dict[str, object]:
        return {
            "kafka_version": self.spec.version,
            "brokers": self.spec.brokers,
            "rtt_of": OF_CLIENTS
            if self.client_settings()
            else "ApiVersions on a raw connection, median of the brokers",
            "controllers": self.spec.controllers,
            "security": self.spec.security,
            "log_dirs": f"{self.spec.log_dirs} a broker, all on one device",
            "racks": [f"az-{broker}" for broker in self._ids],
        }


Started = TypeVar("Started", bound=OwnCluster)


class KafkaTarget(OwnTarget[Started]):
    def __init__(self, *, log_folder: Path, say: Callable[[str], None], monitoring: Monitoring = NOT_MONITORED) -> None:
        super().__init__(log_folder=log_folder, say=say)
        self._monitoring = monitoring

    def facts(self, spec: ClusterSpec) -> Mapping[str, object]:
        return {"kind": self.kind, "name": self.kind, "kafka_version": spec.version}

    def beside(self, spec: ClusterSpec) -> Started:
        if self._monitoring.url:
            raise TargetError("two clusters side by side have no room at the fixed ports that a Prometheus scrapes")
        return super().beside(spec)
