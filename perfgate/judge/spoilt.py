"""Rounds and metrics that do not count, and what is left to judge without them. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from perfgate.model import Measurement

FEWEST_SOUND = 2
"""So many rounds that count show that a scenario is slow: a spread needs two."""


def sound_part(measurement: Measurement) -> Measurement | None:
    """Return the measurement without its invalid rounds, FEWEST_SOUND of them or more; None when all count, or too few.

    A round that does not count takes no slowness of the others back.
    """
    sound = tuple(r for r in measurement.rounds if not r.invalid)
    if len(sound) == len(measurement.rounds) or len(sound) < FEWEST_SOUND:
        return None
    return replace(measurement, rounds=sound)


def spoilt(measurement: Measurement, metric: str) -> str:
    """Return why this metric must not be judged although the rounds are valid; empty when it may."""
    found = [(r.index, reason) for r in measurement.rounds if (reason := r.spoilt(metric))]
    if not found:
        return ""
    index, reason = found[0]
    return f"round {index}: {reason} ({len(found)} of {len(measurement.rounds)} rounds)"


def spoilt_metrics(measurement: Measurement) -> dict[str, str]:
    """Return all metrics that must not be judged although the rounds are valid, with the reason."""
    names = dict.fromkeys(name for r in measurement.rounds for name in r.invalid_metrics)
    return {name: spoilt(measurement, name) for name in names}


def spoilt_beside(measurement: Measurement, held: Collection[str]) -> dict[str, str]:
    """Return the spoilt metrics that nothing is held against, with the reason: a note, no verdict."""
    judged = {name.partition(".")[0] for name in held}
    return {name: reason for name, reason in spoilt_metrics(measurement).items() if name not in judged}
