"""The machine between the rounds, by its canary: how quick it was, and one note where it was slower than at first."""

from __future__ import annotations

from collections.abc import Mapping

from perfgate.judge.noise import machine_doubts
from perfgate.judge.phrases import number
from perfgate.model import Measurement


def machine_notes(measured: Mapping[str, Measurement], recorded: Mapping[str, float] | None) -> list[str]:
    """Return one note on the scenarios beside which the machine was off, with what was worst; none where it was not.

    `recorded`: the canary of the profile that is held.
    """
    doubts = {name: found for name, one in measured.items() if (found := machine_doubts(one.canary, recorded))}
    if not doubts:
        return []
    worst = max((doubt for found in doubts.values() for doubt in found), key=lambda one: one.factor or 1.0)
    beside = f"{len(doubts)} of {len(measured)} scenarios ({', '.join(doubts)})"
    return [f"note: the machine was off beside {beside}; at its worst: {worst.text}"]


def canary_figures(measured: Mapping[str, Measurement]) -> str:
    """Return the least and the most of what the canary read in the run; empty where it read nothing."""
    readings = [reading for one in measured.values() for reading in one.canary]
    if not readings:
        return ""
    deflate, loopback = ([getattr(r, name) for r in readings] for name in ("deflate_mib_per_s", "loopback_per_s"))
    steal, others = (max(getattr(r, name) for r in readings) for name in ("steal", "others"))
    return (
        f"deflate {number(min(deflate))} .. {number(max(deflate))} MiB/s, loopback {number(min(loopback))} .. "
        f"{number(max(loopback))} round trips/s, steal up to {steal * 100:.0f} %, other processes up to "
        f"{others * 100:.0f} %"
    )
