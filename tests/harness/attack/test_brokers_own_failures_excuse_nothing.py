"""Failures of brokers, a budget that is over and one late round: each excused whatever else was slower.

Found by a second search for guards: 20 times slower was REGRESSED, and with three failed sends a round INVALID.
"""

import os
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from perfgate.judge.bounds_files import Ratios, load_ratios
from perfgate.judge.claims.ratio import judge_against_reference
from perfgate.judge.claims.same import judge_comparison
from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.assembly import round_of, unmeasured
from perfgate.measure.flaw import of_brokers
from perfgate.measure.validity import late_turns, not_sustained, round_flaws
from perfgate.model import Accounting, CanaryReading, Comparison, Effect, Load, Round, Verdict
from perfgate.model.delivery import is_promised
from perfgate.model.flaw import Flaw
from tests.harness.attack.test_a_flaw_excuses_its_share import CAPPED, FULL, PACED, measured, taken
from tests.harness.build import accounting, flawed, load_result, one_round, profile, received, scenario, sent, threshold
from tests.harness.build.comparisons import comparison

RATE = threshold("records_per_s", 1000.0, 0.1)
READ = threshold("received_records_per_s", 1000.0, 0.1)
CPU = threshold("broker_cpu_us_per_record", 50.0, 0.1)
QUIET = CanaryReading(deflate_mib_per_s=100, loopback_per_s=20_000, pressure=0.1, steal=0.0)
STARVED = replace(QUIET, steal=0.95)
RED = (Verdict.REGRESSED, Verdict.BROKEN)
AT_CAP = Load(kind="capped", rate=1000.0)


def failing(one: Round, flaw: Flaw, **counts: Any) -> Round:
    """Return the round of brokers that serve others too, with this flaw."""
    where = replace(one.accounting, **counts)
    return replace(one, flaws=(flaw,), accounting=where)


TIMED_OUT = of_brokers("3 of 3,000 sends failed: 3 x _MSG_TIMED_OUT", late=True)
SHRANK = of_brokers("target unhealthy during the round: 1 times a set shrank", late=True, kind="unhealthy")


@pytest.mark.parametrize("flaw", [TIMED_OUT, SHRANK])
def test_brokers_of_others_that_fail_besides_are_as_red_as_without(flaw: Flaw) -> None:
    for slower, verdict in ((1.0, Verdict.INVALID), (20.0, Verdict.REGRESSED)):
        rounds = [failing(one_round(n, 1000.0 / slower), flaw) for n in range(1, 6)]
        assert judge_scenario(measured(CAPPED, rounds), profile(RATE, CPU)).verdict is verdict, slower


def test_brokers_of_others_that_acknowledge_nothing_for_whole_windows_are_red() -> None:
    hanging = load_result(sent=sent(acked_in_window=0, attempted_in_window=3000, latency=""))
    with patch.object(os, "cpu_count", lambda: 2):
        found = round_flaws(AT_CAP, hanging, accounting(3000), {}, shares_cores=False)
    one = round_of(1, hanging, accounting(3000), {}, found, "", own_brokers=False)
    assert one.invalid == ("no record was acknowledged in the window",)
    assert not one.broken
    assert judge_scenario(measured(AT_CAP, [one] * 3), profile(RATE)).verdict is Verdict.REGRESSED


def test_what_was_acknowledged_and_is_not_there_is_broken_wherever_the_brokers_run() -> None:
    where = Accounting(attempted=3000, acked=3000, failed={}, unresolved=0, offset_delta=2000)
    told = load_result(sent=sent())
    for acks, verdict in (("all", Verdict.BROKEN), ("-1", Verdict.BROKEN), ("1", Verdict.INVALID)):
        promised = is_promised(replace(scenario(), producer=(("acks", acks),)))
        found = round_flaws(CAPPED, told, where, {}, shares_cores=False, promised=promised)
        one = round_of(1, told, where, {}, found, "", own_brokers=False)
        assert judge_scenario(measured(CAPPED, [one]), None).verdict is verdict, acks
    assert not is_promised(scenario()), "1 is what the suite's producers have where a scenario states none"


