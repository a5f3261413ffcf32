"""The noise of the machine: whether it was quiet enough, and the one that it was, to hold stored figures. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from perfgate.judge.statistics import CENTRE_ERROR_FACTOR, spread
from perfgate.model import FEWEST_READINGS, CanaryReading

CANARY_LEAST: Mapping[str, float] = {"deflate_mib_per_s": 0.6, "loopback_per_s": 0.5}
"""A reading below this share of the median of those before the cluster started was disturbed. Idle brokers that still
compile take up to 20 % of the processors, and make loopback quicker, because the processors sleep less (measured on 2
cores)."""
BROKERS_TOOK = 0.5
"""Where the suite's own brokers used so much of the processors as this share of what a reading lost, it was them. They
are idle while it is taken: brokers that are busy then do something that nobody asked of them, which is a result."""
CANARY_OFF = 0.25
"""A machine so much slower or faster than when the baselines were recorded is another machine."""
STEAL = 0.10
"""Share of the processors' time that the host took away."""
FEWEST_ROUNDS = 4


def disturbed(readings: Sequence[CanaryReading], recorded: Mapping[str, float] | None) -> str:
    """Return why nothing measured beside these readings may be held against figures; empty when it may."""
    if len(readings) < FEWEST_READINGS:
        return ""
    steal = max(reading.steal for reading in readings)
    if steal > STEAL:
        return f"the host took {steal * 100:.0f} % of the processors' time away (steal; at most {STEAL * 100:.0f} %)"
    for name, least in CANARY_LEAST.items():
        before = statistics.median(getattr(reading, name) for reading in readings[:FEWEST_READINGS])
        lowest = min((getattr(r, name) for r in readings if not _brokers_were_it(r, name, before)), default=before)
        if lowest < least * before:
            return (
                f"the canary {name} fell to {lowest / before * 100:.0f} % of what it was before the cluster started "
                f"(at least {least * 100:.0f} %): something else ran on this machine"
            )
        baseline = (recorded or {}).get(name)
        off = before / baseline - 1 if baseline else 0.0
        if abs(off) > CANARY_OFF:
            return (
                f"the canary {name} lies {off * 100:+.0f} % off its recorded {baseline:,.0f} (at most "
                f"{CANARY_OFF * 100:.0f} %): not the machine, or not the state, that the thresholds were recorded on"
            )
    return ""


def _brokers_were_it(reading: CanaryReading, name: str, before: float) -> bool:
    lost = 1 - getattr(reading, name) / before if before else 0.0
    return reading.brokers > 0 and reading.brokers >= BROKERS_TOOK * lost


def hopeless(values: Sequence[float], rounds: int, reach: float) -> bool:
    """Return whether, halfway or later, all `rounds` rounds would leave their centre's error wider than `reach`."""
    if len(values) < max(FEWEST_ROUNDS, (rounds + 1) // 2):
        return False
    width = spread(values)
    return width is None or CENTRE_ERROR_FACTOR * width / math.sqrt(rounds) > reach
