"""Noise of the machine: whether it was quiet, and the machine that stored figures are of. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence

from perfgate.judge.statistics import CENTRE_ERROR_FACTOR, spread
from perfgate.model import FEWEST_READINGS, CanaryReading, Measurement
from perfgate.model.flaw import Doubt

CANARY_LEAST: Mapping[str, float] = {"deflate_mib_per_s": 0.6, "loopback_per_s": 0.5}
"""A reading below this share of the median of those before the cluster started was disturbed. Idle brokers that still
compile take up to 20 % of 2 cores, and make loopback quicker, because the processors sleep less."""
BROKERS_TOOK = 0.5
"""Where the suite's own brokers, which should be idle, used this share of what a reading lost, they are the cause."""
CANARY_OFF = 0.25
"""A machine that is slower or faster by this than when the baselines were recorded is another machine."""
STEAL = 0.10
"""Share of the processors' time that the host took away."""
LEAST_LEFT = 0.01
"""The least share of its speed that a machine with a reading had."""
OTHERS = 0.10
"""Other processes that used less than this share of the processors did not slow it down."""
SAME_SPEED = 0.8
"""Processors that do less in a second of their own time are shared with others. Idle, 2 vCPU scatter by 5 %."""
LATE_FACTOR = 10.0
"""A machine that is slower by this factor makes late what brokers do in a tenth of their time-outs: topics in sync in 1
to 3 of 30 s, acknowledgements in far less of 120 s (delivery.timeout.ms)."""
MACHINE = "machine"
FEWEST_ROUNDS = 4


def machine_doubts(readings: Sequence[CanaryReading], recorded: Mapping[str, float] | None) -> tuple[Doubt, ...]:
    """Doubts that figures next to these readings are the machine's; each explains as much as the machine was slower."""
    if len(readings) < FEWEST_READINGS:
        return ()
    doubts = []
    steal = max(reading.steal for reading in readings)
    if steal > STEAL:
        text = f"the host took {steal * 100:.0f} % of the processors' time away (steal; at most {STEAL * 100:.0f} %)"
        doubts.append(Doubt(kind=MACHINE, whose="machine", text=text, factor=1 / max(1 - steal, LEAST_LEFT)))
    for name, least in CANARY_LEAST.items():
        before = statistics.median(getattr(reading, name) for reading in readings[:FEWEST_READINGS])
        if not before > 0:
            continue
        left = {
            _left(reading, name, before): reading for reading in readings if not _brokers_were_it(reading, name, before)
        }
        lowest = min(left, default=1.0)
        if lowest < least and (what := _what_ran(left[lowest], readings[:FEWEST_READINGS])):
            text = (
                f"the machine ran at {lowest * 100:.0f} % of its speed before the cluster started (canary {name}, at "
                f"least {least * 100:.0f} %): {what}"
            )
            doubts.append(Doubt(kind=MACHINE, whose="machine", text=text, factor=1 / max(lowest, LEAST_LEFT)))
        baseline = (recorded or {}).get(name)
        off = before / baseline - 1 if baseline else 0.0
        if baseline and abs(off) > CANARY_OFF:
            text = (
                f"the canary {name} lies {off * 100:+.0f} % off its recorded {baseline:,.0f} (at most "
                f"{CANARY_OFF * 100:.0f} %): not the machine, or not the state, that the thresholds were recorded on"
            )
            doubts.append(Doubt(kind="another machine", whose="machine", text=text, factor=max(1.0, baseline / before)))
    return tuple(doubts)


def machine_doubts_by_round(
    measurement: Measurement, recorded: Mapping[str, float] | None
) -> dict[int, tuple[Doubt, ...]]:
    """For each round, by its number, the doubts by the readings before and after it; where some lack, by all."""
    readings = measurement.canary
    numbers = [r.index for r in (*measurement.rounds, *measurement.one_host_fewer)]
    between = readings[FEWEST_READINGS:]
    if len(between) < max(numbers, default=0) - 1 or not between:
        return dict.fromkeys(numbers, machine_doubts(readings, recorded))
    quiet = readings[:FEWEST_READINGS]
    beside = {n: between[n - 1 : n + 1] or between[-1:] for n in numbers}
    return {n: machine_doubts((*quiet, *near), recorded) for n, near in beside.items()}


def disturbed(readings: Sequence[CanaryReading], recorded: Mapping[str, float] | None) -> str:
    """Why figures next to these readings cannot be green, or a baseline; empty when they may."""
    return next((doubt.text for doubt in machine_doubts(readings, recorded)), "")


def late_by_machine(measurement: Measurement, late: Collection[int]) -> str:
    """Why the machine may explain that brokers were late in all of these rounds (by number); else empty."""
    beside = machine_doubts_by_round(measurement, None)
    excuses = [next((d.text for d in beside.get(n, ()) if (d.factor or math.inf) >= LATE_FACTOR), "") for n in late]
    return excuses[0] if excuses and all(excuses) else ""


def _left(reading: CanaryReading, name: str, before: float) -> float:
    """The share of its speed that the machine had, with what the suite's own brokers used given back."""
    return float(getattr(reading, name)) / before / max(1 - reading.brokers, LEAST_LEFT)


def _brokers_were_it(reading: CanaryReading, name: str, before: float) -> bool:
    lost = 1 - getattr(reading, name) / before
    return reading.brokers > 0 and reading.brokers >= BROKERS_TOOK * lost


def _what_ran(reading: CanaryReading, quiet: Sequence[CanaryReading]) -> str:
    """What else took the machine's speed, if known (not in older recordings); empty where nothing is seen."""
    if reading.deflate_mib_per_cpu_s is None:
        return "something else ran on this machine"
    if reading.others >= OTHERS:
        return f"{reading.busiest or 'another process'} and others used {reading.others * 100:.0f} % of its processors"
    if reading.steal > STEAL:
        return f"the host took {reading.steal * 100:.0f} % of its processors' time"
    speeds = [before.deflate_mib_per_cpu_s for before in quiet if before.deflate_mib_per_cpu_s]
    slower = reading.deflate_mib_per_cpu_s / statistics.median(speeds) if speeds else 1.0
    if slower < SAME_SPEED:
        return f"its processors did {slower * 100:.0f} % as much in a second of their time, no process can be named"
    return ""


def hopeless(values: Sequence[float], rounds: int, reach: float) -> bool:
    """Whether, halfway or later, all `rounds` rounds would leave their centre's error wider than `reach`."""
    if len(values) < max(FEWEST_ROUNDS, (rounds + 1) // 2):
        return False
    width = spread(values)
    return width is None or CENTRE_ERROR_FACTOR * width / math.sqrt(rounds) > reach
