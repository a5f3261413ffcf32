"""CPU over the time of a window: what the parts of it add up to is what the window as a whole says."""

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.measure.shaped import cores as cores_of
from perfgate.metrics.usage import LEAST_APART_S, CounterSampler, Usage, broker_metrics, of_gauges, of_looks, of_scrapes
from tests.harness.build.clock import Clock

GAPS = st.lists(st.floats(0.01, 3), min_size=1, max_size=12)
CORES = st.floats(0, 4)


def usage(at: float, cpu_s: float) -> Usage:
    return Usage(at=at, cpu_s=cpu_s, rss_bytes=1, written_bytes=0)


@given(gaps=GAPS, cores=st.lists(CORES, min_size=12, max_size=12))
def test_the_parts_add_up_to_the_window(gaps: list[float], cores: list[float]) -> None:
    at, cpu_s, looks = 100.0, 7.0, [{1: usage(100.0, 7.0)}]
    for gap, used in zip(gaps, cores, strict=False):
        at, cpu_s = at + gap, cpu_s + gap * used
        looks.append({1: usage(at, cpu_s)})
    steps = of_looks(looks)["1"]
    begins = [0.0, *(end for end, _ in steps)]
    spent = sum(value * (end - begin) for begin, (end, value) in zip(begins, steps, strict=False))
    whole = broker_metrics([(looks[0], looks[-1])], 1.0)["broker_cpu_cores.1"]
    assert begins[-1] == pytest.approx(at - 100.0, abs=0.01)
    assert spent == pytest.approx(whole * (at - 100.0), abs=0.02 + 0.1 * len(steps))
    assert len(steps) == 1 or all(end - begin >= LEAST_APART_S - 0.02 for begin, end in itertools.pairwise(begins))


def test_a_broker_that_comes_later_or_goes_is_told_as_far_as_it_was_seen() -> None:
    looks = [{1: usage(0, 0), 2: usage(0, 0)}, {1: usage(1, 0.5)}, {1: usage(2, 1.5), 2: usage(2, 1), 3: usage(2, 1)}]
    assert of_looks(looks) == {"1": ((1, 0.5), (2, 1.0)), "2": ((2, 0.5),)}


def test_scrapes_of_several_series_add_up_and_a_counter_may_begin_again() -> None:
    series = {1: [[(10.0, 1.0), (12.0, 2.0), (14.0, 0.5)], [(10.0, 0.0), (12.0, 1.0), (14.0, 2.0)]]}
    assert of_scrapes(series, 9.0) == {"1": ((3, 1.0), (5, 0.75))}
    assert of_gauges({1: [[(10, 0.25)], [(10, 0.5)]]}, 9.0) == {"1": ((1, 0.75),)}


def test_a_pods_containers_are_read_one_by_one_and_add_up() -> None:
    """Each has the moments of its own readings: of 2 cores beside 0.1 a phase had 1.2."""
    broker = [(at, 2.0 * at) for at in (10.0, 20.0, 30.0, 40.0)]
    sidecar = [(at, 0.1 * at) for at in (15.0, 25.0, 35.0)]
    parts = of_scrapes({1: [broker, sidecar, []]}, 10.0)
    assert parts == {"1": tuple((at, 2.1) for at in (10, 15, 20, 25, 30))}
    assert cores_of(parts, 0.0, 30.0) == pytest.approx(2.1)


def test_between_two_windows_nobody_looks(clock: Clock) -> None:
    clock.now, asked = 0.0, []

    def read() -> Mapping[int, Usage]:
        asked.append(clock.now)
        return {1: usage(clock.now, clock.now / 2)}

    sampler = CounterSampler(read, [1], why_missing="-")
    sampler.glance()
    sampler.edge()
    for clock.now in (0.4, 1.0, 1.4, 2.1, 3.0):
        sampler.glance()
    sampler.edge()
    clock.now = 9.0
    sampler.glance()
    assert asked == [0.0, 1.0, 2.1, 3.0]
    assert sampler.over_time() == {"1": ((1.0, 0.5), (2.1, 0.5), (3.0, 0.5))}
    sampler.edge()
    clock.now = 9.2
    sampler.edge()
    assert sampler.over_time() == {"1": ((0.2, 0.5),)}, "of the last window alone"


def test_a_look_that_takes_long_is_no_glance(clock: Clock) -> None:
    """Docker's engine takes a second: begun just before a window closes, it made that edge a second late."""
    clock.now, asked = 0.0, []

    def read() -> Mapping[int, Usage]:
        asked.append(clock.now)
        clock.now += 1.0
        return {1: usage(clock.now, clock.now / 2)}

    sampler = CounterSampler(read, [1], why_missing="-", elsewhere=True)
    sampler.edge()
    clock.now = 9.5
    sampler.glance()
    clock.now = 10.0
    sampler.edge(10.0)
    assert asked == [0.0, 10.0]
    assert sampler.over_time() == {"1": ((10.0, 0.5),)}
