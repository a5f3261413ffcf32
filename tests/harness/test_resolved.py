"""Resolving a scenario for a run: options win where they were given, its own declaration elsewhere."""

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from fixtures.selection import resolved
from perfgate.model import DEFAULT_KAFKA_VERSION, ClusterSpec
from tests.harness.build import relation, scenario

NOTHING: dict[str, Any] = {
    "kafka_version": "", "kafka_image": "", "controllers": 0, "broker_cpus": 0.0, "broker_memory_mib": 0,
    "described": None, "overrides": (), "relations": (),
}  # fmt: skip
OLD = ClusterSpec(kafka_version="3.9.1", image="kafka:old")


@pytest.mark.parametrize(
    ("declared", "given", "version", "image"),
    [
        (ClusterSpec(), {}, DEFAULT_KAFKA_VERSION, ""),
        (OLD, {}, "3.9.1", "kafka:old"),
        (OLD, {"kafka_version": "4.0.0"}, "4.0.0", ""),
        (OLD, {"kafka_version": "4.0.0", "kafka_image": "mine"}, "4.0.0", "mine"),
        (OLD, {"kafka_image": "mine"}, "3.9.1", "mine"),
        (ClusterSpec(), {"kafka_version": "4.0.0"}, "4.0.0", ""),
    ],
)
def test_a_rows_own_kafka_is_what_is_measured_unless_another_is_asked_for(
    declared: ClusterSpec, given: dict[str, str], version: str, image: str
) -> None:
    found = resolved(replace(scenario(), cluster=declared), Mock(**{**NOTHING, **given}))
    assert (found.cluster.kafka_version, found.cluster.image) == (version, image)


def test_a_scenario_belongs_to_every_family_whose_relation_names_it() -> None:
    run = Mock(**{**NOTHING, "relations": (relation(2.0),)})
    assert resolved(scenario("slow"), run).families == (*scenario("slow").families, "family")
    assert resolved(scenario("other"), run).families == scenario("other").families


def test_overrides_come_last() -> None:
    run = Mock(**{**NOTHING, "kafka_version": "4.0.0", "overrides": (("cluster.version", "3.9.1"), ("load.rate", 5.0))})
    found = resolved(scenario(), run)
    assert (found.cluster.kafka_version, found.load.rate) == ("3.9.1", 5.0)
