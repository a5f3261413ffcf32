"""Relations over a factor's whole range: each shape seen green, and red wherever a scenario leaves it."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.judge.claims.relation import deciding_step, judge_relation
from perfgate.judge.confirmation import judge_relation_again, relation_again, second_look, to_measure_again
from perfgate.judge.wording import relation_message
from perfgate.model import METRICS, Load, Measurement, RangeRelation, Verdict
from perfgate.report.terminal import relation_rows
from tests.harness.build import measurement, one_round, relation

OVER = ("p1", "p3", "p6", "p9", "p50")
STEADY = (0.99, 1.0, 1.01, 1.0, 0.995, 1.005, 1.0)


def shape(goes: str | None = "rises", turn: int = 1, over: Sequence[str] = OVER, **changes: Any) -> RangeRelation:
    """Return a range whose metric goes so up to the scenario at this place."""
    stated: dict[str, Any] = {
        "at_least": 1.3 if goes else None,
        "step_at_least": 0.8,
        "at_most": 6.0,
        "flat_within": 0.25,
        **changes,
    }
    return RangeRelation(
        name="partitions-range",
        family="partitions",
        claim="up to the brokers, then flat",
        metric=METRICS["records_per_s"],
        source="test",
        goes=goes,  # type: ignore[arg-type]
        leg=tuple(over[: turn + 1]),
        flat=tuple(over[turn + 1 :]),
        **stated,
    )


def measured(levels: Sequence[float], noise: Sequence[float] = STEADY) -> dict[str, Measurement]:
    """Return measurements of OVER around these rates; the noise differs from one to the next."""
    return {
        name: measurement([level * noise[(n + i) % len(noise)] for n in range(len(noise))], name)
        for i, (name, level) in enumerate(zip(OVER, levels, strict=False))
    }


SHAPES = {
    "rises, then flat": (shape(), [100, 280, 330, 300, 345]),
    "rises": (shape(turn=4), [100, 120, 150, 180, 200]),
    "falls": (shape("falls", turn=4), [200, 180, 150, 120, 100]),
    "falls, then flat": (shape("falls", turn=2), [300, 200, 100, 110, 95]),
    "flat": (shape(None, turn=0), [100, 110, 95, 105, 100]),
    "does not fall": (shape(turn=4, at_least=None), [100, 100, 98, 101, 99]),
}


@pytest.mark.parametrize(("held", "levels"), SHAPES.values(), ids=SHAPES)
def test_a_shape_is_green_and_red_when_one_scenario_collapses_or_soars(
    held: RangeRelation, levels: list[float]
) -> None:
    assert judge_relation(held, measured(levels)).verdict is Verdict.PASS
    for at in range(len(levels)):
        for times in (1 / 20, 20):
            wrong = [level * (times if i == at else 1) for i, level in enumerate(levels)]
            outcome = judge_relation(held, measured(wrong))
            assert outcome.verdict is Verdict.REGRESSED, (at, times)
            assert any(OVER[at] in reason for reason in outcome.reasons)


@pytest.mark.parametrize("name", [name for name, (held, _) in SHAPES.items() if held.at_least])
def test_a_rise_or_fall_is_red_when_it_is_reversed(name: str) -> None:
    held, levels = SHAPES[name]
    assert judge_relation(held, measured(levels[::-1])).verdict is Verdict.REGRESSED


def test_one_in_the_middle_that_collapses_is_named_and_shown() -> None:
    held = shape()
    outcome = judge_relation(held, measured([100, 280, 330, 90, 345]))
    assert outcome.verdict is Verdict.REGRESSED
    assert [reason.partition(":")[0] for reason in outcome.reasons] == ["p9 / p3"]
    pair, step = deciding_step(held, outcome)
    assert (pair.name, step.verdict) == ("p9 / p3", Verdict.REGRESSED)
    message = relation_message(outcome, held)
    for part in (
        "REGRESSED partitions-range",
        "p9 / p3",
        "0.8 to 1.25 x p3",
        "from the minimum",
        "--family partitions",
    ):
        assert part in message
    assert "p6 / p3" not in message, "what holds is not in the message of what does not"
    ((_, compared, ratio, must_be, verdict),) = relation_rows([(held, outcome)])
    assert (compared, ratio, must_be, verdict) == ("p9 / p3 records_per_s", "0.32", "0.8 .. 1.25", "REGRESSED")


def test_a_rise_in_small_steps_that_comes_to_nothing_is_red() -> None:
    """No step goes the wrong way by more than it may, and the whole does not rise."""
    outcome = judge_relation(shape(turn=4), measured([100, 95, 90, 88, 85]))
    assert outcome.verdict is Verdict.REGRESSED
    assert outcome.reasons[-1].startswith("p50 / p1: ")


def test_what_lies_within_the_noise_of_a_bound_is_not_green() -> None:
    outcome = judge_relation(shape(), measured([100, 280, 226, 280, 280]))
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert outcome.reasons == ("p6 / p3: the minimum lies within the error of the median",)


def test_an_invalid_scenario_makes_the_range_invalid_but_hides_no_regression() -> None:
    found = measured([100, 280, 330, 300, 345])
    bad = replace(found["p6"], rounds=(*found["p6"].rounds[:6], one_round(7, 330, invalid=("no acks",))))
    outcome = judge_relation(shape(), {**found, "p6": bad})
    assert outcome.verdict is Verdict.INVALID
    assert outcome.reasons == ("p6 / p3: p6: round 7: no acks",)
    assert "no acks" in relation_message(outcome, shape())
    slow = measured([100, 280, 330, 90, 345])["p9"]
    assert judge_relation(shape(), {**found, "p6": bad, "p9": slow}).verdict is Verdict.REGRESSED


def test_a_rate_held_by_its_cap_is_no_regression() -> None:
    found = measured([100, 101, 100, 100, 100])
    capped = replace(found["p3"].scenario, load=replace(found["p3"].scenario.load, rate=101))
    outcome = judge_relation(shape(), {**found, "p3": replace(found["p3"], scenario=capped)})
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert outcome.reasons == ("p3 / p1: p3 reached its cap of 101 records/s",)


def test_a_ratio_beyond_its_maximum_because_the_other_is_at_its_cap_is_no_regression() -> None:
    """As a target file's limits cap it; of MiB/s as of records/s."""
    found = measured([100, 900, 900, 900, 900])
    assert judge_relation(shape(), found).verdict is Verdict.REGRESSED
    capped = replace(found["p1"].scenario, load=replace(found["p1"].scenario.load, rate=101))
    outcome = judge_relation(shape(), {**found, "p1": replace(found["p1"], scenario=capped)})
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert outcome.reasons == ("p3 / p1: p1 reached its cap of 101 records/s",)


