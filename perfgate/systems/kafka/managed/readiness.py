"""Readiness of a cluster that was just started: waited for as long as its brokers make progress."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from confluent_kafka import KafkaException

from perfgate.host.ports import listens
from perfgate.host.waiting import wait_while_it_progresses
from perfgate.model import SAME_ZONE
from perfgate.model.errors import BrokersFailedError
from perfgate.model.target import Cluster
from perfgate.systems.kafka.client.topics import admin_client


def wait_until_ready(
    cluster: Cluster, addresses: Sequence[str], *, check: Callable[[], None], logged: Callable[[], Hashable]
) -> None:
    """Wait until every broker is registered and every address (host:port) takes connections.

    `check` raises when a broker has ended; `logged` returns something that differs once a node has logged more. Raises
    BrokersFailedError with the last answer and the logs' end.
    """
    admin = admin_client(cluster.bootstrap(SAME_ZONE), cluster.client_settings())
    brokers = cluster.spec.brokers

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

    try:
        wait_while_it_progresses(missing, logged=logged, check=check)
    except TimeoutError as error:
        reason = f"{brokers} brokers were not ready {error}\n{cluster.log_tail(10)}"
        raise BrokersFailedError(reason, perhaps_late=True) from error
