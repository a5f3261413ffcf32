"""Losses at their edges: of few units, without the worst ones, and of metrics beside the one that decides."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from perfgate.judge.claims.same import judge_comparison
from perfgate.judge.sequential import POWER, chance_of_answer, looks_until, scheduled, units_needed
from perfgate.model import Comparison, Consumers, Deciding, Effect, Load
from perfgate.model.flaw import Doubt, Flaw
from tests.harness.build import accounting, flawed
from tests.harness.build.units import judge_units
from tests.harness.judge.test_edges_compare import BETTER, CPU, P99, RATE, of_units, with_rounds

RECEIVED, SEEN = "received_records_per_s", "end_to_end_latency_ms.p99"


def worse(metric: str, factor: float, units: int = 1, **changes: Any) -> Effect:
    """Return the effect of units that are each worse by this factor."""
    logs = [-BETTER[metric] * math.log(factor)] * units
    found = of_units({metric: logs}, **{"decides": Deciding(metrics=(metric,)), **changes})
    return judge_comparison(found).effect


@pytest.mark.parametrize(
    ("metric", "method", "units", "margin", "needed"),
    [
        (RATE, "turns", 1, 0.05, 15.25),
        (RATE, "turns", 2, 0.05, 6.967),
        (RATE, "turns", 1, 0.2, 17.43),
        (CPU, "turns", 1, 0.05, 15.25),
        (CPU, "rounds", 2, 0.05, 6.967),
        (P99, "turns", 2, 0.05, 6.967),
        (P99, "rounds", 2, 0.05, 6.967),
        (RATE, "pairs", 1, 0.05, 5.518),
        (RATE, "pairs", 2, 0.05, 3.393),
        (CPU, "pairs", 1, 0.05, 5.518),
        (P99, "pairs", 1, 0.05, 15.25),
    ],
)
def test_few_units_show_a_loss_that_is_beyond_all_scatter(
    metric: str, method: str, units: int, margin: float, needed: float
) -> None:
    """A unit scatters by 0.5 at the most where nothing differs, one of a pair of clusters by 0.31 but for latencies."""
    changes = {"method": method, "decides": Deciding(metrics=(metric,), margin=margin)}
    assert worse(metric, needed * 0.995, units, **changes) is Effect.INCONCLUSIVE
    assert worse(metric, needed * 1.005, units, **changes) is Effect.SLOWER
    assert worse(metric, 1 / (needed * 1.005), units, **changes) is Effect.INCONCLUSIVE, "a gain of few shows nothing"


def test_one_burst_with_a_long_latency_is_none() -> None:
    """Brokers that stood still for half a second have 100 times the p99."""
    assert worse(P99, 1000.0) is Effect.INCONCLUSIVE


def of_logs(*logs: float, metric: str = RATE, **changes: Any) -> Effect:
    found = of_units({metric: [BETTER[metric] * one for one in logs]}, decides=Deciding(metrics=(metric,)), **changes)
    return judge_comparison(found).effect


@pytest.mark.parametrize("metric", [RATE, CPU])
def test_a_unit_that_is_far_worse_than_the_others_hides_no_loss_of_theirs(metric: str) -> None:
    usual = [-0.3 + 0.004 * (-1) ** at for at in range(7)]
    assert of_logs(*usual, -6.0, metric=metric) is Effect.SLOWER
    assert of_logs(-6.0, *usual, metric=metric) is Effect.SLOWER
    assert of_logs(*usual[:6], -6.0, -6.5, metric=metric) is Effect.SLOWER, "a quarter of eight are two"
    assert of_logs(*usual[:5], -5.0, -6.0, -6.5, metric=metric) is not Effect.FASTER
    within = [0.0 + 0.004 * (-1) ** at for at in range(7)]
    assert of_logs(*within, -6.0, metric=metric) is Effect.INCONCLUSIVE, "the others lost nothing"
    better = [0.3 + 0.004 * (-1) ** at for at in range(7)]
    assert of_logs(*better, 6.0, metric=metric) is Effect.INCONCLUSIVE, "it is for losses alone"


def noisy(factor: float, count: int = 10) -> list[float]:
    return [math.log(factor) + 0.0005 * (-1) ** at for at in range(count)]


def beside(load: Load, consumers: bool = False, **factors: float) -> Effect:
    """Return the effect of a rate (of a paced load, a p99) that is the same, and metrics that are not."""
    names = {"cpu": CPU, "p99": P99, "rate": RATE}
    logs = {names[key]: noisy(factor) for key, factor in factors.items() if key in names}
    decides = P99 if load.kind == "paced" else RATE
    found = of_units({decides: noisy(1.0), **logs})
    for side in ("baseline", "candidate"):
        measured = getattr(found, side)
        rounds = list(measured.rounds)
        for key, name in (("received", RECEIVED), ("seen", SEEN)):
            if key in factors:
                times = [math.exp(x) if side == "candidate" else 1.0 for x in noisy(factors[key])]
                rounds = [
                    replace(r, metrics={**r.metrics, name: 100.0 * x}) for r, x in zip(rounds, times, strict=True)
                ]
        readers = Consumers(membership="group") if consumers else None
        row = replace(measured.scenario, load=load, consumers=readers)
        sides: dict[str, Any] = {side: replace(measured, rounds=tuple(rounds), scenario=row)}
        found = replace(found, **sides)
    return judge_comparison(found).effect


UNCAPPED, AT_CAP = Load(kind="capped", rate=1e9), Load(kind="capped", rate=1000.0)
PACED, BACKLOG = Load(kind="paced", rate=1000.0), Load(kind="backlog", records=1000)


@pytest.mark.parametrize(
    ("load", "consumers", "factors", "effect"),
    [
        (UNCAPPED, False, {"p99": 1.49}, Effect.SAME),
        (UNCAPPED, False, {"p99": 1.51}, Effect.SLOWER),
        (UNCAPPED, False, {"cpu": 1.09}, Effect.SAME),
        (UNCAPPED, False, {"cpu": 1.11}, Effect.SLOWER),
        (UNCAPPED, False, {"p99": 0.5, "cpu": 0.5}, Effect.SAME),
        (PACED, False, {"cpu": 1.09}, Effect.SAME),
        (PACED, False, {"cpu": 1.11}, Effect.SLOWER),
        (AT_CAP, False, {"p99": 1.49}, Effect.SAME),
        (AT_CAP, False, {"p99": 1.51}, Effect.SLOWER),
        (UNCAPPED, True, {"received": 0.96}, Effect.SAME),
        (UNCAPPED, True, {"received": 0.94}, Effect.SLOWER),
        (PACED, True, {"seen": 1.49}, Effect.SAME),
        (PACED, True, {"seen": 1.51}, Effect.SLOWER),
        (UNCAPPED, True, {"rate": 1.2, "received": 0.94}, Effect.SLOWER),
        (UNCAPPED, False, {"rate": 1.2, "p99": 1.51}, Effect.SLOWER),
        (UNCAPPED, False, {"rate": 1.2, "cpu": 1.5}, Effect.FASTER),
        (UNCAPPED, False, {"rate": 1.2, "p99": 1.49}, Effect.FASTER),
        (BACKLOG, True, {"cpu": 1.09}, Effect.SAME),
        (BACKLOG, True, {"cpu": 1.11}, Effect.SLOWER),
        (BACKLOG, True, {"p99": 1.51}, Effect.SAME),
    ],
)
def test_what_is_the_same_by_what_decides_is_slower_by_what_it_costs_or_makes_wait(
    load: Load, consumers: bool, factors: dict[str, float], effect: Effect
) -> None:
    assert beside(load, consumers, **factors) is effect


def test_a_metric_beside_that_was_not_valid_in_each_round_is_said_not_to_be_known() -> None:
    found = of_units({RATE: noisy(1.0)})
    flaws = [(Flaw("sent late", metrics=("latency_ms",)),), *[()] * 9]
    outcome = judge_comparison(with_rounds(found, "candidate", flaws=flaws))
    assert outcome.effect is Effect.SAME
    assert outcome.reasons == ("latency_ms.p99 was not valid in every round: whether it got worse is not known",)


@pytest.mark.parametrize(
    ("cpu", "p99", "effect"),
    [(1.05, 1.4, Effect.SAME), (1.5, 1.0, Effect.SLOWER), (1.0, 2.0, Effect.SLOWER), (0.5, 0.5, Effect.SAME)],
)
@pytest.mark.parametrize("rate", [1.0, 1.2])
def test_a_round_that_lacks_a_metric_beside_hides_no_loss_of_the_others(
    cpu: float, p99: float, effect: Effect, rate: float
) -> None:
    """One scrape that failed made brokers the same that need three times as much CPU for a record."""
    found = of_units({RATE: noisy(rate), CPU: noisy(cpu), P99: noisy(p99)})
    first, *others = found.candidate.rounds
    lacking = replace(
        first,
        metrics={name: value for name, value in first.metrics.items() if name != CPU},
        flaws=(Flaw("sent late", metrics=("latency_ms",)),),
    )
    outcome = judge_comparison(replace(found, candidate=replace(found.candidate, rounds=(lacking, *others))))
    faster = rate > 1 and (effect is Effect.SAME or p99 == 1.0)  # it may cost the brokers more
    assert outcome.effect is (Effect.FASTER if faster else effect)
    assert ("not known" in "".join(outcome.reasons)) is outcome.effect.green


def test_few_rounds_that_have_a_metric_beside_decide_nothing() -> None:
    found = of_units({RATE: noisy(1.0), CPU: noisy(3.0)})
    rounds = [replace(r, metrics={RATE: r.metrics[RATE]}) if r.index > 3 else r for r in found.candidate.rounds]
    assert (
        judge_comparison(replace(found, candidate=replace(found.candidate, rounds=tuple(rounds)))).effect is Effect.SAME
    )


def failing(
    found: Comparison, side: str, rounds: Sequence[int], *, attempted: int = 1000, late: bool = False
) -> Comparison:
    """Return the comparison of which one side's brokers failed so many records in each round."""
    measured = getattr(found, side)
    made = []
    for r, failed in zip(measured.rounds, rounds, strict=True):
        account = replace(accounting(attempted), failed={"code": failed} if failed else {})
        flaw = Flaw(f"{failed} sends failed", whose="brokers", late=late)
        made.append(replace(r, accounting=account, flaws=(flaw,) if failed else ()))
    sides: dict[str, Any] = {side: replace(measured, rounds=tuple(made))}
    return replace(found, **sides)


