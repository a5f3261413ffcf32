"""Blocks: the scenarios that are measured interleaved, round by round, on one cluster."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from perfgate.model import FaultScenario, Scenario, Tier

BLOCK_ROUND_S = 180.0
"""A round of a block lasts no longer, unless a single family does."""


def blocks(scenarios: Sequence[Scenario], tier: Tier) -> list[tuple[Scenario, ...]]:
    """Group scenarios that run interleaved, family by family, those of one cluster together.

    A block holds whole families of one cluster, as many as make a round of BLOCK_ROUND_S: so that two scenarios of a
    relation are measured minutes apart at the most. A scenario that families in several blocks are compared with is
    measured in each of them, but for one with a fault, which is done once. Groups of one cluster stand together.
    """
    groups: list[list[Scenario]] = []
    for family in dict.fromkeys(name for row in scenarios for name in _families(row)):
        members = [row for row in scenarios if family in _families(row)]
        for cluster in dict.fromkeys((row.cluster, type(row)) for row in members):
            own = [row for row in members if (row.cluster, type(row)) == cluster]
            if any(set(own) <= set(group) for group in groups):
                continue
            alike = [group for group in groups if (group[0].cluster, type(group[0])) == cluster]
            # Beside scenarios that it shares, if there is room, which saves measuring those twice.
            alike.sort(key=lambda group: not set(own) & set(group))
            fits = (group for group in alike if _round_s({*group, *own}, tier) <= BLOCK_ROUND_S)
            if (group := next(fits, None)) is not None:
                group += [row for row in own if row not in group]
            else:
                groups.append(own)
    order = {cluster: position for position, cluster in enumerate(dict.fromkeys(row.cluster for row in scenarios))}
    return [tuple(group) for group in sorted(groups, key=lambda group: order[group[0].cluster])]


def _families(row: Scenario) -> tuple[str, ...]:
    return row.families[:1] if isinstance(row, FaultScenario) else row.families


def _round_s(scenarios: Collection[Scenario], tier: Tier) -> float:
    return sum(row.load.windows for row in scenarios) * (tier.warmup_max_s + tier.window_s)


def compared_with(scenarios: Sequence[Scenario], names: Collection[str]) -> list[Scenario]:
    """Return the scenarios of these names and all that are compared with them, directly or through others."""
    found = {row for row in scenarios if row.name in names}
    while True:
        families = {family for row in found for family in row.families}
        more = {row for row in scenarios if families & set(row.families)}
        if more == found:
            return [row for row in scenarios if row in found]
        found = more
