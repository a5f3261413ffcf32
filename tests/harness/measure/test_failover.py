"""Rounds with a fault: from a history whose answer is known to metrics, phases and the verdict."""

import json
import math
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.faults.scale_out import with_newcomer
from perfgate.host.session import run_in_session
from perfgate.judge.faults.expectation import expected_outage
from perfgate.judge.faults.rules import durability_of, judge_fault, took_over
from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.assembly import unmeasured
from perfgate.measure.faults.analysis import analyse, judged_again
from perfgate.measure.faults.flaws import schedule_delay_s, spoilt_latencies
from perfgate.measure.faults.history import Written, cores, history_path, keep, recall
from perfgate.metrics.process import process_sampler
from perfgate.metrics.usage import WATCH_EVERY_S, UsageWatch
from perfgate.model import (
    ClusterSpec,
    Consumers,
    Fault,
    Measurement,
    Profile,
    TopicSpec,
    Verdict,
    settings,
)
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.model.target import LoggedChange
from perfgate.report.plots import fault_timeline_figure
from perfgate.report.results import recorded_measurement, scenario_entry
from perfgate.report.style import png
from perfgate.systems.kafka.client.topics import assignment
from perfgate.systems.kafka.managed.faults import KafkaTools
from perfgate.systems.kafka.observe import changes
from tests.harness.build import flawed, threshold
from tests.harness.build.faults import END, FAULT, OUTAGE, RATE, START, faulty, history, measured, state


def test_replicas_that_never_fell_out_of_sync_did_not_have_to_come_back() -> None:
    whole = [state(START, 1, (1, 2, 3), (1, 2, 3))]
    _, metrics, _ = analyse(replace(history(), states=whole))
    assert (metrics["full_isr_s"], metrics["preferred_leaders_s"]) == (0.0, 0.0)


def test_a_known_history_gives_the_known_answer() -> None:
    failover, metrics, accounting = analyse(history())
    assert metrics["outage_s.max"] == pytest.approx(OUTAGE, abs=0.03)
    assert metrics["outage_affected"] == 1
    assert metrics["outage_all_s"] == 0
    assert metrics["receive_outage_s.max"] == pytest.approx(OUTAGE, abs=0.03)
    assert metrics["recovery_s"] == pytest.approx(9.0)
    assert metrics["full_isr_s"] == pytest.approx(20.0)
    assert metrics["preferred_leaders_s"] == pytest.approx(24.0)
    assert metrics["leader_changes"] == 2
    assert metrics["lag_drained_s"] == pytest.approx(0.0), "nothing waited to be read: nothing was taken"
    for phase in ("before", "during", "after"):
        assert metrics[f"broker_cpu_{phase}_cores"] == pytest.approx(1.0)
    assert metrics["records_per_s"] == pytest.approx(RATE)
    assert metrics["latency_before_ms.p99"] == pytest.approx(4.0, abs=0.1)
    assert metrics["latency_during_ms.max"] == pytest.approx(OUTAGE * 1e3, rel=0.01), "from the intended send"
    assert not any(failover.integrity.values())
    assert accounting.attempted == accounting.acked == accounting.offset_delta == 12_000
    assert failover.phases["no leader"] == pytest.approx((0.0, OUTAGE), abs=0.02)
    assert failover.phases["shrunken ISR"] == pytest.approx((OUTAGE, 20.0), abs=0.02)
    assert failover.shares["no leader"] == {"0": 1.0, "1": 1.0}, "late, but acknowledged"
    assert failover.shares_at_once["no leader"] == pytest.approx({"0": 1 / OUTAGE, "1": 1.0}, abs=0.01)
    assert failover.split == pytest.approx({"fenced_s": 7.9, "elected_s": 7.9, "first_ack_s": OUTAGE}, abs=0.02)
    assert [sizes for _, sizes in failover.in_sync] == [(3, 3), (2, 3), (3, 3), (3, 3)]
    assert failover.in_sync[1][0] == pytest.approx(7.9)
    assert failover.acknowledged["0"][12] == 0
    assert sum(failover.acknowledged["1"]) == pytest.approx(100 * 50, abs=2)


