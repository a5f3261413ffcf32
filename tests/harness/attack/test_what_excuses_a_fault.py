"""A flaw of the load made a round INVALID whatever outage it showed: 60 s without service, and exit 6."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest

from perfgate.judge.faults.expectation import expected_outage
from perfgate.judge.scenario_case import judge_scenario
from perfgate.load.history import ACCEPT, RECEIPT
from perfgate.load.journaled import load_flaws
from perfgate.measure.faults import fault_round as module
from perfgate.measure.faults.fault_turns import measure_faults
from perfgate.measure.faults.flaws import schedule_delay_s
from perfgate.measure.faults.history import Written
from perfgate.model import Fault, FaultScenario, Load, Measurement, Round, Verdict
from perfgate.model.errors import BrokersFailedError, TargetError
from perfgate.model.faults import LATE, Scene
from perfgate.model.flaw import Doubt
from perfgate.model.load import LoadError, LogUnreadError, SendsFailedError
from perfgate.model.target import State
from perfgate.report.results import recorded_measurement, scenario_entry
from perfgate.systems.kafka.load.librdkafka import KafkaInstructions
from tests.harness.build import flawed, profile, scenario, threshold
from tests.harness.build.clock import Clock
from tests.harness.build.faults import FAULT, RATE, START, faulty, history, measured, one_fault, round_that_left

ROW = replace(faulty(), load=Load(kind="paced", rate=RATE))
SENT, READ = {"pushback_s": 0.0, "unsent": 0}, {"corrupt": 0, "foreign": 0, "missed": 0}
EVERYTHING = Doubt(kind="flaw", whose="load", text="the load was never made", factor=None)


def outage_of(seconds: float) -> Written:
    """Return a history in which the first partition takes nothing for so long from the fault on."""
    written = history(down=False)
    (outcomes,), (receipts,) = (rows.copy() for rows in written.outcomes), (rows.copy() for rows in written.receipts)
    for rows in (outcomes, receipts):
        waits = (rows["partition"] == 0) & (rows["at"] >= FAULT) & (rows["at"] < FAULT + seconds)
        rows["at"][waits] = FAULT + seconds
    return replace(written, outcomes=[outcomes], receipts=[receipts])


def a_round(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, row: FaultScenario = ROW, **given: Any
) -> Round:
    """Return what a round comes to that left this history; see :func:`round_that_left`."""
    return round_that_left(written, tmp_path, monkeypatch, row=row, **given)


def judged(*found: Round, row: FaultScenario = ROW) -> Verdict:
    return judge_scenario(Measurement(scenario=row, rounds=found, rtt_ms={}), None).verdict


@pytest.mark.parametrize(
    ("result", "outage_s", "verdict"),
    [
        ({"pushback_s": 20.0}, 8.0, Verdict.INVALID),
        ({"pushback_s": 20.0}, 30.0, Verdict.REGRESSED),
        ({"pushback_s": 20.0, "unsent": 4000}, 30.0, Verdict.REGRESSED),
        # Of 200 records/s these are 20 s for which the generator sent nothing.
        ({"unsent": 4000}, 30.0, Verdict.INVALID),
        ({"unsent": 400}, 30.0, Verdict.REGRESSED),
        ({"unsent": -5}, 8.0, Verdict.INVALID),
        ({"unsent": -5}, 30.0, Verdict.REGRESSED),
    ],
)
def test_a_flaw_of_the_load_excuses_no_outage_that_it_did_not_make(
    result: dict[str, Any],
    outage_s: float,
    verdict: Verdict,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flaws = load_flaws(KafkaInstructions(), ROW, [{**SENT, **result}], [READ])
    found = a_round(outage_of(outage_s), tmp_path, monkeypatch, finish=flaws)
    assert found.invalid
    assert judged(found) is verdict
    taken = Measurement(scenario=ROW, rounds=(found,), rtt_ms={})
    assert recorded_measurement(scenario_entry(taken, None)).rounds == (found,)


def test_a_round_of_the_others_that_was_never_made_says_nothing() -> None:
    quiet, slow = one_fault(history()), one_fault(outage_of(30.0), 2)
    spoilt = flawed(quiet, invalid=(EVERYTHING.text,), doubts=(EVERYTHING,))
    assert judged(spoilt) is Verdict.INVALID
    assert judged(spoilt, slow) is Verdict.REGRESSED
    assert judged(flawed(slow, invalid=(EVERYTHING.text,), doubts=(EVERYTHING,))) is Verdict.INVALID


def test_a_full_buffer_is_no_pause_of_the_generator() -> None:
    """Records that found no room for 7 s, because the brokers took none, were sent late by 7 s: that excused them."""
    written = history(down=False)
    (sends,) = (rows.copy() for rows in written.sends)
    held = (sends["at"] >= FAULT - 9) & (sends["at"] < FAULT - 2)
    first = sends[held][:1].copy()
    sends["at"][held] = FAULT - 2
    late = replace(written, sends=[sends])
    assert schedule_delay_s(late) > 6
    again = np.sort(np.concatenate([sends, first]), order=["at", "first"], kind="stable")
    assert schedule_delay_s(replace(written, sends=[again])) < 0.1, "it was handed over at once, and again"


@pytest.mark.parametrize(
    ("own", "outage_s", "verdict"),
    [
        (True, 8.0, Verdict.BROKEN),
        (True, 30.0, Verdict.BROKEN),
        (False, 8.0, Verdict.INVALID),
        (False, 30.0, Verdict.REGRESSED),
    ],
)
def test_a_log_that_is_not_read_to_its_end_is_the_brokers_doing(
    own: bool, outage_s: float, verdict: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unread = LogUnreadError("the final read did not reach the end of the log", np.zeros(0, RECEIPT))
    written = replace(outage_of(outage_s), log=np.zeros(0, RECEIPT))
    found = a_round(written, tmp_path, monkeypatch, own=own, read=unread)
    assert judged(found) is verdict
    assert found.failover is not None
    assert not found.failover.integrity["lost"], "what was not read is not known to be lost"
    assert "lost_records" not in found.metrics


@pytest.mark.parametrize(
    ("kept_s", "own", "verdict"),
    [
        (70.0, True, Verdict.BROKEN),
        (70.0, False, Verdict.INVALID),
        (10.0, True, Verdict.INVALID),
    ],
)
def test_locks_that_are_never_given_back_are_the_brokers_doing(
    kept_s: float, own: bool, verdict: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member kept records for more than twice the 30 s of their lock, and nobody else was given them."""
    written, row = history(down=False), FaultScenario.of(ROW, Fault(kind="consumer-slow", hold_s=15))
    (receipts,) = written.receipts
    accepts = np.zeros(len(receipts), ACCEPT)
    for name in ("at", "offset", "partition"):
        accepts[name] = receipts[name]
    accepts["at"][:10] += kept_s
    found = a_round(replace(written, accepts=[accepts]), tmp_path, monkeypatch, own=own, row=row)
    assert judged(found, row=row) is verdict
    assert "no record was delivered again" in found.invalid[0]


