"""Room for what a run can write, from what its scenarios may offer at the most, and within a run's limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from perfgate.measure.blocks import blocks
from perfgate.model import Scenario, Tier, parted

ROUNDS_ON_DISK = 2
"""A round's topic is deleted after it, its files a second later: at most two rounds lie on the disk."""
DISK_RESERVE = 1 << 30
REPEATS, REPEATS_PER_ROUND = 2, 0.5
"""So many rounds of a scenario may be measured again because the generator was the limit, and as many for its delay; or
this share of the tier's rounds, if that is more: of rate-10k three of ten rounds were sent late (2 slow cores), and
the third made the nightly undecided."""
OWN_EXTRA_ROUNDS = 12
"""While brokers that the suite started are still warming up so many rounds are added at the most, or as many as the
tier has if that is more: two processors at 40 % of their time needed four to seven after a smoke tier's three."""
WARM_TIMES = 10
"""The suite's own brokers are warmed up with so many times the rate of a paced scenario."""
BURST_S = 20.0
"""What the two sides of a burst write together is what one scenario writes in this time."""
LOOKS = 2
"""A red scenario is measured a second time."""


def most_bytes_at_a_time(scenarios: Sequence[Scenario], seconds: float) -> float:
    """Return the most bytes that the brokers' disks together can have to hold; a round takes `seconds`."""
    backlogs = sum(row.backlog_bytes for row in scenarios)
    return max(row.offered_bytes_per_s for row in scenarios) * seconds * ROUNDS_ON_DISK + backlogs + DISK_RESERVE


def repeats(tier: Tier) -> int:
    """Return how many rounds of a scenario may be measured again for each of the two reasons."""
    return max(REPEATS, int(REPEATS_PER_ROUND * tier.rounds))


def with_extra_rounds(tier: Tier, *, own: bool) -> int:
    """Return how many rounds of a scenario there can be while brokers, the suite's `own` or others, are warming up."""
    return tier.rounds + (max(tier.rounds, OWN_EXTRA_ROUNDS) if own else tier.rounds)


def most_rounds(tier: Tier, *, own: bool) -> int:
    """Return how many rounds of a scenario there can be, repeats counted."""
    return with_extra_rounds(tier, own=own) + 2 * repeats(tier)


def most_bytes_written(scenarios: Sequence[Scenario], tier: Tier, *, own: bool) -> float:
    """Return the most bytes that the gate can write in all, replicas counted: every scenario at its full rate."""
    plain, faulty = parted(scenarios)
    together = blocks(plain, tier)
    plain = [row for block in together for row in block]  # some are measured in more than one
    rounds = most_rounds(tier, own=own) * (tier.window_s + tier.warmup_max_s)
    warm_up = sum(max(row.offered_bytes_per_s for row in block) for block in together) * tier.broker_warmup_s
    of_faults = sum(row.offered_bytes_per_s * (row.seconds(tier) + WARM_TIMES * tier.broker_warmup_s) for row in faulty)
    return (
        LOOKS
        * (sum(row.offered_bytes_per_s * rounds * row.load.windows + row.backlog_bytes for row in plain) + warm_up)
        + of_faults
    )


def most_bytes_compared(scenarios: Sequence[Scenario], seconds: float) -> float:
    """Return the most bytes that a comparison can write in all.

    `scenarios` holds both forms of every scenario; `seconds`: for so long brokers are loaded, warm-ups counted.
    """
    backlogs = sum(row.backlog_bytes for row in scenarios)
    return max(row.offered_bytes_per_s for row in scenarios) * seconds + backlogs


def warm_ups_compared_s(scenarios: Sequence[Scenario], tier: Tier) -> float:
    """Return how long a comparison of these scenarios can load brokers, beside its budget, until they are warm.

    Two forms of a scenario take as long as two scenarios, on each cluster that the scenarios as declared need: others
    are made for pairs, whose warm-ups the budget counts.
    """
    return 2 * tier.broker_warmup_s * len({row.cluster for row in scenarios})


def longest_unit_s(tier: Tier) -> float:
    """Return how long a comparison can go on after its budget: a burst or a round that has begun is measured whole."""
    return tier.warmup_max_s + max(tier.window_s, BURST_S)


def at_most(scenario: Scenario, bytes_per_s: float, read_bytes_per_s: float = math.inf) -> Scenario:
    """Return the scenario with its load's cap lowered so that it writes no more than that, replicas counted.

    Nor reads more than that: every group of its consumers is sent each record once.
    """
    bound = bytes_per_s / (scenario.logged_bytes * scenario.topic.replication_factor)
    if scenario.consumers:
        bound = min(bound, read_bytes_per_s / (scenario.logged_bytes * scenario.groups))
    if scenario.load.kind not in ("capped", "ramp") or scenario.load.rate <= bound:
        return scenario
    return replace(scenario, load=replace(scenario.load, rate=bound))
