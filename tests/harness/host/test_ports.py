"""Ports that are given once, and addresses of this machine, against those that its kernel lists."""

import socket

import psutil
import pytest

from perfgate.host.ports import FIRST, LAST, Ports, is_this_machine


def test_two_calls_never_give_the_same_port() -> None:
    """A cluster asks for its brokers' ports, then for its proxies': one in 35 had a port twice, and a broker
    that had registered already ended for it."""
    ports = Ports()
    given = [port for _ in range(20) for port in ports.free(50)]
    assert len(set(given)) == len(given)


def test_a_long_process_does_not_run_out() -> None:
    ports = Ports()
    assert {len(ports.free(500)) for _ in range(2 * (LAST - FIRST) // 500)} == {500}


def test_every_address_of_an_interface_is_this_machine() -> None:
    families = (socket.AF_INET, socket.AF_INET6)
    own = [one.address for each in psutil.net_if_addrs().values() for one in each if one.family in families]
    assert own
    assert [address for address in own if not is_this_machine(address)] == []


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_loopback_is_this_machine(name: str) -> None:
    assert is_this_machine(name)


@pytest.mark.parametrize("name", ["203.0.113.7", "2001:db8::7", "broker.invalid", "", "a" * 70, "x..y"])
def test_other_addresses_and_names_that_nobody_knows_are_not(name: str) -> None:
    assert not is_this_machine(name) or name == "", "an empty name stands for loopback"