LOG = """\
Dumping /data/__cluster_metadata-0/00000000000000000000.log
baseOffset: 0 lastOffset: 0 count: 1 partitionLeaderEpoch: 1 isControl: true CreateTime: 1000000 size: 106
| offset: 0 CreateTime: 1000000 keySize: 4 valueSize: 34 sequence: -1 headerKeys: [] LeaderChange: {"version":0,"leaderId":102,"voters":[{"voterId":101}]}
| offset: 4 CreateTime: 1001000 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: {"type":"TOPIC_RECORD","version":0,"data":{"name":"ours","topicId":"A"}}
| offset: 5 CreateTime: 1001000 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: {"type":"PARTITION_RECORD","version":2,"data":{"partitionId":0,"topicId":"A","isr":[1,2],"leader":1}}
| offset: 6 CreateTime: 1001000 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: {"type":"PARTITION_RECORD","version":2,"data":{"partitionId":0,"topicId":"B","isr":[1,2],"leader":1}}
| offset: 7 CreateTime: 1023500 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: {"type":"BROKER_REGISTRATION_CHANGE_RECORD","version":2,"data":{"brokerId":1,"brokerEpoch":7,"fenced":1}}
| offset: 8 CreateTime: 1023500 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: {"type":"PARTITION_CHANGE_RECORD","version":1,"data":{"partitionId":0,"topicId":"A","isr":[2],"leader":2}}
| offset: 9 CreateTime: 1023600 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: {"type":"PARTITION_CHANGE_RECORD","version":1,"data":{"partitionId":0,"topicId":"B","isr":[2],"leader":2}}
| offset: 10 CreateTime: 1024000 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: {"type":"PARTITION_CHANGE_RECORD","version":1,"data":{"partitionId":0,"topicId":"A","isr":[2]}}
| offset: 11 CreateTime: 1024000 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: {"type":"NO_OP_RECORD","version":0,"data":{}}
| offset: 12 CreateTime: 1035000 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: {"type":"BROKER_REGISTRATION_CHANGE_RECORD","version":2,"data":{"brokerId":1,"brokerEpoch":7,"fenced":-1}}
| offset: 13 CreateTime: 1040000 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: {"type":"PARTITION_CHANGE_RECORD","version":1,"data":{"partitionId":0,"topicId":"A","leader":1,"leaderRecoveryState":1}}
"""  # noqa: E501 - as the dump tool prints it; shortened


def test_the_controllers_log_tells_the_steps_of_an_outage() -> None:
    found = changes(LOG, "ours", -900.0)
    assert [(change.at, change.what, change.number, change.leader) for change in found] == [
        (100.0, "controller", 102, -1),
        (101.0, "leader", 0, 1),
        (123.5, "fenced", 1, -1),
        (123.5, "leader", 0, 2),
        (135.0, "back", 1, -1),
        (140.0, "leader", 0, 1),
    ]
    failover, metrics, _ = analyse(replace(history(), changes=found))
    assert failover.split == pytest.approx({"fenced_s": 3.5, "elected_s": 3.5, "first_ack_s": OUTAGE}, abs=0.02)
    assert "log" in failover.split_source
    assert (metrics["unclean_elections"], metrics["controller_changes"]) == (1, 0)


def test_a_broker_that_starts_again_counts_its_cpu_from_the_start() -> None:
    looks = [(0.0, {"1": 10.0, "2": 5.0}), (1.0, {"1": 11.0}), (2.0, {"1": 12.0, "2": 0.5}), (3.0, {"2": 1.5})]
    assert cores(looks, 0.0, 1.0) == pytest.approx(1.0)
    assert cores(looks, 0.0, 2.0) == pytest.approx((1.0 + 1.0 + 0.5) / 2)
    assert cores(looks, 2.0, 3.0) == pytest.approx(1.0)
    assert cores(looks, 2.5, 3.0) is None


def test_a_broker_whose_counter_is_not_read_once_uses_what_it_did_meanwhile() -> None:
    """It used all of its life's CPU within half a second: 11.7 cores in place of 1.5."""
    looks = [(at / 2, {"1": 300 + at / 4, "2": 300 + at / 4}) for at in range(61)]
    for unread in (0, 20, 60):
        seen = [(at, {"1": used["1"]} if at == unread / 2 else used) for at, used in looks]
        assert cores(seen, 0.0, 30.0) == pytest.approx(1.0, abs=0.02)
        assert cores(seen, 10.0, 20.0) == pytest.approx(1.0, abs=0.03)


