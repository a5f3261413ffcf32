"""Partitions and brokers that differ from the others by more than chance, over the rounds of a scenario. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from perfgate.judge.hosts import Figures, always_worst
from perfgate.judge.messages import number
from perfgate.model import Measurement, PartitionFigures, Round

BY_CHANCE = 0.01
"""Most likely, by chance alone, is that a scenario whose partitions and brokers do not differ has a line: a nightly has
forty scenarios."""
QUESTIONS = 4

Worse = Callable[[PartitionFigures], float]


def partition_notes(measured: Mapping[str, Measurement]) -> list[str]:
    """Return the lines of all scenarios' differing partitions and brokers, each with the scenario's name."""
    return [f"{name}: {line}" for name, one in measured.items() for line in differing_partitions(one.rounds)]


def differing_partitions(rounds: Sequence[Round]) -> list[str]:
    """Return a line for the broker whose partitions were the worst of all in every round, in records/s or in p99.

    Where there is none, for the partition that was: topics are new in every round, and led by other brokers. How
    likely either is by chance: :func:`perfgate.judge.hosts.differing_hosts`.
    """
    sound = [r for r in rounds if r.partitions and not r.invalid]
    timed = [r for r in sound if not r.spoilt("latency_ms.p99")]
    return [*_line("fewest records/s", sound, _slowness), *_line("highest p99", timed, _lateness)]


def _line(told: str, rounds: Sequence[Round], worse: Worse) -> list[str]:
    chance = BY_CHANCE / QUESTIONS
    if found := always_worst(_by_broker(rounds, worse), chance):
        whose = f"broker {found[0]}: the partitions that it leads have"
    elif found := always_worst(_by_partition(rounds, worse), chance):
        whose = f"partition {found[0]}: it has"
    else:
        return []
    return [f"{whose} the {told} in all {len(rounds)} rounds, by a factor of {number(found[1])}"]


def _by_broker(rounds: Sequence[Round], worse: Worse) -> Figures:
    led: list[dict[str, list[float]]] = []
    for r in rounds:
        led.append({})
        for one in r.partitions:
            led[-1].setdefault(str(one.leader), []).append(worse(one))
    return [{broker: statistics.fmean(values) for broker, values in one.items()} for one in led]


def _by_partition(rounds: Sequence[Round], worse: Worse) -> Figures:
    return [{str(index): worse(one) for index, one in enumerate(r.partitions)} for r in rounds]


def _slowness(one: PartitionFigures) -> float:
    return 1 / max(one.records_per_s, 1e-9)


def _lateness(one: PartitionFigures) -> float:
    return one.p99_ms