@pytest.mark.parametrize(
    ("candidate", "declared", "effect"),
    [
        ([1, 0, 0, 0], [0, 0, 0, 0], Effect.BROKEN),
        ([0, 0, 0, 0], [1, 0, 0, 0], Effect.INVALID),
        ([51, 51, 51, 51], [5, 5, 5, 5], Effect.BROKEN),
        ([50, 50, 50, 50], [1, 1, 1, 1], Effect.INVALID),
        ([51, 51, 51, 51], [1, 1, 1, 1], Effect.BROKEN),
        ([100, 100, 100, 100], [10, 10, 10, 10], Effect.INVALID),
        ([101, 101, 101, 101], [10, 10, 10, 10], Effect.BROKEN),
    ],
)
def test_sends_that_fail_clearly_more_often_are_the_candidates(
    candidate: list[int], declared: list[int], effect: Effect
) -> None:
    """A twentieth of them, and ten times the share of the other side: of so many more by a single one."""
    found = failing(failing(of_units({RATE: noisy(1.0, 4)}), "candidate", candidate), "baseline", declared)
    assert judge_comparison(found).effect is effect


@pytest.mark.parametrize(("late", "effect"), [(True, Effect.INVALID), (False, Effect.BROKEN)])
def test_what_was_only_late_and_happened_before_as_declared_is_of_neither_side(late: bool, effect: Effect) -> None:
    found = failing(of_units({RATE: noisy(1.0, 4)}), "candidate", [3, 0, 0, 0], late=late)
    discarded = replace(found.candidate.rounds[0], flaws=(Flaw("late", whose="brokers", late=True),))
    before = replace(found, baseline=replace(found.baseline, discarded=(discarded,)))
    assert judge_comparison(before).effect is effect
    assert judge_comparison(found).effect is Effect.BROKEN


