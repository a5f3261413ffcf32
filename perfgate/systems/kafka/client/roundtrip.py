"""Round trips to brokers: of a Kafka request, which they answer, and of a connection, which their kernel does.

Slow brokers answer a request late and look far away; the time of a connection distinguishes a long path from them.
"""

from __future__ import annotations

import socket
import statistics
import time

from perfgate.host.ports import connect_ms
from perfgate.model import Settings
from perfgate.model.errors import BrokersFailedError
from perfgate.systems.kafka.client import wire
from perfgate.systems.kafka.client.topics import REQUEST_TIMEOUT_S, admin_client, answer

SAMPLES, CLIENT_SAMPLES = 30, 15
OF_CLIENTS = "DescribeCluster by a client, its security included"
OF_CONNECTIONS = "a TCP connection to each broker; the median"
TIMEOUT_S = 5


def request_rtt_ms(host: str, port: int) -> float:
    """Median time, in ms, of SAMPLES requests on a connection. Raises BrokersFailedError without an answer."""
    times, request = [], wire.api_versions(0)
    try:
        with socket.create_connection((host, port), timeout=TIMEOUT_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(SAMPLES):
                begin = time.perf_counter()
                wire.asked(connection, request)
                times.append(time.perf_counter() - begin)
    except OSError as error:
        raise BrokersFailedError(f"no round trip to {host}:{port}: {error}", perhaps_late=True) from error
    return statistics.median(times) * 1e3


def client_rtt_ms(bootstrap: str, client: Settings, link: str) -> float:
    """Median time, in ms, to describe the cluster: asking for a topic might create it. `link` is for TargetError."""
    admin, times = admin_client(bootstrap, client), []
    for _ in range(1 + CLIENT_SAMPLES):
        begin = time.perf_counter()
        answer(admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S), f"a round trip over the {link} link")
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:]) * 1e3  # the first connects


def connect_rtt_ms(bootstrap: str, client: Settings, link: str) -> float:
    """Median time, in ms, of a TCP connection to each broker. Raises BrokersFailedError, also without addresses."""
    admin = admin_client(bootstrap, client)
    reported = answer(admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S), f"a round trip over the {link} link")
    return statistics.median(connect_ms(node.host, node.port) for node in reported.nodes)