def behind(slower: float, brokers_cores: float, **changes: Any) -> Round:
    """Return a round of consumers that lag behind, on two processors of which the brokers use so many."""
    lag = int(3000 * min(1.0, 3 / slower))
    read = {"read": lag, "received": lag, "received_in_window": int(2000 / slower)}
    late_s = changes.pop("window_late_s", 0.0)
    told = load_result(sent=sent(**changes), received=received(**read))
    told = replace(told, cpu_cores=0.1, window_late_s=late_s)
    brokers = {"broker_cpu_cores.sum": brokers_cores, "broker_cpu_cores.max": brokers_cores / 3}
    with patch.object(os, "cpu_count", lambda: 2):
        found = round_flaws(AT_CAP, told, accounting(3000), brokers, shares_cores=True)
    return round_of(1, told, accounting(3000), brokers, found, not_sustained(AT_CAP, told), own_brokers=True)


@pytest.mark.parametrize("changes", [{"throttled_ms": 7}, {"stalled_in_window_s": 0.6, **FULL}, {"window_late_s": 0.1}])
def test_a_small_flaw_beside_them_explains_little_of_consumers_that_never_catch_up(changes: dict[str, Any]) -> None:
    """Brokers that were 3 times slower were REGRESSED, 4 times and more INVALID."""
    assert judge_scenario(measured(AT_CAP, [behind(20.0, 1.0, **changes)] * 3), profile(READ)).verdict in RED
    assert judge_scenario(measured(AT_CAP, [behind(1.0, 1.0, **changes)] * 3), profile(READ)).verdict not in RED


@pytest.mark.parametrize("slower", [20.0, 100.0])
@pytest.mark.parametrize("brokers_cores", [1.0, 1.9])
def test_consumers_far_behind_brokers_that_burn_all_processors_are_red(slower: float, brokers_cores: float) -> None:
    """BROKEN where the brokers used one of two processors, INVALID where they used both."""
    found = judge_scenario(measured(AT_CAP, [behind(slower, brokers_cores)] * 3), profile(READ, CPU))
    assert found.verdict in RED


@pytest.mark.parametrize(
    "changes", [{"window_late_s": 0.5}, {"throttled_ms": 200}, {"stalled_in_window_s": 0.6, "late_s": 0.011}]
)
def test_a_rate_that_is_not_taken_is_red_whatever_else_was_wrong_with_its_rounds(changes: dict[str, Any]) -> None:
    full = {key: value for key, value in FULL.items() if "late_s" not in changes}
    rounds = [taken(PACED, 20.0, **changes, **full)] * 3
    assert all(r.invalid and r.not_sustained for r in rounds)
    assert judge_scenario(measured(PACED, rounds), None).verdict is Verdict.REGRESSED
    unchanged = [taken(PACED, 1.0, **changes, **full)] * 3
    assert judge_scenario(measured(PACED, unchanged), None).verdict is Verdict.INVALID


def compared(*after: Round, before: tuple[Round, ...] = ()) -> Comparison:
    found = comparison(1.0, noise=[1.0] * len(after))
    rounds = before or tuple(one_round(n, 1000.0) for n in range(1, len(after) + 1))
    return replace(
        found,
        baseline=replace(found.baseline, rounds=rounds),
        candidate=replace(found.candidate, rounds=tuple(replace(r, index=n) for n, r in enumerate(after, 1))),
    )


NOTHING_ACKED = of_brokers("no record was acknowledged in the window", late=True)
LOST = of_brokers("records unaccounted: 3,000 acknowledged, but ... 2,000", lost=True)
NOTHING_GIVEN = of_brokers("no record was received in the window", late=True)


@pytest.mark.parametrize("flaw", [NOTHING_ACKED, LOST, NOTHING_GIVEN])
def test_a_candidate_that_hangs_or_loses_is_broken_wherever_it_runs(flaw: Flaw) -> None:
    after = [failing(one_round(n, 0.0), flaw) for n in range(1, 9)]
    assert judge_comparison(compared(*after)).effect is Effect.BROKEN
    swapped = compared(
        *(one_round(n, 1000.0) for n in range(1, 9)), before=tuple(replace(r, index=n) for n, r in enumerate(after, 1))
    )
    assert judge_comparison(swapped).effect is Effect.INVALID


def some_failed(one: Round, failed: int) -> Round:
    flaw = replace(of_brokers(f"{failed} of 3,000 sends failed"), broken=True)
    return failing(one, flaw, attempted=3000, failed={"_MSG_TIMED_OUT": failed})


