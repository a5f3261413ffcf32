"""Shaped loads, mixed sizes and skewed keys on real Pulsar brokers: every record counted, and over time as it was."""

from dataclasses import replace
from pathlib import Path

import pytest

from perfgate.load.engine import SuiteEngine
from perfgate.load.instructions import Requests
from perfgate.measure.assembly import hottest
from perfgate.measure.shaped import not_reached, shape_figures
from perfgate.model import Consumers, with_changes
from perfgate.model.load import LoadSpec
from perfgate.systems.pulsar.load.libpulsar import PulsarInstructions
from tests.harness.build.second_way import recorded
from tests.harness.live.test_live_pulsar_load import BASE, PACED, Live, live, sent_of, sound

pytestmark = pytest.mark.slow
__all__ = ["live"]
READ = replace(BASE, load=PACED, consumers=Consumers(membership="assigned"))


class Journaling(PulsarInstructions):
    """Has every producer write down what becomes of each record."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def producers_of(self, spec: LoadSpec) -> Requests:
        return {name: {**one, "history": str(self._folder)} for name, one in super().producers_of(spec).items()}


def test_a_second_way_finds_the_same_over_time(live: Live, tmp_path: Path) -> None:
    scenario = with_changes(READ, [("load.shape", "spike:base=200,peak=1000,seconds=4,period=16")])
    shape, edges = scenario.load.shape, list[float]()
    assert shape
    with live.topic(scenario) as topic:
        spec = replace(live.spec(scenario, topic), window_s=shape.seconds)
        result = SuiteEngine(Journaling(tmp_path)).run(spec, replace(live.observer(topic), edge=edges.append))
        assert sum(live.ends(topic)) == sent_of(result).acked == sound(result.received).received
    over_time = sent_of(result).over_time
    assert over_time
    assert not_reached(shape, over_time) == {}
    figures, metrics = shape_figures(shape, over_time, result.window_late_s)
    again = recorded(tmp_path, 1, shape, edges[0] - result.warmup_s, edges[0])
    for second, p99 in enumerate(figures.p99_ms):
        low, high = again.p99_bounds_ms(second, second + 1) or (0.0, 0.0)
        assert p99 is not None
        assert low <= p99 <= high, f"second {second}"
    assert metrics["owed_records"] == pytest.approx(again.owed(shape), abs=3)


def test_records_of_several_sizes_are_whole(live: Live) -> None:
    """Consumers know each record's length from its number."""
    result = live.run(with_changes(READ, [("record.sizes", "values:100=70/1000=25/10000=4/100000=1")]))
    assert sound(result.received).received == sent_of(result).acked


def test_a_hot_key_makes_a_partition_hot(live: Live) -> None:
    scenario = with_changes(READ, [("record.keys", "hot:count=1000,share=0.7")])
    result = live.run(scenario)
    assert sound(result.received).received == sent_of(result).acked
    assert 0.75 < hottest(scenario, sent_of(result))["hottest_partition_share"] < 0.85
