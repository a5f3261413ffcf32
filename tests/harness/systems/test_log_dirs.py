"""Brokers with several log folders: where these lie, and that real brokers are not asked for them."""

from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.catalogue.kafka import SCENARIOS
from perfgate.model import ClusterSpec
from perfgate.systems.kafka.attached.limits import beyond
from perfgate.systems.kafka.managed.brokers import FIRST_CONTROLLER, broker_ids, log_dirs, node_settings


@given(st.integers(1, 16), st.integers(1, 5))
def test_every_broker_has_folders_of_its_own(folders: int, brokers: int) -> None:
    spec = ClusterSpec(brokers=brokers, log_dirs=folders)
    found = [Path(at) for node in broker_ids(spec) for at in log_dirs(spec, node, f"/data/broker-{node}")]
    assert len(set(found)) == folders * brokers
    assert not any(one in other.parents for one in found for other in found), "none lies in another"


def test_a_controller_has_one_folder() -> None:
    spec = ClusterSpec(log_dirs=3, controllers=1)
    assert log_dirs(spec, FIRST_CONTROLLER, "/data") == ["/data"]


@pytest.mark.parametrize(("folders", "told"), [(1, "/data"), (2, "/data/disk-1,/data/disk-2")])
def test_the_brokers_are_told_of_them(folders: int, told: str) -> None:
    at = {"CONTROLLER": "h:1", "IN": "h:2"}
    settings = node_settings(ClusterSpec(log_dirs=folders), 1, listeners=at, advertised=at, voters={}, log_dir="/data")
    assert settings["log.dirs"] == told


def test_real_brokers_keep_the_folders_that_they_have() -> None:
    (two,) = [row for row in SCENARIOS if row.name == "log-dirs-2"]
    assert "not this suite's to change" in str(beyond(Mock(partitions=300, bytes_per_s=1e9), two))