def test_a_few_failures_of_the_baseline_do_not_excuse_the_candidates() -> None:
    sound = [one_round(n, 1000.0) for n in range(1, 5)]
    one = replace(sound[-1], index=4)
    many = ((3, 2970, Effect.BROKEN), (3, 4, Effect.INVALID), (1, 11, Effect.INVALID), (2970, 3, Effect.INVALID))
    for before, after, effect in many:
        found = compared(*sound[:3], some_failed(one, after), before=(*sound[:3], some_failed(one, before)))
        assert judge_comparison(found).effect is effect, (before, after)
    slow = [one_round(n, 50.0) for n in range(1, 5)]
    found = compared(*slow, before=(some_failed(one_round(1, 1000.0), 3), *sound[1:]))
    assert judge_comparison(found).effect is Effect.SLOWER, "what the baseline failed to do makes it no quicker"


def test_a_burst_that_is_all_there_is_says_how_slow_a_candidate_was_at_the_least() -> None:
    flaw = late_turns(2, 2)
    one = replace(one_round(1, 33.0), flaws=(flaw,))
    other = late_turns(2, 2, own=False, turn_s=1.0)
    before = replace(one_round(1, 1000.0), flaws=(other,))
    assert judge_comparison(compared(one, before=(before,))).effect is Effect.SLOWER
    unchanged = replace(one, metrics=one_round(1, 1000.0).metrics)
    assert judge_comparison(compared(unchanged, before=(before,))).effect is Effect.INVALID


def test_rounds_that_were_not_made_do_not_outvote_those_that_fell_short() -> None:
    short = [replace(taken(PACED, 20.0), index=n) for n in (1, 2)]
    ended = [unmeasured(n, "the generator ended") for n in (3, 4)]
    assert judge_scenario(measured(PACED, [*short, *ended]), None).verdict is Verdict.REGRESSED


def test_a_machine_that_stood_still_explains_that_nothing_was_acknowledged() -> None:
    rounds = [failing(one_round(n, 0.0), NOTHING_ACKED) for n in range(1, 4)]
    rounds = [flawed(r, broken=r.invalid, perhaps_late=r.invalid) for r in rounds]
    starved = replace(measured(CAPPED, rounds), canary=(*[QUIET] * 3, *[replace(QUIET, steal=0.99)] * 4))
    assert judge_scenario(starved, profile(RATE)).verdict is Verdict.INVALID


def test_a_late_round_that_the_machine_excuses_takes_the_slowness_of_others_not_back() -> None:
    late = "topics were not in sync within 30 s"
    broken = flawed(one_round(5, 0.0, invalid=(late,)), broken=(late,), perhaps_late=(late,))
    canary = (*[QUIET] * 7, STARVED, STARVED)
    for rate, verdict in ((50.0, Verdict.REGRESSED), (1000.0, Verdict.INVALID)):
        rounds = [*(one_round(n, rate + n) for n in range(1, 5)), broken]
        found = replace(measured(CAPPED, rounds), canary=canary)
        outcome = judge_scenario(found, profile(RATE, CPU))
        assert outcome.verdict is verdict
        assert any("steal" in reason for reason in outcome.reasons)
    quiet = replace(found, canary=(QUIET,) * 9)
    assert judge_scenario(quiet, profile(RATE, CPU)).verdict is Verdict.BROKEN


@pytest.fixture(scope="module")
def latency_alone(tmp_path_factory: pytest.TempPathFactory) -> Ratios:
    folder = tmp_path_factory.mktemp("ratios")
    (folder / "ratios.toml").write_text('[default]\n"latency_ms.p99" = { at_most = 1.5 }\n')
    return load_ratios(folder)


@pytest.mark.parametrize("probes", [False, True])
@pytest.mark.parametrize(("rate", "red"), [(940.0, False), (47.0, True)])
def test_a_rate_that_neither_took_is_red_where_the_candidate_takes_far_less(
    rate: float, red: bool, probes: bool, latency_alone: Ratios
) -> None:
    def side(taken_per_s: float) -> tuple[Round, ...]:
        short = f"not sustained: the brokers took {taken_per_s:,.0f} of 1,000 records/s"
        return tuple(replace(one_round(n, taken_per_s + n), not_sustained=short) for n in range(1, 9))

    found = compared(*side(rate), before=side(940.0))
    row = replace(found.scenario, load=Load(kind="paced", rate=1000.0, probes=probes))
    found = replace(
        found,
        baseline=replace(found.baseline, scenario=row),
        candidate=replace(found.candidate, scenario=row),
    )
    outcome = judge_against_reference(found, latency_alone)
    assert (outcome.verdict is Verdict.REGRESSED) is red
