"""The path to brokers is the time of a connection, which slow brokers make no longer."""

import socket
import time
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from perfgate.model.errors import TargetError
from perfgate.systems.kafka.client.roundtrip import connect_rtt_ms

LATE_S = 0.3


def admin_of(*ports: int) -> Any:
    """Return a client whose brokers, at these ports, answer late."""

    def describe_cluster(request_timeout: float) -> "Future[Any]":
        time.sleep(LATE_S)
        told: Future[Any] = Future()
        told.set_result(SimpleNamespace(nodes=[SimpleNamespace(host="127.0.0.1", port=port) for port in ports]))
        return told

    return SimpleNamespace(describe_cluster=describe_cluster)


def test_brokers_that_answer_late_do_not_look_far(admin_by: Callable[..., None]) -> None:
    """A request that they answered 0.2 ms later excused any loss of their rate. These take a connection only."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = [broker.getsockname()[1] for broker in (one, other)]
        admin_by(lambda: admin_of(*ports))
        assert connect_rtt_ms("", (), "same-zone") < LATE_S * 1e3 / 4


def test_brokers_that_take_no_connection_are_named(admin_by: Callable[..., None]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    admin_by(lambda: admin_of(port))
    with pytest.raises(TargetError, match=f"no connection to 127.0.0.1:{port}"):
        connect_rtt_ms("", (), "same-zone")
