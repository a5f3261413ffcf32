"""Checks that keep a change from being the same: other metrics that got worse, settings without effect. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from perfgate.judge.paths import AS_DECLARED, favour, favoured, handicap
from perfgate.judge.phrases import NEVER
from perfgate.judge.rates import at_its_cap
from perfgate.model import DECIDES_PACED, METRICS, Comparison, Effect, Measurement, MetricEffect, MetricInfo

AT_ITS_CAP = "broker_cpu_us_per_record"
"""Decides where both sides reach the cap."""
NOT_THE_SAME = {DECIDES_PACED: 1.5, AT_ITS_CAP: 1.1}
"""Factors of the baseline beyond which, with the whole interval, a candidate is not the same; nor, with such a latency,
faster. A rate at its cap, or limited by the client, shows neither latency nor the brokers' CPU."""
AT_LEAST_OF_THE_RATE = 0.95
"""The same for the rate where both sides mostly reach their cap and CPU per record decides."""
NOT_THE_SAME_READ = {"end_to_end_latency_ms.p99": 1.5, "received_records_per_s": 0.95}
"""The same for consumers that read along."""


def got_worse(
    comparison: Comparison, decided: MetricInfo, effect: Effect, others: Sequence[MetricEffect]
) -> tuple[str, ...]:
    """The metrics that got so much worse that a scenario is neither SAME nor FASTER."""
    word = "the same" if effect is Effect.SAME else "better"
    factors = worst_factors(comparison, effect)
    worse = tuple(
        f"{decided.name} is {word}, but {other.metric.name} is {other.estimate * 100:+.0f} % "
        f"({other.interval[0] * 100:+.0f} .. {other.interval[1] * 100:+.0f} %), beyond {(factor - 1) * 100:+.0f} %"
        for other in others
        if (factor := factors.get(other.metric.name)) and _beyond(other, factor)
    )
    alone = (f"where only that counts: --on {decided.name}",) if effect is Effect.FASTER else ()
    return (*worse, *alone) if worse else ()


def kept_by_path(comparison: Comparison, effect: Effect, others: Sequence[MetricEffect]) -> tuple[str, ...]:
    """The latencies that only the candidate's shorter path may have kept from being so much worse."""
    factors = worst_factors(comparison, effect)
    return tuple(
        favoured(comparison, other.metric, AS_DECLARED)
        for other in others
        if "latency_ms." in other.metric.name
        and (factor := factors.get(other.metric.name))
        and _beyond(other, _worsened(factor, other.metric, -favour(comparison, other.metric)))
    )


def not_looked_at(
    comparison: Comparison, decided_by: Sequence[MetricInfo], effect: Effect, others: Sequence[MetricEffect]
) -> tuple[str, ...]:
    """The metrics that could not be checked for a scenario that is SAME or FASTER."""
    known = {*(metric.name for metric in decided_by), *(other.metric.name for other in others)}
    return tuple(
        f"{name} was not valid in every round: whether it got worse is not known"
        for name in worst_factors(comparison, effect)
        if name not in known
    )


def once_late(measurement: Measurement) -> str:
    """A lateness on this side that did not repeat when it was measured again; else empty."""
    late = [flaw.text for r in measurement.discarded for flaw in r.flaws if flaw.late]
    return f"candidate, once, and not when it was measured again: {late[0]}" if late else ""


def worst_factors(comparison: Comparison, effect: Effect) -> dict[str, float]:
    """The factor of the baseline that each metric may reach."""
    scenario, sides = comparison.scenario, comparison.sides
    load = scenario.load
    factors = {name: factor for name, factor in NOT_THE_SAME.items() if load.sends or name != DECIDES_PACED}
    if scenario.consumers and load.readers_metric:
        factors[load.readers_metric] = NOT_THE_SAME_READ[load.readers_metric]
    caps = {side.scenario.load.rate for side in sides}  # of two clusters each has its own
    at_their_caps = all(map(at_its_cap, sides))
    if len(caps) == 1 and at_their_caps:
        factors["records_per_s"] = AT_LEAST_OF_THE_RATE
    if effect is Effect.FASTER:
        factors.pop(AT_ITS_CAP)
    # Each client has a buffer, and below the cap a record waits for all that lies in it.
    clients = {side.scenario.producers * side.scenario.threads for side in sides}
    if load.capped and len(clients) > 1 and not at_their_caps:
        factors.pop(DECIDES_PACED)
    # A longer path to the candidate's cluster may explain a part of what got worse.
    return {
        name: _worsened(factor, METRICS[name], handicap(comparison, METRICS[name])) for name, factor in factors.items()
    }


def _worsened(factor: float, metric: MetricInfo, by: float) -> float:
    """The factor of a metric that may be worse by `by`, a logarithm, for another reason."""
    return factor * math.exp(-metric.sign * by)


def _beyond(effect: MetricEffect, factor: float) -> bool:
    low, high = effect.interval
    return low > factor - 1 if effect.metric.better == "lower" else high < factor - 1