@pytest.mark.parametrize(("factor", "effect"), [(20.0, Effect.SLOWER), (3.0, Effect.INVALID)])
def test_a_flaw_explains_no_more_of_a_loss_than_it_does(factor: float, effect: Effect) -> None:
    """Rounds that do not count, whose flaw explains a factor of 2: of 20 a tenth remains, of 3 a half as much again."""
    found = of_units({RATE: [-math.log(factor) + 0.01 * (-1) ** at for at in range(2)]})
    doubt = Doubt(kind="flaw", whose="load", text="half of it", factor=2.0)
    rounds = tuple(flawed(r, invalid=("half of it",), doubts=(doubt,)) for r in found.candidate.rounds)
    outcome = judge_comparison(replace(found, candidate=replace(found.candidate, rounds=rounds)))
    assert outcome.effect is effect
    assert f"half of it, which explains a factor of 2 of the {factor:.3g} measured" in " ".join(outcome.reasons)


@pytest.mark.parametrize(("errors", "effect"), [(10.0, Effect.INCONCLUSIVE), (10.4, Effect.SLOWER)])
def test_what_is_left_without_the_worst_is_tested_at_a_tenth_of_the_error(errors: float, effect: Effect) -> None:
    """Six units that are left decide at 6.2 of their errors otherwise, here at 10.2."""
    pattern = (1.0, -1.0, -1.0, 1.0, 1.0, -1.0)
    _, found = judge_units(pattern, 6, final=True)
    left = [-0.3 + x * 0.3 / errors / found.error for x in pattern]
    assert of_logs(*left[:3], 3 * -1.0, *left[3:], -3.2) is effect


