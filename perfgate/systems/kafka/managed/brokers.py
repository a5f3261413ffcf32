"""How brokers are set up that this suite starts itself, wherever they run."""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping

from perfgate.model import ClusterSpec

FIRST_CONTROLLER = 101
"""Node id of the first controller that is no broker."""
HEAP = ("-Xms512m", "-Xmx512m")
"""Fixed, so that memory and collections do not depend on the size of the machine."""


def broker_ids(spec: ClusterSpec) -> range:
    """Return the node ids of the brokers."""
    return range(1, spec.brokers + 1)


def controller_ids(spec: ClusterSpec) -> range:
    """Return the node ids of the nodes that are controllers and nothing else."""
    return range(FIRST_CONTROLLER, FIRST_CONTROLLER + spec.controllers)


def quorum_ids(spec: ClusterSpec) -> range:
    """Return the node ids of the nodes that vote."""
    return controller_ids(spec) or broker_ids(spec)


def node_name(spec: ClusterSpec, node: int) -> str:
    """Return what a node is called in logs and networks."""
    return f"controller-{node}" if node in controller_ids(spec) else f"broker-{node}"


def node_settings(
    spec: ClusterSpec,
    node: int,
    *,
    listeners: Mapping[str, str],
    advertised: Mapping[str, str],
    inter_broker: str,
    voters: Mapping[int, str],
    log_dir: object,
) -> dict[str, str]:
    """Return the settings of a node in the roles that the spec gives it.

    `listeners` and `advertised` give host:port by listener name, CONTROLLER among the former; `voters` that of every
    voting node; `log_dir` is the node's own folder. The spec's own settings come last and win.
    """
    replication = min(3, spec.brokers)
    values = {
        "node.id": node,
        "controller.quorum.voters": ",".join(f"{voter}@{address}" for voter, address in voters.items()),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners),
        "log.dirs": ",".join(log_dirs(spec, node, log_dir)),
        **_role(spec, node, listeners, advertised, inter_broker),
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": replication,
        "share.coordinator.state.topic.replication.factor": replication,
        "share.coordinator.state.topic.min.isr": min(2, replication),
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.min.isr": min(2, replication),
        # A round's topic is deleted after it; its files go soon, so that the disk holds one or two rounds.
        "log.segment.delete.delay.ms": 1000,
        # Preferred leaders are back within seconds of a broker; Kafka looks every 300 s.
        "leader.imbalance.check.interval.seconds": 5,
        "leader.imbalance.per.broker.percentage": 0,
        **dict(spec.config),
    }
    return {name: str(value) for name, value in values.items()}


def log_dirs(spec: ClusterSpec, node: int, folder: object) -> list[str]:
    """Return the folders of a node's partitions: `folder` itself, or as many in it as the spec asks for."""
    if spec.log_dirs == 1 or node in controller_ids(spec):
        return [str(folder)]
    return [f"{folder}/disk-{number}" for number in range(1, spec.log_dirs + 1)]


def _role(
    spec: ClusterSpec, node: int, listeners: Mapping[str, str], advertised: Mapping[str, str], inter_broker: str
) -> dict[str, object]:
    if node in controller_ids(spec):
        return {"process.roles": "controller", "listeners": _joined({"CONTROLLER": listeners["CONTROLLER"]})}
    votes = node in quorum_ids(spec)
    own = {name: address for name, address in listeners.items() if votes or name != "CONTROLLER"}
    return {
        "process.roles": "broker,controller" if votes else "broker",
        "broker.rack": f"az-{node}",
        "inter.broker.listener.name": inter_broker,
        "listeners": _joined(own),
        "advertised.listeners": _joined(advertised),
    }


def _joined(addresses: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in addresses.items())


def new_cluster_id() -> str:
    """Return a random UUID in URL-safe base64, as Kafka writes it; a dash in front would be an option to its tools."""
    while True:
        text = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
