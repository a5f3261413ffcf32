"""Ports: what was handed out is not handed out again, though nothing listens there yet."""

import pytest

from perfgate.host import ports


def test_two_calls_never_give_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster asks for its brokers' ports, then for its proxies': one in 35 had a port twice, and a broker
    that had registered already ended for it."""
    monkeypatch.setattr(ports, "_given", set())
    given = [port for _ in range(20) for port in ports.free_ports(50)]
    assert len(set(given)) == len(given)


def test_a_long_process_does_not_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_given", set(range(ports.FIRST, ports.LAST - 10)))
    assert len(ports.free_ports(50)) == 50
