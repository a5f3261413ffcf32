"""The number of real brokers: what the target file states at the start, and the same brokers at the end."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaException

from perfgate.host.waiting import NotYet, poll_until
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.systems.kafka.attached.described import DescribedTarget
from perfgate.systems.kafka.client.admin import CONNECT_S
from perfgate.systems.kafka.client.topics import admin_client, answer

THERE_WITHIN_S = 10.0
"""So long a broker may take to register again, as after a rolling restart by others."""
ASK_EVERY_S = 0.5


def refuse_another_number(described: DescribedTarget, brokers: Mapping[int, str]) -> None:
    """Raise ConfigurationError where the cluster has more or fewer brokers than its file states."""
    if described.brokers not in (0, len(brokers)):
        raise ConfigurationError(
            f"{described.path}: brokers = {described.brokers}, and the cluster has {len(brokers)} "
            f"({', '.join(map(str, sorted(brokers)))}): wait until all are there, or state the number that there are"
        )


def gone(described: DescribedTarget, brokers: Mapping[int, str]) -> str:
    """Return which of the `brokers` of the start the cluster has no longer, or that none tells; empty where it has all.

    More of them than at the start are named too: the scenarios were not all measured on the same cluster.
    """

    def same() -> None:
        admin = admin_client(described.bootstrap, described.client)
        found = answer(admin.describe_cluster(request_timeout=CONNECT_S), "asking for the brokers")
        now = {node.id for node in found.nodes}
        if now != set(brokers):
            raise NotYet(f"brokers {_ids(brokers)} at the start of the run, and {_ids(now)} at its end")

    try:
        poll_until("the brokers are not those of the start", same, within_s=THERE_WITHIN_S, every_s=ASK_EVERY_S)
    except (TargetError, KafkaException) as error:
        return str(error)
    return ""


def _ids(brokers: Mapping[int, str] | set[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))
