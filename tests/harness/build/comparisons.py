"""Comparisons of synthetic rounds."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from perfgate.model import Comparison, Load
from tests.harness.build.rounds import measurement, scenario

NOISE = (1.00, 1.01, 0.99, 1.005, 0.995, 1.0, 1.01, 0.99, 1.0, 1.0)


def comparison(
    factor: float, *, noise: Sequence[float] = NOISE, cpu_us: float = 50.0, cap: float = 1e6, **changes: Any
) -> Comparison:
    """Return a comparison whose candidate's rate is `factor` times the baseline's, give or take `noise`."""
    row = replace(scenario(), load=Load(kind="capped", rate=cap))
    before = measurement([1000.0 * (2 - x) for x in noise])
    after = measurement([1000.0 * factor * x for x in noise], cpu_us=cpu_us)
    return Comparison(
        **{
            "change": "a change",
            "baseline": replace(before, scenario=row),
            "candidate": replace(after, scenario=row),
            "method": "turns",
            "rounds_per_unit": 1,
            "planned_units": len(noise),
            "orders": ("ABBA",) * len(noise),
            "minutes": 2.0,
            **changes,
        }
    )
