"""Bursts on two clusters side by side: what the brokers of each used is that of its own turns."""

import time
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from perfgate.load.schedule import SIDES, timetable
from perfgate.measure.assembly import Finished, round_of
from perfgate.measure.ledger import WINDOWS, Ledger
from perfgate.measure.load_watch import LoadWatch
from perfgate.measure.sides import burst
from perfgate.metrics.usage import CounterSampler, Usage
from perfgate.model.errors import BrokersFailedError, TargetError
from perfgate.model.flaw import explained
from perfgate.model.load import Late, LoadResult, Observer, Pace, SendsFailedError
from perfgate.model.target import Meter
from tests.harness.build import accounting, load_result, scenario, sent
from tests.harness.build.clock import Clock

AT = Pace(gap_s=0.5, window_s=1.0, buffer_kib=1024)
READING_S = 0.1
BEGIN_S = 100.0


class Cluster:
    """Brokers that use one core from when their load may send until it closes, whose counters take 0.1 s to read."""

    def __init__(self, side: str, order: str, clock: Clock, ledger: Ledger) -> None:
        self._turns = [turn for turn in timetable(order, BEGIN_S, AT) if turn.side == side]
        self._clock, self.ledger = clock, ledger
        self.watch = LoadWatch(Mock(most_failed=1.0), ledger, Mock())
        self.topics = SimpleNamespace(ends=lambda *_: [], ends_after=lambda *_: [])
        self.engine = SimpleNamespace(take_turns=self.take_turns)

    def new_sampler(self) -> CounterSampler:
        return CounterSampler(self.read, [1], why_missing="")

    def read(self) -> dict[int, Usage]:
        now = self._clock.now
        used = sum(max(0.0, min(now, turn.closes) - turn.starts) for turn in self._turns)
        self._clock.now += READING_S
        return {1: Usage(at=now, cpu_s=used, rss_bytes=0, written_bytes=0)}

    def topic(self, *_: object) -> Any:
        return nullcontext("topic")

    def load_spec(self, *_: object) -> None:
        return None

    def take_turns(self, _specs: object, order: str, at: Pace, observer: Observer) -> Any:
        for turn in timetable(order, BEGIN_S, at)[2:]:
            for edge in (turn.opens, turn.closes):
                self._clock.now = max(self._clock.now, edge)
                observer.edge(edge)
        return dict.fromkeys(SIDES, replace(load_result(), sent=None)), {}

    def finished(self, _row: object, _index: int, *found: Any) -> dict[str, float]:
        _result, _before, _after, windows, sampler, _flaws = found
        return dict(sampler.metrics(1000.0, windows))


@pytest.mark.parametrize("order", ["ABBA", "BAAB", "ABBA BAAB"])
def test_brokers_cpu_on_a_pair_is_that_of_their_own_turns(clock: Clock, order: str) -> None:
    """The second cluster's was read when the first one's had been, 45 ms later (median, 2 busy cores), and was too low.

    Of six pairs of clusters that differed in nothing side B had 1 to 9 % less CPU per record in all (acks-all).
    """
    clock.now = BEGIN_S
    ledger = Ledger(now=clock.monotonic)
    clusters: Any = {side: Cluster(side, order, clock, ledger) for side in SIDES}
    done: Any = burst(clusters, dict.fromkeys(SIDES, scenario()), order, AT, 1, None, lambda observer: observer)
    for side in SIDES:
        assert done[side]["broker_cpu_cores.sum"] == pytest.approx(1.0), side
        assert done[side]["broker_cpu_us_per_record"] == pytest.approx(1000.0), side
    turns = len(order.replace(" ", ""))
    assert ledger.seconds()[WINDOWS] == pytest.approx(turns * AT.window_s, abs=turns * READING_S)


@pytest.mark.parametrize("order", ["ABBA", "BAAB"])
def test_brokers_cpu_on_the_same_ones_is_that_of_each_sides_turns(clock: Clock, order: str) -> None:
    clock.now = BEGIN_S
    only_a: Any = Cluster("A", order, clock, Ledger(now=clock.monotonic))
    both = dict.fromkeys(SIDES, scenario())
    done: Any = burst(dict.fromkeys(SIDES, only_a), both, order, AT, 1, None, lambda observer: observer)
    assert [done[side]["broker_cpu_cores.sum"] for side in SIDES] == pytest.approx([1.0, 0.0])


