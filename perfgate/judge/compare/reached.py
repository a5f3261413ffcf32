"""Settings that take effect after so many records or bytes, or so long, in comparisons whose topics never held as many
or were never written to for as long. Pure."""

from __future__ import annotations

import math
import re

from perfgate.model import Comparison, Measurement

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
"""What happens to a partition after so long, and how many ms the unit is."""
NUMBER = re.compile(r"-?\d+")
NEVER = "was never reached"


def never_reached(comparison: Comparison) -> str:
    """Return which setting that differs took no effect on either side; empty where there is none.

    Every round writes to a topic of its own, and those of a burst last a few seconds: what a setting would do after
    more than the fullest partition held, or later than a topic was written to, was not there to be measured.
    """
    sides = (comparison.baseline, comparison.candidate)
    for name in (*AFTER_RECORDS, *AFTER_BYTES, *AFTER_MS):
        stated = [_settings(one).get(name) for one in sides]
        if stated[0] == stated[1] or not all(value is None or NUMBER.fullmatch(value) for value in stated):
            continue
        # Below 0 it is no limit, which no topic comes to.
        limits = [(int(value) * AFTER_MS.get(name, 1), m) for value, m in zip(stated, sides, strict=True) if value]
        reached = [_written_to_ms(comparison) if name in AFTER_MS else _fullest(one, name) for _, one in limits]
        if any(0 <= limit <= most for most, (limit, _) in zip(reached, limits, strict=True)):
            continue
        told, most = " and ".join(value for value in stated if value), max(reached)
        if name in AFTER_MS:
            return (
                f"{name} of {told} {NEVER}: no topic of a round was written to for more than {most / 1e3:,.0f} s; "
                "state a value that is, or raise --window"
            )
        what = "records" if name in AFTER_RECORDS else "bytes"
        told = " and ".join(f"{limit:,}" for limit, _ in limits)
        return (
            f"{name} of {told} {NEVER}: no partition of a round was given more than {most:,} {what}; "
            "state a value that is, or raise --window"
        )
    return ""


def _written_to_ms(comparison: Comparison) -> int:
    """Return how long a topic of a round was surely written to, at the most: the turns of both sides are of one burst.

    The gaps between turns are left out, and so is what was before and after: this rather says too little. Of a backlog
    it is not known: that is only read while it is measured.
    """
    if comparison.scenario.load.kind == "backlog":
        return 0
    sides = (comparison.baseline.rounds, comparison.candidate.rounds)
    written_s = [[r.warmup_s + r.window_s for r in rounds] for rounds in sides]
    parts = len(comparison.orders[0].split()) if comparison.orders else 1
    in_turns = comparison.rounds_per_unit == parts
    each = map(sum, zip(*written_s, strict=False)) if in_turns else (s for side in written_s for s in side)
    return math.ceil(1e3 * max(each, default=0.0))


def _settings(measurement: Measurement) -> dict[str, str]:
    return {**dict(measurement.scenario.cluster.config), **dict(measurement.scenario.topic.config)}


def _fullest(measurement: Measurement, name: str) -> int:
    """Return the most that a partition was given in a round: records, or bytes of their values."""
    scenario = measurement.scenario
    most = 0
    for r in measurement.rounds:
        known = [acked for acked, _ in r.accounting.partitions]
        most = max(most, *known, -(-r.accounting.acked // scenario.topic.partitions))
    if scenario.load.kind == "backlog":
        most = max(most, -(-scenario.load.records // scenario.topic.partitions))
    return most * (scenario.record_bytes if name in AFTER_BYTES else 1)
