"""Shaped loads in a generator: laws of the schedule, and figures over time that a second way finds in the journal."""

import math
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.load.outcomes import Outcomes
from perfgate.load.schedule import Schedule, Window
from perfgate.load.shaped import ShapedSchedule
from perfgate.measure.shaped import shape_figures
from perfgate.model.histogram import encode, merged
from perfgate.model.load import OverTime
from perfgate.model.metrics import OWED, PHASE_LATENCY
from perfgate.model.shape import Shape, area, read_shape
from perfgate.systems.kafka.load.clib import MESSAGE
from tests.harness.build.clock import Clock
from tests.harness.build.second_way import recorded
from tests.harness.build.shapes import rate_at, records_by

START, OPENS, APART = 100.0, 102.5, 3
RATES = st.floats(0.5, 20_000)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    gaps = draw(st.lists(st.floats(0, 20), min_size=1, max_size=6))
    times = [0.0, *np.cumsum([*gaps, 1.0]).tolist()]
    return Shape(kind="points", points=tuple((moment, draw(RATES)) for moment in times))


@given(shapes(), st.integers(1, 5), st.data())
def test_records_are_due_in_order_and_by_their_time(shape: Shape, of: int, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, of - 1))
    schedule = ShapedSchedule(START, OPENS, shape.points, number, of)
    last = int(((OPENS - START) * shape.points[0][1] + area(shape.points)) / of) + 10
    index = data.draw(st.integers(0, last))
    at = schedule.due_at(index)
    assert at <= schedule.due_at(index + 1)
    assert schedule.due_by(at) > index >= schedule.due_by(math.nextafter(at, 0))
    assert schedule.due(np.array([index], np.uint64))[0] == at
    moment = data.draw(st.floats(START - 1, OPENS + shape.seconds + 5))
    count = schedule.due_by(moment)
    assert schedule.due_at(count) > moment
    assert not count or schedule.due_at(count - 1) <= moment


@given(RATES, st.integers(1, 4), st.integers(0, 100_000))
def test_a_flat_shape_is_the_constant_schedule(rate: float, of: int, index: int) -> None:
    points = ((0.0, rate), (10.0, rate), (10.0, rate), (30.0, rate))
    for number in range(of):
        shaped = ShapedSchedule(START, OPENS, points, number, of)
        flat = Schedule(START + number / rate, rate / of)
        assert shaped.due_at(index) == pytest.approx(flat.due_at(index), abs=1e-6)


@given(shapes(), st.integers(2, 4))
def test_producers_share_it_record_by_record(shape: Shape, of: int) -> None:
    whole = ShapedSchedule(START, OPENS, shape.points, 0, 1)
    shares = [ShapedSchedule(START, OPENS, shape.points, number, of) for number in range(of)]
    for moment in np.linspace(START, OPENS + shape.seconds, 7).tolist():
        assert sum(share.due_by(moment) for share in shares) == whole.due_by(moment)


def test_the_records_of_a_shape_are_its_area() -> None:
    shape = read_shape("load.shape", "spike:base=100,peak=500,seconds=10,period=40")
    schedule = ShapedSchedule(0.0, 0.0, shape.points, 0, 1)
    assert [schedule.due_by(at) - 1 for at in (7.5, 17.5, 40)] == [750, 5750, 8000]
    assert [records_by(shape, at) for at in (7.5, 17.5, 40)] == [750, 5750, 8000]


