"""Messages that tests of live clusters of Pulsar send, by the Python client."""

import pulsar

from perfgate.model import SAME_ZONE, Link
from perfgate.systems.pulsar.managed.own_cluster import OwnCluster


def produce(cluster: OwnCluster, topic: str, messages: int, link: Link = SAME_ZONE) -> int:
    """Send so many messages from this zone, in turn to each partition; return how many were acknowledged."""
    url, _, listener = cluster.bootstrap(link).partition("#")
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(url, logger=quiet, **({"listener_name": listener} if listener else {}))
    acknowledged = []
    try:
        producer = client.create_producer(
            topic,
            batching_enabled=True,
            block_if_queue_full=True,
            send_timeout_millis=60_000,
            message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
        )
        for _ in range(messages):
            producer.send_async(bytes(1024), lambda result, _: acknowledged.append(result))
        producer.flush()
    finally:
        client.close()
    return acknowledged.count(pulsar.Result.Ok)
