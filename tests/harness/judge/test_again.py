"""Bursts and rounds that were measured again: nobody is green by what one side alone spoilt."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.judge.bounds_files import load_ratios
from perfgate.judge.claims.ratio import judge_against_reference
from perfgate.judge.claims.same import judge_comparison
from perfgate.judge.loads import chance_by_toss
from perfgate.measure.validity import late_turns
from perfgate.model import Comparison, Effect, Verdict
from tests.harness.build import flawed, one_round
from tests.harness.build.comparisons import comparison
from tests.harness.run_gate import ROOT

NOISE = (1.0, 1.01, 0.99, 1.005, 0.995, 1.0, 1.01, 0.99, 1.0, 1.0)


def outlasted(found: Comparison, declared: int, candidate: int) -> Comparison:
    """Return the comparison in which so many bursts were measured again, by whose records outlasted their turn."""
    sides = {}
    for side, own, other in (("baseline", declared, candidate), ("candidate", candidate, declared)):
        flaws = [late_turns(1, 1)] * own + [late_turns(1, 1, own=False)] * other
        again = tuple(one_round(n, 1000.0, invalid=(flaw.text,)) for n, flaw in enumerate(flaws, start=1))
        sides[side] = replace(getattr(found, side), discarded=again)
    return replace(found, **sides)


@pytest.mark.parametrize(
    ("declared", "candidate", "green"),
    [(0, 0, True), (0, 4, True), (0, 5, False), (3, 9, True), (1, 12, False), (9, 0, True)],
)
def test_brokers_that_stand_still_are_not_the_same(declared: int, candidate: int, green: bool) -> None:
    """All such bursts were measured again, and what was left was SAME."""
    found = outlasted(comparison(1.0, noise=NOISE), declared, candidate)
    outcome = judge_comparison(found)
    assert outcome.effect is (Effect.SAME if green else Effect.INCONCLUSIVE), outcome.reasons
    assert ("its brokers may stand still" in str(outcome.reasons)) is not green
    assert ("those bursts were measured again" in str(outcome.reasons)) is (not green or candidate > declared)
    held = judge_against_reference(found, load_ratios(ROOT / "perfgate" / "catalogue"))
    assert held.verdict is (Verdict.PASS if green else Verdict.INCONCLUSIVE), held.reasons


LATE = {"invalid_metrics": {"latency_ms": "sent late: p99 of the schedule delay is 3.6 ms (limit 2.6 ms)"}}
SATURATED = {"invalid": ("generator saturated: it offered 800 records/s of the cap of 1,000, although its buffer ...",)}
STOOD_STILL = {"invalid": ("the generators stood still for 0.60 of the window's 2.00 s: stopped, or starved ...",)}
HEARD_LATE = {"invalid": ("a generator heard of its window 0.20 of 2.00 s after it had opened, and counted ...",)}


@pytest.mark.parametrize("how", [LATE, SATURATED, STOOD_STILL, HEARD_LATE])
@pytest.mark.parametrize(("declared", "candidate", "green"), [(4, 4, True), (0, 4, True), (0, 5, False), (9, 0, True)])
def test_a_load_that_is_not_sent_in_time_beside_changed_brokers_alone_is_not_the_same(
    declared: int, candidate: int, green: bool, how: dict[str, Any]
) -> None:
    """Brokers that take the processors from the generator had just those rounds taken out of their figures: it was SAME
    where they took so many that the load was not even offered."""
    found = comparison(1.0, noise=NOISE)
    sides = {
        side: replace(
            getattr(found, side),
            discarded=tuple(flawed(one_round(n, 1000.0), **how) for n in range(1, count + 1)),
        )
        for side, count in (("baseline", declared), ("candidate", candidate))
    }
    outcome = judge_comparison(replace(found, **sides))
    assert outcome.effect is (Effect.SAME if green else Effect.INCONCLUSIVE), outcome.reasons
    told = f"candidate: {candidate} of its loads were sent late or not in full, as declared {declared}"
    assert (told in str(outcome.reasons)) is (candidate > declared)
    held = judge_against_reference(replace(found, **sides), load_ratios(ROOT / "perfgate" / "catalogue"))
    assert held.verdict is (Verdict.PASS if green else Verdict.INCONCLUSIVE), held.reasons


def test_what_is_slower_stays_slower() -> None:
    assert judge_comparison(outlasted(comparison(0.8, noise=NOISE), 0, 9)).effect is Effect.SLOWER


@given(st.integers(0, 40), st.integers(0, 40))
def test_a_chance_is_one_and_falls_with_each_more(more: int, fewer: int) -> None:
    assert 0 < chance_by_toss(more, fewer) <= 1
    assert chance_by_toss(more + 1, fewer) <= chance_by_toss(more, fewer) or fewer > more
    assert chance_by_toss(more, fewer) + chance_by_toss(fewer, more) == pytest.approx(1 + _exactly(more, fewer))


def _exactly(more: int, fewer: int) -> float:
    return chance_by_toss(more, fewer) - (chance_by_toss(more + 1, fewer - 1) if fewer else 0.0)
