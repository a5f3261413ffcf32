"""Rounds with a fault: from a history whose answer is known to metrics, phases and the verdict."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfgate.judge.faults.expectation import expected_outage
from perfgate.judge.faults.rules import durability_of, judge_fault, took_over
from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.assembly import unmeasured
from perfgate.measure.faults.analysis import analyse, judged_again, without_integrity
from perfgate.measure.faults.history import Written, history_path, keep, recall
from perfgate.model import (
    ClusterSpec,
    Consumers,
    Fault,
    Measurement,
    Profile,
    Verdict,
    settings,
)
from perfgate.model.errors import ConfigurationError
from perfgate.model.target import LoggedChange
from perfgate.report.plots import fault_timeline_figure
from perfgate.report.results import recorded_measurement, scenario_entry
from perfgate.report.style import png
from tests.harness.build import threshold
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


def test_consumers_that_lag_behind_are_seen_until_they_have_caught_up() -> None:
    written = history()
    late = written.receipts[0].copy()
    stuck = (late["at"] >= FAULT) & (late["at"] < FAULT + 12)
    late["at"][stuck] = FAULT + 12
    metrics = analyse(replace(written, receipts=[late]))[1]
    assert metrics["lag_drained_s"] == pytest.approx(12.0, abs=0.2)
    late["at"][late["at"] >= FAULT] = END + 1
    assert "lag_drained_s" not in analyse(replace(written, receipts=[late]))[1]


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


def test_a_history_that_was_kept_is_judged_the_same(tmp_path: Path) -> None:
    keep(tmp_path / "one.npz", history(lose=3))
    assert analyse(recall(tmp_path / "one.npz")) == analyse(history(lose=3))


@pytest.mark.parametrize("kept", ["", "text", "half", "damaged"])
def test_what_is_no_history_or_not_a_whole_one_is_said_to_be_none(kept: str, tmp_path: Path) -> None:
    """A file that was copied in part ended a replay with a traceback."""
    keep(path := tmp_path / "one.npz", history())
    whole = path.read_bytes()
    middle = len(whole) // 2
    damaged = {"": b"", "text": b"no history", "half": whole[:middle]}
    path.write_bytes(damaged.get(kept, whole[:middle] + bytes(200) + whole[middle + 200 :]))
    with pytest.raises(ConfigurationError, match="not the history of a round"):
        recall(path)


@pytest.mark.parametrize("facts", [{"states": None}, {"later": 1}, {"changes": [{"what": "new"}]}])
def test_a_history_of_another_version_is_said_to_be_none(facts: dict[str, Any], tmp_path: Path) -> None:
    """A fact that this version does not know, or lacks, ended a replay with a traceback."""
    keep(tmp_path / "one.npz", history())
    with np.load(tmp_path / "one.npz") as kept:
        entries = {name: kept[name] for name in kept.files}
    entries["facts"] = np.array(json.dumps({**json.loads(str(entries["facts"])), **facts}))
    np.savez_compressed(tmp_path / "one.npz", **entries)
    with pytest.raises(ConfigurationError, match="not the history of a round"):
        recall(tmp_path / "one.npz")


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


def test_a_log_that_was_not_read_to_its_end_loses_nothing_when_it_is_analysed_again(tmp_path: Path) -> None:
    """The round was not valid; its replay had each record lost that had not been read."""
    taken = measured(faulty(), history(lose=20))
    keep(history_path(tmp_path, "kill-leader", 1), history(lose=20))
    assert taken.rounds[0].failover is not None
    failover, metrics = without_integrity(taken.rounds[0].failover, taken.rounds[0].metrics)
    unread = replace(taken.rounds[0], metrics=metrics, failover=failover)
    (again,) = judged_again(replace(taken, rounds=(unread,)), tmp_path).rounds
    assert "lost_records" not in again.metrics
    assert again.failover is not None
    assert again.failover.integrity["lost"] == 0


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
