"""A flaw of the load excused any loss: a schedule delay of 11 ms a p99 of 120 s, a pause brokers 20 times slower.

Now a flaw explains its share, and what remains of a loss is red.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.assembly import Finished, round_of
from perfgate.measure.rounds import nothing_left
from perfgate.measure.sides import Switch
from perfgate.measure.validity import not_sustained, round_flaws
from perfgate.model import Accounting, Load, Measurement, Round, Threshold, Verdict
from perfgate.model.flaw import Doubt
from perfgate.model.load import LoadResult
from tests.harness.attack.test_broken_brokers import bad
from tests.harness.build import (
    accounting,
    flawed,
    histogram,
    load_result,
    measurement,
    one_round,
    profile,
    received,
    scenario,
    sent,
    threshold,
)
from tests.harness.build.hosts import HOST, MACHINE

RATE = threshold("records_per_s", 1000.0, 0.1)
CPU = threshold("broker_cpu_us_per_record", 50.0, 0.1)
P99 = threshold("latency_ms.p99", 10.0, 0.3)
SEEN = threshold("end_to_end_latency_ms.p99", 10.0, 0.3)
CAPPED, PACED = Load(kind="capped", rate=4000.0), Load(kind="paced", rate=1000.0)
WINDOW_S, CORES = 2.0, 2
FULL = {"pushback_s": 1.9, "pushback_in_window_s": 1.9}
SEVERITY = {
    Verdict.PASS: 0,
    Verdict.IMPROVED: 0,
    Verdict.MISSING: 1,
    Verdict.INCONCLUSIVE: 1,
    Verdict.INVALID: 1,
    Verdict.REGRESSED: 2,
    Verdict.BROKEN: 2,
}


def taken(load: Load, slower: float, **changes: Any) -> Round:
    """Return a round of brokers that are so many times slower than those of the thresholds."""
    offered = changes.pop("offered", load.rate)
    rate = min(1000.0 / slower, offered)
    offered = offered if load.kind == "paced" else rate
    late_s, cores, own = changes.pop("late_s", 0.0), changes.pop("cores", 0.6), changes.pop("own", False)
    acked = int(WINDOW_S * rate)
    latency = {"latency": histogram([slower * 0.01 + late_s] * 50)}
    if load.kind == "paced":
        latency["schedule_delay"] = histogram([late_s] * 50)
    told = {"attempted_in_window": int(WINDOW_S * offered), "acked_in_window": acked, "attempted": 3000, "acked": 3000}
    result_of = {key: changes.pop(key) for key in ("window_late_s", "busiest_thread_cores", "hosts") if key in changes}
    given_records = changes.pop("received", None)
    result = load_result(sent=sent(**{**told, **latency, **changes}), received=given_records)
    return made(load, replace(result, **result_of), slower, cores, own=own)


def made(load: Load, result: LoadResult, slower: float, cores: float, *, own: bool) -> Round:
    brokers = {
        "broker_cpu_cores.sum": cores,
        "broker_cpu_cores.max": cores,
        "broker_cpu_us_per_record": 50.0 * slower,
    }
    assert result.sent is not None
    where = Accounting(
        attempted=3000,
        acked=result.sent.acked,
        failed=result.sent.failed,
        unresolved=result.sent.unresolved,
        offset_delta=result.sent.acked,
    )
    with patch.object(os, "cpu_count", lambda: CORES):
        found = round_flaws(load, result, where, brokers, shares_cores=True)
    return round_of(1, result, where, brokers, found, not_sustained(load, result), own_brokers=own)


def measured(load: Load, rounds: Sequence[Round], discarded: Sequence[Round] = ()) -> Measurement:
    numbered = tuple(replace(r, index=n) for n, r in enumerate(rounds, 1))
    row = replace(scenario(), load=load)
    return replace(measurement([1.0]), scenario=row, rounds=numbered, discarded=tuple(discarded))


def verdict(load: Load, rounds: Sequence[Round], *held: Threshold) -> Verdict:
    return judge_scenario(measured(load, rounds), profile(*held)).verdict


FLAWS: Mapping[str, tuple[Load, tuple[Threshold, ...], dict[str, Any]]] = {
    "sent late": (PACED, (P99, CPU), {"late_s": 0.011}),
    "stood still, capped": (CAPPED, (RATE, CPU), {"stalled_in_window_s": 1.0, **FULL}),
    "stood still, paced": (PACED, (P99, CPU), {"stalled_in_window_s": 1.0, "late_s": 0.011}),
    "heard late": (CAPPED, (RATE, CPU), {"window_late_s": 0.5, **FULL}),
    "starved by the brokers": (CAPPED, (RATE, CPU), {"cores": 1.6}),
    "offered in part": (PACED, (P99, RATE, CPU), {"offered": 600.0, "late_s": 0.011}),
}


@pytest.mark.parametrize("name", FLAWS)
def test_what_a_flaw_does_not_explain_of_a_loss_is_red(name: str) -> None:
    load, held, changes = FLAWS[name]
    found = taken(load, 20.0, **changes)
    assert found.invalid or found.invalid_metrics, "it is in doubt"
    assert verdict(load, [found] * 3, *held) is Verdict.REGRESSED
    assert verdict(load, [found, taken(load, 20.0, **changes)] * 3, *held) is Verdict.REGRESSED


@pytest.mark.parametrize("name", FLAWS)
def test_what_a_flaw_explains_is_not_red(name: str) -> None:
    """The brokers are as they were: the generator lost its share of what they did."""
    load, held, changes = FLAWS[name]
    share = {"stood still, capped": 2.0, "heard late": 4 / 3, "starved by the brokers": 1.15}.get(name, 1.0)
    found = taken(load, share, **changes)
    assert found.invalid or found.invalid_metrics, "it is in doubt"
    assert verdict(load, [found] * 3, *held) is Verdict.INVALID


def test_the_message_says_how_much_is_explained() -> None:
    found = judge_scenario(measured(CAPPED, [taken(CAPPED, 20.0, stalled_in_window_s=1.0, **FULL)] * 3), profile(RATE))
    assert "stood still for 1.00 of the window's 2.00 s" in found.reasons[0]
    assert "which explains a factor of 2 of the 20 measured" in found.reasons[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"throttled_ms": 5_000, **FULL},
        {"hosts": (replace(HOST, machine=replace(MACHINE, tcp_sent_again=20_000)),), **FULL},
        {"busiest_thread_cores": 0.99, "cores": 0.3, **FULL},
        {"hosts": (replace(HOST, machine=replace(MACHINE, cpu_share=0.99)),), **FULL},
        {"cores": 0.05},  # brokers that used next to nothing did not starve anybody
    ],
)
def test_a_load_that_was_not_made_by_no_fault_of_the_brokers_explains_everything(changes: dict[str, Any]) -> None:
    assert verdict(CAPPED, [taken(CAPPED, 20.0, **changes)] * 3, RATE, CPU) is Verdict.INVALID


@pytest.mark.parametrize(
    "changes",
    [
        {"throttled_ms": 200},
        {"hosts": (replace(HOST, processes=50, machine=replace(MACHINE, tcp_sent=10_000, tcp_sent_again=150)),)},
        {"hosts": (replace(HOST, processes=8, machine=replace(MACHINE, tcp_sent=10_000, tcp_sent_again=110)),)},
    ],
)
def test_a_quota_and_lost_packets_explain_the_time_that_they_held_the_load_up(changes: dict[str, Any]) -> None:
    """Either of them made brokers that were 20 times slower INVALID."""
    as_before = taken(CAPPED, 1.0, **changes, **FULL)
    assert as_before.invalid
    assert verdict(CAPPED, [as_before] * 3, RATE, CPU) is Verdict.INVALID
    assert verdict(CAPPED, [taken(CAPPED, 20.0, **changes, **FULL)] * 3, RATE, CPU) is Verdict.REGRESSED


def test_what_brokers_did_not_take_of_a_load_that_was_offered_in_part_is_red_without_a_threshold() -> None:
    found = taken(PACED, 20.0, offered=600.0, late_s=0.011)
    assert found.not_sustained
    assert not found.invalid
    assert verdict(PACED, [found] * 3, P99, CPU) is Verdict.REGRESSED
    sound = taken(PACED, 1.0, offered=600.0, late_s=0.011)
    assert sound.invalid
    assert not sound.not_sustained, "the generator's own doing"


def test_latencies_from_send_to_receipt_are_late_by_as_much() -> None:
    slow = received(latency=histogram([1.0] * 50), received=3000)
    found = taken(PACED, 1.0, late_s=0.011, received=slow)
    assert set(found.invalid_metrics) == {"latency_ms", "end_to_end_latency_ms"}
    assert verdict(PACED, [found] * 3, P99, SEEN, CPU) is Verdict.REGRESSED
    late = received(latency=histogram([0.025] * 50), received=3000)
    assert verdict(PACED, [taken(PACED, 1.0, late_s=0.011, received=late)] * 3, SEEN, CPU) is Verdict.INVALID


def test_a_change_that_came_late_is_a_doubt_beside_others() -> None:
    """Added to a round that has doubts as values it would be none of them."""
    switch = Switch()
    switch._last_s = 2.0
    spoilt = taken(CAPPED, 1.0, window_late_s=0.5, **FULL)
    late = switch.in_time(Finished(round=spoilt, repeatable=True), 1.0).round
    assert [doubt.factor for doubt in late.doubts if doubt.kind == "switch"] == [None]
    assert len(late.flaws) == len(spoilt.flaws) + 1


GOOD, SPOILT = one_round(1, 1000.0), one_round(1, 1000.0, invalid=("generator saturated",))
UNMADE = bad(1, broken=False)


@pytest.mark.parametrize(
    ("earlier", "rounds", "over"),
    [
        ([], 3, False),
        ([GOOD, GOOD], 3, False),
        ([SPOILT], 3, False),
        ([SPOILT, SPOILT], 3, True),
        ([SPOILT], 2, True),
        ([*[SPOILT] * 5, GOOD], 7, False),
        ([UNMADE], 7, False),
        ([UNMADE, GOOD, UNMADE], 7, True),
        ([bad(1, broken=True)], 7, True),
    ],
)
def test_one_spoilt_round_does_not_end_a_scenario(earlier: Sequence[Round], rounds: int, over: bool) -> None:
    """The rounds that follow may show that brokers are slow: the judge holds two sound ones against the limits."""
    assert nothing_left(earlier, rounds) is over


def again(whose: Any) -> Round:
    doubts = (Doubt(kind="generator saturated", whose=whose, text="generator saturated"),)
    return flawed(SPOILT, doubts=doubts)


@pytest.mark.parametrize(("whose", "count", "green"), [("brokers", 1, True), ("brokers", 2, False), ("load", 3, True)])
def test_rounds_in_which_brokers_left_the_generator_nothing_are_not_repeated_into_green(
    whose: Any, count: int, green: bool
) -> None:
    rounds = [one_round(n, 1000.0, cpu_us=50.0) for n in (1, 2, 3)]
    outcome = judge_scenario(measured(CAPPED, rounds, [again(whose)] * count), profile(RATE, CPU))
    assert outcome.verdict.green is green
    assert any("measured again" in reason for reason in outcome.reasons) is not green


def test_whose_processors_a_generator_lacked_is_told() -> None:
    assert {doubt.whose for doubt in taken(CAPPED, 2.0, cores=1.6).doubts} == {"brokers"}
    assert {doubt.whose for doubt in taken(CAPPED, 2.0, cores=0.6).doubts} == {"load"}


DRAWN = st.fixed_dictionaries(
    {},
    optional={
        "late_s": st.sampled_from([0.0, 0.004, 0.011, 0.3]),
        "stalled_in_window_s": st.sampled_from([0.0, 0.6, 1.5]),
        "window_late_s": st.sampled_from([0.0, 0.3, 1.0]),
        "offered": st.sampled_from([500.0, 800.0, 1000.0]),
        "pushback_s": st.sampled_from([0.0, 0.5, 1.9]),
        "cores": st.sampled_from([0.05, 0.6, 1.2, 1.7]),
        "busiest_thread_cores": st.sampled_from([0.1, 0.99]),
        "throttled_ms": st.sampled_from([0, 7, 900]),
        "unresolved": st.sampled_from([0, 3]),
    },
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    load=st.sampled_from([CAPPED, PACED]),
    drawn=st.lists(st.tuples(DRAWN, st.floats(0.97, 1.15)), min_size=2, max_size=5),
    own=st.booleans(),
)
def test_the_worse_the_brokers_the_redder_whatever_the_load_lacked(
    load: Load, drawn: list[tuple[dict[str, Any], float]], own: bool
) -> None:
    held = (RATE, CPU) if load.kind == "capped" else (P99, CPU)
    before, seen = -1, []
    for slower in (1.0, 2.0, 4.0, 20.0, 100.0):
        rounds = [taken(load, slower * noise, own=own, **both(load, changes)) for changes, noise in drawn]
        found = verdict(load, rounds, *held)
        seen.append(found)
        assert SEVERITY[found] >= before, seen
        before = SEVERITY[found]


def both(load: Load, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the changes of a round; a buffer that was full was so in the window."""
    if load.kind == "capped":
        changes = {name: value for name, value in changes.items() if name not in ("offered", "late_s")}
    full = changes.get("pushback_s", 0.0)
    return {**changes, "pushback_in_window_s": full}


def test_the_accounting_of_these_rounds_is_sound() -> None:
    assert taken(CAPPED, 1.0, **FULL).accounting == accounting(3000)
    assert not taken(CAPPED, 1.0, **FULL).invalid