@pytest.mark.parametrize(
    ("own", "sent", "verdict"),
    [
        (True, True, Verdict.BROKEN),
        (False, True, Verdict.INVALID),
        (True, False, Verdict.INVALID),
    ],
)
def test_a_partition_that_takes_nothing_before_the_fault_is_broken(
    own: bool, sent: bool, verdict: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two records in 10 s do not say what is normal; where a thousand were sent they say enough."""
    written = history(down=False)
    (sends,), (outcomes,) = (rows.copy() for rows in written.sends), (rows.copy() for rows in written.outcomes)
    for rows in (sends, outcomes)[sent:]:
        waits = (rows["partition"] == 0) & (rows["at"] >= START) & (rows["at"] < FAULT)
        rows["at"][waits] = FAULT + 1
    found = a_round(replace(written, sends=[sends], outcomes=[outcomes]), tmp_path, monkeypatch, own=own)
    assert "do not say what is normal" in found.invalid[0]
    assert judged(found) is verdict


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (SendsFailedError("no commit", attempted=5, failed=0, code="UNKNOWN_SERVER_ERROR"), BrokersFailedError),
        (LoadError("the generator process ended"), TargetError),
    ],
)
def test_sends_that_all_fail_in_a_fault_are_the_brokers_doing(
    error: LoadError, raised: type[TargetError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script(_scene: Scene) -> None:
        raise error

    with pytest.raises(TargetError) as caught:
        a_round(history(), tmp_path, monkeypatch, script=script)
    assert type(caught.value) is raised


def test_a_controllers_log_that_cannot_be_read_takes_no_outage_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Mock()
    faults.changes.side_effect = TargetError("one of Kafka's tools took more than 60 s")
    changed, doubts = module._changes(faults, "topic")
    assert changed is None
    found = a_round(outage_of(30.0), tmp_path, monkeypatch, finish=doubts)
    assert judged(found) is Verdict.REGRESSED
    assert judged(a_round(history(), tmp_path, monkeypatch, finish=doubts)) is Verdict.INVALID


STATE = State(at=0.0, leaders=(1,), in_sync=((1,),), replicas=((1, 2, 3),), brokers=(1, 2, 3))


def test_replicas_that_never_get_in_sync_again_are_the_brokers_doing(clock: Clock) -> None:
    scene: Any = Scene(ROW, Mock(allowed=()), Mock(follow_until=clock.until), Mock(last=STATE, states=[STATE]))
    with pytest.raises(BrokersFailedError, match="all replicas are in sync after node 1 came back") as caught:
        scene.bring_back(1)
    assert caught.value.perhaps_late


@pytest.mark.parametrize(
    ("own", "before", "verdict"),
    [
        (True, history(), Verdict.BROKEN),
        (True, outage_of(30.0), Verdict.BROKEN),
        (False, history(), Verdict.INVALID),
        (False, outage_of(30.0), Verdict.REGRESSED),
    ],
)
def test_brokers_that_do_not_get_well_again_are_broken_and_the_rounds_before_count(
    own: bool, before: Written, verdict: Verdict
) -> None:
    bench = MagicMock()
    bench.round_trips.return_value = {}
    never = BrokersFailedError("all replicas are in sync: not so within 90 s", perhaps_late=True)
    bench.fault_round.side_effect = [one_fault(before), never]
    setup: Any = MagicMock()
    setup.warm_bench.return_value, setup.target.dedicated = bench, own
    setup.engine.latency_basis.return_value, setup.engine.by_hand.return_value = "intended-send", ""
    row = replace(ROW, fault=replace(ROW.fault, repeats=3))
    (taken,) = measure_faults(setup, [row], "run")
    assert judge_scenario(taken, None).verdict is verdict


HELD = profile(threshold("recovery_s", 1.5, 0.5, name="kill-leader"))


@pytest.mark.parametrize("slow", [30.0, None])
@pytest.mark.parametrize(
    ("good", "bad", "verdict"),
    [
        (1, 1, Verdict.INCONCLUSIVE),
        (2, 2, Verdict.REGRESSED),
        (2, 3, Verdict.REGRESSED),
        (0, 1, Verdict.REGRESSED),
        (1, 2, Verdict.REGRESSED),
    ],
)
def test_a_recovery_that_never_came_is_no_better_than_a_long_one(
    good: int, bad: int, slow: float | None, verdict: Verdict
) -> None:
    """Two of four rounds that took 30 s were red, two that never recovered in doubt."""
    (one,) = measured(faulty(kind="stop-leader"), history(down=False)).rounds
    others = {name: value for name, value in one.metrics.items() if name != "recovery_s"}
    values = [1.4] * good + [slow] * bad
    found = [
        replace(one, index=i, metrics=others if value is None else {**others, "recovery_s": value})
        for i, value in enumerate(values, 1)
    ]
    taken = Measurement(scenario=faulty(kind="stop-leader"), rounds=tuple(found), rtt_ms={})
    assert judge_scenario(taken, HELD).verdict is verdict


def test_a_latency_that_was_sent_late_in_one_round_is_judged_in_the_others() -> None:
    (one,) = measured(faulty(), history()).rounds
    late = Doubt(kind=LATE, whose="load", text="sent late", offset=149.0, metrics=("latency_after_ms",))

    def verdict(*after: tuple[float, bool]) -> Verdict:
        found = [
            flawed(
                one,
                index=i,
                metrics={**one.metrics, "latency_after_ms.p99": p99_ms},
                invalid_metrics={"latency_after_ms": "sent late"} if spoilt else {},
                doubts=(late,) if spoilt else (),
            )
            for i, (p99_ms, spoilt) in enumerate(after, 1)
        ]
        held = profile(threshold("latency_after_ms.p99", 10.0, 0.5, name="kill-leader"))
        return judge_scenario(Measurement(scenario=faulty(), rounds=tuple(found), rtt_ms={}), held).verdict

    assert verdict((10, False), (10, True)) is Verdict.INVALID
    assert verdict((150, True)) is Verdict.INVALID, "without the 149 ms it is 1 ms"
    assert verdict((400, False), (400, False), (160, True)) is Verdict.REGRESSED
    assert verdict((400, True)) is Verdict.REGRESSED


@pytest.mark.parametrize(("every", "verdict"), [(400, Verdict.INCONCLUSIVE), (10, Verdict.REGRESSED)])
def test_many_sends_that_time_out_are_red(every: int, verdict: Verdict) -> None:
    """They are tried for 120 s where service should be back after 1 s; whatever their number, they were in doubt."""
    written = history(down=False)
    (outcomes,) = (rows.copy() for rows in written.outcomes)
    outcomes["error"][(outcomes["at"] >= FAULT) & (outcomes["sequence"] % every < 2)] = -192
    row = replace(faulty(kind="slow-follower"), load=Load(kind="paced", rate=RATE))
    taken = measured(row, replace(written, outcomes=[outcomes]))
    (one,) = taken.rounds
    taken = replace(taken, rounds=(replace(one, metrics={**one.metrics, "rate_recovery_s": 1.0}),))
    assert judge_scenario(taken, None).verdict is verdict


def test_noise_explains_no_loss_of_what_is_better_when_higher() -> None:
    """A reach of more than the whole let any loss of a rate pass as chance."""
    row = scenario("kill-leader")
    held = replace(threshold("catch_up_records_per_s", 1000.0, 0.1, name=row.name, reach=0.9), spread=0.4, runs=5)
    (one,) = measured(faulty(), history()).rounds
    slow = replace(one, metrics={**one.metrics, "catch_up_records_per_s": 20.0})
    taken = Measurement(scenario=faulty(), rounds=(slow,), rtt_ms={})
    assert judge_scenario(taken, profile(held)).verdict is Verdict.REGRESSED


@pytest.mark.parametrize("kind", ["stop-leader", "slow-follower", "rolling-restart"])
def test_slow_brokers_before_a_fault_do_not_make_a_long_outage_green(kind: str) -> None:
    """An outage of 6 s was REGRESSED where the p99 before it was 10 ms, and PASS where it was 400 ms."""
    row = replace(faulty(), fault=replace(faulty().fault, kind=kind))
    quick, slow = expected_outage(row, 0.01), expected_outage(row, 0.7)
    assert quick.high_s < 6 < slow.high_s, "slow brokers may need that long"
    assert quick.sure_s is None
    assert slow.sure_s is not None
    assert slow.sure_s < 6, "and nobody knows that it is well"
    assert expected_outage(row, 0.2).sure_s is None, "a slow machine is no fault of the brokers"
