"""Steady, or said: when a warm-up is over, which rounds were measured on brokers that were still warming up."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.judge.claims.relation import judge_relation
from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.warming import FALSE_TREND, LEAST_GROWTH, growing, still_warming, trend
from perfgate.judge.wording import relation_message, scenario_message
from perfgate.measure.warm_up import STARTS_PER_TIER_BOUND_S, Slice, bound_s, is_warm, warm_up
from perfgate.metrics.usage import LEAST_COMPILING_CORES, LEAST_CPU_CORES, SETTLED_S, Settled, Usage, compile_shares
from perfgate.model import COMPILING, Measurement, Profile, Scenario, Verdict
from tests.harness.build import measurement, one_round, profile, relation, scenario, threshold

Series = Callable[[int], list[float]]
FLAT: Series = lambda rounds: [1000.0] * rounds  # noqa: E731 - three shapes, side by side
RISING: Series = lambda rounds: [1000.0 * 1.25**i for i in range(rounds)]  # noqa: E731
STEPPING: Series = lambda rounds: [500.0] * (rounds // 2) + [1000.0] * (rounds - rounds // 2)  # noqa: E731
BLOCK, DRAWS = 5, 400


def called(shape: Series, rounds: int, noise: float) -> float:
    """Return in which share of drawn blocks of five rows some row is said to grow."""
    random = np.random.default_rng(7)
    found = 0
    for _ in range(DRAWS):
        rows = {
            str(row): [v * math.exp(noise * z) for v, z in zip(shape(rounds), random.normal(size=rounds), strict=True)]
            for row in range(BLOCK)
        }
        found += bool(growing(rows, "higher"))
    return found / DRAWS


@pytest.mark.parametrize("rounds", [3, 7])
@pytest.mark.parametrize("noise", [0.05, 0.10, 0.20])
def test_a_flat_block_is_seldom_said_to_grow(rounds: int, noise: float) -> None:
    """Five rows and their sum are looked at, each with FALSE_TREND; the printed figures stand in the docs."""
    share = called(FLAT, rounds, noise)
    print(f"flat, {rounds} rounds, noise {noise:.0%}: {share:.1%} of blocks called growing")
    assert share <= 2.5 * (BLOCK + 1) * FALSE_TREND


@pytest.mark.parametrize(
    ("shape", "rounds", "noise", "least"),
    [
        (RISING, 3, 0.05, 0.99),
        (RISING, 3, 0.10, 0.9),
        (RISING, 3, 0.20, 0.4),
        (RISING, 7, 0.05, 0.99),
        (RISING, 7, 0.10, 0.99),
        (RISING, 7, 0.20, 0.99),
        # A step within three rounds is no line: it is left to the rounds' spread, and to the compilers' CPU.
        (STEPPING, 3, 0.05, 0.2),
        (STEPPING, 3, 0.10, 0.2),
        (STEPPING, 3, 0.20, 0.2),
        (STEPPING, 7, 0.05, 0.99),
        (STEPPING, 7, 0.10, 0.99),
        (STEPPING, 7, 0.20, 0.9),
    ],
)
def test_a_block_that_grows_is_seldom_missed(shape: Series, rounds: int, noise: float, least: float) -> None:
    share = called(shape, rounds, noise)
    name = "rising 25 % a round" if shape is RISING else "stepping to twice the rate half-way"
    print(f"{name}, {rounds} rounds, noise {noise:.0%}: {1 - share:.1%} of blocks missed")
    assert share >= least


@given(st.lists(st.floats(1e-3, 1e9), min_size=3, max_size=15), st.floats(1e-3, 1e3))
def test_a_trend_does_not_depend_on_the_unit_and_turns_with_the_direction(values: list[float], unit: float) -> None:
    there, scaled = trend(values, "higher"), trend([unit * value for value in values], "higher")
    assert scaled.growth == pytest.approx(there.growth, abs=1e-6)
    assert trend(values, "lower").growth == pytest.approx(-there.growth)
    assert trend(values[::-1], "higher").growth == pytest.approx(-there.growth, abs=1e-6)


def test_the_line_through_points_on_a_line_is_that_line() -> None:
    exact = trend([100.0, 110.0, 121.0, 133.1], "higher")
    assert math.exp(exact.growth) == pytest.approx(1.331)
    assert exact.residual == pytest.approx(0, abs=1e-12)
    assert exact.freedom == 2


def test_getting_worse_is_no_warm_up_and_a_small_growth_is_left_alone() -> None:
    assert growing({"a": [100.0, 50.0, 25.0], "b": [100.0, 99.0, 100.0]}, "higher") == {}
    exact = {"a": [100.0, 100.0 * (1 + LEAST_GROWTH / 3), 100.0 * (1 + LEAST_GROWTH / 2)]}
    assert growing(exact, "higher") == {}
    assert growing({"a": [0.0, 1.0, 2.0]}, "higher") == {}, "no rate at all is another finding"


def test_one_row_with_two_rounds_says_nothing_of_its_noise() -> None:
    assert growing({"a": [100.0, 200.0]}, "higher") == {}


def compiled(rates: Sequence[float], shares: Sequence[float], name: str = "batch-1k") -> tuple[str, list[object]]:
    rounds = [
        replace(r, metrics={**r.metrics, "broker_compile_share.max": share})
        for r, share in zip(measurement(rates, name).rounds, shares, strict=True)
    ]
    return name, list(rounds)


def test_compiling_brokers_are_told_from_a_single_round_of_it() -> None:
    _, busy = compiled([1000, 1000, 1000], [0.4, 0.3, 0.3])
    _, once = compiled([1000, 1000, 1000], [0.4, COMPILING / 2, 0.0])
    assert "40, 30, 30 % of a broker's CPU compiled its code" in still_warming({"a": busy})["a"]  # type: ignore[dict-item]
    assert still_warming({"a": once}) == {}  # type: ignore[dict-item]


def test_the_rounds_of_the_slow_machine_are_said_to_be_warming_up() -> None:
    """474, 1,077, 1,411/s over the three rounds: as measured, beside rows that were steady."""
    rows = {
        "acks-all": [474.0, 1077.0, 1411.0],
        "batch-1k": [8000.0, 8100.0, 7900.0],
        "cross-az": [5000.0, 5050.0, 4990.0],
    }
    rounds = {name: measurement(rates, name).rounds for name, rates in rows.items()}
    found = still_warming(rounds)
    assert found.keys() == {"acks-all"}
    assert "474, 1,077, 1,411 records/s" in found["acks-all"]


def test_an_invalid_row_is_not_looked_at() -> None:
    rounds = [*measurement([474, 1077]).rounds, one_round(3, 1411, invalid=("a broker died",))]
    assert still_warming({"a": rounds}) == {}
    assert still_warming({}) == {}
    assert still_warming({"a": []}) == {}


RATE, CPU = threshold("records_per_s", 1000.0, 0.1), threshold("broker_cpu_us_per_record", 50.0, 0.1)


@pytest.mark.parametrize("held", [profile(RATE, CPU), None], ids=["profile", "no-profile"])
@pytest.mark.parametrize("rate", [1000.0, 650.0, 3000.0])
def test_cold_brokers_are_neither_green_nor_red(held: Profile | None, rate: float) -> None:
    cold = compiling([rate, rate * 1.01, rate * 0.99])
    outcome = judge_scenario(cold, held)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    message = scenario_message(outcome, cold, held)
    assert "brokers still warming up: 40 % of a broker's CPU compiled its code" in message


def test_a_loss_that_compiling_does_not_explain_is_red() -> None:
    """Brokers that compiled with 11 to 15 % of their CPU were INCONCLUSIVE at any loss; 40 % explains 1.7 times."""
    outcome = judge_scenario(compiling([50, 51, 49]), profile(RATE))
    assert outcome.verdict is Verdict.REGRESSED
    assert "which explains a factor of 1.67 of the 20 measured" in str(outcome.reasons)


def compiling(rates: Sequence[float]) -> Measurement:
    """Return rounds in which brokers spent 40 % of their CPU on compiling."""
    made = measurement(rates)
    rounds = tuple(replace(r, metrics={**r.metrics, "broker_compile_share.max": 0.4}) for r in made.rounds)
    return replace(made, rounds=rounds, warming="40 % of a broker's CPU compiled its code")


def test_a_relation_of_cold_brokers_is_inconclusive() -> None:
    fast, slow = measurement([2000, 2010, 1990], "fast"), measurement([1000, 1010, 990], "slow")
    cold = replace(slow, warming="474, 1,077 records/s")
    good, unsure = (judge_relation(relation(1.5), {"fast": fast, "slow": m}) for m in (slow, cold))
    assert (good.verdict, unsure.verdict) == (Verdict.PASS, Verdict.INCONCLUSIVE)
    assert "slow: brokers still warming up: 474, 1,077 records/s" in relation_message(unsure, relation(1.5))


# --- before the rounds


def slices(rates: Sequence[float], shares: Sequence[float | None]) -> list[Slice]:
    return [
        Slice(records_per_s=rate, us_per_record=1e6 / rate, compile_share=share)
        for rate, share in zip(rates, shares, strict=True)
    ]


@pytest.mark.parametrize(
    ("rates", "shares", "warm"),
    [
        ([900], [0.0], True),
        ([900], [0.05], False),
        ([900], [None], False),
        ([900, 920], [0.3, 0.05], True),
        ([900, 920], [0.0, 0.2], False),
        ([160, 900], [0.3, 0.05], False),
        ([160, 900, 880], [0.3, 0.05, 0.02], True),
        ([900, 920], [None, None], False),
        ([900, 920, 910], [None, None, None], True),
        ([797, 800, 4900], [None, None, None], False),
    ],
)
def test_a_row_is_warm(rates: list[float], shares: list[float | None], warm: bool) -> None:
    assert is_warm(slices(rates, shares)) is warm


class Machine:
    """Brokers that compile for so many seconds of load, on a clock of its own."""

    def __init__(self, cold_s: float) -> None:
        self.now, self.cold_s, self.loaded = 0.0, cold_s, list[str]()

    def measure(self, row: Scenario, _left_s: float) -> Slice | None:
        self.loaded.append(row.name)
        self.now += 3.0
        if row.name == "refused":
            return None
        cold = self.now < self.cold_s
        (found,) = slices([100.0 + self.now if cold else 5000.0], [0.5 if cold else 0.0])
        return found


ROWS = [scenario("a"), scenario("b")]


def test_the_warm_up_goes_on_until_every_row_is_warm_and_no_longer() -> None:
    machine = Machine(cold_s=20)
    done = warm_up(ROWS, machine.measure, 100, lambda: machine.now)
    assert all(is_warm(found) for found in done.values())
    assert 20 < machine.now <= 20 + 4 * 3


def test_the_bound_ends_a_warm_up_that_does_not_end() -> None:
    machine = Machine(cold_s=1e9)
    done = warm_up(ROWS, machine.measure, 30, lambda: machine.now)
    assert machine.now == 30
    assert not any(is_warm(found) for found in done.values())


def test_a_row_that_cannot_be_loaded_does_not_hold_the_others_up() -> None:
    machine = Machine(cold_s=0)
    done = warm_up([scenario("refused"), *ROWS], machine.measure, 100, lambda: machine.now)
    assert done["refused"] == []
    assert machine.loaded.count("refused") == 1
    assert is_warm(done["a"])
    assert is_warm(done["b"])


def test_the_bound_follows_what_the_start_of_the_brokers_took() -> None:
    assert bound_s(90, STARTS_PER_TIER_BOUND_S / 2) == 90
    assert bound_s(90, 2 * STARTS_PER_TIER_BOUND_S) == 180
    assert bound_s(90, None) == 90, "real brokers were there before"


# --- the compilers' CPU


def looks(at: float, cpu: float, compiling: float | None, broker: int = 1) -> dict[int, Usage]:
    threads = None if compiling is None else {77: compiling}
    return {broker: Usage(at=at, cpu_s=cpu, rss_bytes=0, written_bytes=0, compiling_s=threads)}


def test_the_share_is_that_of_the_broker_s_own_cpu() -> None:
    assert compile_shares((looks(0, 10, 4), looks(2, 12, 5))) == {1: 0.5}
    assert compile_shares((looks(0, 10, None), looks(2, 12, 5))) == {}
    assert compile_shares(({}, looks(2, 12, 5))) == {}, "a broker that has just come back"
    little = 2 * LEAST_COMPILING_CORES - 0.01
    assert compile_shares((looks(0, 10, 4), looks(2, 10.2, 4 + little))) == {1: 0.0}, "as warm brokers do"
    idle = 2 * LEAST_CPU_CORES / 2
    assert compile_shares((looks(0, 10, 4), looks(2, 10 + idle, 4 + idle))) == {}, "next to nothing, in ticks"


def test_the_share_is_that_of_all_turns_of_a_burst_together() -> None:
    """One that compiled for a moment in one of its turns of a second scatters as those do in which none did."""
    one, other = (looks(0, 10, 4), looks(1, 10.5, 4.09)), (looks(2, 11, 4.09), looks(3, 11.5, 4.09))
    assert compile_shares(one) == {1: pytest.approx(0.18)}
    assert compile_shares(one, other) == compile_shares(other, one) == {1: pytest.approx(0.09)}
    away = (looks(2, 11, None), looks(3, 11.5, 4.09))
    assert compile_shares(one, away) == compile_shares(one), "where it is known"


def test_brokers_have_settled_once_none_of_them_compiles() -> None:
    clock, state = [0.0], {"compiling": 0.0, "cpu": 0.0}

    def read() -> dict[int, Usage]:
        return {**looks(clock[0], state["cpu"], 0.0, 1), **looks(clock[0], state["cpu"], state["compiling"], 2)}

    settled = Settled(read, COMPILING, lambda: clock[0])
    assert not settled(), "one look is none"
    for compiling, expected in ((0.5, False), (0.0, True)):
        clock[0] += SETTLED_S
        state["cpu"] += SETTLED_S
        state["compiling"] += compiling * SETTLED_S
        assert settled() is expected
    unknown = Settled(lambda: looks(0, 0, None), COMPILING, lambda: clock[0])
    assert unknown()
