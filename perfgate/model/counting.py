"""Counts with their noun: one scenario, two scenarios."""

from __future__ import annotations


def counted(count: int, thing: str, several: str = "") -> str:
    """Return the count with its noun: 1 scenario, 2,000 scenarios. `several`: a plural other than with an s."""
    return f"{count:,} {thing if count == 1 else several or f'{thing}s'}"
