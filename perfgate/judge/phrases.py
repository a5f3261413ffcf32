"""Phrases and number formats that several messages share. Pure."""

from __future__ import annotations

from collections.abc import Sequence

WARMING = "brokers still warming up"
NEVER = "was never reached"
PATHS = "the client's paths to the two clusters differ"
GROWING = "a latency that keeps growing compares nothing"
"""Of a load that the declared brokers do not take: more of it says no more."""
KEPT_THOUGH_LATE = "kept with all that late sends added"

MOST_NAMES = 5


def number(value: float) -> str:
    """The value for a person: thousands separated, three significant digits below a hundred."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def some_of(names: Sequence[str]) -> str:
    """The first of the names, and how many more there are."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}"


def joined(*texts: str) -> str:
    """The texts that are not empty, in one line."""
    return "; ".join(filter(None, texts))


def percent(share: float) -> str:
    """A share as a percentage: 0.081 as 8.1 %."""
    return f"{share * 100:.1f} %"
