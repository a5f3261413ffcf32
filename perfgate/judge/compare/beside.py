"""Metrics that a comparison is held to beside the one that decides: none may get much worse in a green one. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfgate.judge.compare.paths import favour, favoured, handicap
from perfgate.judge.rates import READERS, at_its_cap
from perfgate.model import DECIDES_PACED, METRICS, Comparison, Effect, Measurement, MetricEffect, MetricInfo

AT_ITS_CAP = "broker_cpu_us_per_record"
"""Decides where both sides reach the cap."""
NOT_THE_SAME = {DECIDES_PACED: 1.5, AT_ITS_CAP: 1.1}
"""A candidate is not the same whose metric is so many times the baseline's, the whole interval beyond. A rate at its
cap, or one that the client limits, tells neither what its records wait for nor what they cost the brokers. Nor is one
faster whose records wait so much longer; it may cost the brokers more."""
AT_LEAST_OF_THE_RATE = 0.95
"""So it is with the rate where both sides mostly come to their cap, and what a record costs the brokers decides."""
NOT_THE_SAME_READ = {"paced": 1.5, "capped": 0.95}
"""So it is with what consumers that read along are given (READERS)."""


def got_worse(
    comparison: Comparison, decided: MetricInfo, effect: Effect, others: Sequence[MetricEffect]
) -> tuple[str, ...]:
    """Return what got so much worse that a scenario which is SAME or FASTER by what decides is neither."""
    word = "the same" if effect is Effect.SAME else "better"
    factors = held(comparison, effect)
    worse = tuple(
        f"{decided.name} is {word}, but {other.metric.name} is {other.estimate * 100:+.0f} % "
        f"({other.interval[0] * 100:+.0f} .. {other.interval[1] * 100:+.0f} %), beyond {(factor - 1) * 100:+.0f} %"
        for other in others
        if (factor := factors.get(other.metric.name)) and _beyond(other, factor)
    )
    alone = (f"where only that counts: --on {decided.name}",) if effect is Effect.FASTER else ()
    return (*worse, *alone) if worse else ()


def kept_by_path(comparison: Comparison, effect: Effect, others: Sequence[MetricEffect]) -> tuple[str, ...]:
    """Return which latencies only the shorter path to the candidate's cluster may have kept from being so much worse.

    Of a rate at its cap a path is no measure.
    """
    factors = held(comparison, effect)
    return tuple(
        favoured(comparison, other.metric)
        for other in others
        if "latency_ms." in other.metric.name
        and (factor := factors.get(other.metric.name))
        and _beyond(other, _worsened(factor, other.metric, -favour(comparison, other.metric)))
    )


def not_looked_at(
    comparison: Comparison, decided_by: Sequence[MetricInfo], effect: Effect, others: Sequence[MetricEffect]
) -> tuple[str, ...]:
    """Return which metrics a scenario that is SAME or FASTER should have been looked at by, and could not be."""
    known = {*(metric.name for metric in decided_by), *(other.metric.name for other in others)}
    return tuple(
        f"{name} was not valid in every round: whether it got worse is not known"
        for name in held(comparison, effect)
        if name not in known
    )


def once_late(measurement: Measurement) -> str:
    """Return what was late on this side and did not happen when it was measured again; empty where nothing was."""
    late = [flaw.text for r in measurement.discarded for flaw in r.flaws if flaw.late]
    return f"candidate, once, and not when it was measured again: {late[0]}" if late else ""


def held(comparison: Comparison, effect: Effect) -> dict[str, float]:
    """Return how many times what it was each metric may be."""
    scenario, sides = comparison.scenario, (comparison.baseline, comparison.candidate)
    kind = scenario.load.kind
    held = {name: factor for name, factor in NOT_THE_SAME.items() if kind != "backlog" or name != DECIDES_PACED}
    if scenario.consumers and kind in READERS:
        held[READERS[kind]] = NOT_THE_SAME_READ[kind]
    caps = {one.scenario.load.rate for one in sides}  # of two clusters each has its own
    if kind == "capped" and len(caps) == 1 and all(map(at_its_cap, sides)):
        held["records_per_s"] = AT_LEAST_OF_THE_RATE
    if effect is Effect.FASTER:
        held.pop(AT_ITS_CAP)
    # Each client has a buffer, and below the cap a record waits for all that lies in it.
    clients = {one.scenario.producers * one.scenario.threads for one in sides}
    if kind == "capped" and len(clients) > 1 and not all(map(at_its_cap, sides)):
        held.pop(DECIDES_PACED)
    # A longer path to the candidate's cluster may have made so much of it.
    return {
        name: _worsened(factor, METRICS[name], handicap(comparison, METRICS[name])) for name, factor in held.items()
    }


def _worsened(factor: float, metric: MetricInfo, by: float) -> float:
    """Return the factor of a metric that is worse by so much more, a logarithm."""
    return factor * math.exp(-metric.sign * by)


def _beyond(effect: MetricEffect, factor: float) -> bool:
    low, high = effect.interval
    return low > factor - 1 if effect.metric.better == "lower" else high < factor - 1
