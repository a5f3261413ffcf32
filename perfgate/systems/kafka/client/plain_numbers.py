"""Numbers in clients' settings: librdkafka reads the digits in front and drops the rest (16k is 16, 010 is 8)."""

from __future__ import annotations

import re
from collections.abc import Callable

PLAIN = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")
LIKE_A_NUMBER = re.compile(r"\s*[-+]?(0x|\d[\d_,]*\.?\d*(?:e[-+]?\d+)?|\.\d+|nan)\s*(.*)", re.IGNORECASE | re.DOTALL)
MOST = 2**31 - 1
"""What librdkafka keeps; of a larger number the lower 32 bits remain."""
MILLISECONDS = {"ms": 1.0, "s": 1e3, "sec": 1e3, "m": 6e4, "min": 6e4, "h": 3.6e6}


def not_plain(name: str, value: str, takes: Callable[[str], bool]) -> str:
    """Return why a client's setting is another number than it looks like, and which to write; empty where it is not.

    `takes`: whether the client takes this other value of the setting, which tells texts from numbers.
    """
    if (plain := PLAIN.fullmatch(value)) and abs(float(value)) <= MOST and not float(plain[2] or 0):
        return ""
    if not LIKE_A_NUMBER.match(value) or takes("x") or (plain and abs(float(value)) <= MOST and takes(".5")):
        return ""
    if plain:
        return f"must be a whole number from {-MOST:d} to {MOST:d}"
    return f"must be a plain number{_meant(name, value.strip())}; librdkafka would read another"


def _meant(name: str, value: str) -> str:
    """Return `, as in 16384` of "16k": what somebody may have meant by it."""
    found = LIKE_A_NUMBER.fullmatch(value)
    assert found is not None
    try:
        if found[1].lower() == "0x":
            return f", as in {int(value, 16):d}"
        number = float(found[1].replace("_", "").replace(",", "")) * (-1 if value.startswith("-") else 1)
        number *= _unit(name, found[2].lower())
    except (KeyError, ValueError):
        return ""
    return f", as in {number:.6f}".rstrip("0").rstrip(".") if abs(number) <= MOST else ""


def _unit(name: str, unit: str) -> float:
    """Return how many of the setting's own unit this one is. Raises KeyError for one that does not go with it."""
    if not unit:
        return 1.0
    if name.endswith(".ms"):
        return MILLISECONDS[unit]
    power = {"": 0, "k": 1, "m": 2, "g": 3}[unit.removesuffix("b").removesuffix("i")]
    if name.endswith("kbytes"):
        return 1024.0 ** (power - 1)
    return (1024.0 if name.endswith(("bytes", "size")) else 1e3) ** power
