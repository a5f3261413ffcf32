"""Growth of a load's figures with time alone: growth that is known is found, and none where there is none to tell."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.judge.faults.rules import THROUGHOUT, judge_fault
from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure import bench as benches
from perfgate.measure.faults.analysis import analyse
from perfgate.measure.faults.fault_round import fault_round
from perfgate.measure.faults.growth import grown, growth, growth_of_cores
from perfgate.measure.faults.history import Written, keep, recall
from perfgate.measure.faults.outage import Times
from perfgate.metrics.prometheus_sampler import PrometheusSampler
from perfgate.metrics.prometheus_source import PrometheusSource
from perfgate.metrics.samplers import Samplers
from perfgate.model import Fault, FaultScenario, Measurement, Verdict
from perfgate.model.errors import ConfigurationError
from perfgate.model.faults import NOTHING_DONE
from perfgate.model.load import LoadError
from perfgate.report.proposal import proposed
from perfgate.report.results import scenario_entry
from perfgate.report.terminal_tables import kind_notes
from tests.harness.build import threshold
from tests.harness.build.benches import bench_of
from tests.harness.build.faults import END, FAULT, START, faulty, history, one_fault
from tests.harness.build.generators import SPEC
from tests.harness.build.prometheus import SAME_CLOCK

LASTS = 36.0
LEVEL = threshold(THROUGHOUT, 5.0, tolerance=0.5, name="kill-leader")
UNKNOWN_LEVEL = f"{THROUGHOUT}: no threshold: whether it was slow throughout is not known"


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
    row = taken(going_on()).scenario
    assert isinstance(row, FaultScenario)
    assert judge_fault(row, taken(going_on()), [LEVEL]).verdict is Verdict.PASS


def test_what_is_slow_throughout_is_held_against_a_stored_figure_or_missing() -> None:
    """Four hours at ten times the latency were PASS: nothing grew."""
    slow = taken(going_on())
    (one,) = slow.rounds
    slow = replace(slow, rounds=(replace(one, metrics={**one.metrics, THROUGHOUT: 10 * LEVEL.baseline}),))
    row = slow.scenario
    assert isinstance(row, FaultScenario)
    outcome = judge_scenario(slow, None)
    assert outcome.verdict is Verdict.MISSING
    assert outcome.reasons == (UNKNOWN_LEVEL,)
    assert judge_fault(row, slow, [LEVEL]).verdict is Verdict.REGRESSED
    grew = judge_scenario(taken(going_on(memory=4.0)), None)
    assert grew.verdict is Verdict.REGRESSED, "and MISSING hides no growth"


def test_a_baseline_of_a_long_load_has_its_p99_from_beginning_to_end() -> None:
    measurement = taken(going_on())
    entry = {**scenario_entry(measurement, judge_scenario(measurement, None))}
    found = {one.metric for one in proposed([{"scenarios": [entry]}] * 5)}
    assert THROUGHOUT in found


def test_what_grows_is_told_apart_from_what_does_not() -> None:
    # Three parts of 12 s: their middles lie two thirds of the way apart.
    metrics = analyse(going_on(p99=2.0, memory=1.5))[1]
    assert metrics["p99_growth"] == pytest.approx((1 + 5 / 6) / (1 + 1 / 6), rel=0.1)
    assert metrics["memory_growth"] == pytest.approx((1 + 5 / 12) / (1 + 1 / 12), rel=0.02)
    assert metrics["cpu_per_record_growth"] == pytest.approx(1.0, abs=0.02)
    metrics = analyse(going_on(cpu=2.0))[1]
    assert metrics["cpu_per_record_growth"] == pytest.approx((1 + 5 / 6) / (1 + 1 / 6), rel=0.05)


def scraped(times: float, every_s: float = 5.0) -> dict[str, tuple[tuple[float, float], ...]]:
    """Return two brokers' cores as a Prometheus tells them, which grow so many times; their scrapes lie apart."""
    ends = {"1": np.arange(2.0, 600.0, every_s), "2": np.arange(0.5, 600.0, every_s)}
    return {b: tuple((float(t), 0.25 * (1 + (times - 1) * float(t) / 600)) for t in at) for b, at in ends.items()}


@given(times=st.floats(0.5, 4.0), every_s=st.floats(1.0, 15.0))
def test_the_growth_of_cores_is_told_by_scrapes(times: float, every_s: float) -> None:
    middles = [(1 + (times - 1) * share) for share in (0.5 / 30, 1 - 0.5 / 30)]
    found = growth_of_cores(scraped(times, every_s))
    assert found is not None
    assert found == pytest.approx(middles[1] / middles[0], rel=0.25), (
        "a line through logarithms, of one that is straight"
    )
    assert (found > 1.05) is (times > 1.06) or abs(times - 1.05) < 0.02
    assert growth_of_cores({}) is None
    assert growth_of_cores({"1": ((1.0, 0.5), (2.0, 0.5))}) is None


def test_a_source_that_tells_afterwards_is_asked_for_the_growth_of_a_long_load_alone() -> None:
    row, prometheus = taken(going_on()).scenario, Mock(read=None, over_time=lambda: scraped(2.0))
    assert isinstance(row, FaultScenario)
    assert grown(row, prometheus)["cpu_per_record_growth"] > 1.5
    assert grown(row, Mock(read=None, over_time=lambda: {})) == {}
    assert grown(faulty(), prometheus) == grown(row, Mock(over_time=lambda: scraped(2.0))) == {}


