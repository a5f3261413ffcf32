"""Settings that take effect after so many records or bytes, in comparisons whose topics never held as many. Pure."""

from __future__ import annotations

from perfgate.model import Comparison, Measurement

AFTER_RECORDS = ("log.flush.interval.messages", "flush.messages")
AFTER_BYTES = ("log.segment.bytes", "segment.bytes")
"""Of a partition: of all brokers, and of a topic."""
NEVER = "was never reached"


def never_reached(comparison: Comparison) -> str:
    """Return which setting that differs took no effect on either side; empty where there is none.

    Every round writes to a topic of its own, and those of a burst last a few seconds: what a setting would do after
    more than the fullest partition held was not there to be measured.
    """
    sides = (comparison.baseline, comparison.candidate)
    for name in (*AFTER_RECORDS, *AFTER_BYTES):
        stated = [_settings(one).get(name) for one in sides]
        if stated[0] == stated[1] or not all(value is None or value.isdecimal() for value in stated):
            continue
        held = [(int(value), _fullest(one, name)) for value, one in zip(stated, sides, strict=True) if value]
        if held and all(most < limit for limit, most in held):
            what = "records" if name in AFTER_RECORDS else "bytes"
            told = " and ".join(f"{limit:,}" for limit, _ in held)
            most = max(most for _, most in held)
            return (
                f"{name} of {told} {NEVER}: no partition of a round was given more than {most:,} {what}; "
                "state a value that is, or raise --window"
            )
    return ""


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
