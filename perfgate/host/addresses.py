"""Addresses of this machine: which names and addresses lead to its own interfaces."""

from __future__ import annotations

import ipaddress
import socket

import psutil

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def is_this_machine(host: str) -> bool:
    """Return whether all that a name or an address stands for are addresses of this machine's own interfaces.

    A name that cannot be resolved is none. Addresses inside another network namespace of this machine, such as those
    of its containers, are not told from those of other machines.
    """
    try:
        found = {_address(str(entry[4][0])) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, ValueError):  # ValueError: no name can read so
        return False
    own = {
        _address(one.address)
        for addresses in psutil.net_if_addrs().values()
        for one in addresses
        if one.family in (socket.AF_INET, socket.AF_INET6)
    }
    return bool(found) and all(one.is_loopback or one in own for one in found)


def _address(text: str) -> Address:
    found = ipaddress.ip_address(text.partition("%")[0])  # a link-local one is followed by its interface
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
