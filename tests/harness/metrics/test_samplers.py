"""Several samplers at once: who is believed, and what is said of what lacks."""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

import pytest

from perfgate.metrics.prometheus_sampler import PrometheusSampler
from perfgate.metrics.samplers import Samplers
from perfgate.metrics.usage import CounterSampler, Looks, OverTime, Sampler
from perfgate.model import METRICS
from tests.harness.run_gate import HANG_BOUND_S, ROOT


class Told:
    """A sampler that tells what it was given to tell."""

    read: Callable[[], Looks] | None = None
    why_missing = ""

    def __init__(self, metrics: Mapping[str, float], gives: Sequence[str] = (), unavailable: str = "") -> None:
        self.gives, self.unavailable, self._metrics, self.edges = gives or tuple(metrics), unavailable, metrics, 0
        self.glances = 0

    def edge(self, at: float | None = None) -> None:
        self.edges += 1

    def glance(self) -> None:
        self.glances += 1

    def over_time(self) -> OverTime:
        return {"1": ((1.0, 0.5),)} if "broker_cpu_cores.sum" in self._metrics else {}

    def metrics(self, records_per_s: float, windows: Sequence[int]) -> dict[str, float]:
        return dict(self._metrics)


def together(*samplers: Told) -> Samplers:
    both = Samplers(samplers)
    both.edge()
    both.glance()
    assert all(one.edges and one.glances for one in samplers)
    return both


def test_the_first_that_knows_a_metric_is_believed() -> None:
    both = together(Told({"broker_cpu_cores.sum": 1.0}), Told({"broker_cpu_cores.sum": 2.0, "isr_shrinks": 3.0}))
    assert both.gives == ("broker_cpu_cores.sum", "isr_shrinks")
    assert both.metrics(1.0, [-1]) == {"broker_cpu_cores.sum": 1.0, "isr_shrinks": 3.0}
    assert not both.unavailable
    assert together(Told({}), Told({"broker_cpu_cores.sum": 2.0})).over_time() == {"1": ((1.0, 0.5),)}


def test_what_one_does_not_know_another_may() -> None:
    blind = Told({}, gives=("broker_cpu_cores.sum",), unavailable="2 scrapes")
    both = together(blind, Told({"broker_cpu_cores.sum": 2.0}))
    assert both.metrics(1.0, [-1]) == {"broker_cpu_cores.sum": 2.0}
    assert not both.unavailable, "nothing lacks"
    both = together(blind, Told({"isr_shrinks": 2.0}))
    assert both.metrics(1.0, [-1]) == {"isr_shrinks": 2.0}
    assert both.unavailable == "2 scrapes"


def test_none_says_why() -> None:
    none: Sampler = Samplers((), "no [prometheus]")
    none.edge()
    assert (none.metrics(1.0, [-1]), none.unavailable, none.read) == ({}, "no [prometheus]", None)
    assert none.over_time() == {}


def test_a_sampler_gives_what_is_a_metric() -> None:
    assert {*CounterSampler.gives, *PrometheusSampler.gives} <= set(METRICS)


READ_OF_PROC = """
import os, sys
from perfgate.metrics.process import process_sampler

WHAT = {f"/proc/{os.getpid()}/{name}": what for name, what in (("io", "CPU"), ("fd", "traffic"), ("task", "threads"))}
read = []

def heard(event, given):
    if event in ("open", "os.listdir", "os.scandir") and (what := WHAT.get(str(given[0]))):
        read.append(what)

sampler = process_sampler(lambda: {1: os.getpid(), 2: os.getpid()})
sys.addaudithook(heard)
for look in (sampler.edge, sampler.edge, sampler.glance, sampler.read):
    look()
    print(*read)
    read.clear()
"""


@pytest.fixture(scope="module")
def read_of_proc() -> list[str]:
    """What the looks at two brokers read of /proc, in their order: of two edges, a glance, and the use at a moment."""
    command = [sys.executable, "-c", READ_OF_PROC]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_BOUND_S, check=True)
    return done.stdout.splitlines()


def test_the_cpu_of_every_broker_is_read_before_the_threads_of_any(read_of_proc: list[str]) -> None:
    """To look through the threads of three brokers takes 11 ms of CPU: the last one's own was read after most of it."""
    *edges, glance, moment = read_of_proc
    assert [edge.replace("traffic ", "") for edge in edges] == ["CPU CPU threads threads"] * 2
    assert glance == "", "no window is open"
    assert moment == "CPU CPU threads threads"


def test_connections_are_read_at_an_edge_before_what_takes_long(read_of_proc: list[str]) -> None:
    """Threads of seven JVMs took so long that the generators, done at the edge, had ended with their connections."""
    assert read_of_proc[:2] == ["CPU CPU traffic traffic threads threads"] * 2
