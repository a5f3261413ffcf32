"""A share group with a slow member: what was delivered again, and that each record was accepted once."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfgate.judge.faults.expectation import expected_outage, expected_receiving
from perfgate.judge.scenario_case import judge_scenario
from perfgate.load.history import ACCEPT
from perfgate.measure.faults.analysis import analyse
from perfgate.measure.faults.flaws import not_redelivered
from perfgate.measure.faults.history import Written, keep, recall
from perfgate.measure.faults.reading import DUE_S
from perfgate.model import Fault, FaultScenario, Measurement, Verdict, record_lock_s, settings
from perfgate.model.load import FAILED
from perfgate.systems.kafka.load.clib import OFFSET_INVALID
from tests.harness.build.faults import END, FAULT, RATE, faulty, history, one_fault

AGAIN = 7
"""So many records were with the slow member for too long, and were given to another."""


def shared(*, over: int = 0, without: int = 0, refused: bool = True, unheard: bool = False) -> Written:
    """A member keeps AGAIN records from the fault on for too long; another is given and accepts them.

    `over` of them had been accepted by then, `without` others are accepted by nobody. `refused`: the slow member is
    told that it came too late. `unheard`: the last second's are accepted by nobody either.
    """
    written = history(down=False)
    (receipts,) = written.receipts
    kept = receipts[receipts["at"] >= FAULT][:AGAIN]
    again, accepts, late = kept.copy(), np.zeros(len(receipts), ACCEPT), np.zeros(len(kept), ACCEPT)
    again["at"] += 2
    for rows, of in ((accepts, receipts), (late, kept)):
        rows["at"], rows["offset"], rows["partition"] = of["at"] + 0.1, of["offset"], of["partition"]
    late["at"], late["error"] = kept["at"] + 4, 121 if refused else 0  # INVALID_RECORD_STATE
    accepts["at"][np.isin(receipts["sequence"], kept["sequence"][over:])] += 2
    missing = np.zeros(len(accepts), bool)
    missing[int((FAULT - written.start) * RATE) - 100 :][:without] = True
    if unheard:
        missing |= receipts["at"] > END - 1
    return replace(
        written,
        receipts=[receipts, again],
        accepts=[accepts[~missing], late],
        marks=[(FAULT, "slow consumer 1 down"), (FAULT + 15, "consumer 1 as before")],
        states=written.states[:1],
    )


ROW = FaultScenario.of(faulty(), Fault(kind="consumer-slow", hold_s=15))


def verdict(written: Written) -> Verdict:
    return judge_scenario(Measurement(scenario=ROW, rounds=(one_fault(written, 1),), rtt_ms={}), None).verdict


def test_deliveries_and_acceptances_are_counted() -> None:
    _, metrics, _ = analyse(shared())
    records = (END - 100) * RATE
    assert metrics["delivered_records"] == records + AGAIN
    assert metrics["redelivered_records"] == AGAIN
    assert metrics["late_accepts_records"] == AGAIN
    assert metrics["accepted_records"] == records
    assert metrics["given_after_accepted_records"] == metrics["unaccepted_records"] == 0
    assert analyse(shared(refused=False))[1] == metrics, "an acceptance that is too late need not be refused"


def test_what_the_end_of_the_load_left_unaccepted_is_nobodys_fault() -> None:
    assert DUE_S > 1
    _, metrics, _ = analyse(shared(unheard=True))
    assert metrics["accepted_records"] < (END - 100) * RATE
    assert metrics["unaccepted_records"] == 0


def test_no_share_group_has_no_such_figures() -> None:
    _, metrics, _ = analyse(history())
    assert "accepted_records" not in metrics


@pytest.mark.parametrize(
    ("written", "verdict_of"),
    [
        (shared(), Verdict.PASS),
        (shared(over=1), Verdict.REGRESSED),
        (shared(without=1), Verdict.REGRESSED),
    ],
    ids=["once", "again", "never"],
)
def test_a_record_that_is_given_after_its_acceptance_or_never_accepted_is_red(
    written: Written, verdict_of: Verdict
) -> None:
    assert verdict(written) is verdict_of


@pytest.mark.parametrize("written", [shared(), history()], ids=["share group", "group"])
def test_records_whose_offsets_no_broker_reports_are_not_called_ungiven(written: Written) -> None:
    """With acks=0, where each partition counted as a record that no member was given, or had accepted: red."""
    outcomes = written.outcomes[0].copy()
    outcomes["offset"] = OFFSET_INVALID
    unplaced = replace(written, outcomes=[outcomes])
    metrics = analyse(unplaced)[1]
    assert metrics.get("missed_records", 0) == metrics.get("unaccepted_records", 0) == 0
    assert not written.accepts or verdict(unplaced) is Verdict.PASS


def test_a_member_that_was_not_slow_enough_says_nothing() -> None:
    quick = history(down=False)
    outages, _ = not_redelivered(ROW, quick, {"redelivered_records": 0.0})
    assert "the slow consumer kept none for longer" in outages.text
    assert outages.kind != FAILED
    assert not_redelivered(ROW, quick, {"redelivered_records": 3.0}) == ()
    assert not_redelivered(faulty(), quick, {"redelivered_records": 0.0}) == ()


def test_the_lock_is_what_the_brokers_settings_say() -> None:
    short = settings({"group.share.record.lock.duration.ms": 2000})
    assert (record_lock_s(ROW), record_lock_s(replace(ROW, cluster=replace(ROW.cluster, config=short)))) == (30, 2)
    assert "locks last 30 s" in expected_receiving(ROW, expected_outage(ROW)).why


def test_acceptances_are_kept_and_older_histories_have_none(tmp_path: Path) -> None:
    keep(tmp_path / "new.npz", shared())
    assert analyse(recall(tmp_path / "new.npz"))[1] == analyse(shared())[1]
    keep(tmp_path / "old.npz", history())
    with np.load(tmp_path / "old.npz") as kept:
        older = {name: kept[name] for name in kept.files}
    older["facts"] = np.array(str(older["facts"]).replace(', "accepts": 0', ""))
    np.savez_compressed(tmp_path / "older.npz", **older)
    assert recall(tmp_path / "older.npz").accepts == []
