"""The clusters of a run, as run.json tells of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

from perfgate.measure.plan import at_most
from perfgate.measure.setup import Setup
from perfgate.model import Change, Consumers, Fault, FaultScenario, Tier
from tests.harness.build import scenario

TIER = Tier(name="smoke", rounds=3, window_s=1.0, warmup_max_s=1.0, broker_warmup_s=1.0)


def cluster(version: str) -> Any:
    return Mock(facts=lambda: {"kind": "embedded", "name": "embedded", "kafka_version": version, "ready_s": 5.0})


def a_setup(**given: Any) -> Setup:
    return Setup(
        tier=TIER,
        driver=Mock(),
        engine=Mock(),
        target=Mock(),
        scenarios=[],
        run_id="r",
        histories=Path(),
        say=Mock(),
        sampler=Mock(),
        **given,
    )


def test_every_cluster_keeps_its_own_facts() -> None:
    """They were one table, in which the last cluster's, or the first's, stood for all."""
    setup = a_setup(target_facts={"kind": "embedded", "kafka_version": "4.3.1"})
    first = setup.begun(cluster("4.3.1"), [scenario("batch-1k"), scenario("acks-all")])
    first["warm_up"] = {"batch-1k": []}
    setup.begun(cluster("3.9.1"), [scenario("old")])
    setup.begun(cluster("4.3.1"), [scenario("batch-1k")], again=True)
    found: Any = setup.target_facts
    assert [(c["kafka_version"], c["scenarios"], c["second_look"]) for c in found["clusters"]] == [
        ("4.3.1", ["acks-all", "batch-1k"], False),
        ("3.9.1", ["old"], False),
        ("4.3.1", ["batch-1k"], True),
    ]
    assert "warm_up" in found["clusters"][0]
    assert "warm_up" not in found["clusters"][2]
    assert found["kafka_version"] == "4.3.1", "the run as a whole goes by the first"


def test_the_candidates_brokers_never_stand_for_the_run() -> None:
    """Where the order was drawn as BA, run.json said that the candidate's version was the run's."""
    setup = a_setup()
    setup.begun(cluster("4.3.1"), [scenario("batch-1k-candidate")], candidate=True)
    setup.begun(cluster("3.9.1"), [scenario("batch-1k")])
    found: Any = setup.target_facts
    assert found["kafka_version"] == "3.9.1"
    assert [c["kafka_version"] for c in found["clusters"]] == ["4.3.1", "3.9.1"]


def test_a_round_with_a_fault_has_one_group() -> None:
    faulty = FaultScenario.of(scenario(), Fault(kind="client-crash"))
    several = replace(faulty, consumers=Consumers(membership="assigned", groups=2))
    assert "to one group of consumers; the scenario has several" in str(a_setup().cannot(several))


def test_a_candidate_keeps_the_limits_of_the_target_too() -> None:
    """A change of the rate, or of the records' size, would have gone past what the file allows."""
    setup = a_setup(limited=lambda row: at_most(row, 1039 * 100))  # 1,024 B, and 15 of the record format
    faster = setup.form(scenario(), Change(name="faster", changes=(("load.rate", 1e6),)))
    assert faster.load.rate == 100
    larger = setup.form(scenario(), Change(name="larger", changes=(("record.bytes", 10 * 1039 - 15),)))
    assert larger.load.rate == 10
