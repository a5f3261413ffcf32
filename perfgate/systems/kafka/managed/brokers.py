"""Set-up of brokers that this suite starts: node settings, JVM options, memory, and links that can be cut."""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence

from perfgate.host.java import largest_heap_mib, names_collector
from perfgate.host.ports import HOST, free_ports
from perfgate.host.toxiproxy import ToxiproxyApi
from perfgate.model import ClusterSpec

FIRST_CONTROLLER = 101
"""Node id of the first controller that is no broker."""
HEAP = ("-Xms512m", "-Xmx512m")
"""Fixed, so that memory and collections do not depend on the size of the machine."""
# The collector's settings are those of Kafka's own start script.
JVM_OPTIONS = (
    "-server",
    *HEAP,
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
OF_G1 = ("-XX:+UseG1GC", "-XX:InitiatingHeapOccupancyPercent=35")
"""Left out with another collector: a JVM with two collectors does not start."""
BESIDE_HEAP_MIB = 250.0
"""Code, classes, threads and buffers: 703 MiB in all were seen with a heap of 512 (Kafka 4.3.1)."""


def broker_ids(spec: ClusterSpec) -> range:
    return range(1, spec.brokers + 1)


def controller_ids(spec: ClusterSpec) -> range:
    return range(FIRST_CONTROLLER, FIRST_CONTROLLER + spec.controllers)


def quorum_ids(spec: ClusterSpec) -> range:
    return controller_ids(spec) or broker_ids(spec)


def node_name(spec: ClusterSpec, node: int) -> str:
    return f"controller-{node}" if node in controller_ids(spec) else f"broker-{node}"


def node_settings(
    spec: ClusterSpec,
    node: int,
    *,
    listeners: Mapping[str, str],
    advertised: Mapping[str, str],
    voters: Mapping[int, str],
    log_dir: object,
) -> dict[str, str]:
    """Return the settings of a node in the roles that the spec gives it; the spec's own settings come last and win.

    `listeners` and `advertised` give host:port by listener name, CONTROLLER among the former; `voters` that of every
    voting node; `log_dir` is the node's own folder.
    """
    replication = min(3, spec.brokers)
    values = {
        "node.id": node,
        "controller.quorum.voters": ",".join(f"{voter}@{address}" for voter, address in voters.items()),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners),
        "log.dirs": ",".join(log_dirs(spec, node, log_dir)),
        **_role(spec, node, listeners, advertised),
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": replication,
        "share.coordinator.state.topic.replication.factor": replication,
        "share.coordinator.state.topic.min.isr": min(2, replication),
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.min.isr": min(2, replication),
        # A round's topic is deleted after it; its files go soon, so that the disk holds one or two rounds.
        "log.segment.delete.delay.ms": 1000,
        # Preferred leaders are back within seconds of a broker; Kafka's default is 300 s.
        "leader.imbalance.check.interval.seconds": 5,
        "leader.imbalance.per.broker.percentage": 0,
        **dict(spec.config),
    }
    return {name: str(value) for name, value in values.items()}


def log_dirs(spec: ClusterSpec, node: int, folder: object) -> list[str]:
    """Folders of a node's partitions: `folder` itself, or as many in it as the spec asks for."""
    if spec.log_dirs == 1 or node in controller_ids(spec):
        return [str(folder)]
    return [f"{folder}/disk-{number}" for number in range(1, spec.log_dirs + 1)]


def _role(
    spec: ClusterSpec, node: int, listeners: Mapping[str, str], advertised: Mapping[str, str]
) -> dict[str, object]:
    if node in controller_ids(spec):
        return {"process.roles": "controller", "listeners": _joined({"CONTROLLER": listeners["CONTROLLER"]})}
    votes = node in quorum_ids(spec)
    own = {name: address for name, address in listeners.items() if votes or name != "CONTROLLER"}
    return {
        "process.roles": "broker,controller" if votes else "broker",
        "broker.rack": f"az-{node}",
        "inter.broker.listener.name": "INTERNAL",
        "listeners": _joined(own),
        "advertised.listeners": _joined(advertised),
    }


def _joined(addresses: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in addresses.items())


def new_cluster_id() -> str:
    """Return a random UUID in URL-safe base64, as Kafka writes it; its tools take a leading dash for an option."""
    while True:
        text = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def needed_mib(asked: Sequence[str]) -> float:
    """Memory that a broker with these options takes, about: its heap, and BESIDE_HEAP_MIB."""
    return largest_heap_mib(jvm_options(asked)) + BESIDE_HEAP_MIB


def jvm_options(asked: Sequence[str]) -> list[str]:
    """Return the suite's own options, then those that a run asks for: the later wins, as another collector does."""
    left_out = OF_G1 if names_collector(asked) else ()
    return [*(option for option in JVM_OPTIONS if option not in left_out), *asked]


class SeverableLinks:
    """Proxies in all links of each broker of the embedded target: clients to it, brokers to it, and it to each
    controller.

    Requests of a broker itself to other brokers are not severed. That does not keep it in service: the controllers
    fence it and take it out of every in-sync set, until its heartbeats come again.
    """

    def __init__(self, spec: ClusterSpec, ports: Mapping[str, Mapping[int, int]]) -> None:
        links = {
            (broker, listener): ports[listener][broker]
            for broker in broker_ids(spec)
            for listener in ("SAMEZONE", "INTERNAL")
        } | {
            (broker, f"controller-{voter}"): ports["CONTROLLER"][voter]
            for broker in broker_ids(spec)
            for voter in quorum_ids(spec)
        }
        self._upstream = links
        self._listen = dict(zip(links, free_ports(len(links)), strict=True))
        self._voters = quorum_ids(spec)
        self.names: dict[int, list[str]] = {
            broker: [_link_name(link) for link in links if link[0] == broker] for broker in broker_ids(spec)
        }

    def add_to(self, proxy: ToxiproxyApi) -> None:
        for link, upstream in self._upstream.items():
            proxy.add_plain_proxy(
                _link_name(link), listen=f"{HOST}:{self._listen[link]}", upstream=f"{HOST}:{upstream}"
            )

    def advertised(self, broker: int) -> dict[str, str]:
        return {name: f"{HOST}:{self._listen[broker, name]}" for name in ("SAMEZONE", "INTERNAL")}

    def voters(self, broker: int) -> dict[int, str]:
        return {voter: f"{HOST}:{self._listen[broker, f'controller-{voter}']}" for voter in self._voters}


def _link_name(link: tuple[int, str]) -> str:
    return f"link-{link[0]}-{link[1].lower()}"
