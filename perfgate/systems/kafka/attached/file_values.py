"""Values of a target file, read strictly: each error names key, value and what is legal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from perfgate.model.errors import ConfigurationError

SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)\s*")
UNITS = {
    "B": 1,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}


def table_of(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = document.get(name, {})
    if not isinstance(value, dict):
        raise ConfigurationError(f"{name} must be a table [{name}]")
    return value


def text_of(key: str, value: object, *, empty: bool = False) -> str:
    if not isinstance(value, str) or not (value.strip() or empty) or "\n" in value or len(value) > 80:
        raise ConfigurationError(f"{key} = {value!r} must be a short text")
    return value.strip()


def prefix_of(key: str, value: object) -> str:
    """Return what topics' names may begin with. Raises ConfigurationError."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9._-]{0,60}", value):
        raise ConfigurationError(f"{key} = {value!r} must be up to 60 letters, digits, dots, hyphens and underscores")
    return value


def servers_of(key: str, value: object) -> str:
    servers = value.split(",") if isinstance(value, str) else value
    if not isinstance(servers, list) or not servers or not all(_is_server(server) for server in servers):
        raise ConfigurationError(f'{key} = {value!r} must name servers, as in "kafka-1:9093,kafka-2:9093"')
    return ",".join(server.strip() for server in servers)


def _is_server(server: object) -> bool:
    return isinstance(server, str) and re.fullmatch(r"\s*(\[[0-9a-fA-F:]+\]|[\w.-]+):\d{1,5}\s*", server) is not None


def ids_of(key: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in value):
        raise ConfigurationError(f"{key} = {value!r} must list broker ids, as in [1, 2]")
    return tuple(value)


def flag_of(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{key} = {value!r} must be true or false")
    return value


def count_of(key: str, value: object, at_most: int) -> int:
    """Return a whole number from 1. Raises ConfigurationError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= at_most:
        raise ConfigurationError(f"{key} = {value!r} must be a whole number from 1 to {at_most}")
    return value


def number_of(key: str, value: object, at_least: float, at_most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not at_least <= value <= at_most:
        raise ConfigurationError(f"{key} = {value!r} must be a number from {at_least:g} to {at_most:g}")
    return float(value)
