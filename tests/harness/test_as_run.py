"""What a run makes of a declared row: the options win where they were given, the row's own declaration elsewhere."""

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from fixtures.sources import as_run
from perfgate.model import DEFAULT_KAFKA_VERSION, ClusterSpec
from tests.harness.build import scenario

NOTHING: dict[str, Any] = {
    "kafka_version": "", "kafka_image": "", "controllers": 0, "broker_cpus": 0.0, "broker_memory_mib": 0,
    "described": None, "overrides": (),
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
    found = as_run(replace(scenario(), cluster=declared), Mock(**{**NOTHING, **given}))
    assert (found.cluster.kafka_version, found.cluster.image) == (version, image)