@pytest.mark.parametrize("two", [True, False])
def test_a_topic_that_its_brokers_cannot_keep_in_sync_is_of_their_side(two: bool) -> None:
    """On the same brokers it is of neither: chance made it this side's topic."""
    ledger = Ledger(now=time.monotonic)
    clusters: Any = {side: Cluster(side, "ABBA", Clock(), ledger) for side in SIDES}
    if not two:
        clusters["B"] = clusters["A"]

    def topic(row: Any, _observer: object) -> Any:
        if row.name == "candidate":
            raise BrokersFailedError("its replicas are not in sync", perhaps_late=True)
        return nullcontext("topic")

    for one in clusters.values():
        one.topic = topic
    sides = {"A": scenario(), "B": replace(scenario(), name="candidate")}
    with pytest.raises(BrokersFailedError) as failed:
        burst(clusters, sides, "ABBA", AT, 1, None, lambda observer: observer)
    assert failed.value.side == ("B" if two else "")


class Limited(Cluster):
    """Brokers with limits of their own, of a burst that ends so."""

    def __init__(self, ledger: Ledger, ends: Mapping[str, LoadResult] | SendsFailedError, most: float) -> None:
        super().__init__("A", "ABBA", Clock(), ledger)
        self.cluster = Mock(meter=Meter(most), most_failed=0.0)
        self.watch = LoadWatch(self.cluster, ledger, Mock())
        self._ends = ends

    def take_turns(self, *_: object) -> Any:
        if isinstance(self._ends, SendsFailedError):
            raise self._ends
        return self._ends, {}

    def finished(self, *_: object) -> Any:
        return "a round"


def held(ends: Mapping[str, LoadResult] | SendsFailedError, most: float, *, two: bool) -> tuple[list[str], list[float]]:
    """Return why the clusters that such a burst loaded were stopped, and how many bytes they were sent."""
    ledger, row = Ledger(), scenario()
    of_a, of_b = Limited(ledger, ends, most), Limited(ledger, ends, most)
    sides = {"A": row, "B": replace(row, topic=replace(row.topic, replication_factor=3))}
    benches: Any = {"A": of_a, "B": of_b if two else of_a}
    with suppress(TargetError):
        burst(benches, sides, "ABBA", AT, 1, None, lambda observer: observer)
    meters = [one.cluster.meter for one in dict.fromkeys(benches.values())]
    return [one.stopped for one in meters], [one._under_way / row.logged_bytes for one in meters]


def test_what_a_burst_did_last_is_held_against_the_limits_of_the_cluster_that_it_was_done_to() -> None:
    """No progress told of it: the next burst loaded brokers that had just lost what they were sent."""
    fine = load_result(sent=sent(attempted=3000, acked=3000))
    failing = load_result(sent=sent(attempted=3000, acked=2000, failed={"_MSG_TIMED_OUT": 1000}))
    assert held({"A": fine, "B": fine}, 1e9, two=False) == ([""], [3000 + 3 * 3000])
    assert held({"A": fine, "B": fine}, 1e9, two=True) == (["", ""], [3000, 3 * 3000])
    (reason,), _ = held({"A": fine, "B": failing}, 1e9, two=False)
    assert "1000 of 6000 sends failed: _MSG_TIMED_OUT" in reason
    (of_a, of_b), _ = held({"A": fine, "B": failing}, 1e9, two=True)
    assert (of_a, "1000 of 3000 sends failed" in of_b) == ("", True)
    (of_a, of_b), _ = held({"A": fine, "B": fine}, 6000 * scenario().logged_bytes, two=True)
    assert (of_a, "[limits] bytes allows" in of_b) == ("", True)
    (reason,), _ = held(SendsFailedError("none was taken", attempted=5, failed=5), 1e9, two=False)
    assert "5 of 5 sends failed: none was taken" in reason


@pytest.mark.parametrize(("late", "factors"), [("B", {"A": 2.0, "B": 1.0}), ("A", {"A": 1.0, "B": 2.0})])
def test_turns_that_were_outlasted_explain_no_loss_of_the_side_that_did(late: str, factors: dict[str, float]) -> None:
    """16 times slower brokers were INVALID after 4 min: their records were still under way in the other's turns."""
    ledger = Ledger(now=time.monotonic)
    bench: Any = Cluster("A", "ABBA", Clock(), ledger)
    result = {side: replace(load_result(), sent=None) for side in SIDES}
    bench.engine = SimpleNamespace(take_turns=lambda *_: (result, {late: Late(turns=2, of=2)}))

    def finished(_row: object, _index: int, *found: Any) -> Finished:
        one = round_of(1, load_result(sent=sent()), accounting(3000), {}, tuple(found[-1]), "")
        return Finished(round=one, repeatable=True)

    bench.finished = finished
    done = burst(dict.fromkeys(SIDES, bench), dict.fromkeys(SIDES, scenario()), "ABBA", AT, 1, None, lambda seen: seen)
    for side, factor in factors.items():
        assert explained(done[side].round.doubts, "records_per_s") == (factor, 0.0)
        assert explained(done[side].round.doubts, "latency_ms.p99") == (1.0, 1500.0 if factor > 1 else 0.0)
