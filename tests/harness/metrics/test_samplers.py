"""Several samplers at once: who is believed, and what is said of what lacks."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import psutil
import pytest

from perfgate.metrics import process
from perfgate.metrics.prometheus_sampler import PrometheusSampler
from perfgate.metrics.samplers import Samplers
from perfgate.metrics.usage import CounterSampler, Looks, OverTime, Sampler
from perfgate.model import METRICS


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


def test_the_cpu_of_every_broker_is_read_before_the_threads_of_any(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look through the threads of three brokers takes 11 ms of CPU: the last one's own was read after most of it."""
    done = list[str]()

    class Noted(psutil.Process):
        def io_counters(self) -> Any:
            done.append("CPU")
            return super().io_counters()

    def threads(_pid: int) -> dict[int, float]:
        done.append("threads")
        return {1: 0.0}

    monkeypatch.setattr(psutil, "Process", Noted)
    monkeypatch.setattr(process, "compiling", threads)
    sampler = process.process_sampler(lambda: {1: os.getpid(), 2: os.getpid()})
    sampler.edge()
    assert done == ["CPU", "CPU", "threads", "threads"]
    done.clear()
    sampler.edge()
    sampler.glance()
    assert done == ["CPU", "CPU", "threads", "threads"], "no window is open"


def test_connections_are_read_at_an_edge_before_what_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of seven JVMs took so long that the generators, done at the edge, had ended with their connections."""
    read: list[str] = []

    def threads(_: int) -> dict[int, float]:
        read.append("threads")
        return {}

    def traffic(pids: Iterable[int]) -> dict[int, process.Traffic]:
        read.append("connections")
        return {pid: {7: (1, 2)} for pid in pids}

    monkeypatch.setattr(process, "compiling", threads)
    monkeypatch.setattr(process, "traffic_of", traffic)
    sampler = process.process_sampler(lambda: {1: os.getpid(), 2: os.getpid()})
    for _ in range(2):
        sampler.edge()
    assert read == ["connections", "threads", "threads"] * 2
    assert sampler.metrics(1.0, [0])["broker_network_in_mib_per_s"] == 0
