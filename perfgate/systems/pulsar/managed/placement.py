"""Placement of a topic's partitions on Pulsar's brokers: one after the other, as Kafka places leaders.

Pulsar gives bundles of a namespace to brokers, not partitions, and which bundle a partition is in its name's hash says:
of six partitions one broker served four or five in three rounds of four. A rate then depends on the topic's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perfgate.host.waiting import NotYet, poll_until
from perfgate.systems.pulsar.client.admin import Admin, TopicName
from perfgate.systems.pulsar.client.topics import owner_of

BUNDLES = 512
"""Of the run's namespace: of 25 partitions hardly two are in one bundle. One that no topic is in costs nothing."""
PLACED_WITHIN_S = 30.0
ASK_EVERY_S = 0.05


def place(
    admin: Admin,
    topic: TopicName,
    partitions: int,
    *,
    names: Mapping[int, str],
    brokers: Mapping[str, int],
    check: Callable[[], None],
) -> None:
    """Have the brokers serve the partitions in turn, before any of them is loaded.

    `names`: of the brokers as they registered, by id; `brokers`: their ids by all their addresses. Partitions in the
    same bundle stay together. Raises TargetError where a broker does not take what it is given.
    """
    ids, placed = sorted(names), set[str]()
    for number in range(partitions):
        partition, broker = topic.partition(number), ids[number % len(ids)]
        bundle = admin.bundle(partition)
        if bundle in placed:
            continue
        placed.add(bundle)

        def ask(partition: TopicName = partition, broker: int = broker, bundle: str = bundle) -> None:
            if (found := owner_of(admin, partition, brokers)) != broker:
                admin.unload_bundle(topic.namespace, bundle, names[broker])
                raise NotYet(f"broker {found} has it")

        admin.unload_bundle(topic.namespace, bundle, names[broker])
        failure = f"partition {partition} was not given to broker {broker}"
        poll_until(failure, ask, within_s=PLACED_WITHIN_S, every_s=ASK_EVERY_S, check=check)
