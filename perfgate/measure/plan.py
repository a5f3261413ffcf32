"""Plan of a run: its blocks, its bounds on bytes and time, and the arms on one load host fewer. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from perfgate.model import Scenario, Tier, parted
from perfgate.model.loads.paced import WARM_TIMES
from perfgate.model.measured import Arm

BLOCK_ROUND_S = 180.0
"""A round of a block lasts no longer, unless a single family does."""


def blocks(scenarios: Sequence[Scenario], tier: Tier) -> list[tuple[Scenario, ...]]:
    """Group scenarios that run interleaved: whole families of one cluster, as many as make a round of BLOCK_ROUND_S, so
    that those of a relation are minutes apart. One that families in several blocks are compared with is measured in
    each; one with a fault once. Groups of one cluster stand together."""
    groups: list[list[Scenario]] = []
    for family in dict.fromkeys(name for scenario in scenarios for name in scenario.measured_with):
        members = [scenario for scenario in scenarios if family in scenario.measured_with]
        for cluster in dict.fromkeys((scenario.cluster, scenario.has_fault) for scenario in members):
            own = [scenario for scenario in members if (scenario.cluster, scenario.has_fault) == cluster]
            if any(set(own) <= set(group) for group in groups):
                continue
            alike = [group for group in groups if (group[0].cluster, group[0].has_fault) == cluster]
            # With scenarios that it shares, if there is room: these are then measured once.
            alike.sort(key=lambda group: not set(own) & set(group))
            fits = (group for group in alike if _round_s({*group, *own}, tier) <= BLOCK_ROUND_S)
            if (group := next(fits, None)) is not None:
                group += [scenario for scenario in own if scenario not in group]
            else:
                groups.append(own)
    order = [scenario.cluster for scenario in scenarios]
    return [tuple(group) for group in sorted(groups, key=lambda group: order.index(group[0].cluster))]


def _round_s(scenarios: Collection[Scenario], tier: Tier) -> float:
    windows = sum(scenario.load.windows_of(tier.window_s, tier.warmup_max_s) for scenario in scenarios)
    return windows * (tier.warmup_max_s + tier.window_s)


def compared_with(scenarios: Sequence[Scenario], names: Collection[str]) -> list[Scenario]:
    """The scenarios of these names, and all that are compared with them, directly or through others."""
    chosen = {scenario for scenario in scenarios if scenario.name in names}
    while True:
        families = {family for scenario in chosen for family in scenario.families}
        compared = {scenario for scenario in scenarios if families & set(scenario.families)}
        if compared == chosen:
            return [scenario for scenario in scenarios if scenario in chosen]
        chosen = compared


ROUNDS_ON_DISK = 2
"""A round's topic is deleted after it, its files a second later."""
DISK_RESERVE = 1 << 30
REPEATS, REPEATS_PER_ROUND = 2, 0.5
"""Rounds of a scenario that may be measured again because the generator was the limit, and as many for its delay; or
this share of the tier's rounds, if that is more: of rate-10k three of ten rounds were sent late (2 slow cores), and the
third made the nightly undecided."""
OWN_EXTRA_ROUNDS = 12
"""Most rounds that are added while the suite's own brokers are still warming up; or as many as the tier has if that is
more: two processors at 40 % of their time needed four to seven after a smoke tier's three."""
BURST_S = 20.0
"""The two sides of a burst together write what one scenario writes in this time."""
LOOKS = 2
"""A red scenario is measured a second time."""


def most_bytes_at_a_time(scenarios: Sequence[Scenario], seconds: float) -> float:
    """Most bytes that the brokers' disks together have to hold; a round takes `seconds`."""
    backlogs = sum(scenario.backlog_bytes for scenario in scenarios)
    most_per_s = max(scenario.offered_bytes_per_s for scenario in scenarios)
    return most_per_s * seconds * ROUNDS_ON_DISK + backlogs + DISK_RESERVE


def repeats(tier: Tier) -> int:
    """Rounds of a scenario that may be measured again for each of the two reasons."""
    return max(REPEATS, int(REPEATS_PER_ROUND * tier.rounds))


def with_extra_rounds(tier: Tier, *, own: bool) -> int:
    """Most rounds of a scenario while brokers, the suite's `own` or others, are warming up."""
    return tier.rounds + (max(tier.rounds, OWN_EXTRA_ROUNDS) if own else tier.rounds)


def most_rounds(tier: Tier, *, own: bool) -> int:
    return with_extra_rounds(tier, own=own) + 2 * repeats(tier)