@pytest.mark.parametrize(
    ("held", "left", "words"),
    [
        (shape(), OVER, None),
        (shape(), ("p1", "p3", "p50"), None),
        (shape(), ("p1", "p3"), "2 of its 5 scenarios are measured here; a range needs three"),
        (shape(), ("p3", "p6", "p9"), "needs two of p1, p3, over which it rises"),
        (shape(turn=2), ("p3", "p6", "p9"), "needs p1, which the others are held against"),
        (shape(turn=2), ("p1", "p3", "p9"), "needs p6, which the others are held against"),
        (shape(turn=4, at_least=None), ("p3", "p6", "p9"), None),
        (shape(None, turn=0), ("p3", "p6", "p9"), "needs p1, which the others are held against"),
    ],
)
def test_a_range_is_held_on_what_was_measured_if_that_shows_it(
    held: RangeRelation, left: Sequence[str], words: str | None
) -> None:
    assert held.lacks(left) == words
    if words is None:
        assert set(held.among(left).names) == set(left)
        assert all(set(step.names) <= set(left) for step in held.among(left).steps)


LEVELS = st.lists(st.floats(50, 2000), min_size=5, max_size=5)
NOISE = st.lists(st.floats(0.7, 1.3), min_size=2, max_size=9)
TURNS = st.integers(1, 4)


@given(LEVELS, NOISE, TURNS)
def test_a_rising_range_with_its_ends_swapped_is_not_green_too(
    levels: list[float], noise: list[float], turn: int
) -> None:
    held, found = shape(turn=turn), measured(levels, noise)
    first, last = held.leg[0], held.leg[-1]
    swapped = {
        **found,
        first: replace(found[last], scenario=found[first].scenario),
        last: replace(found[first], scenario=found[last].scenario),
    }
    verdicts = [judge_relation(held, one).verdict for one in (found, swapped)]
    assert verdicts.count(Verdict.PASS) < 2


@given(LEVELS, NOISE, TURNS, st.sampled_from(["rises", "falls"]), st.integers(-12, 12))
def test_scaling_all_scenarios_changes_nothing(
    levels: list[float], noise: list[float], turn: int, goes: str, power: int
) -> None:
    """By powers of two, so that rounding has no part in it; and below any cap."""
    held = shape(goes, turn)

    def scaled(unit: float) -> Mapping[str, Measurement]:
        found = measured([level * unit for level in levels], noise)
        load = replace(found["p1"].scenario.load, rate=1e12)
        return {n: replace(m, scenario=replace(m.scenario, load=load)) for n, m in found.items()}

    here, there = (judge_relation(held, scaled(unit)) for unit in (1.0, 2.0**power))
    assert there.verdict is here.verdict
    assert [step.rounds for step in there.steps] == [step.rounds for step in here.steps]


@given(LEVELS, NOISE, TURNS)
def test_a_range_is_green_only_where_every_step_alone_is(levels: list[float], noise: list[float], turn: int) -> None:
    held, found = shape(turn=turn), measured(levels, noise)
    alone = [judge_relation(step, found).verdict for step in held.steps]
    outcome = judge_relation(held, found)
    assert (outcome.verdict is Verdict.PASS) == all(one is Verdict.PASS for one in alone)
    if outcome.verdict is Verdict.REGRESSED:
        assert Verdict.REGRESSED in alone, "many steps are no reason to be red sooner"


