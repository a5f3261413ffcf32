"""Latencies of a capped load that hang on how long it ran: its buffer was not turned over in time. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from perfgate.model import Measurement

NEARLY = 0.9
"""Records that lay in the buffer since the load's start have waited for all of the time until they are acknowledged,
but for that until the buffer was first full, which is short."""


def filling_notes(measured: Mapping[str, Measurement]) -> list[str]:
    """Return the lines of all scenarios, each with the scenario's name."""
    return [f"{name}: {line}" for name, one in measured.items() for line in since_the_start(one)]


def since_the_start(measurement: Measurement) -> list[str]:
    """Return a line when half of a capped load's records had waited since its start, in most of the rounds."""
    if measurement.scenario.load.kind != "capped":
        return []
    sound = [r for r in measurement.rounds if not r.invalid and "latency_ms.p50" in r.metrics]
    long = [r for r in sound if r.metrics["latency_ms.p50"] / 1e3 > NEARLY * (r.warmup_s + r.window_s / 2)]
    if 2 * len(long) <= len(sound):
        return []
    return [
        "latency is how long the load had run: the client's buffer was not turned over once by the middle of the "
        f"window ({len(long)} of {len(sound)} rounds); the rate is not touched by that, and a longer --warmup-max "
        "gives the latency"
    ]
