"""Comparisons that measure, on a fake target and driver."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from perfgate.judge.claims.same import SequentialStopRule
from perfgate.measure.comparing import Comparing
from perfgate.model import AS_USUAL, Change, Deciding, RecordedPairs, Scenario
from perfgate.model.compared import ComparisonStopRule
from perfgate.model.target import OutsideChange
from tests.harness.build.rounds import scenario
from tests.harness.corpus.fake_run import World, fake_setup


class Notes:
    """Keeps the notes for a person; phases are not shown."""

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes

    def __call__(self, text: str, left_s: float | None) -> None: ...

    def note(self, text: str) -> None:
        self._notes.append(text)

    def clear(self) -> None: ...


def comparing(
    change: Change,
    *scenarios: Scenario,
    kind: type[Comparing] = Comparing,
    world: World | None = None,
    said: list[str] | None = None,
    budget_s: float = 90.0,
    stop: ComparisonStopRule | None = None,
    decides: Deciding = AS_USUAL,
    outside: OutsideChange | None = None,
    recorded: Mapping[str, Sequence[RecordedPairs]] = MappingProxyType({}),
    **setup: Any,
) -> Comparing:
    """Return the comparison of these scenarios (default: one) on this world's brokers.

    `kind`: one of its kind that a test changed; `said` gets the notes for a person; `setup`: fields of the setup that
    differ from the fake ones.
    """
    notes = Notes([] if said is None else said)
    return kind(
        change,
        budget_s,
        fake_setup(world or World(), scenarios or [scenario()], say=notes, **setup),
        stop or SequentialStopRule(),
        decides=decides,
        outside=outside,
        recorded=recorded,
    )
