"""Identity of real brokers: one cluster, the one that the file means, all its brokers, and a digest of its settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigSource

from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.systems.kafka.attached.described import DescribedTarget
from perfgate.systems.kafka.client.admin import CONNECT_S, broker_config, cluster_id_at
from perfgate.systems.kafka.client.topics import admin_client, answer

OF_ONE = re.compile(r"(broker|node)\.id|broker\.rack|(.+\.)?listeners|(metadata\.)?log\.dirs?|zookeeper\.connect")
"""Settings that differ from broker to broker, or move with a broker, and do not change their speed."""


def refuse_other_clusters(described: DescribedTarget, cluster_id: str) -> None:
    """Raise ConfigurationError when the file names another cluster's id, or any of its servers is another's."""
    if described.cluster_id not in ("", cluster_id):
        raise ConfigurationError(
            f"{described.path}: cluster-id is {described.cluster_id}, and these brokers are of cluster "
            f"{cluster_id}: nothing was done to them"
        )
    ids = _ids(described, f"{described.bootstrap},{described.cross_zone_bootstrap}")
    if others := {server: id_ for server, id_ in ids.items() if id_ not in ("", cluster_id)}:
        reported = ", ".join(f"{server} of cluster {id_}" for server, id_ in others.items())
        raise ConfigurationError(
            f"{described.path}: its servers are not of one cluster: {reported}, the others of {cluster_id}; "
            "nothing was done to them"
        )


def refuse_a_silent_zone(described: DescribedTarget, cluster_id: str) -> None:
    """Raise ConfigurationError when a server of the other zone does not report this cluster.

    Asked last: a killed run may have taken it away, or its cluster be unwell, which are the better answers.
    """
    servers = [at for at in described.cross_zone_bootstrap.split(",") if at]
    if silent := [at for at in servers if cluster_id_at(at, described.client) != cluster_id]:
        raise ConfigurationError(
            f"{described.path}: [zones] cross-zone: {', '.join(silent)} does not tell which cluster it is of"
        )


def servers_that_report(described: DescribedTarget, cluster_id: str, note: Callable[[str], None]) -> DescribedTarget:
    """Return the target with the servers that report this cluster: others may come to lead to another one.

    Raises ConfigurationError when all are silent.
    """
    ids = _ids(described, described.bootstrap)
    if not (reporting := [server for server, id_ in ids.items() if id_ == cluster_id]):
        raise ConfigurationError(f"{described.path}: none of its servers tells that it is of cluster {cluster_id}")
    for silent in (server for server in ids if server not in reporting):
        note(f"note: {silent} does not tell that it is of cluster {cluster_id}: this run does without it")
    return replace(described, bootstrap=",".join(reporting))


def _ids(described: DescribedTarget, addresses: str) -> dict[str, str]:
    servers = [at for at in addresses.split(",") if at]
    with ThreadPoolExecutor(max_workers=len(servers)) as pool:
        return dict(zip(servers, pool.map(lambda at: cluster_id_at(at, described.client), servers), strict=True))


def refuse_another_number(described: DescribedTarget, brokers: Mapping[int, str]) -> None:
    if described.brokers not in (0, len(brokers)):
        raise ConfigurationError(
            f"{described.path}: brokers = {described.brokers}, and the cluster has {len(brokers)} "
            f"({', '.join(map(str, sorted(brokers)))}): wait until all are there, or state the number that there are"
        )


def brokers_now(described: DescribedTarget) -> list[int]:
    """Ids of the brokers that take part now, in order. Raises TargetError."""
    try:
        reply = admin_client(described.bootstrap, described.client).describe_cluster(request_timeout=CONNECT_S)
    except KafkaException as error:
        raise TargetError(str(error)) from error
    return sorted(node.id for node in answer(reply, "asking for the brokers").nodes)


def settings_of(admin: AdminClient, brokers: Iterable[int]) -> Iterator[tuple[str, str]]:
    """These brokers' settings that are no defaults, without secrets. Raises TargetError where one gives no answer."""
    for broker in brokers:
        for name, entry in broker_config(admin, str(broker)).items():
            default = entry.source in (ConfigSource.DEFAULT_CONFIG.value, ConfigSource.UNKNOWN_CONFIG.value)
            if not default and not entry.is_sensitive and not OF_ONE.fullmatch(name):
                yield name, str(entry.value)
