"""Settings that brokers change while they run: what is switched when, and what becomes of one that comes too late."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.measure.assembly import Finished
from perfgate.measure.parts import Compared, unhealthy_ends
from perfgate.measure.sides import Switch, live_values
from perfgate.model import Change, ClusterSpec, Settings, settings
from perfgate.model.errors import InterferedError
from perfgate.model.load import Observer
from perfgate.model.target import Cluster
from perfgate.systems.kafka.client.admin import steps
from tests.harness.build import one_round, scenario
from tests.harness.build.clock import Clock

VALUES = settings({"num.io.threads": 2})


@dataclass
class Brokers:
    """Stands in for the brokers' live settings, and writes down what is done to them."""

    fixed_names: tuple[str, ...] = ()
    reverted: bool = False
    took_s: Iterable[float] = field(default_factory=lambda: itertools.repeat(0.1))
    done: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._took_s = iter(self.took_s)

    def fixed(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self.fixed_names]

    def change(self, values: Settings) -> float:
        self.done.append(",".join(f"{name}={value}" for name, value in values))
        return next(self._took_s)

    def still(self, values: Settings) -> float:
        if self.reverted:
            raise InterferedError("somebody reverted the change")
        return 0.0

    def restore(self) -> float:
        self.done.append("restored")
        return next(self._took_s)


def cluster(brokers: Brokers, config: Settings = ()) -> Cluster:
    return cast(Cluster, SimpleNamespace(spec=ClusterSpec(config=config), live_settings=lambda: brokers))


def observer(edges: list[str]) -> Observer:
    return Observer(
        edge=lambda _at: edges.append("edge"), check=lambda: None, progress=lambda *_: None, written=lambda: 0
    )


@pytest.mark.parametrize(
    ("changes", "config", "live"),
    [
        ([("broker.num.io.threads", "2")], {}, True),
        ([("broker.num.io.threads", "2"), ("producer.linger.ms", "5")], {}, True),
        ([("broker.num.partitions", "2")], {}, False),
        ([("broker.num.io.threads", "2"), ("broker.num.partitions", "2")], {}, False),
        ([("broker.num.io.threads", "2"), ("cluster.version", "4.0.0")], {}, False),
        ([("broker.num.io.threads", "2")], {"num.io.threads": 4}, False),
        ([("broker.num.io.threads", "2")], {"num.network.threads": 4}, True),
        ([("producer.linger.ms", "5")], {}, False),
    ],
)
def test_only_what_brokers_change_while_they_run_is_switched(
    changes: list[tuple[str, str]], config: dict[str, object], live: bool
) -> None:
    found = live_values(
        Change(name="x", changes=tuple(changes)), cluster(Brokers(("num.partitions",)), settings(config))
    )
    assert found == (VALUES if live else None)


@given(st.lists(st.sampled_from(["ABBA", "BAAB"]), min_size=1, max_size=6))
def test_every_turn_is_measured_with_its_own_sides_settings(orders: list[str]) -> None:
    brokers, edges = Brokers(), list[str]()
    switch = Switch()
    switch.rehearse(brokers, VALUES)
    for order in orders:
        along = switch.along(order, observer(edges))
        for side in order:
            assert switch.sides == side, "before its window opens"
            along.edge(0.0)
            assert switch.sides == side, "while it is open"
            along.edge(0.0)
    assert len(edges) == 8 * len(orders)
    assert all(before != after for before, after in itertools.pairwise(brokers.done)), "nothing is set twice"


def test_without_a_rehearsal_nothing_is_touched() -> None:
    switch, edges = Switch(), list[str]()
    along = switch.along("ABBA", observer(edges))
    for _ in range(8):
        along.edge(0.0)
    assert (switch.sides, switch.slowest_s, len(edges)) == ("AB", 0.0, 8)


