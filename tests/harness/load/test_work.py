"""Consumers that work: how long they take, what counts as worked off, pauses, and their lag over time."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.load.consuming import Reader, Work
from perfgate.load.engine import CATCH_UP_S, _drained_s
from perfgate.load.processes import lag_of
from perfgate.load.schedule import Window
from perfgate.measure.setup import cannot_work
from perfgate.model import ClusterSpec, Consumers, Fault, FaultScenario, Load, Scenario, settings
from perfgate.model.changes import read_value, with_changes
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.load.librdkafka import KafkaInstructions
from perfgate.systems.kafka.load.official import inexpressible
from tests.harness.build import scenario
from tests.harness.build.generators import SPEC, observer, processes
from tests.harness.load.test_clients import READS, Shelf, values

CONSTANT = {"ms": 2.0, "sigma": 0.0, "per": "record", "pauses": False, "seed": 1}
GROUP = Consumers(membership="group", processes=2, threads=2, work_ms=2.0)
PACED = replace(scenario(), load=Load(kind="paced", rate=1_000), consumers=GROUP)


@pytest.mark.parametrize(
    ("changes", "records", "seconds"),
    [
        ({}, 0, 0.0),
        ({}, 1, 0.002),
        ({}, 500, 1.0),
        ({"per": "batch"}, 0, 0.0),
        ({"per": "batch"}, 1, 0.002),
        ({"per": "batch"}, 500, 0.002),
    ],
)
def test_constant_work_takes_as_long_as_declared(changes: dict[str, Any], records: int, seconds: float) -> None:
    assert Work({**CONSTANT, **changes}, 0).takes_s(records) == pytest.approx(seconds)


@given(st.floats(0.01, 100), st.floats(0.1, 1.0), st.integers(0, 1000))
def test_lognormal_work_has_the_declared_mean_and_scatters_as_declared(ms: float, sigma: float, seed: int) -> None:
    spec = {**CONSTANT, "ms": ms, "sigma": sigma, "seed": seed}
    work, again = Work(spec, 3), Work(spec, 3)
    drawn = np.array([work.takes_s(1) for _ in range(2_000)])
    assert drawn.mean() == pytest.approx(ms / 1e3, rel=6 * math.sqrt(math.exp(sigma**2) - 1) / math.sqrt(2_000))
    assert np.log(drawn).std() == pytest.approx(sigma, rel=0.15)
    assert again.takes_s(1) == drawn[0], "by seed"
    assert Work(spec, 4).takes_s(1) != drawn[0], "each client its own"


def reading(work: dict[str, Any], hurry: threading.Event | None = None) -> tuple[Reader, Shelf, threading.Thread]:
    """Return a reader that works on a batch of three records, and runs."""
    client = Shelf(([(0, n, value) for n, value in enumerate(values(3))], 12.0))
    one = Reader({**READS, "laps": False}, 0, Window(), client, threading.Event(), work=Work(work, 0), hurry=hurry)
    thread = threading.Thread(target=one.run, args=(0.0,), daemon=True)
    thread.start()
    return one, client, thread


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_what_was_received_is_done_once_it_was_worked_on() -> None:
    hurry = threading.Event()
    one, _, thread = reading({**CONSTANT, "ms": 60_000.0}, hurry)
    until(lambda: one.result()["received"] == 3)
    assert one.progress()["done"] == 0
    assert one.result()["received"] == 3
    hurry.set()  # the load is over: what is left is only read
    until(lambda: one.progress()["done"] == 3)
    one.stop()
    thread.join()


def test_a_reader_that_is_stopped_stops_working() -> None:
    one, client, thread = reading({**CONSTANT, "ms": 60_000.0})
    until(lambda: one.result()["received"] == 3)
    one.stop()
    thread.join(20)
    assert not thread.is_alive()
    assert client.closed


@pytest.mark.parametrize(("pauses", "ms", "rests"), [(True, 6e4, [True, False]), (True, 1.0, []), (False, 6e4, [])])
def test_one_that_pauses_goes_on_polling_while_it_works_for_long(pauses: bool, ms: float, rests: list[bool]) -> None:
    hurry = threading.Event()
    one, client, thread = reading({**CONSTANT, "ms": ms, "pauses": pauses}, hurry)
    until(lambda: one.result()["received"] == 3)
    if ms > 1.0:
        polled = client.empty.wait(20.0 if pauses else 0.2)
        assert polled is pauses, "it asks for more meanwhile, of which it gets nothing"
        assert one.progress()["done"] == 0
        hurry.set()
    until(lambda: one.progress()["done"] == 3)
    assert client.rests == rests
    one.stop()
    thread.join()


@pytest.mark.parametrize(
    ("reports", "most", "growth", "kept"),
    [
        ([], 0.0, 0.0, 0),
        ([(9.0, 500.0), (12.0, 7.0)], 7.0, 0.0, 1),
        ([(10.0 + n / 10, 20.0 * n) for n in range(101)], 2000.0, 200.0, 20),
        ([(10.0 + n / 10, 5.0) for n in range(101)], 5.0, 0.0, 20),
        ([(10.0, 900.0), (15.0, 400.0), (20.0, 0.0)], 900.0, -90.0, 3),
    ],
)
def test_lag_is_of_the_window(reports: list[tuple[float, float]], most: float, growth: float, kept: int) -> None:
    found = lag_of(reports, 10.0, 20.0, None)
    assert found.most == most
    assert found.growth_per_s == pytest.approx(growth, abs=1e-6)
    assert len(found.over_time) == pytest.approx(kept, abs=1)


def test_lag_is_what_producers_have_done_and_each_group_has_not() -> None:
    with processes("consumer-1", "producer-1", groups=2) as (generators, heard):
        for name, done in (("consumer-1", 1_500), ("producer-1", 1_000)):
            heard(name, {"event": "progress", "at": 5.0, "attempted": done, "done": done, "failed": 0})
        generators.listen_until(time.monotonic() + 0.3, "measuring", observer([]))
        lag = generators.lag(0.0, 10.0, 1.5)
    assert (lag.most, lag.drained_s) == (250.0, 1.5)


def test_those_that_can_keep_up_are_waited_for_and_those_that_cannot_are_not() -> None:
    generators = Mock(done=lambda _: 4_000, wait_for_done=Mock(return_value=True))
    assert _drained_s(generators, PACED, "consumer", 6_000, Mock()) == pytest.approx(0.0, abs=1.0)
    (_, due, most_s, _), _ = generators.wait_for_done.call_args
    assert (due, most_s) == (6_000, CATCH_UP_S + 2.0)
    generators.wait_for_done.return_value = False
    assert _drained_s(generators, PACED, "consumer", 6_000, Mock()) is None
    generators.wait_for_done.reset_mock()
    assert (
        _drained_s(generators, replace(PACED, load=Load(kind="paced", rate=2_001)), "consumer", 6_000, Mock()) is None
    )
    assert not generators.wait_for_done.called


@pytest.mark.parametrize(
    ("consumers", "takes", "behind"),
    [
        (GROUP, 2_000.0, 0.0),
        (replace(GROUP, work_ms=4.0), 1_000.0, 0.0),
        (replace(GROUP, work_ms=5.0), 800.0, 200.0),
        (replace(GROUP, work_ms=500.0, work_per="batch"), 4_000.0, 0.0),
        (replace(GROUP, work_ms=5_000.0, work_per="batch"), 400.0, 600.0),
        (replace(GROUP, work_ms=0.0), math.inf, 0.0),
    ],
)
def test_whether_they_keep_up_follows_from_the_declaration(consumers: Consumers, takes: float, behind: float) -> None:
    row = replace(PACED, consumers=consumers)
    assert consumers.takes_per_s == takes
    assert row.falls_behind_per_s == pytest.approx(behind)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (PACED, ""),
        (scenario(), ""),
        (replace(PACED, consumers=None), ""),
        (replace(PACED, load=Load(kind="capped", rate=1_000)), "needs a paced load, whose lag is known"),
        (replace(PACED, load=Load(kind="backlog", records=9)), "this one is backlog"),
        (replace(PACED, load=Load(kind="ramp", rate=1_000)), "this one is ramp"),
        (replace(PACED, consumers=replace(GROUP, membership="share")), "membership=group or assigned, not share"),
        (replace(PACED, consumers=replace(GROUP, membership="assigned")), ""),
        (replace(PACED, consumers=replace(GROUP, membership="assigned", commit_records=9)), "no others commit"),
        (replace(PACED, consumers=replace(GROUP, commit_records=9)), ""),
        (replace(PACED, consumers=replace(GROUP, work_ms=0.0, pauses=True)), "pauses needs consumers.work-ms"),
        (replace(PACED, consumers=replace(GROUP, work_ms=0.0, work_sigma=1.0)), "work-sigma needs consumers.work-ms"),
        (replace(PACED, consumers=replace(GROUP, work_ms=600.0)), "500 records may take 300 s, longer than max.poll"),
        (replace(PACED, consumers=replace(GROUP, work_ms=600.0, pauses=True)), ""),
        (replace(PACED, consumers=replace(GROUP, work_ms=600.0, work_per="batch")), ""),
        (
            replace(PACED, consumers=replace(GROUP, work_ms=2.0, config=settings({"max.poll.interval.ms": 1_000}))),
            "longer than max.poll.interval.ms allows (1 s)",
        ),
        (replace(PACED, cluster=ClusterSpec(system="pulsar")), "a subscription of Pulsar acknowledges each message"),
        (FaultScenario.of(PACED, Fault(kind="kill-leader")), ""),
        (
            FaultScenario.of(replace(PACED, consumers=replace(GROUP, work_ms=5.0)), Fault(kind="kill-leader")),
            "these fall behind by declaration",
        ),
    ],
)
def test_work_is_refused_where_it_means_nothing(row: Scenario, words: str) -> None:
    found = cannot_work(row)
    assert words in found
    assert bool(found) is bool(words)


def test_its_paths_are_those_of_the_declaration() -> None:
    changes = {
        "consumers.work-ms": "2.5",
        "consumers.work-sigma": 1,
        "consumers.work-per": "batch",
        "consumers.pauses": "true",
        "consumers.commit-records": 100,
    }
    changed = with_changes(PACED, changes.items()).consumers
    assert changed == replace(GROUP, work_ms=2.5, work_sigma=1.0, work_per="batch", pauses=True, commit_records=100)
    assert with_changes(replace(PACED, consumers=None), changes.items()).consumers is None
    for path, value in (("consumers.work-ms", -1), ("consumers.work-per", "hour"), ("consumers.pauses", "maybe")):
        with pytest.raises(ConfigurationError, match=path):
            read_value(path, value)


def test_what_clients_are_told() -> None:
    row = replace(PACED, consumers=replace(GROUP, work_sigma=0.5, commit_records=7))
    worker: Any = KafkaInstructions().consumers_of(replace(SPEC, scenario=row))["consumer-1"]
    assert worker["work"] == {**CONSTANT, "sigma": 0.5}
    assert worker["commit_records"] == 7
    assert worker["client"]["enable.auto.commit"] == "false", "it commits itself"
    row = replace(PACED, consumers=Consumers(membership="group"))
    idle: Any = KafkaInstructions().consumers_of(replace(SPEC, scenario=row))
    assert idle["consumer-1"]["work"] is None
    assert idle["consumer-1"]["client"]["enable.auto.commit"] == "true"


def test_official_tools_do_not_work() -> None:
    row = replace(scenario(), load=Load(kind="backlog", records=9), consumers=replace(GROUP, commit_records=7))
    assert "commit" in (inexpressible(row) or "")
