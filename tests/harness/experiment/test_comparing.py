"""A comparison as a whole: what a person is told while it is measured."""

import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from perfgate.experiment.comparing import Comparing
from perfgate.experiment.parts import Compared
from perfgate.model import AS_USUAL, Change, RecordedPairs
from tests.harness.build import scenario


@pytest.mark.parametrize(("budget_s", "told"), [(480.0, True), (900.0, False)])
def test_a_budget_that_affords_too_few_pairs_is_told_after_the_first(
    monkeypatch: pytest.MonkeyPatch, budget_s: float, told: bool
) -> None:
    """Two pairs were measured in 5.6 of 8 min, then it said that a decision needs four."""
    now, said = [0.0], list[str]()
    comparing: Any = Comparing.__new__(Comparing)
    comparing.change = Change(name="a heap")
    comparing.setup, comparing._random = Mock(), Mock(choice=lambda found: found[0])
    comparing.setup.say.note.side_effect = said.append
    comparing.stop = SimpleNamespace(fewest_units=lambda _: 4, decided=lambda _: False)

    def pair(_self: object, rows: list[Compared], _first: str, _deadline: float) -> None:
        now[0] += 168
        for row in rows:
            row.orders.append("ABBA")

    monkeypatch.setattr(Comparing, "_pair", pair)
    monkeypatch.setattr(Comparing, "_comparison", Mock())
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    row = Compared({"A": scenario(), "B": scenario()}, "pairs", 1, 6)
    comparing._pairs([row], budget_s)
    words = (
        "a pair of clusters takes 2.8 min, so 8 min afford 2 of the 4 that a decision needs: --budget 14m tells "
        "something"
    )
    assert said == ([words] if told else [])
    assert row.units == (2 if told else 5)


def test_recorded_pairs_are_of_the_same_scenario_and_length_and_nothing_on_pairs_is_never_decided_early() -> None:
    """To end as soon as pairs of nothing are alike would record too little scatter."""
    comparing: Any = Comparing.__new__(Comparing)
    comparing.setup, comparing.against, comparing.decides = Mock(), False, AS_USUAL
    comparing.stop = SimpleNamespace(fewest_units=lambda _: 3, decided=lambda _: True)
    comparing.change = Change(name="x", changes=(("cluster.version", "3.9.1"),))
    kept, shorter = (RecordedPairs(metric="records_per_s", rounds_per_unit=n, effects=(0.1,) * 5) for n in (6, 2))
    comparing.recorded = {"batch-1k": (shorter, kept), "other": (kept,)}
    row = Compared({"A": scenario(), "B": scenario()}, "pairs", 1, 6, orders=["ABBA"], planned=3)
    assert comparing._comparison(row).recorded == (kept,)
    assert comparing._decided(row)
    comparing.change = Change(name="nothing", on_pairs=True)
    assert not comparing._decided(row)
    row.orders *= 3
    assert comparing._decided(row), "the budget is spent"
    row.method = "turns"
    assert comparing._comparison(row).recorded == ()
