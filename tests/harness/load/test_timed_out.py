"""A load whose records are to time out: their share is the result, and everything else is accounted for as ever."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.catalogue.kafka import SCENARIOS
from perfgate.judge.claims.relation import judge_relation
from perfgate.judge.claims.threshold import required
from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.thresholds import load_profile
from perfgate.measure.assembly import timed_out_share
from perfgate.measure.validity import accounting_of, flaws, not_sustained
from perfgate.model import METRICS, Load, Measurement, Verdict, settings
from perfgate.model.delivery import TIMED_OUT
from perfgate.model.errors import ConfigurationError
from perfgate.model.load import Sent
from perfgate.report.proposal import proposed
from perfgate.report.terminal import timed_out_notes
from perfgate.systems.kafka.load import clib
from tests.harness.build import histogram, load_result, measurement, received, relation, scenario, sent

PACED = Load(kind="paced", rate=1000.0)
OVERLOAD = Load(kind="paced", rate=1000.0, times_out=True)


def overloaded(timed_out: int = 400, **changes: object) -> Sent:
    """Return what a producer says of which so many of 3,000 records timed out, all acknowledged ones in one second."""
    values: dict[str, object] = {
        "acked": 3000 - timed_out,
        "failed": {"_MSG_TIMED_OUT": timed_out},
        "errors": {"_MSG_TIMED_OUT": "Local: Message timed out"},
        "schedule_delay": histogram([0.0001] * 100),
        "latency": histogram([0.5] * 100),
        "due_in_window": 2000,
        "timed_out_in_window": 300,
        "acked_in_window": 1700,
        **changes,
    }
    return sent(**values)


def reasons(load: Load, told: Sent, moved: int) -> list[str]:
    return [flaw.text for flaw in flaws(load, load_result(sent=told), accounting_of(told, [0], [moved]))]


def test_records_that_time_out_are_the_result_where_that_is_declared() -> None:
    told = overloaded()
    assert reasons(OVERLOAD, told, 2600) == []
    assert timed_out_share(OVERLOAD, told) == {"timed_out_share": 0.15}
    assert not_sustained(OVERLOAD, load_result(sent=told)) == ""


def test_elsewhere_they_are_failures_of_the_brokers() -> None:
    told = overloaded()
    (flaw,) = flaws(PACED, load_result(sent=told), accounting_of(told, [0], [2600]))
    assert flaw.whose == "brokers"
    assert flaw.text == "400 of 3,000 sends failed: 400 x _MSG_TIMED_OUT (Local: Message timed out)"
    assert timed_out_share(PACED, told) == {}
    assert "not sustained" in not_sustained(PACED, load_result(sent=told))


@given(moved=st.integers(2500, 3100))
def test_the_log_holds_what_was_acknowledged_and_at_most_what_timed_out(moved: int) -> None:
    """Any number of the latter was on its way; one acknowledged record less, or one that nobody sent more, is found."""
    assert (reasons(OVERLOAD, overloaded(), moved) == []) is (2600 <= moved <= 3000)


@given(taken=st.integers(2500, 3100))
def test_consumers_are_given_what_the_log_holds(taken: int) -> None:
    """Each round with consumers was INVALID: they are given the records that timed out and were there all the same."""
    told, given_ = overloaded(), received(received=taken, received_in_window=1700, read=taken)
    found = flaws(OVERLOAD, load_result(sent=told, received=given_), accounting_of(told, [0], [2800]))
    assert (found == ()) is (2600 <= taken <= 3000)


def test_an_acknowledged_record_that_one_partition_lacks_is_found_whatever_the_others_hold() -> None:
    told = overloaded(acked_by_partition=[1300, 1300])
    (flaw,) = flaws(OVERLOAD, load_result(sent=told), accounting_of(told, [0, 0], [1299, 1500]))
    assert flaw.whose == "brokers"
    assert "partition 0: 1,300 and 1,299; 400 timed out" in flaw.text


def test_any_other_failure_is_judged_as_ever() -> None:
    told = overloaded(acked=2590, failed={"_MSG_TIMED_OUT": 400, "NOT_ENOUGH_REPLICAS": 10})
    (found,) = reasons(OVERLOAD, told, 2590)
    assert found.startswith("10 of 3,000 sends failed: 10 x NOT_ENOUGH_REPLICAS")
    assert any("had no outcome" in reason for reason in reasons(OVERLOAD, overloaded(acked=2599, unresolved=1), 2600))


def test_a_buffer_that_refuses_records_lets_none_of_them_time_out() -> None:
    (found,) = reasons(OVERLOAD, overloaded(pushback_s=0.5), 2600)
    assert found.startswith("the client's buffer was full for 0.5 s")


def test_a_generator_that_offers_too_little_is_told_here_too() -> None:
    (found,) = reasons(OVERLOAD, overloaded(attempted_in_window=1500), 2600)
    assert found.startswith("generator saturated: ")


def test_a_late_load_is_not_measured_again_for_latencies_that_nobody_holds() -> None:
    told = overloaded(schedule_delay=histogram([0.03] * 100))
    for load, worth_it in ((OVERLOAD, False), (PACED, True)):
        late = [f for f in flaws(load, load_result(sent=told), accounting_of(told, [0], [2600])) if f.metrics]
        assert [flaw.again for flaw in late] == [worth_it]


def test_the_codes_counted_are_those_excused() -> None:
    assert all(TIMED_OUT.fullmatch(clib.error_name(code)) for code in clib.TIMED_OUT)


def test_no_record_due_is_no_share() -> None:
    assert timed_out_share(OVERLOAD, overloaded(due_in_window=0, timed_out_in_window=0)) == {}
    assert timed_out_share(OVERLOAD, None) == {}


def of_shares(name: str, *shares: float) -> Measurement:
    """Return a measurement of these shares, one a round, of a load that times out."""
    found = measurement([1000.0] * len(shares), name=name)
    rounds = [
        replace(r, metrics={**r.metrics, "timed_out_share": share})
        for r, share in zip(found.rounds, shares, strict=True)
    ]
    return replace(found, scenario=replace(found.scenario, load=OVERLOAD), rounds=tuple(rounds))


def verdict(of: Measurement, over: Measurement) -> tuple[Verdict, tuple[str, ...]]:
    outcome = judge_relation(relation(0.9, "timed_out_share", at_most=10), {"fast": of, "slow": over})
    return outcome.verdict, outcome.reasons


@pytest.mark.parametrize("of", [0.0, 0.5])
@pytest.mark.parametrize("over", [(0.0, 0.0, 0.0), (0.5, 0.0, 0.5)])
def test_a_ratio_over_nothing_says_nothing(of: float, over: tuple[float, ...]) -> None:
    found, words = verdict(of_shares("fast", of, of, of), of_shares("slow", *over))
    assert found is Verdict.INCONCLUSIVE
    assert words == (f"timed_out_share of slow was 0 in {over.count(0.0)} of 3 rounds: no ratio",)


def test_nothing_over_something_is_a_ratio() -> None:
    assert verdict(of_shares("fast", 0.0, 0.0, 0.0), of_shares("slow", 0.5, 0.5, 0.5))[0] is Verdict.REGRESSED
    assert verdict(of_shares("fast", 0.6, 0.6, 0.6), of_shares("slow", 0.5, 0.5, 0.5))[0] is Verdict.PASS


def test_what_is_taken_is_held_and_a_latency_is_not() -> None:
    """A share of 0.80 and one of 0.88 are 10 % apart; what was taken is 40 %."""
    overloaded = replace(scenario(), load=OVERLOAD)
    assert [group[0] for group in required(overloaded)] == ["records_per_s", "broker_cpu_us_per_record"]
    assert METRICS["timed_out_share"].better == "lower"
    outcome = judge_scenario(of_shares("fast", 0.5, 0.5, 0.5), None)
    assert outcome.verdict is Verdict.MISSING
    assert "records_per_s: no threshold" in outcome.reasons


def test_thresholds_are_proposed_for_what_is_taken() -> None:
    entry = {
        "name": "timeout-1s",
        "verdict": "MISSING",
        "rounds": [{"flaws": []}],
        "declared": {"fault": None},
        "load": {"kind": "paced", "times_out": True},
        "metrics": {
            "timed_out_share": {"value": 0.5, "rounds": [0.5]},
            "records_per_s": {"value": 810.0, "rounds": [800.0]},
            "latency_ms.p99": {"value": 1900.0, "rounds": [1900.0]},
        },
    }
    assert [(one.metric, one.baseline) for one in proposed([{"scenarios": [entry]}] * 2)] == [("records_per_s", 800.0)]


def test_the_buffer_holds_what_is_offered_until_it_times_out() -> None:
    """librdkafka looks for what has timed out once a second."""
    family = [row for row in SCENARIOS if row.load.times_out]
    assert len(family) == 4
    for row in family:
        producer = dict(row.producer)
        held_s = int(producer["delivery.timeout.ms"]) / 1e3 + 2
        assert int(producer["queue.buffering.max.messages"]) >= held_s * row.load.rate
        assert int(producer["queue.buffering.max.kbytes"]) * 1024 >= held_s * row.load.rate * row.record_bytes
        assert (producer["retries"], producer["socket.max.fails"]) == ("0", "0"), "a record is in the log once at most"
        assert producer["request.timeout.ms"] == producer["delivery.timeout.ms"]
        assert settings(producer) == row.producer


def test_a_threshold_on_the_share_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "here.toml"
    path.write_text(
        '[profile]\ntarget = "embedded"\n[timeout-1s]\ntimed_out_share = { baseline = 0.8, tolerance = 0.1 }\n'
    )
    with pytest.raises(ConfigurationError, match="hold records_per_s instead"):
        load_profile(path)


def test_the_share_that_timed_out_is_told() -> None:
    """It was in run.json and in a table of the report alone, though it is what such a scenario is about."""
    made = measurement([1000.0] * 3, "timeout-1s")
    shares = iter((0.25, 0.3, 0.35))
    rounds = tuple(replace(r, metrics={**r.metrics, "timed_out_share": next(shares)}) for r in made.rounds)
    (note,) = timed_out_notes({"batch-1k": made, "timeout-1s": replace(made, rounds=rounds)})
    assert note == "note: timeout-1s: 30.0 % of the records that were due timed out (25.0 % to 35.0 %, 3 rounds)"
