"""A generator that is late or pauses in a round with a fault: what it makes unsure, and what it excuses."""

from dataclasses import replace

import pytest

from perfgate.judge.faults.rules import judge_fault
from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.faults.analysis import analyse
from perfgate.measure.faults.flaws import schedule_delay_s, spoilt_latencies
from perfgate.measure.faults.history import Written
from perfgate.model import Verdict
from perfgate.model.target import LoggedChange
from tests.harness.build import flawed, threshold
from tests.harness.build.faults import FAULT, START, faulty, history, measured


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
