"""Room for what a run can write, from what its rows may offer at the most, on a disk and within a run's limits."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from perfgate.model import Scenario, Tier
from perfgate.model.errors import ConfigurationError, TargetError

ROUNDS_ON_DISK = 2
"""A round's topic is deleted after it, its files a second later: at most two rounds lie on the disk."""
DISK_RESERVE = 1 << 30
REPEATS = 2
"""So many rounds of a row may be measured again because the generator was the limit, and as many for its delay."""
OWN_EXTRA_ROUNDS = 12
"""While brokers that the suite started are still warming up so many rounds are added at the most, or as many as the
tier has if that is more: two processors at 40 % of their time needed four to seven after a smoke tier's three."""
WARM_TIMES = 10
"""The suite's own brokers are warmed up with so many times the rate of a paced row."""
LOOKS = 2
"""A red row is measured a second time."""


def most_bytes_at_a_time(scenarios: Sequence[Scenario], seconds: float) -> float:
    """Return the most bytes that the brokers' disks together can have to hold; a round takes `seconds`."""
    backlogs = sum(row.backlog_bytes for row in scenarios)
    return max(row.offered_bytes_per_s for row in scenarios) * seconds * ROUNDS_ON_DISK + backlogs + DISK_RESERVE


def check_disk(needed: float, folder: Path) -> None:
    """Raise ConfigurationError when `folder` has too little room for so many bytes."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ConfigurationError(
            f"too little disk: the run can write {needed / 1e9:.1f} GB at a time, {folder} has {free / 1e9:.1f} GB "
            "free; free some, set TMPDIR to a larger disk (embedded target), or shorten the rounds with --window"
        )


def with_extra_rounds(tier: Tier, *, own: bool) -> int:
    """Return how many rounds of a row there can be while brokers, the suite's `own` or others, are warming up."""
    return tier.rounds + (max(tier.rounds, OWN_EXTRA_ROUNDS) if own else tier.rounds)


def most_rounds(tier: Tier, *, own: bool) -> int:
    """Return how many rounds of a row there can be, repeats counted."""
    return with_extra_rounds(tier, own=own) + 2 * REPEATS


def most_bytes_written(scenarios: Sequence[Scenario], tier: Tier, *, own: bool) -> float:
    """Return the most bytes that the gate can write in all, replicas counted: every row at its full rate."""
    plain = [row for row in scenarios if not row.fault]
    rounds = most_rounds(tier, own=own) * (tier.window_s + tier.warmup_max_s)
    warm_up = max((row.offered_bytes_per_s for row in plain), default=0.0) * tier.broker_warmup_s
    faulty = sum(
        row.offered_bytes_per_s * (row.fault.times(tier) * row.fault.round_s + WARM_TIMES * tier.broker_warmup_s)
        for row in scenarios
        if row.fault
    )
    return LOOKS * (sum(row.offered_bytes_per_s * rounds + row.backlog_bytes for row in plain) + warm_up) + faulty


def most_bytes_compared(scenarios: Sequence[Scenario], tier: Tier, budget_s: float) -> float:
    """Return the most bytes that a comparison can write in all; `scenarios` holds both forms of every row."""
    seconds = budget_s + tier.broker_warmup_s * 2
    backlogs = sum(row.backlog_bytes for row in scenarios)
    return max(row.offered_bytes_per_s for row in scenarios) * seconds + backlogs


@dataclass
class Meter:
    """Counts the bytes that a run has had acknowledged, replicas counted, and stops it when they are too many."""

    most: float = math.inf
    written: float = 0.0
    """By loads that have ended."""
    stopped: str = ""
    """Why nothing more is done to the brokers."""
    _under_way: float = 0.0

    def stop(self, reason: str) -> NoReturn:
        """Raise TargetError, now and whenever another load is to begin."""
        self.stopped = reason
        raise TargetError(reason)

    def begin(self) -> None:
        """Note that another load begins."""
        self.written, self._under_way = self.written + self._under_way, 0.0

    def under_way(self, bytes_: float) -> None:
        """Take in what the load under way has written so far. Raises TargetError once it is too much."""
        self._under_way = max(self._under_way, bytes_)
        if self.written + self._under_way > self.most:
            self.stop(
                f"stopped: the run has written {(self.written + self._under_way) / 1e9:,.1f} GB, replicas counted, and "
                f"[limits] bytes allows {self.most / 1e9:,.1f}"
            )


def at_most(scenario: Scenario, bytes_per_s: float, read_bytes_per_s: float = math.inf) -> Scenario:
    """Return the row with its load's cap lowered so that it writes no more than that, replicas counted.

    Nor reads more than that: its consumers, of one group or with partitions of their own, are sent each record once.
    """
    bound = bytes_per_s / (scenario.record_bytes * scenario.topic.replication_factor)
    if scenario.consumers:
        bound = min(bound, read_bytes_per_s / scenario.record_bytes)
    if scenario.load.kind != "capped" or scenario.load.rate <= bound:
        return scenario
    return replace(scenario, load=replace(scenario.load, rate=bound))
