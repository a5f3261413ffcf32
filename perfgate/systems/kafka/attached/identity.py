"""Identity of real brokers: all servers that a target file names have to be of the cluster that it means."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.attached.described import DescribedTarget
from perfgate.systems.kafka.client.admin import cluster_id_at


def refuse_other_clusters(described: DescribedTarget, cluster_id: str) -> None:
    """Raise ConfigurationError when the file names another cluster's id, or one of its servers is another's."""
    if described.cluster_id not in ("", cluster_id):
        raise ConfigurationError(
            f"{described.path}: cluster-id is {described.cluster_id}, and these brokers are of cluster "
            f"{cluster_id}: nothing was done to them"
        )
    servers = [at for text in (described.bootstrap, described.cross_zone_bootstrap) for at in text.split(",") if at]
    with ThreadPoolExecutor(max_workers=len(servers)) as pool:
        found = dict(zip(servers, pool.map(lambda at: cluster_id_at(at, described.client), servers), strict=True))
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
