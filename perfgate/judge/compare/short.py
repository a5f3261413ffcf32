"""Loads that the brokers of a comparison did not take: on which side, and whether that may be chance. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from perfgate.judge.compare.sequential import ERROR, INTERVAL_ERROR, looks_until
from perfgate.judge.compare.units import whole_units
from perfgate.judge.rates import at_its_cap, rounds_below_its_cap
from perfgate.model import Comparison, Measurement

CHANCE = "that may be chance"
GROWING = "a latency that keeps growing compares nothing"
"""Of a load that the declared brokers do not take: more of it says no more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Short:
    """`before`: how much of the load the brokers did not take as declared, where they did not in most rounds.

    `after`: the same of the candidate, in any round, and in how many on either side. `often`: in most of them, or in
    more than chance gives to one of two sides that are short as often, so that it is not the same. `told`: the
    candidate's were short clearly more often.
    """

    before: str
    after: str
    often: bool
    told: bool


def short_of(comparison: Comparison) -> Short:
    """Return what the two sides' brokers did not take."""
    declared, candidate = (_short(m) for m in (comparison.baseline, comparison.candidate))
    among = [len(m.rounds) for m in (comparison.baseline, comparison.candidate)]
    counts = f"({len(candidate)} of {among[1]} rounds, as declared {len(declared)} of {among[0]})"
    chance = chance_of(len(candidate), among[1], len(declared), among[0])
    return Short(
        before=declared[0] if 2 * len(declared) > among[0] else "",
        after=f"{candidate[0]} {counts}" if candidate else "",
        often=2 * len(candidate) > among[1] or chance <= INTERVAL_ERROR,
        told=_chance_of_units(comparison) <= _error_of_this_look(comparison),
    )


def _chance_of_units(comparison: Comparison) -> float:
    """Return the chance of so many short rounds of the candidate, or units where these are pairs of clusters.

    The rounds of a pair have their clusters in common: it counts once, as short where most of them are.
    """
    size = comparison.rounds_per_unit if comparison.method == "pairs" else 1
    counts = list[int]()
    for measurement in (comparison.candidate, comparison.baseline):
        short = [bool(r.not_sustained) for r in measurement.rounds]
        units = [short[first : first + size] for first in range(0, len(short) - size + 1, size)]
        counts += [sum(2 * sum(one) > size for one in units), len(units)]
    return chance_of(*counts)


def _error_of_this_look(comparison: Comparison) -> float:
    """Return what a look at so many units may spend of the chance of an error (perfgate.judge.compare.sequential)."""
    units, planned = max(1, whole_units(comparison)), comparison.planned_units
    before, now = (0.0, *looks_until(units, max(units, planned), last=False, former=comparison.former_plans).spent)[-2:]
    return ERROR * (now - before)


def below_its_cap(comparison: Comparison) -> str:
    """Return in how many rounds the candidate of a load that both sides mostly hold at its cap did not come to it.

    Empty where it did as often as the other side, but for chance: the median of the rounds, by which the cap holds a
    load, does not tell of those below it, nor does what a record costs the brokers.
    """
    sides = (comparison.baseline, comparison.candidate)
    if comparison.scenario.load.kind != "capped" or not all(map(at_its_cap, sides)):
        return ""
    declared, candidate = (rounds_below_its_cap(one) for one in sides)
    among = [len(one.rounds) for one in sides]
    if chance_of(candidate, among[1], declared, among[0]) > INTERVAL_ERROR:
        return ""
    return f"below its cap in {candidate} of {among[1]} rounds, as declared in {declared} of {among[0]}"


def _short(measurement: Measurement) -> list[str]:
    return [r.not_sustained for r in measurement.rounds if r.not_sustained]


def chance_of(after: int, rounds_after: int, before: int, rounds_before: int) -> float:
    """Return how likely so many short rounds, or more, are the candidate's where both sides are short equally often.

    Fisher's exact test, one-sided: all ways to place the short rounds among those of both sides are as likely. A rate
    at the edge of the machine is short in every other round of either side: a majority alone is red by chance then.
    """
    short = after + before
    ways = sum(
        math.comb(rounds_after, count) * math.comb(rounds_before, short - count)
        for count in range(after, min(short, rounds_after) + 1)
    )
    return ways / math.comb(rounds_after + rounds_before, short)
