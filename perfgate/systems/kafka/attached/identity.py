"""Identity of real brokers: all servers that a target file names have to be of the cluster that it means."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.systems.kafka.attached.described import DescribedTarget
from perfgate.systems.kafka.client.admin import cluster_id_at


class OtherClusterError(TargetError):
    """The brokers are not of the cluster that the run began on."""


def require_same(told: str | None, meant: str) -> None:
    """Raise OtherClusterError when brokers tell another cluster's id than the one meant; that none is told is none."""
    if told and meant and told != meant:
        raise OtherClusterError(
            f"these brokers are of cluster {told}, and the run began on cluster {meant}: the names of its servers lead "
            "elsewhere now"
        )


def refuse_other_clusters(described: DescribedTarget, cluster_id: str) -> None:
    """Raise ConfigurationError when the file names another cluster's id, or one of its servers is another's."""
    if described.cluster_id not in ("", cluster_id):
        raise ConfigurationError(
            f"{described.path}: cluster-id is {described.cluster_id}, and these brokers are of cluster "
            f"{cluster_id}: nothing was done to them"
        )
    found = _ids(described, f"{described.bootstrap},{described.cross_zone_bootstrap}")
    if others := {server: id_ for server, id_ in found.items() if id_ not in ("", cluster_id)}:
        told = ", ".join(f"{server} of cluster {id_}" for server, id_ in others.items())
        raise ConfigurationError(
            f"{described.path}: its servers are not of one cluster: {told}, the others of {cluster_id}; "
            "nothing was done to them"
        )


def refuse_a_silent_zone(described: DescribedTarget, cluster_id: str) -> None:
    """Raise ConfigurationError when a server of the other zone does not tell its cluster, not even when it is well.

    Asked last: it may be one that a killed run had taken away, or one of a cluster that is not well, which is the
    better answer.
    """
    servers = [at for at in described.cross_zone_bootstrap.split(",") if at]
    if silent := [at for at in servers if cluster_id_at(at, described.client) != cluster_id]:
        raise ConfigurationError(
            f"{described.path}: [zones] cross-zone: {', '.join(silent)} does not tell which cluster it is of"
        )


def those_that_tell(described: DescribedTarget, cluster_id: str, note: Callable[[str], None]) -> DescribedTarget:
    """Return the target with those servers alone that tell that they are of this cluster.

    The name of one that is silent may lead to another cluster when it is not. Raises ConfigurationError when all are.
    """
    found = _ids(described, described.bootstrap)
    if not (telling := [server for server, id_ in found.items() if id_ == cluster_id]):
        raise ConfigurationError(f"{described.path}: none of its servers tells that it is of cluster {cluster_id}")
    for silent in (server for server in found if server not in telling):
        note(f"note: {silent} does not tell that it is of cluster {cluster_id}: this run does without it")
    return replace(described, bootstrap=",".join(telling))


def _ids(described: DescribedTarget, addresses: str) -> dict[str, str]:
    """Return the id of the cluster that each server (host:port, commas between) is of; empty for one that is silent."""
    servers = [at for at in addresses.split(",") if at]
    with ThreadPoolExecutor(max_workers=len(servers)) as pool:
        return dict(zip(servers, pool.map(lambda at: cluster_id_at(at, described.client), servers), strict=True))