@pytest.mark.parametrize("absent", ["p99_growth", "cpu_per_record_growth", "memory_growth"])
def test_what_nobody_followed_is_not_green(absent: str) -> None:
    """One part of 30 without a look at a broker, and four hours in which memory leaked were PASS."""
    found = taken(going_on())
    (one,) = found.rounds
    rest = {name: value for name, value in one.metrics.items() if name != absent}
    outcome = judge_scenario(replace(found, rounds=(replace(one, metrics=rest),)), None)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert f"{absent}: was not told of every part of the time" in outcome.reasons[0]


def test_what_the_source_cannot_tell_is_said_and_not_held() -> None:
    found = taken(going_on())
    (one,) = found.rounds
    rest = {name: value for name, value in one.metrics.items() if name != "memory_growth"}
    untold = {"memory": "a Prometheus is asked for CPU"}
    outcome = judge_scenario(replace(found, rounds=(replace(one, metrics=rest, untold=untold),)), None)
    assert outcome.verdict is Verdict.MISSING
    assert outcome.reasons == (UNKNOWN_LEVEL, "memory_growth is not held: a Prometheus is asked for CPU")


def test_what_the_source_did_not_tell_this_time_is_not_green(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Prometheus was away at the end of four hours, and that the growth of CPU is unknown was a note beside PASS."""
    found = taken(going_on())
    (one,) = found.rounds
    without_cpu = {name: value for name, value in one.metrics.items() if name != "cpu_per_record_growth"}
    away = Mock(source=PrometheusSource(url="http://p"))
    away.look.return_value = SAME_CLOCK
    away.instant.side_effect = ConfigurationError("Prometheus http://p: no answer")
    sampler = Samplers([PrometheusSampler(away, {1: "one:9092"})])
    for at in (0.0, 10.0, 10.0, 10.0 + LASTS):
        sampler.edge(at)
    monkeypatch.setattr(benches, "fault_round", lambda *_: replace(one, metrics=without_cpu))
    cluster: Any = Mock(most_bytes_per_s=math.inf, most_read_bytes_per_s=math.inf)
    bench = bench_of(cluster, Mock(), sampler)
    bench.topics = MagicMock()
    row = found.scenario
    assert isinstance(row, FaultScenario)
    outcome = judge_scenario(replace(found, rounds=(bench.fault_round(row, 1, "round 1"),)), None)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    reason = "Prometheus http://p: no answer: whether it grew is not known"
    assert outcome.reasons == (f"cpu_per_record_growth: {reason}", UNKNOWN_LEVEL)


def test_only_a_load_to_which_nothing_was_done_grows() -> None:
    assert not [name for name in analyse(history())[1] if name.endswith("_growth")]


def test_its_history_gives_the_same_answer_again(tmp_path: Path) -> None:
    keep(tmp_path / "round.npz", going_on(memory=1.5))
    assert analyse(recall(tmp_path / "round.npz"))[1] == analyse(going_on(memory=1.5))[1]


def test_the_note_says_it_in_one_line() -> None:
    (note,) = kind_notes({"endurance-30m": taken(going_on(p99=2.0))})
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


@pytest.mark.parametrize(("kind", "edges"), [("time", 2), ("client-crash", 0)])
def test_what_time_alone_does_is_asked_of_a_window_of_its_own(kind: str, edges: int, tmp_path: Path) -> None:
    """Behind a Prometheus the growth of CPU is read from between these edges."""
    happened: list[str] = []

    def goes_on(until: float, doing: str) -> None:
        happened.append(doing)
        if doing == "after the fault":
            raise LoadError("seen enough")

    load, observer = MagicMock(), Mock()
    load.follow_until.side_effect = goes_on
    observer.edge.side_effect = lambda _at: happened.append("edge")
    engine, cluster, usage = MagicMock(), MagicMock(), MagicMock()
    engine.journaled.return_value.__enter__.return_value = load
    for entered in (engine.journaled.return_value, cluster.watch.return_value, usage):
        entered.__exit__.return_value = None
    row = FaultScenario.of(faulty(), Fault(kind=kind, hold_s=LASTS))
    spec = replace(SPEC, scenario=row)
    done = fault_round(row, cluster, Mock(), engine, spec, 1, observer, usage, tmp_path)
    assert done.invalid == ("seen enough",)
    before, during = happened[:3], happened[3:-1]
    assert before == ["edge", "before the fault", "edge"]
    assert during.count("edge") == edges
    assert edges == 0 or (during[0], during[-1]) == ("edge", "edge")
    assert len(during) > edges, "the load went on meanwhile"


@pytest.mark.parametrize("parts_before", [8, 15, 18, 22])
def test_a_step_grows_wherever_it_lies(parts_before: int) -> None:
    """Memory that doubled after 18 of 30 parts had grown by nothing: fewer than half of the pairs have a slope."""
    found = growth([1.0] * parts_before + [2.0] * (30 - parts_before))
    assert found is not None
    assert found >= 2.0
    bad = growth([1.0] * 29 + [9.0])
    assert bad == 1.0, "a single bad value is no step"


def test_few_parts_have_a_line_alone() -> None:
    assert growth([1.0, 1.0, 1.0, 1.0, 9.0]) == 1.0
