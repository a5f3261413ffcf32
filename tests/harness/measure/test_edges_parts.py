"""Plans of a comparison that grow and are thrown away, ramps on cold brokers, and what brokers have learnt by half."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from perfgate.measure import parts
from perfgate.measure.assembly import Finished, unmeasured
from perfgate.measure.campaign import Campaign
from perfgate.measure.parts import REPEATS, Compared, measure_part, next_order, too_short
from perfgate.measure.ramp import Known, known_after, ramp_round
from perfgate.measure.sides import Switch
from perfgate.model import Load, Round, Scenario, Step
from perfgate.model.errors import BrokersFailedError
from tests.harness.build import accounting, flawed, one_round, scenario
from tests.harness.build.bursts import Bursts, both
from tests.harness.corpus.fake_run import World, fake_setup


def compared(units: int = 0, planned: int = 0, per_part: int = 1, **changes: Any) -> Compared:
    """Return a scenario that is compared, with these units done of a plan."""
    row = Compared(dict.fromkeys("AB", scenario()), "turns", per_part, **changes)
    row.planned = planned
    row.orders += ["ABBA"] * units
    for side in "AB":
        row.rounds[side] += [one_round(n + 1, 1000.0) for n in range(units * per_part)]
    return row


@pytest.mark.parametrize(
    ("units", "planned", "freed", "grows"),
    [(8, 8, 2, True), (9, 8, 2, True), (8, 8, 1, False), (7, 8, 2, False), (0, 8, 90, False), (8, 8, 90, True)],
)
def test_a_plan_grows_by_a_quarter_or_not_at_all_and_once_it_is_carried_out(
    units: int, planned: int, freed: int, grows: bool
) -> None:
    row = compared(units, planned)
    row.grow(freed)
    assert (row.planned, row.former) == ((planned + freed, [planned]) if grows else (planned, []))


def test_each_plan_is_kept_that_was_carried_out() -> None:
    """What its looks spent of the error is spent: a plan that was forgotten would be looked at as if it were new."""
    row = compared(8, 8)
    row.grow(4)
    row.grow(4)
    assert (row.planned, row.former) == (12, [8]), "12 are not done yet"
    row.orders += ["ABBA"] * 4
    row.grow(3)
    assert (row.planned, row.former) == (15, [8, 12])


def test_longer_windows_begin_with_a_plan_of_their_own() -> None:
    row = compared(8, 8, parts=6)
    row.seconds = 100.0
    row.grow(4)
    row.lengthen(5.0, 4)
    assert (row.planned, row.former, row.orders, row.parts, row.window_s) == (0, [], [], 4, 5.0)
    assert (row.seconds, row.seconds_lost, row.unit_s) == (100.0, 100.0, 0.0)
    assert not any(row.rounds.values())
    assert [len(rounds) for rounds in row.discarded.values()] == [8, 8]
    row.seconds += 30.0
    row.orders += ["ABBA"] * 3
    assert row.unit_s == 10.0, "without what was spent before"
    row.lengthen(9.0, 90)
    assert row.parts == 4


@pytest.mark.parametrize(
    ("units", "planned", "spoilt", "done"),
    [(7, 8, False, False), (8, 8, False, True), (4, 8, True, False), (5, 8, True, True), (3, 8, True, False)],
)
def test_a_scenario_is_done_with_its_plan_or_when_nothing_can_decide_it(
    units: int, planned: int, spoilt: bool, done: bool
) -> None:
    row = compared(units, planned)
    if spoilt:
        row.rounds["B"][0] = flawed(row.rounds["B"][0], invalid=("a flaw",))
    assert row.done(4) is done


def test_brokers_that_failed_end_it_at_once() -> None:
    row = compared(1, 8)
    assert not row.failed
    row.rounds["B"][0] = replace(row.rounds["B"][0], accounting=replace(accounting(), failed={"code": 1}))
    assert row.failed
    assert row.done(4)


@pytest.mark.parametrize(
    ("units", "per_part", "repeats"), [(0, 1, 6), (2, 1, 6), (3, 1, 7), (6, 1, 8), (1, 2, 7), (3, 2, 10)]
)
def test_a_repeat_more_is_earned_with_every_three_that_were_sound(units: int, per_part: int, repeats: int) -> None:
    """Of bursts by their number, of whole rounds by that of both sides."""
    row = compared(units, per_part=per_part)
    assert [row.spend_repeat() for _ in range(repeats + 1)] == [True] * repeats + [False]
    assert row.repeated == repeats
    assert REPEATS == 6


@pytest.mark.parametrize(
    ("load", "flaws", "unsound"),
    [
        ("paced", {"latency_ms": "sent late"}, True),
        ("paced", {"broker_cpu_cores": "late"}, False),
        ("capped", {"latency_ms": "sent late"}, False),
    ],
)
def test_a_paced_load_can_no_longer_be_decided_without_its_latency(
    load: Any, flaws: Mapping[str, str], unsound: bool
) -> None:
    row = Compared(dict.fromkeys("AB", replace(scenario(), load=Load(kind=load, rate=1000.0))), "turns", 1)
    row.rounds["A"].append(flawed(one_round(1, 1000.0), invalid_metrics=flaws))
    assert row.unsound is unsound


def test_orders_come_in_pairs_that_mirror_one_another() -> None:
    chance: Any = Mock()
    chance.choice.side_effect = ["ABBA", "BAAB", "BAAB"]
    orders: list[str] = []
    for _ in range(6):
        orders.append(next_order(orders, chance))
    assert orders == ["ABBA", "BAAB", "BAAB", "ABBA", "BAAB", "ABBA"]


@pytest.mark.parametrize("first", ["AB", "BA"])
def test_whole_rounds_come_two_by_two_and_any_four_of_them_favour_no_side(first: str) -> None:
    rounds = Compared(dict.fromkeys("AB", scenario()), "rounds", 1)
    chance: Any = Mock()
    chance.choice.side_effect = lambda among: among[among.index(first)]
    rounds.orders.append(next_order([], chance, rounds.orders_of_a_part))
    assert first + next_order(rounds.orders, chance, rounds.orders_of_a_part) in ("ABBA", "BAAB")


@pytest.mark.parametrize(
    ("budget_s", "needed", "affords"), [(825.0, 3, True), (824.0, 3, False), (1125.0, 4, True), (1124.0, 4, False)]
)
def test_the_pair_that_makes_a_decision_possible_may_be_late_by_a_quarter(
    budget_s: float, needed: int, affords: bool
) -> None:
    why = too_short(budget_s, 300.0, needed)
    assert (why == "") is affords
    if not affords:
        assert f"--budget {(needed + 1) * 5}m tells something" in why


RAMP = replace(scenario("knee"), load=Load(kind="ramp", rate=100_000.0))


def a_step(rate: float, p99_ms: float, compiling: float = 0.0) -> Finished:
    found = one_round(1, rate)
    metrics = {**found.metrics, "latency_ms.p99": p99_ms, "broker_compile_share.max": compiling}
    return Finished(round=replace(found, metrics=metrics), repeatable=False)


def ramp(index: int, known: Known, *, unloaded_ms: float, compiling: float) -> Round:
    """Return a ramp of brokers that take 30,000 records/s, with this p99 at the first step and a share of compiling."""

    def measure(row: Scenario, doing: str) -> Finished:
        if "unloaded" in doing:
            return a_step(row.load.rate, unloaded_ms, compiling)
        return a_step(row.load.rate, 15.0 if row.load.rate <= 30_000 else 500.0, compiling)

    return ramp_round(measure, RAMP, index, known, own_brokers=True).round


@pytest.mark.parametrize(("compiling", "counts"), [(0.0, True), (0.10, True), (0.11, False)])
def test_the_first_steps_of_cold_brokers_set_no_level_for_warm_ones(compiling: float, counts: bool) -> None:
    """20 ms while they compiled made a level of 200 ms for all that follow; warm they take 2 ms."""
    known = known_after(ramp(1, Known(), unloaded_ms=20.0, compiling=compiling), Known())
    assert known.unloaded_ms == ((20.0, 20.0, 20.0) if counts else ())
    assert known.knee is not None, "where it lies is only where the next one begins"
    second = ramp(2, known, unloaded_ms=2.0, compiling=0.0)
    assert second.metrics["unloaded_latency_ms.p99"] == (20.0 if counts else 2.0)


def test_a_first_step_that_missed_sets_no_level_either() -> None:
    steps = tuple(
        Step(
            rate=1000.0,
            part="unloaded",
            metrics={"latency_ms.p99": ms},
            accounting=accounting(),
            missed="late" if ms > 5 else "",
        )
        for ms in (2.0, 9.0)
    )
    found = replace(one_round(1, 1000.0), steps=steps)
    assert known_after(found, Known(knee=5.0, unloaded_ms=(1.0,))) == Known(knee=5.0, unloaded_ms=(1.0,))
    met = replace(found, steps=steps[:1])
    assert known_after(met, Known(unloaded_ms=(1.0,))).unloaded_ms == (1.0, 2.0)


def test_a_round_that_does_not_count_leaves_the_knee_that_was_known() -> None:
    found = replace(unmeasured(2, "a flaw"), metrics={"knee_records_per_s": 9.0})
    assert known_after(found, Known(knee=5.0)).knee == 5.0
    assert known_after(replace(found, flaws=()), Known(knee=5.0)).knee == 9.0
    assert known_after(one_round(2, 1.0), Known(knee=5.0)).knee == 5.0


@pytest.mark.parametrize(
    ("warming", "replicas", "kept"),
    [
        ([], 3, True),
        (["two"], 3, False),
        (["one"], 3, False),
        (["one", "two"], 3, False),
        ([], 2, True),
        ([], 1, False),
    ],
)
def test_a_cache_of_what_brokers_learnt_is_kept_of_warm_ones_that_replicated(
    warming: list[str], replicas: int, kept: bool
) -> None:
    """Brokers that start with a half-learnt one are slow for as long as those without."""
    topic = replace(scenario().topic, replication_factor=replicas)
    rows = [replace(scenario(name), topic=topic) for name in ("one", "two")]
    stop: Any = Mock(
        hopeless=lambda *_: False, sure=lambda *_: False, still_warming=lambda _: dict.fromkeys(warming, "compiling")
    )
    world = World()
    with world.running():
        Campaign(setup=fake_setup(world, rows), stop=stop).measure(rows[0])
    assert any("AOT cache kept" in line for line in world.lines) is kept


@pytest.mark.parametrize(
    ("method", "left_s", "tries", "order"),
    [("turns", 60.0, 2, "ABBA"), ("turns", -1.0, 1, ""), ("pairs", -1.0, 2, "ABBA")],
)
def test_a_part_in_which_brokers_were_late_is_measured_again_while_there_is_time_and_of_pairs_always(
    bursts: Bursts, method: str, left_s: float, tries: int, order: str
) -> None:
    def end() -> dict[str, Finished]:
        if len(bursts.paces) == 1:
            raise BrokersFailedError("not in sync", perhaps_late=True)
        return both(one_round(1, 1000.0))

    bursts.end = end
    row = Compared(dict.fromkeys("AB", scenario()), method, 1)
    assert measure_part(row, bursts.benches, Switch(), left_s, "ABBA") == order
    assert len(bursts.paces) == tries
    assert [len(rounds) for rounds in row.rounds.values()] == [1 if order else 0] * 2
    assert row.late == 1


@pytest.mark.parametrize(("compiling", "again"), [(0.10, False), (0.11, True)])
def test_a_part_of_brokers_that_compile_is_measured_again_for_as_often_as_it_may(
    bursts: Bursts, compiling: float, again: bool
) -> None:
    bursts.end = lambda: {"A": a_step(1000.0, 2.0), "B": a_step(1000.0, 2.0, compiling)}
    row = Compared(dict.fromkeys("AB", scenario()), "turns", 1)
    assert measure_part(row, bursts.benches, Switch(), 60.0, "ABBA") == "ABBA"
    assert len(row.discarded["B"]) == (parts.WARMING_PARTS if again else 0)
    assert (row.may_warm == 0) is again


def test_a_round_of_a_block_is_given_the_time_that_is_left() -> None:
    left: list[float] = []

    def one(_row: object, index: int, seconds: float, *_: object, **__: object) -> Finished:
        left.append(seconds)
        return Finished(round=one_round(index, 1000.0), repeatable=False)

    bench: Any = Mock(round=one)
    row = Compared(dict.fromkeys("AB", scenario()), "rounds", 2)
    assert measure_part(row, dict.fromkeys("AB", bench), Switch(), 60.0, "ABBA") == "ABBA"
    assert len(left) == 4
    assert 59.0 < left[3] <= left[0] <= 60.0
    assert [r.index for r in row.rounds["A"]] == [r.index for r in row.rounds["B"]] == [1, 2]


@pytest.mark.parametrize(("repeatable", "ends"), [(False, True), (True, False)])
def test_a_step_that_does_not_count_ends_a_ramp_unless_the_generator_is_why(repeatable: bool, ends: bool) -> None:
    beyond = flawed(one_round(1, 1.0), invalid=("a flaw",))

    def measure(row: Scenario, _doing: str) -> Finished:
        if row.load.rate <= 30_000:
            return a_step(row.load.rate, 2.0)
        return Finished(round=beyond, repeatable=repeatable)

    found = ramp_round(measure, RAMP, 1, own_brokers=False).round
    assert (found.invalid == ("a flaw",)) is ends
    assert ("knee_records_per_s" in found.metrics) is not ends


def test_a_step_that_was_late_and_quick_enough_all_the_same_is_measured_once() -> None:
    tried: list[str] = []

    def measure(row: Scenario, doing: str) -> Finished:
        tried.append(doing)
        late = flawed(a_step(row.load.rate, 2.0).round, invalid_metrics={"latency_ms": "sent late"})
        return Finished(round=late, repeatable="unloaded" not in doing)

    assert ramp_round(measure, RAMP, 1, own_brokers=True).round.metrics["knee_records_per_s"] == 100_000.0
    steps = [doing for doing in tried if "unloaded" not in doing]
    assert len(steps) == len(set(steps))