AFTER_RECORDS = ("log.flush.interval.messages", "flush.messages")
AFTER_BYTES = ("log.segment.bytes", "segment.bytes", "log.retention.bytes", "retention.bytes")
"""Of a partition: of all brokers, and of a topic."""
AFTER_MS = {
    "log.roll.ms": 1,
    "log.roll.hours": 3_600_000,
    "segment.ms": 1,
    "log.flush.interval.ms": 1,
    "flush.ms": 1,
    "log.retention.ms": 1,
    "log.retention.minutes": 60_000,
    "log.retention.hours": 3_600_000,
    "retention.ms": 1,
}
"""Times after which something happens to a partition, with the unit in ms."""
NUMBER = re.compile(r"-?\d+")
FLUSHER = ("log.flush.scheduler.interval.ms", 2**63 - 1)
RETENTION = ("log.retention.check.interval.ms", 300_000)
LOOKED_AT = {
    name: FLUSHER if "flush" in name else RETENTION
    for name in (*AFTER_BYTES, *AFTER_MS)
    if "flush" in name or "retention" in name
}
"""Settings that do not act at once, with the setting of how often brokers look and Kafka's default of it, in ms; for
flushing: never."""


def never_reached(comparison: Comparison) -> str:
    """The differing setting that took no effect on either side; else empty.

    Every round writes to a topic of its own: a setting that acts after more than its fullest partition held, or later,
    was not measured, nor one for which brokers look less often than that.
    """
    sides = comparison.sides
    written_ms = _written_to_ms(comparison)
    for name in (*AFTER_RECORDS, *AFTER_BYTES, *AFTER_MS):
        stated = [_settings(m).get(name) for m in sides]
        if stated[0] == stated[1] or not all(value is None or NUMBER.fullmatch(value) for value in stated):
            continue
        # Below 0 it is no limit, which no topic comes to.
        limits = [(int(value) * AFTER_MS.get(name, 1), m) for value, m in zip(stated, sides, strict=True) if value]
        reached = [written_ms if name in AFTER_MS else _fullest(m, name) for _, m in limits]
        within = [m for most, (limit, m) in zip(reached, limits, strict=True) if 0 <= limit <= most]
        if any(_looks_every_ms(m, name) <= written_ms for m in within):
            continue
        wanted, most = " and ".join(value for value in stated if value), max(reached)
        if within:
            setting, every_ms = LOOKED_AT[name][0], _looks_every_ms(within[0], name)
            look = f"look each {every_ms / 1e3:,.0f} s" if every_ms < FLUSHER[1] else "never look"
            return (
                f"{name} of {wanted} {NEVER}: brokers {look} whether it has to act ({setting}, Kafka's default where "
                f"the run sets none), and no topic of a round was written to for more than {written_ms / 1e3:,.0f} s; "
                f"where the suite starts them, --set broker.{setting}=1000 has them look each second"
            )
        if name in AFTER_MS:
            return (
                f"{name} of {wanted} {NEVER}: no topic of a round was written to for more than {most / 1e3:,.0f} s; "
                "state a value that is, or raise --window"
            )
        what = "records" if name in AFTER_RECORDS else "bytes"
        wanted = " and ".join(f"{limit:,}" for limit, _ in limits)
        return (
            f"{name} of {wanted} {NEVER}: no partition of a round was given more than {most:,} {what}; "
            "state a value that is, or raise --window"
        )
    return ""


def _looks_every_ms(measurement: Measurement, name: str) -> int:
    """How often brokers look whether this setting has to act, in ms; 0: with each record."""
    setting, usual_ms = LOOKED_AT.get(name, ("", 0))
    stated = dict(measurement.scenario.cluster.config).get(setting, "")
    return int(stated) if NUMBER.fullmatch(stated) else usual_ms


def _written_to_ms(comparison: Comparison) -> int:
    """A lower bound of how long a topic of a round was written to, without gaps between turns; 0 of a backlog."""
    if not comparison.scenario.load.sends:
        return 0
    written_s = [[r.warmup_s + r.window_s for r in side.rounds] for side in comparison.sides]
    parts = len(comparison.orders[0].split()) if comparison.orders else 1
    in_turns = comparison.method != "rounds" and comparison.rounds_per_unit == parts
    each = map(sum, zip(*written_s, strict=False)) if in_turns else (s for side in written_s for s in side)
    return math.ceil(1e3 * max(each, default=0.0))


def _settings(measurement: Measurement) -> dict[str, str]:
    return {**dict(measurement.scenario.cluster.config), **dict(measurement.scenario.topic.config)}


def _fullest(measurement: Measurement, name: str) -> int:
    """Records (or bytes) of the fullest partition of any round."""
    scenario = measurement.scenario
    each = [acked for r in measurement.rounds for acked, _ in r.accounting.partitions]
    whole = [r.accounting.acked for r in measurement.rounds]
    whole += [] if scenario.load.sends else [scenario.load.records]
    most = max((*each, *(-(-records // scenario.topic.in_all) for records in whole)), default=0)
    return most * (scenario.record_bytes if name in AFTER_BYTES else 1)