def test_a_change_that_somebody_reverted_was_not_measured() -> None:
    """An operator put the setting back while its side was loaded: both sides were the same, SAME."""
    brokers, switch = Brokers(), Switch()
    switch.rehearse(brokers, VALUES)
    switch.to("B")
    brokers.reverted = True
    with pytest.raises(InterferedError, match="somebody reverted the change"):
        switch.to("A")
    row = Compared(dict.fromkeys("AB", scenario()), "turns", 1)
    with unhealthy_ends([row], lambda: "AB", dedicated=False):
        raise InterferedError("somebody reverted the change")
    for (told,) in row.rounds.values():
        assert told.invalid == ("somebody reverted the change",)
        assert told.target_unhealthy is False, "nothing is wrong with the brokers"


def test_a_person_is_asked_for_nothing_before_the_first_change() -> None:
    brokers, switch = Brokers(), Switch()
    switch.rehearse(brokers, (), times=0)
    assert (brokers.done, switch.sides) == ([], "A")
    switch.to("A")
    assert brokers.done == [], "it was not asked to revert what was never applied"
    switch.to("B")
    assert len(brokers.done) == 1


def finished(**fields: Any) -> Finished:
    return Finished(round=one_round(1, 1000.0), **{"repeatable": False, **fields})


def test_a_change_that_took_longer_than_the_gap_is_measured_again() -> None:
    brokers = Brokers(took_s=[0.1, 0.1, 0.1, 0.1, 0.2, 0.9, 0.2, 0.1])
    switch = Switch()
    switch.rehearse(brokers, VALUES)
    along = switch.along("BAAB", observer([]))
    assert switch.in_time(finished(), 0.4) == finished(), "what happens before the first window has all its time"
    for _ in range(8):
        along.edge(0.0)
    late = switch.in_time(finished(), 0.4)
    assert late.repeatable
    assert late.round.invalid == ("the brokers took 0.90 s to take the change, more than the 0.40 s between turns",)
    assert switch.slowest_s == 0.9, "the next gaps follow"
    switch.along("BAAB", observer([]))
    assert not switch.in_time(finished(), 0.4).repeatable, "each burst by itself"


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_a_pool_of_threads_gets_there_in_steps_that_kafka_takes(now: int, wanted: int) -> None:
    way = [now, *map(int, steps(str(now), str(wanted))), wanted]
    assert all(before // 2 <= after <= 2 * before for before, after in itertools.pairwise(way))
    assert all(min(now, wanted) <= size <= max(2 * wanted, now) for size in way)
    assert len(way) <= 20


@pytest.mark.parametrize(
    ("now", "wanted"), [("8", "8"), ("8", "16"), ("8", "4"), ("gzip", "zstd"), ("0", "9"), ("9", "")]
)
def test_what_is_near_or_no_number_has_no_steps(now: str, wanted: str) -> None:
    assert list(steps(now, wanted)) == []


@pytest.mark.parametrize(("late_s", "spoilt"), [(0.0, False), (0.3, False), (0.6, True)])
def test_a_change_that_began_late_is_not_in_time_either(late_s: float, spoilt: bool, clock: Clock) -> None:
    """A busy machine: counters were read for so long that the next side was measured with the other one's settings."""
    clock.now = 0.0
    reading_s = [0.0, late_s, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]

    def read(_at: float) -> None:
        clock.now += reading_s.pop(0)

    switch = Switch()
    switch.rehearse(Brokers(took_s=itertools.repeat(0.0)), VALUES)
    along = switch.along("ABBA", replace(observer([]), edge=read), turn_s=1.4)
    for turn in range(4):
        for moment in (1.4 * turn, 1.4 * turn + 1.0):
            clock.now = max(clock.now, moment)
            along.edge(moment)
    found = switch.in_time(finished(), 0.4)
    assert found.repeatable is spoilt
    assert found.round.invalid == (
        ("a change was made 0.20 s after the window of the turn that it is for had opened",) if spoilt else ()
    )
    switch.along("BAAB", observer([]), turn_s=1.4)
    assert switch.in_time(finished(), 0.4) == finished(), "the next burst begins anew"