def test_a_plan_is_looked_at_after_these_units() -> None:
    assert scheduled(100) == (6, 10, 17, 25, 40, 60, 80, 100)
    assert scheduled(40) == (4, 7, 10, 16, 24, 32, 40)
    assert scheduled(5) == (4, 5)
    assert scheduled(3, 3) == (3,)
    assert scheduled(60, 4, (40,)) == (4, 7, 10, 16, 24, 32, 41, 42, 43, 45, 48, 52, 56, 60)
    assert looks_until(10, 40, last=False).spent == pytest.approx((0.01, 0.030625, 0.0625))
    assert looks_until(10, 40, last=True).spent == pytest.approx((0.01, 0.030625, 1.0))
    grown = looks_until(45, 60, last=False, former=(40,))
    assert grown.spent[-1] == pytest.approx(0.64 + 0.36 * 0.25**2), "of what the plan before left"


@pytest.mark.parametrize("metric", [RATE, RECEIVED])
def test_a_rate_of_nothing_is_one_record_in_the_window(metric: str) -> None:
    """It has no logarithm: of 1,000 records/s half a record is a loss by 2,000."""
    found = of_units({RATE: noisy(1.0, 2)}, decides=Deciding(metrics=(metric,)))
    for side, value in (("baseline", 1000.0), ("candidate", 0.0)):
        metrics = [{**r.metrics, metric: value} for r in getattr(found, side).rounds]
        found = with_rounds(found, side, metrics=metrics)
    outcome = judge_comparison(found)
    assert outcome.effect is Effect.SLOWER
    assert outcome.primary is not None
    assert outcome.primary.estimate == pytest.approx(1 / 2000 - 1)


@pytest.mark.parametrize(
    ("below", "declared", "effect"),
    [(3, 20, Effect.INCONCLUSIVE), (2, 20, Effect.SAME), (3, 7, Effect.SAME)],
)
def test_rounds_below_a_cap_are_counted_of_as_many_as_each_side_has(below: int, declared: int, effect: Effect) -> None:
    """3 of 7 beside none of 20 come by chance in 0.012, beside none of 7 in 0.096, 2 of 7 beside none of 20 in 0.06."""
    found = of_units({CPU: noisy(1.0, declared)}, planned_units=7)
    for side in ("baseline", "candidate"):
        row = replace(getattr(found, side).scenario, load=AT_CAP)
        sides: dict[str, Any] = {side: replace(getattr(found, side), scenario=row)}
        found = replace(found, **sides)
    rounds = [
        replace(r, metrics={**r.metrics, RATE: 979.0 if r.index <= below else 1000.0})
        for r in found.candidate.rounds[:7]
    ]
    outcome = judge_comparison(replace(found, candidate=replace(found.candidate, rounds=tuple(rounds))))
    assert outcome.effect is effect, outcome.reasons
    assert (f"below its cap in {below} of 7 rounds" in str(outcome.reasons)) is (effect is Effect.INCONCLUSIVE)