@given(partitions=st.integers(1, 30), brokers=st.integers(1, 6), data=st.data())
def test_a_newcomer_takes_its_share_and_no_more(partitions: int, brokers: int, data: st.DataObject) -> None:
    replicas = assignment(
        TopicSpec(partitions=partitions, replication_factor=data.draw(st.integers(1, brokers)), on_brokers=brokers)
    )
    before = tuple(map(tuple, replicas))
    after = with_newcomer(before, brokers + 1)
    held = sum(brokers + 1 in ids for ids in after)
    present = {broker for ids in before for broker in ids}
    assert held == min(sum(map(len, before)) // (len(present) + 1), partitions)
    for old, new in zip(before, after, strict=True):
        assert len(set(new)) == len(old)
        assert len(set(new) - set(old)) <= 1


def test_consumers_that_lag_behind_are_seen_until_they_have_caught_up() -> None:
    written = history()
    late = written.receipts[0].copy()
    stuck = (late["at"] >= FAULT) & (late["at"] < FAULT + 12)
    late["at"][stuck] = FAULT + 12
    metrics = analyse(replace(written, receipts=[late]))[1]
    assert metrics["lag_drained_s"] == pytest.approx(12.0, abs=0.2)
    late["at"][late["at"] >= FAULT] = END + 1
    assert "lag_drained_s" not in analyse(replace(written, receipts=[late]))[1]


def test_a_generator_that_was_late_is_seen() -> None:
    assert schedule_delay_s(history()) == pytest.approx(0.0, abs=1e-6)
    late = history()
    late.sends[0]["at"] += 0.03
    assert schedule_delay_s(late) == pytest.approx(0.03, abs=1e-6)


def late_by(seconds: float) -> Written:
    """Return the history of a generator that paused for so long, again and again, before the fault."""
    found = history()
    found.sends[0]["at"] += seconds
    return found


@pytest.mark.parametrize(
    ("late_s", "limit_s", "verdict"),
    [
        (0.03, 7.99, Verdict.REGRESSED),
        (0.149, 8.5, Verdict.PASS),
        (0.149, 8.1, Verdict.INCONCLUSIVE),
        (0.149, 7.9, Verdict.INCONCLUSIVE),
        (0.149, 7.0, Verdict.REGRESSED),
        (0.9, 12.0, Verdict.PASS),
        (1.7, 4.0, Verdict.INCONCLUSIVE),
    ],
)
def test_a_late_generator_widens_what_an_outage_is_known_to(late_s: float, limit_s: float, verdict: Verdict) -> None:
    """Of 8.0 s; below five times the pauses it is never red, for it may be one of them."""
    taken = measured(faulty(), late_by(late_s))
    assert taken.rounds[0].metrics["outage_resolution_s"] == pytest.approx(late_s, abs=1e-6)
    held = threshold("outage_s.max", limit_s, name="kill-leader", tolerance=0.0)
    judgement = next(j for j in judge_fault(faulty(), taken, [held]).judgements if j.metric == "outage_s.max")
    assert judgement.verdict is verdict
    if verdict is Verdict.INCONCLUSIVE:
        assert f"paused for {late_s:.2f} s" in judgement.reason


@pytest.mark.parametrize(("generator", "verdict"), [(True, Verdict.INCONCLUSIVE), (False, Verdict.REGRESSED)])
@pytest.mark.parametrize("kind", ["kill-controller", "time"])
def test_a_pause_of_the_generator_since_the_fault_is_no_outage(kind: str, generator: bool, verdict: Verdict) -> None:
    """2 s in which nothing was sent, or nothing taken of what was sent in time; 1 s is green."""
    written = history(down=False)
    (sends,), (outcomes,) = (rows.copy() for rows in written.sends), (rows.copy() for rows in written.outcomes)
    for rows in (sends, outcomes)[not generator :]:
        paused = (rows["at"] >= FAULT + 5) & (rows["at"] < FAULT + 7)
        # What was under way is heard of first; all that is owed may go to one partition.
        rows["at"][paused] = FAULT + (7.001 if rows is sends else 7)
        if rows is sends:
            rows["partition"][paused] = 0
    outcome = judge_scenario(measured(faulty(kind=kind), replace(written, sends=[sends], outcomes=[outcomes])), None)
    assert outcome.verdict is verdict, outcome.reasons
    assert ("sends were late themselves" in outcome.reasons[0]) is generator


def test_a_late_generator_on_a_fault_that_costs_nothing_leaves_it_green() -> None:
    """0.15 s are not told from an outage of as much, but both are far below the 1 s that it may cost."""
    elected = [LoggedChange(at, "controller", 102) for at in (START, FAULT + 3.2)]
    quiet = replace(late_by(0.149), outcomes=history(down=False).outcomes, changes=elected)
    taken = measured(faulty(kind="kill-controller"), quiet)
    metrics = {**taken.rounds[0].metrics, "receive_outage_s.max": 0.2}  # those of the history are down for 8 s
    outcome = judge_scenario(replace(taken, rounds=(replace(taken.rounds[0], metrics=metrics),)), None)
    assert outcome.verdict is Verdict.PASS, outcome.reasons


@pytest.mark.parametrize(
    ("elected_at", "verdict"),
    [
        ((START, FAULT + 3.2), Verdict.PASS),
        ((START, FAULT + 16), Verdict.REGRESSED),
        ((START,), Verdict.REGRESSED),
        ((), Verdict.INCONCLUSIVE),  # a log that tells of no election at all says nothing
        (None, Verdict.INCONCLUSIVE),
    ],
)
def test_controllers_that_elect_nobody_while_the_active_one_is_away_are_red(
    elected_at: tuple[float, ...] | None, verdict: Verdict
) -> None:
    """They passed: no partition notices. The dead one is started again 15 s after the fault."""
    log = None if elected_at is None else [LoggedChange(at, "controller", 102) for at in elected_at]
    taken = measured(faulty(kind="kill-controller"), replace(history(down=False), changes=log))
    metrics = {**taken.rounds[0].metrics, "receive_outage_s.max": 0.2}  # those of the history are down for 8 s
    outcome = judge_scenario(replace(taken, rounds=(replace(taken.rounds[0], metrics=metrics),)), None)
    assert outcome.verdict is verdict, outcome.reasons
    if verdict is Verdict.INCONCLUSIVE:
        assert "in 1 of 1 rounds the controllers' log does not tell" in outcome.reasons[0]
    if verdict is Verdict.REGRESSED:
        assert "in 1 of 1 rounds no new controller was elected" in outcome.reasons[0]
        two = replace(faulty(kind="kill-controller"), cluster=ClusterSpec(controllers=2))
        assert took_over(two, taken) == [], "the one that is left is no majority"


def test_a_late_generator_spoils_the_latencies_that_it_is_a_part_of() -> None:
    taken = late_by(0.149)
    metrics = analyse(taken)[1]
    spoilt_by = spoilt_latencies(taken, metrics)
    assert [doubt.metrics for doubt in spoilt_by] == [("latency_before_ms",), ("latency_after_ms",)], "8 s during it"
    assert spoilt_latencies(history(), metrics) == []
    (r,) = measured(faulty(), taken).rounds
    texts = {metric: doubt.text for doubt in spoilt_by for metric in doubt.metrics}
    spoilt = flawed(r, invalid_metrics=texts, doubts=tuple(spoilt_by))
    held = [threshold("latency_before_ms.p99", 100.0, name="kill-leader")]
    outcome = judge_fault(faulty(), replace(measured(faulty(), taken), rounds=(spoilt,)), held)
    assert outcome.verdict is Verdict.INVALID
    assert "sent late" in outcome.reasons[0]


def test_a_history_that_was_kept_is_judged_the_same(tmp_path: Path) -> None:
    keep(tmp_path / "one.npz", history(lose=3))
    assert analyse(recall(tmp_path / "one.npz")) == analyse(history(lose=3))
    (tmp_path / "two.npz").write_text("no history")
    with pytest.raises(ConfigurationError, match="not the history of a round"):
        recall(tmp_path / "two.npz")


def test_one_round_without_loss_within_what_the_settings_predict_passes() -> None:
    outcome = judge_scenario(measured(faulty(), history()), None)
    assert outcome.verdict is Verdict.PASS
    assert outcome.judgements[0].limit == pytest.approx(12.125)


@pytest.mark.parametrize(
    ("producer", "lose", "again", "verdict"),
    [
        ({}, 2, 0, Verdict.REGRESSED),
        ({}, 0, 2, Verdict.REGRESSED),
        ({"enable.idempotence": "True"}, 0, 2, Verdict.REGRESSED),
        ({"enable.idempotence": "false"}, 0, 2, Verdict.PASS),
        ({"enable.idempotence": "false"}, 2, 0, Verdict.REGRESSED),
        ({"enable.idempotence": "false", "acks": "1"}, 2, 2, Verdict.PASS),
    ],
)
def test_a_loss_is_red_where_the_settings_rule_it_out(
    producer: dict[str, str], lose: int, again: int, verdict: Verdict
) -> None:
    row = faulty(producer)
    outcome = judge_scenario(measured(row, history(), history(lose=lose, again=again)), None)
    assert outcome.verdict is verdict, durability_of(row)
    if verdict is Verdict.REGRESSED:
        assert "record 0/1199" in outcome.judgements[0].reason
        assert outcome.judgements[0].measured == 2


def test_an_outage_beyond_the_prediction_is_red_unless_its_own_threshold_allows_it() -> None:
    row = replace(faulty(), cluster=replace(faulty().cluster, config=settings({"broker.session.timeout.ms": 3000})))
    expected = expected_outage(row)
    assert (expected.low_s, expected.high_s) == pytest.approx((1.0, 5.375))
    late = measured(row, history())
    assert judge_scenario(late, None).verdict is Verdict.REGRESSED
    assert judge_fault(row, late, [threshold("outage_s.max", 8.0, name="kill-leader")]).verdict is Verdict.PASS
    profile = Profile(name="p", facts={}, thresholds={row.name: (threshold("recovery_s", 2.0),)}, path="p")
    assert judge_scenario(late, profile).verdict is Verdict.REGRESSED


@pytest.mark.parametrize(
    ("session_s", "outage_s", "verdict"),
    [
        (None, 19.0, Verdict.REGRESSED),
        (18.0, 19.0, Verdict.PASS),
        (18.0, 23.0, Verdict.REGRESSED),
        (3.0, 8.0, Verdict.REGRESSED),
        (0.0, 8.0, Verdict.PASS),
        (0.0, 19.0, Verdict.INCONCLUSIVE),
        (0.0, 23.0, Verdict.REGRESSED),
    ],
)
def test_real_brokers_are_held_against_the_session_that_they_tell(
    session_s: float | None, outage_s: float, verdict: Verdict
) -> None:
    """With 18 s, as with ZooKeeper, a broker that crashed was red each time; 0: they do not tell it."""
    taken = measured(faulty(), history())
    metrics = {**taken.rounds[0].metrics, "outage_s.max": outage_s, "receive_outage_s.max": outage_s}
    failover = taken.rounds[0].failover
    assert failover
    one = replace(taken.rounds[0], metrics=metrics, failover=replace(failover, session_s=session_s))
    outcome = judge_scenario(replace(taken, rounds=(one,)), None)
    assert outcome.verdict is verdict
    if verdict is Verdict.INCONCLUSIVE:
        assert "more than 12.1 s; expected at most 22.2 s" in outcome.reasons[0]
        assert "do not tell their session: it may be 18 s" in outcome.reasons[0]


def test_a_hand_over_has_a_window_of_its_own_which_a_slow_machine_widens() -> None:
    """With 5 s for everything, 4.9 s of a shutdown in good order were green where 1.5 are usual."""
    row = replace(faulty(), fault=Fault(kind="stop-leader"))

    def judged(outage_s: float, before_ms: float) -> Verdict:
        taken = measured(row, history())
        metrics = {
            **taken.rounds[0].metrics,
            "outage_s.max": outage_s,
            "latency_before_ms.p99": before_ms,
            "receive_outage_s.max": 0.1,
            "outage_resolution_s": 0.02,
        }
        return judge_fault(row, replace(taken, rounds=(replace(taken.rounds[0], metrics=metrics),)), []).verdict

    assert judged(4.9, 30) is Verdict.REGRESSED
    assert judged(2.5, 30) is Verdict.PASS
    assert judged(4.9, 200) is Verdict.PASS
    assert judged(7.5, 550) is Verdict.REGRESSED, "no later than a broker that fell silent is fenced"
    assert expected_outage(replace(row, fault=Fault(kind="kill-controller")), 0.03).high_s == pytest.approx(1.3)


@pytest.mark.parametrize(
    ("kind", "producer", "down", "verdict"),
    [
        ("kill-leader", {}, True, Verdict.PASS),
        ("kill-leader", {}, False, Verdict.INVALID),
        ("pause-leader", {}, False, Verdict.INVALID),
        ("cut-off", {}, False, Verdict.INVALID),
        ("two-down", {}, False, Verdict.INVALID),
        ("kill-leader", {"acks": "0", "enable.idempotence": "false"}, False, Verdict.PASS),
        ("stop-leader", {}, False, Verdict.PASS),
        ("slow-follower", {}, False, Verdict.PASS),
    ],
)
def test_a_fault_that_cost_nothing_where_it_must_was_none(
    kind: str, producer: dict[str, str], down: bool, verdict: Verdict
) -> None:
    """A command that shuts a broker down in good order was green as a kill."""
    outcome = judge_scenario(measured(faulty(producer, kind), history(down=down)), None)
    assert outcome.verdict is verdict, outcome.reasons
    assert any("the fault had no effect" in reason for reason in outcome.reasons) is not verdict.green


def test_one_outage_of_several_beyond_the_prediction_is_not_green() -> None:
    taken = measured(faulty(), history(), history(), history())
    slow = replace(taken.rounds[2], metrics={**taken.rounds[2].metrics, "outage_s.max": 40.0})
    outcome = judge_scenario(replace(taken, rounds=(*taken.rounds[:2], slow)), None)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert "1 of 3 rounds beyond it" in outcome.reasons[0]


@pytest.mark.parametrize(
    ("session", "valid", "verdict"),
    [
        ("3000", 4, Verdict.REGRESSED),
        ("3000", 2, Verdict.REGRESSED),
        ("3000", 1, Verdict.REGRESSED),
        ("9000", 4, Verdict.INVALID),
    ],
)
def test_a_round_that_does_not_count_hides_no_outage_of_the_others(session: str, valid: int, verdict: Verdict) -> None:
    row = replace(faulty(), cluster=replace(faulty().cluster, config=settings({"broker.session.timeout.ms": session})))
    taken = measured(row, *[history()] * valid)
    late = unmeasured(valid + 1, "the generator was late before the fault already")
    outcome = judge_scenario(replace(taken, rounds=(*taken.rounds, late)), None)
    assert outcome.verdict is verdict
    assert "late before the fault" in outcome.reasons[-1]


def test_a_load_that_was_never_as_before_again_is_not_green() -> None:
    taken = measured(faulty(), history())
    slow, halved = without(taken, "recovery_s"), without(taken, "recovery_s", "rate_recovery_s")
    outcome = judge_scenario(slow, None)
    assert outcome.verdict is Verdict.PASS
    assert "the p99 was not as before when the load ended" in [judgement.reason for judgement in outcome.judgements][-1]
    assert judge_scenario(halved, None).verdict is Verdict.REGRESSED
    half = replace(halved, rounds=(*halved.rounds, *taken.rounds))
    assert judge_scenario(half, None).verdict is Verdict.INCONCLUSIVE
    crashed = replace(halved, scenario=faulty(kind="client-crash"))
    held = {judgement.metric for judgement in judge_scenario(crashed, None).judgements}
    assert held == {"outage_s.max", "receive_outage_s.max"}


def slowed(since: float, *, generator: bool = False) -> Written:
    """Return a history whose records are taken at half the rate from then on, or sent at half of it."""
    written = history(down=False)
    (sends,), (outcomes,) = (rows.copy() for rows in written.sends), (rows.copy() for rows in written.outcomes)
    for rows in (sends, outcomes)[not generator :]:
        rows["at"] += np.maximum(rows["at"] - since, 0.0)
    return replace(written, sends=[sends], outcomes=[outcomes])


@pytest.mark.parametrize(
    ("written", "verdict"),
    [
        (slowed(FAULT + 16), Verdict.REGRESSED),
        (slowed(FAULT + 16, generator=True), Verdict.PASS),
        (slowed(END - 4), Verdict.PASS),
        (slowed(END), Verdict.PASS),
    ],
)
def test_a_rate_that_was_as_before_for_a_while_and_not_to_the_end_is_red(written: Written, verdict: Verdict) -> None:
    """The first ten good seconds counted; the last may be a pause, and what is sent late is not taken late."""
    outcome = judge_scenario(measured(faulty(kind="slow-follower"), written), None)
    assert outcome.verdict is verdict, outcome.reasons
    assert ("rate_recovery_s" in analyse(written)[1]) is verdict.green


@pytest.mark.parametrize(
    ("kind", "session", "until", "verdict"),
    [
        ("kill-leader", "6000", FAULT + 14, Verdict.PASS),
        ("kill-leader", "6000", END + 1, Verdict.REGRESSED),
        ("consumer-kill", "6000", FAULT + 9, Verdict.PASS),
        ("consumer-kill", "6000", FAULT + 14, Verdict.REGRESSED),
        ("consumer-kill", "10000", FAULT + 14, Verdict.PASS),
        ("consumer-kill", "45000", END + 1, Verdict.INCONCLUSIVE),
    ],
)
def test_consumers_that_wait_longer_than_the_settings_say_are_red(
    kind: str, session: str, until: float, verdict: Verdict
) -> None:
    written = history(down=kind == "kill-leader")
    late = written.receipts[0].copy()
    late["at"][(late["at"] >= FAULT) & (late["at"] < until)] = until
    consumers = Consumers(membership="group", config=settings({"session.timeout.ms": session}))
    taken = measured(replace(faulty(kind=kind), consumers=consumers), replace(written, receipts=[late]))
    outcome = judge_scenario(taken, None)
    assert outcome.verdict is verdict, outcome.judgements
    assert verdict is not Verdict.REGRESSED or "receive_outage_s.max" in outcome.reasons[0]


def without(taken: Measurement, *metrics: str) -> Measurement:
    """Return the measurement as if these had not been found."""
    (one,) = taken.rounds
    return replace(taken, rounds=(replace(one, metrics={k: v for k, v in one.metrics.items() if k not in metrics}),))


def test_a_stored_limit_that_noise_made_wide_does_not_hide_what_is_beyond_the_prediction() -> None:
    predicted_s = expected_outage(faulty()).high_s
    late = replace(
        measured(faulty(), history()).rounds[0], metrics={**analyse(history())[1], "outage_s.max": 1.05 * predicted_s}
    )
    taken = Measurement(scenario=faulty(), rounds=(late,), rtt_ms={})
    wide = replace(threshold("outage_s.max", 0.8 * predicted_s), reach=0.5)
    assert wide.limit > 1.05 * predicted_s
    assert judge_fault(faulty(), taken, [wide]).verdict is Verdict.REGRESSED
    usual = replace(threshold("outage_s.max", 1.1 * predicted_s), reach=0.5)
    assert judge_fault(faulty(), taken, [usual]).verdict is Verdict.PASS, "what is usual there was stored with a reason"


def test_a_round_that_never_recovered_is_red_where_recovery_is_held() -> None:
    taken = measured(faulty(), history())
    outcome = judge_fault(faulty(), without(taken, "recovery_s"), [threshold("recovery_s", 20.0)])
    assert outcome.verdict is Verdict.REGRESSED
    assert "never got there" in outcome.reasons[0]


def test_run_json_keeps_a_round_with_a_fault() -> None:
    taken = measured(faulty(), history(lose=1))
    again = recorded_measurement(scenario_entry(taken, None))
    assert again.rounds == taken.rounds
    assert again.scenario == measured(faulty()).scenario


def test_a_loss_in_one_round_of_three_can_be_written_down() -> None:
    taken = measured(faulty({"acks": "1"}), history(), history(), history(lose=15))
    entry = json.loads(json.dumps(scenario_entry(taken, None), allow_nan=False))
    assert entry["metrics"]["lost_records"]["rounds"] == [0, 0, 15]
    assert entry["metrics"]["lost_records"]["spread"] is None, "of nothing there is no share"


def test_a_recorded_round_is_analysed_again_from_its_history(tmp_path: Path) -> None:
    taken = measured(faulty(), history(lose=2))
    keep(history_path(tmp_path, "kill-leader", 1), history(lose=2))
    forgotten = replace(taken.rounds[0], metrics={"broker_cpu_cores.sum": 1.0, "lost_records": 0.0})
    (again,) = judged_again(replace(taken, rounds=(forgotten,)), tmp_path).rounds
    assert again.metrics["lost_records"] == 2
    assert again.metrics["broker_cpu_cores.sum"] == 1.0, "not of the history"
    assert judged_again(replace(taken, rounds=(forgotten,)), tmp_path / "none").rounds == (forgotten,)


def test_what_an_analysis_leaves_out_is_not_taken_from_the_one_before(tmp_path: Path) -> None:
    """A rate that was lost is told by no `rate_recovery_s`: the recorded one of 0 s was green. Real brokers' session is
    no figure of the history."""
    taken = measured(faulty(), history())
    assert taken.rounds[0].failover is not None
    keep(history_path(tmp_path, "kill-leader", 1), history())
    told = replace(
        taken.rounds[0],
        metrics={**taken.rounds[0].metrics, "controller_changes": 0.0},
        failover=replace(taken.rounds[0].failover, session_s=18.0),
    )
    (again,) = judged_again(replace(taken, rounds=(told,)), tmp_path).rounds
    assert again.failover is not None
    assert again.failover.session_s == 18.0
    assert "controller_changes" not in again.metrics


def test_the_timeline_shows_what_was_acknowledged_and_what_was_done() -> None:
    failover = analyse(history())[0]
    taken, latency, replicas, leaders, *_ = fault_timeline_figure("kill-leader", failover).axes
    heat = taken.collections[0].get_array()
    assert heat is not None
    assert [list(row) for row in heat] == [
        list(failover.acknowledged[n]) for n in sorted(failover.acknowledged, key=int)
    ]
    assert {text.get_text() for text in taken.texts} == {words for _, words in failover.marks}
    p99 = np.asarray(latency.lines[0].get_ydata(), float).tolist()
    assert [y for y in p99 if not math.isnan(y)] == [y for y in failover.p99_ms if y is not None]
    assert [axes.get_ylabel().partition("\n")[0] for axes in (latency, replicas, leaders)] == [
        "p99 from intended",
        "in-sync replicas",
        "leader",
    ]
    assert leaders.get_xlabel() == "seconds since the fault"
    assert png(fault_timeline_figure("kill-leader", failover)).startswith(b"\x89PNG")


def test_a_broker_that_is_gone_is_told_at_an_edge_and_left_out_by_the_watch() -> None:
    with subprocess.Popen(["sleep", "60"]) as broker, subprocess.Popen(["sleep", "60"]) as other:
        sampler = process_sampler(lambda: {1: broker.pid, 2: other.pid})
        try:
            sampler.edge()
            with UsageWatch(sampler.read) as watch:
                time.sleep(2 * WATCH_EVERY_S)
                broker.kill()
                broker.wait()
                time.sleep(3 * WATCH_EVERY_S)
            assert (set(watch.cpu[0][1]), set(watch.cpu[-1][1])) == ({"1", "2"}, {"2"})
            with pytest.raises(TargetError, match="broker 1 was gone when its CPU was read"):
                sampler.edge()
        finally:
            broker.kill()
            other.kill()


def test_a_tool_that_takes_too_long_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_in_session(["/bin/bash", "-c", f"sleep 60 & echo $! > {tmp_path}/pid; wait"], 0.5)
    child = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 30  # killed processes of a busy machine take a moment to be gone
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)


