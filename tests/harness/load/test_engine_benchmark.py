"""The rounds of benchmarks/load_engine.py and pulsar_engine.py, on topics that are noted alone."""

from typing import Any
from unittest.mock import Mock

import pytest

from benchmarks import load_engine, pulsar_engine
from benchmarks.load_engine import Bench, Measure, Point, of_process
from perfgate.model import Scenario
from perfgate.model.load import LoadError, LoadSpec, Observer

CASES = [case for module in (load_engine, pulsar_engine) for case in module.CASES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.cluster.system}-{case.name}")
def test_each_tool_is_measured_in_each_round_and_no_topic_stays(case: Scenario) -> None:
    there, measured = list[str](), list[tuple[str, str]]()
    cluster: Any = Mock(prefix="kpg-", bootstrap=lambda _link: "here:1")
    cluster.topics.return_value.create = lambda name, _spec: there.append(name)
    cluster.topics.return_value.delete = lambda name, _count: there.remove(name)
    engine: Any = Mock()

    def tool(name: str) -> Measure:
        def measure(spec: LoadSpec, _observer: Observer) -> Point:
            assert spec.topic in there
            measured.append((name, spec.topic))
            return Point(records_per_s=1000.0, cpu_us_per_record=4.0, rss_mib=60.0)

        return measure

    bench = Bench(cluster, engine, {name: tool(name) for name in ("own", "other")}, window_s=1.0)
    points = bench.run({"own": case, "other": case}, 3)
    assert {name: len(own) for name, own in points.items()} == {"own": 3, "other": 3}, "the first round does not count"
    assert len(measured) == 8
    assert there == []
    topics = {topic for _, topic in measured}
    if case.load.sends:
        assert len(topics) == 8
        assert not engine.fill.called
    else:
        assert len(topics) == engine.fill.call_count == 1
        assert bench.lasting(case).load.records >= case.load.records
        assert there == []


def test_a_program_that_sends_nothing_is_an_error_with_its_last_words() -> None:
    observer: Any = Mock(written=lambda: 0)
    with pytest.raises(LoadError, match="sh sent nothing; exit code 3: no brokers"):
        of_process(["sh", "-c", "echo no brokers; exit 3"], Mock(), observer)
