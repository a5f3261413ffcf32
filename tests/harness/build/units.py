"""The sequential test of a change, on bare units."""

from collections.abc import Sequence
from typing import Any

from perfgate.judge.sequential import Estimate, decided, first_decision


def judge_units(
    logs: Sequence[float], planned: int, *, worse: int | None = None, **stated: Any
) -> tuple[int | None, Estimate]:
    """:func:`first_decision` of :func:`decided`; `worse` (-1 or 1): no other decision ended the measurement."""
    return first_decision(
        logs,
        planned,
        lambda estimate, _: decided(estimate),
        ends=lambda decision: worse in (None, decision),
        **stated,
    )