def test_a_record_counts_as_sent_in_the_tick_in_which_it_was_handed_over() -> None:
    """Not in that in which it was due, nor in that in which the client's call returned."""
    shape, window, clock = read_shape("load.shape", "ramp:from=50,to=900,seconds=12"), Window(), Clock()
    window.set(OPENS, OPENS + shape.seconds)
    told = {"points": shape.points, "phases": shape.phases}
    spec = {"topics": ["t"], "partitions": 1, "paced": True, "shape": told}
    client: Any = SimpleNamespace(failed=Counter[str](), PURGED=-1, TIMED_OUT=(-2,))
    outcomes = Outcomes(spec, 0, window, client, 1 << 10, clock=clock.monotonic)
    rows = np.zeros(2, MESSAGE)
    rows["private"] = [0, 1]
    outcomes.note_due(rows["private"], np.array([OPENS - 0.1, OPENS + 0.1]))
    clock.now = OPENS + 1.9
    outcomes.handed_over(rows, OPENS + 1.35)
    ticks = outcomes.counts()["sent_over_time"]
    assert {tick: sent for tick, sent in enumerate(ticks) if sent} == {13: 1}, "the other was due before the window"


@pytest.mark.parametrize(
    "text",
    [
        "spike:base=200,peak=1000,seconds=10,period=40",
        "wave:base=100,peak=700,period=20",
        "ramp:from=50,to=900,seconds=12",
    ],
)
def test_a_second_way_finds_the_same_in_the_journal(text: str, tmp_path: Path) -> None:
    """Two producers whose latencies grow with the rate and scatter; each record is journaled as it is counted."""
    shape, of, random = read_shape("load.shape", text), 2, np.random.default_rng(5)
    window, results, clock = Window(), [], Clock()
    window.set(OPENS, OPENS + shape.seconds)
    for number in range(of):
        spec = {
            "topics": ["t"],
            "partitions": 3,
            "paced": True,
            "history": str(tmp_path),
            "shape": {"points": shape.points, "phases": shape.phases},
        }
        client: Any = SimpleNamespace(failed=Counter[str](), PURGED=-1, TIMED_OUT=(-2,))
        outcomes = Outcomes(spec, number, window, client, 1 << 16, clock=clock.monotonic)
        schedule = ShapedSchedule(START, OPENS, shape.points, number, of)
        due = schedule.due(np.arange(schedule.due_by(window.closes - 1e-9), dtype=np.uint64))
        rates = np.array([rate_at(shape, at - OPENS) for at in due.tolist()])
        latency = random.lognormal(-7.0, 0.7, len(due)) * (1 + rates / 100)
        for first in range(0, len(due), 50):
            part = slice(first, first + 50)
            rows = np.zeros(len(due[part]), MESSAGE)
            rows["private"], rows["offset"] = np.arange(first, first + len(rows)), np.arange(first, first + len(rows))
            clock.now = moment = float(due[part][-1])
            outcomes.note_due(rows["private"], due[part])
            outcomes.hand_over(rows, 0, moment)
            outcomes.handed_over(rows, moment)
            outcomes.hear(rows, np.maximum(due[part] + latency[part], moment))
        outcomes.close()
        results.append(outcomes)
    counts = [one.counts() for one in results]
    columns = {name: np.sum([one[name] for one in counts], axis=0).tolist() for name in counts[0] if "over" in name}
    recorders = [one.recorders() for one in results]
    phases = {}
    for phase in shape.phases:
        texts = [encode(one[PHASE_LATENCY[phase]].histogram()) for one in recorders]
        phases[phase] = encode(merged(texts))
    found, metrics = shape_figures(
        shape,
        OverTime(
            sent=columns["sent_over_time"],
            acked=columns["acked_over_time"],
            latency=columns["latency_over_time"],
            phases=phases,
        ),
    )
    again = recorded(tmp_path, of, shape, START, OPENS)
    for second, p99 in enumerate(found.p99_ms):
        bounds = again.p99_bounds_ms(second, second + 1)
        assert bounds is not None
        assert p99 is not None
        assert bounds[0] <= p99 <= bounds[1]
    for phase, (begin, end) in shape.phases.items():
        low, high = again.p99_bounds_ms(begin, end) or (0, 0)
        assert low * (1 - 1e-3) <= metrics[f"{PHASE_LATENCY[phase]}.p99"] <= high
    assert metrics[OWED] == pytest.approx(again.owed(shape), abs=APART)
    assert sum(found.offered) == pytest.approx(len(again.due), abs=APART)
