"""Rounds that were measured again because the brokers used the processors that the generator lacked. Pure."""

from __future__ import annotations

from perfgate.model import Measurement


def starved_by_brokers(measurement: Measurement) -> str:
    """Return that more than half as many rounds as there are were measured again for that; empty where not so.

    The rounds that count are then those in which the brokers happened to need less, and are no ground for green.
    """
    again = [r for r in measurement.discarded if any(flaw.whose == "brokers" for flaw in r.flaws)]
    if 2 * len(again) <= len(measurement.rounds):
        return ""
    text = next(flaw.text for flaw in again[0].flaws if flaw.whose == "brokers")
    return (
        f"{len(again)} rounds were measured again, {len(measurement.rounds)} count: the brokers used most of the "
        f"processors, and the generator lacked them ({text})"
    )
