"""Loads beside a scenario's: what may be declared, each as a scenario of its own, their paths and their metrics."""

from dataclasses import replace
from typing import Any

import pytest

from perfgate.model import Load, Part, Scenario, TopicSpec, metric_info, settings, with_changes
from perfgate.model.changes import beside_the_point
from perfgate.model.errors import ConfigurationError
from perfgate.report.results import recorded_measurement, scenario_entry
from tests.harness.build import measurement, scenario


def noisy(**changes: Any) -> Part:
    values: dict[str, Any] = {
        "name": "noisy",
        "topic": TopicSpec(partitions=2, replication_factor=3, count=4),
        "producer": settings({"acks": 1}),
        "record_bytes": 985,
        "load": Load(kind="capped", rate=1_000.0),
    }
    return Part(**{**values, **changes})


def beside(*parts: Part) -> Scenario:
    return replace(scenario(), beside=parts)


def test_each_load_is_a_scenario_of_its_own_and_counts_for_what_is_offered() -> None:
    two = beside(noisy(), noisy(name="other", producers=3))
    assert [part.name for part in two.parts] == [f"{two.name}-noisy", f"{two.name}-other"]
    assert (two.parts[0].topic.in_all, two.parts[1].producers) == (8, 3)
    assert all(not part.beside and part.cluster == two.cluster for part in two.parts)
    assert two.offered_bytes_per_s == pytest.approx(scenario().offered_bytes_per_s + 2 * 1_000 * 1_000 * 3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "producer"}, "its name must be small letters and digits, and none of producer, consumer"),
        ({"name": "two-words"}, "its name must be small letters"),
        ({"name": ""}, "its name must be small letters"),
        ({"load": Load(kind="backlog", records=5)}, "must be capped or paced"),
        ({"load": Load(kind="ramp", rate=5)}, "must be capped or paced"),
    ],
)
def test_what_cannot_run_beside_a_load_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        noisy(**changes)


def test_paths_change_every_load_beside_it() -> None:
    two = beside(noisy(), noisy(name="other"))
    changed = with_changes(two, [("beside.rate", "7"), ("beside.quota-mib-per-s", 2.5)])
    assert [(part.load.rate, part.load.capped, part.quota_mib_per_s) for part in changed.beside] == [(7, True, 2.5)] * 2
    assert with_changes(two, [("beside", "none")]).beside == ()
    assert beside_the_point(scenario(), "beside.rate") == "no load runs beside it"
    assert beside_the_point(two, "beside.rate") == ""
    with pytest.raises(ConfigurationError, match="is no load beside it; legal: none"):
        with_changes(two, [("beside", "another")])
    with pytest.raises(ConfigurationError, match="from 1 to 1,000"):
        with_changes(two, [("topic.count", 1_001)])


def test_its_metrics_are_those_of_a_load() -> None:
    info = metric_info("part.noisy.latency_ms.p99")
    assert info is not None
    assert (info.unit, info.better) == ("ms", "lower")
    assert "noisy" in info.label
    assert metric_info("part.noisy.broker_cpu_cores.sum") is None


def test_it_is_read_back_as_it_was_declared() -> None:
    declared = replace(
        measurement([1000.0]), scenario=beside(noisy(load=Load(kind="paced", rate=5), quota_mib_per_s=1))
    )
    read = recorded_measurement(scenario_entry(declared, None)).scenario
    assert read.beside == declared.scenario.beside
    assert read.beside[0].load.open_loop, "of the type of its kind"