def test_a_latency_of_nothing_is_no_figure() -> None:
    found = of_units({P99: noisy(1.0, 4)}, decides=Deciding(metrics=(P99,)))
    metrics = [{**r.metrics, P99: 0.0} for r in found.candidate.rounds]
    none = with_rounds(found, "candidate", metrics=metrics)
    assert judge_comparison(none).effect is Effect.INVALID
    assert judge_comparison(with_rounds(none, "baseline", metrics=metrics)).effect is Effect.INVALID
    assert judge_comparison(with_rounds(found, "baseline", metrics=metrics)).effect is Effect.INVALID


def test_a_generator_that_was_late_before_excuses_no_brokers() -> None:
    found = failing(of_units({RATE: noisy(1.0, 4)}), "candidate", [3, 0, 0, 0], late=True)
    late = replace(found.candidate.rounds[1], flaws=(Flaw("sent late", whose="load", again=True, late=True),))
    before = replace(found, baseline=replace(found.baseline, discarded=(late,)))
    assert judge_comparison(before).effect is Effect.BROKEN


@pytest.mark.parametrize(("mean", "spread"), [(0.02, 0.05), (0.0, 0.03), (0.0, 0.1), (-0.3, 0.4)])
def test_the_units_that_are_needed_are_the_fewest_that_do(mean: float, spread: float) -> None:
    _, found = judge_units([mean + spread * (-1) ** at for at in range(8)], 8, final=True)
    needed = units_needed(found)
    assert chance_of_answer(found, needed) >= POWER
    assert needed == 4 or chance_of_answer(found, needed - 1) < POWER


@pytest.mark.parametrize(
    ("mean", "spread", "needed"), [(0.0, 0.05, 21), (0.0, 0.1, 64), (0.02, 0.05, 33), (0.2, 0.1, 13)]
)
def test_so_many_units_are_needed_of_units_that_alternate(mean: float, spread: float, needed: int) -> None:
    """Twice the scatter takes three times as many; a mean nearer to the margin half as many again."""
    _, found = judge_units([mean + spread * (-1) ** at for at in range(8)], 8, final=True)
    assert units_needed(found) == needed


@pytest.mark.parametrize(
    ("declared", "changed", "effect"),
    [((2, 1), (1, 2), Effect.SLOWER), ((2, 3), (3, 2), Effect.SLOWER), ((2, 1), (2, 2), Effect.SAME)],
)
def test_a_latency_is_held_where_both_sides_have_as_many_clients(
    declared: tuple[int, int], changed: tuple[int, int], effect: Effect
) -> None:
    """Each client has a buffer, in which records wait: by producers times threads."""
    found = of_units({RATE: noisy(1.0), P99: noisy(1.51)})
    for side, (producers, threads) in (("baseline", declared), ("candidate", changed)):
        row = replace(getattr(found, side).scenario, load=UNCAPPED, producers=producers, threads=threads)
        sides: dict[str, Any] = {side: replace(getattr(found, side), scenario=row)}
        found = replace(found, **sides)
    assert judge_comparison(found).effect is effect


@pytest.mark.parametrize("asked", [True, False])
def test_a_loss_of_few_units_is_the_verdict_of_the_metric_that_was_asked_for(asked: bool) -> None:
    decides = Deciding(metrics=(RATE,)) if asked else Deciding()
    outcome = judge_comparison(of_units({RATE: [-math.log(20.0)]}, decides=decides))
    assert outcome.effect is Effect.SLOWER
    assert outcome.primary is not None
    assert outcome.primary.verdict is (Effect.SLOWER if asked else None)