@pytest.mark.parametrize("rounds", [3, 7, 15])
def test_a_range_is_red_by_chance_no_more_often_than_one_pair(rounds: int) -> None:
    """All true ratios lie on their minimum, the worst that is right: so often is each of them red by chance."""
    draw, runs, held = np.random.default_rng(7), 400, shape(turn=4, at_least=None, step_at_least=0.9)
    pair, red = held.steps[0], {"range": 0, "pair": 0}
    levels = list(itertools.accumulate([100.0] + [0.9] * 4, lambda a, b: a * b))
    for _ in range(runs):
        found = {
            name: measurement(list(level * np.exp(draw.normal(0, 0.07, rounds))), name)
            for name, level in zip(OVER, levels, strict=True)
        }
        red["range"] += judge_relation(held, found).verdict is Verdict.REGRESSED
        red["pair"] += judge_relation(pair, found).verdict is Verdict.REGRESSED
    allowed = red["pair"] + 3 * (red["pair"] + red["range"]) ** 0.5  # three standard errors of the difference
    assert 0 < red["range"] <= allowed, red


def test_a_red_range_is_measured_again_whole_and_both_looks_decide() -> None:
    held, found = shape(), measured([100, 280, 330, 90, 345])
    assert to_measure_again(found, None, [held]) == set(OVER)
    without = {name: m for name, m in found.items() if name not in ("p1", "p50")}
    assert to_measure_again(without, None, [held]) == set(), "what does not show the shape is not held"
    assert to_measure_again(found, None, [relation(2.0)]) == set(), "a pair that was not measured"
    first = judge_relation(held, found)
    confirmed = second_look(first, judge_relation(held, found))
    assert confirmed.verdict is Verdict.REGRESSED
    other = second_look(first, judge_relation(held, measured([100, 280, 330, 300, 345])))
    assert other.verdict is Verdict.INCONCLUSIVE, "the same step lay wholly elsewhere"
    assert "more than one state" in other.reasons[-1]
    assert "p9 / p3" in relation_message(confirmed, held)


@pytest.mark.parametrize(("short", "verdict"), [("p9", Verdict.PASS), ("p3", Verdict.INCONCLUSIVE)])
def test_a_confirmation_run_is_judged_without_what_its_brokers_did_not_take(short: str, verdict: Verdict) -> None:
    """Their rate is what the brokers took, not what the scenario is about; the turning point is needed, though."""
    held, again = shape(), measured([100, 280, 330, 90, 345])
    row = replace(again[short].scenario, load=Load(kind="paced", rate=500, probes=True))
    rounds = tuple(replace(one, not_sustained="not sustained: 90 of 500") for one in again[short].rounds)
    again = measured([100, 280, 330, 330, 345]) if short == "p3" else again
    outcome = judge_relation_again(held, {**again, short: replace(again[short], scenario=row, rounds=rounds)})
    assert outcome.verdict is verdict
    pair = relation(2.0)
    both = {"fast": measurement([100.0] * 3, "fast"), "slow": replace(again[short], scenario=row, rounds=rounds)}
    assert judge_relation_again(pair, both).verdict is Verdict.INCONCLUSIVE
    assert judge_relation_again(held, measured([100, 280, 330, 90, 345])).verdict is Verdict.REGRESSED


def not_taken(found: Mapping[str, Measurement], *names: str) -> dict[str, Measurement]:
    """Return the measurements, of which the brokers took these rates in no round."""
    load = Load(kind="paced", rate=500, probes=True)
    return {
        name: replace(
            one,
            scenario=replace(one.scenario, load=load),
            rounds=tuple(replace(r, not_sustained="not sustained: 90 of 500") for r in one.rounds),
        )
        if name in names
        else one
        for name, one in found.items()
    }


@pytest.mark.parametrize(
    ("levels", "silent", "hidden", "verdict", "steps"),
    [
        ([100, 280, 330, 90, 345], ("p9",), (), Verdict.INCONCLUSIVE, 3),
        ([100, 280, 90, 90, 345], ("p9",), (), Verdict.REGRESSED, 3),
        ([100, 280, 330, 90, 345], ("p3",), (), Verdict.INCONCLUSIVE, 4),
        ([100, 280, 330, 90, 345], ("p6", "p9"), ("p3 / p1", "p50 / p3"), Verdict.INCONCLUSIVE, 2),
    ],
)
def test_the_steps_of_an_outcome_are_those_of_the_range_that_is_shown(
    levels: Sequence[float], silent: Sequence[str], hidden: Sequence[str], verdict: Verdict, steps: int
) -> None:
    """A rate that the second run alone does not take left a red range without a verdict, and the run without run.json.

    Messages and run.json go through both together.
    """
    held = replace(shape(), hidden=frozenset(hidden))
    first = judge_relation(held, measured([100, 280, 90, 90, 345]))
    assert first.verdict is Verdict.REGRESSED
    shown, outcome = relation_again(held, first, not_taken(measured(levels), *silent), alone=False)
    assert outcome.verdict is verdict
    assert isinstance(shown, RangeRelation)
    assert [pair.name for pair in shown.steps] == [step.name for step in outcome.steps]
    assert len(outcome.steps) == steps
    assert deciding_step(shown, outcome)
    assert outcome.reasons[-1] in relation_message(outcome, shown)