class OldKafka(KafkaTools):
    """A Kafka whose tools bear their old names, and print what they were given."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        java = folder / "java"
        java.write_text('#!/bin/bash\n[[ "$*" == *" kafka.tools.DumpLogSegments "* ]] && echo "${@: -1}"\n')
        java.chmod(0o755)

    def run_script(self, script: str, variables: Mapping[str, str]) -> str:
        given = {"java": str(self._folder / "java"), "classpath": "", "metadata": str(self._folder), **variables}
        code, output = run_in_session(["/bin/bash", "-c", script], 10, given)
        return output if code == 0 else f"ended with {code}"


def test_every_segment_is_dumped_by_whichever_tool_there_is(tmp_path: Path) -> None:
    for name in ("1.log", "2.log", "2.index"):
        (tmp_path / name).touch()
    assert OldKafka(tmp_path).metadata_log() == "1.log,2.log\n"


def test_an_empty_dump_is_not_a_log_in_which_nothing_happened(tmp_path: Path) -> None:
    tools = OldKafka(tmp_path)
    (tmp_path / "1.log").touch()
    assert tools.changes("t") == []
    (tmp_path / "java").write_text("#!/bin/bash\nexit 0\n")
    assert tools.changes("t") is None, "unclean elections would be none, as if looked for"


def test_a_tool_that_is_not_there_fails(tmp_path: Path) -> None:
    tools = OldKafka(tmp_path)
    (tmp_path / "java").write_text("#!/bin/bash\nexit 1\n")
    assert tools.metadata_log() == "ended with 1"
