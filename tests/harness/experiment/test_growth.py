"""What time alone does to a load: growth that is known is found, and none where there is none to tell."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.experiment.faults.analysis import analyse
from perfgate.experiment.faults.growth import growth
from perfgate.experiment.faults.outage import Times
from perfgate.experiment.faults.recording import keep, recall
from perfgate.experiment.faults.written import NOTHING_DONE, Written
from perfgate.judge.rules import judge_scenario
from perfgate.model import Fault, FaultScenario, Measurement, Verdict
from perfgate.report.fault_tables import growth_notes
from tests.harness.experiment.test_failover import END, FAULT, START, faulty, history, one_fault

LASTS = 36.0


def going_on(*, p99: float = 1.0, cpu: float = 1.0, memory: float = 1.0) -> Written:
    """A load to which nothing is done for 36 s, whose figures grow in a straight line so many times."""
    written = history(down=False)
    (outcomes,) = written.outcomes
    outcomes = outcomes.copy()
    due = START + outcomes["sequence"] / written.rate

    def at(moments: Times, times: float) -> Times:
        return 1 + (times - 1) * np.clip((moments - FAULT) / LASTS, 0, 1)

    outcomes["at"] = due + 0.004 * at(due, p99)
    looks = np.arange(START, END, 0.5)
    spent, held = np.cumsum(0.25 * at(looks, cpu)), 1e9 * at(looks, memory)
    return replace(
        written,
        outcomes=[outcomes],
        marks=[(FAULT, NOTHING_DONE), (FAULT + LASTS, "the time is over")],
        cpu=[(float(t), {"1": float(s), "2": float(s)}) for t, s in zip(looks, spent, strict=True)],
        memory=[(float(t), {"1": float(m), "2": float(m)}) for t, m in zip(looks, held, strict=True)],
        states=written.states[:1],
    )


def taken(written: Written) -> Measurement:
    row = FaultScenario.of(faulty(), Fault(kind="time", hold_s=LASTS))
    return Measurement(scenario=row, rounds=(one_fault(written),), rtt_ms={})


def test_what_stays_as_it_is_has_grown_by_nothing() -> None:
    failover, metrics, _ = analyse(going_on())
    for name in ("p99_growth", "cpu_per_record_growth", "memory_growth"):
        assert metrics[name] == pytest.approx(1.0, abs=0.02)
    assert failover.phases == {"before": (-10, 0), "going on": (0, LASTS), "after": (LASTS, END - FAULT)}
    assert judge_scenario(taken(going_on()), None).verdict is Verdict.PASS


def test_what_grows_is_told_apart_from_what_does_not() -> None:
    # Three parts of 12 s: their middles lie two thirds of the way apart.
    metrics = analyse(going_on(p99=2.0, memory=1.5))[1]
    assert metrics["p99_growth"] == pytest.approx((1 + 5 / 6) / (1 + 1 / 6), rel=0.1)
    assert metrics["memory_growth"] == pytest.approx((1 + 5 / 12) / (1 + 1 / 12), rel=0.02)
    assert metrics["cpu_per_record_growth"] == pytest.approx(1.0, abs=0.02)
    metrics = analyse(going_on(cpu=2.0))[1]
    assert metrics["cpu_per_record_growth"] == pytest.approx((1 + 5 / 6) / (1 + 1 / 6), rel=0.05)


def test_only_a_load_to_which_nothing_was_done_grows() -> None:
    assert not [name for name in analyse(history())[1] if name.endswith("_growth")]


def test_its_history_gives_the_same_answer_again(tmp_path: Path) -> None:
    keep(tmp_path / "round.npz", going_on(memory=1.5))
    assert analyse(recall(tmp_path / "round.npz"))[1] == analyse(going_on(memory=1.5))[1]


def test_the_note_says_it_in_one_line() -> None:
    (note,) = growth_notes({"endurance-30m": taken(going_on(p99=2.0))})
    assert note.startswith("note: endurance-30m: end over start: p99 x 1.5")
    assert note.endswith("CPU per record x 1.00, memory x 1.00")


@given(
    start=st.floats(1, 1e6), times=st.floats(0.2, 5), count=st.integers(3, 40), bad=st.integers(0, 39), data=st.data()
)
def test_a_line_is_found_whatever_one_value_is(
    start: float, times: float, count: int, bad: int, data: st.DataObject
) -> None:
    line = np.geomspace(start, start * times, count)
    assert growth(line.tolist()) == pytest.approx(times, rel=1e-6)
    if count >= 10:
        line[bad % count] = data.draw(st.floats(1e-3, 1e9))
        assert growth(line.tolist()) == pytest.approx(times, rel=0.35)


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0], [1.0, 0.0, 1.0], [1.0, -1.0, 2.0]])
def test_too_few_values_and_such_as_cannot_be_make_no_line(values: list[float]) -> None:
    assert growth(values) is None
