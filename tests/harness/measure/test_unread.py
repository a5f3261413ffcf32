"""Consumers that stay away and catch up: from a history whose answer is known to metrics, notes and the verdict."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfgate.judge.scenario_case import judge_scenario
from perfgate.load.history import Rows
from perfgate.measure.faults.analysis import analyse
from perfgate.measure.faults.flaws import stayed
from perfgate.measure.faults.history import Written, keep, recall
from perfgate.model import Fault, FaultScenario, Measurement, Verdict
from perfgate.model.faults import READ_AGAIN
from perfgate.report.plots import fault_timeline_figure
from perfgate.report.terminal_tables import kind_notes
from tests.harness.build.faults import END, FAULT, RATE, faulty, history, one_fault

AWAY = 20.0
READ_PER_S = 1_000.0
UNREAD = AWAY * RATE
DRAIN = UNREAD / (READ_PER_S - RATE)
"""While they read what waited, more is written."""


def away(*, read_per_s: float = READ_PER_S, again: bool = False) -> Written:
    """Nothing goes wrong with the brokers; the consumers are given nothing for 20 s, then so many records a second.

    `again`: with a second group that reads on, 50 ms after each record was acknowledged.
    """
    written = history(down=False)
    (prompt,) = written.receipts
    late = prompt.copy()
    waiting = np.flatnonzero(late["at"] >= FAULT)
    late["at"][waiting] = np.maximum(late["at"][waiting], FAULT + AWAY + np.arange(len(waiting)) / read_per_s)
    others = prompt.copy()
    others["at"] += 0.05
    receipts: list[Rows] = [late, others] if again else [late]
    marks = [(FAULT, "consumers stop reading"), (FAULT + AWAY, READ_AGAIN)]
    return replace(written, receipts=receipts, marks=marks, groups=len(receipts), states=written.states[:1])


def taken(*written: Written) -> Measurement:
    row = FaultScenario.of(faulty(), Fault(kind="consumers-away", hold_s=AWAY))
    rounds = tuple(one_fault(one, index) for index, one in enumerate(written, start=1))
    return Measurement(scenario=row, rounds=rounds, rtt_ms={})


def test_what_was_unread_is_counted_and_so_is_the_time_to_read_it() -> None:
    failover, metrics, _ = analyse(away())
    assert metrics["unread_records"] == pytest.approx(UNREAD, rel=0.02)
    assert metrics["catch_up_s"] == pytest.approx(DRAIN, abs=0.3)
    assert metrics["catch_up_records_per_s"] == pytest.approx(READ_PER_S, rel=0.03)
    assert metrics["lag_drained_s"] == pytest.approx(AWAY + DRAIN, abs=0.5)
    assert metrics["receive_outage_s.max"] == pytest.approx(AWAY, abs=0.1)
    assert metrics["outage_s.max"] < 0.1, "those who send are served all the time"
    assert metrics["redelivered_records"] == 0
    assert failover.phases["unread"] == pytest.approx((0, AWAY))
    assert failover.phases["catching up"] == pytest.approx((AWAY, AWAY + DRAIN), abs=0.3)
    assert len(failover.unread) == pytest.approx(END - FAULT + 10, abs=2)
    assert max(failover.unread) == pytest.approx(UNREAD, rel=0.05)
    assert failover.unread[0] < RATE
    assert failover.unread[-1] < RATE


def test_consumers_that_catch_up_and_fall_behind_again_have_not_kept_up() -> None:
    """They had been up with the brokers once: what one partition lacked at the end was no tail to be counted."""
    written = away()
    (receipts,) = written.receipts
    since = FAULT + AWAY + DRAIN + 3
    behind = replace(written, receipts=[receipts[(receipts["partition"] != 0) | (receipts["at"] < since)]])
    metrics = analyse(behind)[1]
    assert "catch_up_s" in metrics
    assert "lag_drained_s" not in metrics
    assert judge_scenario(taken(written), None).verdict is Verdict.PASS
    outcome = judge_scenario(taken(behind), None)
    assert outcome.verdict in (Verdict.REGRESSED, Verdict.INCONCLUSIVE)
    assert any("had not caught up when the load ended" in one.reason for one in outcome.judgements)


def test_what_unread_records_cost_those_who_send_is_told_apart_from_the_catching_up() -> None:
    """That unread data slows nobody down is what is published; only the second of catching up had figures."""
    written = away()
    (outcomes,) = written.outcomes
    slower = outcomes.copy()
    due = written.start + slower["sequence"] / written.rate
    slower["at"] += np.where((due >= FAULT) & (due < FAULT + AWAY), 0.02, 0.0)
    metrics = analyse(replace(written, outcomes=[slower]))[1]
    assert metrics["latency_unread_ms.p99"] == pytest.approx(24.0, abs=0.5)
    assert metrics["latency_before_ms.p99"] == pytest.approx(4.0, abs=0.5)
    assert metrics["latency_during_ms.p99"] == pytest.approx(4.0, abs=0.5)
    (note,) = kind_notes({"backlog-60s": taken(replace(written, outcomes=[slower]))})
    assert "p99 of producers 4" in note
    assert " -> 24 with it unread -> 4" in note


def test_the_groups_that_stayed_are_told_apart_from_the_one_that_went() -> None:
    alone, beside = analyse(away())[1], analyse(away(again=True))[1]
    assert not [name for name in alone if name.startswith("end_to_end_")]
    for phase in ("before", "during", "after"):
        assert beside[f"end_to_end_{phase}_ms.p99"] == pytest.approx(55, abs=2)
    for name in ("unread_records", "catch_up_s", "receive_outage_s.max", "redelivered_records"):
        assert beside[name] == alone[name], "their receipts hide nothing"


@pytest.mark.parametrize(
    ("still", "verdict"),
    [((FAULT, FAULT + 3), Verdict.PASS), ((FAULT, FAULT + AWAY), Verdict.REGRESSED), ((0, END), Verdict.REGRESSED)],
)
def test_a_group_that_is_to_read_on_is_held_too(still: tuple[float, float], verdict: Verdict) -> None:
    """One that was given nothing, for the time that the first stays away or at all, was green."""
    written = away(again=True)
    first, others = written.receipts
    others = others[(others["at"] < still[0]) | (others["at"] >= still[1])]
    outcome = judge_scenario(taken(replace(written, receipts=[first, others])), None)
    assert outcome.verdict is verdict, outcome.reasons
    assert any("others_receive_outage_s.max" in reason for reason in outcome.reasons) is not verdict.green


def test_a_second_group_without_a_receipt_is_red_whatever_the_fault() -> None:
    written = history(down=False)
    (prompt,) = written.receipts
    none = replace(written, groups=2, receipts=[prompt, prompt[:0]])
    row = faulty(kind="kill-controller")
    assert (
        judge_scenario(Measurement(scenario=row, rounds=(one_fault(none),), rtt_ms={}), None).verdict
        is Verdict.REGRESSED
    )


def test_consumers_that_never_stayed_away_have_measured_nothing() -> None:
    row = taken().scenario
    assert isinstance(row, FaultScenario)
    written = away()
    read_on = replace(written, receipts=history(down=False).receipts)
    assert "the consumers did not stay away: 0.0 s" in stayed(row, analyse(read_on)[1])[0].text
    assert stayed(row, analyse(written)[1]) == ()
    assert stayed(faulty(), analyse(history(down=False))[1]) == (), "of another fault nothing is asked"


def test_those_who_never_catch_up_are_red() -> None:
    never = away(read_per_s=RATE / 2)
    assert "catch_up_s" not in analyse(never)[1]
    outcome = judge_scenario(taken(never), None)
    assert outcome.verdict is Verdict.REGRESSED
    assert "catch_up_s: in 1 of 1 rounds the consumers had not caught up" in " ".join(outcome.reasons)
    assert judge_scenario(taken(never, away()), None).verdict is Verdict.INCONCLUSIVE
    assert judge_scenario(taken(away()), None).verdict is Verdict.PASS


def test_consumers_that_lose_their_place_are_red_for_the_time_that_takes() -> None:
    written = away()
    late = written.receipts[0].copy()
    late["at"][late["at"] >= FAULT] += 12  # they stay away for longer than the scenario asks
    outcome = judge_scenario(taken(replace(written, receipts=[late])), None)
    assert outcome.verdict is Verdict.REGRESSED
    assert "receive_outage_s.max" in outcome.reasons[0]


def test_the_history_of_several_groups_is_kept_and_an_older_one_is_of_one(tmp_path: Path) -> None:
    path = tmp_path / "round.npz"
    keep(path, away(again=True))
    assert recall(path).groups == 2
    assert analyse(recall(path))[1] == analyse(away(again=True))[1]


def test_the_note_says_what_it_cost_whom() -> None:
    (note,) = kind_notes({"backlog-60s": taken(away(again=True))})
    assert note.startswith("note: backlog-60s: 3,9")
    assert "records unread, read in 5." in note
    assert "; p99 of producers 4" in note
    assert "; p99 of other groups 5" in note
    (never,) = kind_notes({"backlog-60s": taken(away(read_per_s=RATE / 2))})
    assert "not read to the end" in never
    assert kind_notes({"kill-leader": Measurement(scenario=faulty(), rounds=(), rtt_ms={})}) == []


def test_the_picture_has_the_unread_records_in_place_of_the_replicas() -> None:
    labels = [axes.get_ylabel() for axes in fault_timeline_figure("one", analyse(away())[0]).axes]
    assert "records\nunread" in labels
    assert not [label for label in labels if "in-sync" in label]
