"""Model objects for tests, by subject; names of many test modules can be imported from here."""

from tests.harness.build.faults import does
from tests.harness.build.loads import load_result, received, sent
from tests.harness.build.rounds import (
    accounting,
    flaw_entry,
    flawed,
    histogram,
    late_texts,
    measurement,
    one_round,
    scenario,
)
from tests.harness.build.thresholds import profile, relation, threshold

__all__ = [
    "accounting",
    "does",
    "flaw_entry",
    "flawed",
    "histogram",
    "late_texts",
    "load_result",
    "measurement",
    "one_round",
    "profile",
    "received",
    "relation",
    "scenario",
    "sent",
    "threshold",
]