def most_bytes_written(scenarios: Sequence[Scenario], tier: Tier, *, own: bool) -> float:
    """Most bytes that the gate writes in all, replicas counted: every scenario at its full rate."""
    plain, faulty = parted(scenarios)
    together = blocks(plain, tier)
    rounds_s = most_rounds(tier, own=own) * (tier.window_s + tier.warmup_max_s)
    in_rounds = sum(
        scenario.offered_bytes_per_s * rounds_s * scenario.load.windows_of(tier.window_s, tier.warmup_max_s)
        + scenario.backlog_bytes
        for block in together
        for scenario in block  # some are measured in several
    )
    warm_up = sum(max(scenario.offered_bytes_per_s for scenario in block) for block in together) * tier.broker_warmup_s
    of_faults = sum(
        scenario.offered_bytes_per_s * (scenario.seconds(tier) + WARM_TIMES * tier.broker_warmup_s)
        for scenario in faulty
    )
    return LOOKS * (in_rounds + warm_up) + of_faults


def most_bytes_compared(scenarios: Sequence[Scenario], seconds: float) -> float:
    """Most bytes that a comparison writes in `seconds` of load, warm-ups counted; `scenarios`: both forms of each."""
    backlogs = sum(scenario.backlog_bytes for scenario in scenarios)
    return max(scenario.offered_bytes_per_s for scenario in scenarios) * seconds + backlogs


def warm_ups_compared_s(scenarios: Sequence[Scenario], tier: Tier) -> float:
    """Time in s for which a comparison warms brokers up besides its budget, which counts the warm-ups of pairs: for two
    forms on each cluster that the scenarios as declared need."""
    return 2 * tier.broker_warmup_s * len({scenario.cluster for scenario in scenarios})


def longest_unit_s(tier: Tier) -> float:
    """Time in s that a comparison may go on after its budget: a burst or a round that has begun is measured whole."""
    return tier.warmup_max_s + max(tier.window_s, BURST_S)


def at_most(scenario: Scenario, bytes_per_s: float, read_bytes_per_s: float = math.inf) -> Scenario:
    """The scenario with its cap lowered to these bytes/s written, replicas counted, and read by all groups."""
    bound = bytes_per_s / scenario.stored_bytes
    if scenario.consumers:
        bound = min(bound, read_bytes_per_s / (scenario.logged_bytes * scenario.groups))
    return replace(scenario, load=scenario.load.at_most(bound))


def one_host_fewer(scenario: Scenario, hosts: int) -> Arm | None:
    """The scenario without the processes of the last host that makes the load; None: :func:`nothing_to_confirm` says
    why. Consumers that read along in several groups stay: a group without one of them is another one."""
    if nothing_to_confirm(scenario, hosts):
        return None
    last = min(hosts, _making(scenario)) - 1
    sending = scenario.producers if scenario.load.sends else 0
    producers, consumers = scenario.producers - _on(last, sending, hosts), scenario.consumers
    readers = consumers.processes * consumers.groups if consumers else 0
    used = min(hosts, max(readers, sending))
    if consumers and consumers.groups == 1:
        consumers = replace(consumers, processes=readers - _on(last, readers, hosts))
    fewer = replace(scenario, producers=producers, consumers=consumers)
    return Arm(scenario=fewer, form="one host fewer", hosts=used - 1)


def nothing_to_confirm(scenario: Scenario, hosts: int) -> str:
    """Why one more host cannot show anything of this scenario; empty where it can."""
    if scenario.has_fault or scenario.load.open_loop or scenario.refusal:
        return "its rate is declared, and a host that falls behind it is told as it is"
    if not scenario.load.sends and scenario.groups > 1:
        return "it is read by several groups, of which no host can be left out"
    if hosts < 2:
        return "its link has one load host"
    if _making(scenario) < 2:
        role = "producers" if scenario.load.sends else "consumers"
        return f"one process makes its load, which is on one host; --set {role}.processes=N spreads it"
    if scenario.load.sends and reads_what_it_wrote(scenario):
        return (
            "its producers write the partitions that consumers beside them read, which are others on one host fewer; "
            "--set consumers.processes=N, not as many as producers, has each write all of them"
        )
    return ""


def reads_what_it_wrote(scenario: Scenario) -> bool:
    """Whether each of several producer processes writes, on hosts, what the consumer process of its number reads."""
    readers = scenario.consumers
    if not readers or readers.membership != "assigned" or readers.groups > 1 or scenario.keys.kind != "none":
        return False
    return (
        readers.processes == scenario.producers and scenario.topic.in_all % (readers.processes * readers.threads) == 0
    )


def _making(scenario: Scenario) -> int:
    """Processes that make the load: those that read a backlog, or all that send."""
    if scenario.load.sends:
        return scenario.producers
    return scenario.consumers.processes if scenario.consumers else 0


def _on(host: int, count: int, hosts: int) -> int:
    """Number of a role's processes on this host, the first being 0: they are dealt out in turn."""
    return len(range(host, count, hosts))
