"""Removing what a killed run's containers left, on a stand-in for the Docker engine's interface."""

from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import docker
import docker.errors
import pytest
from docker.models.containers import ContainerCollection

from perfgate.systems.kafka.managed.container_cluster import OWNER
from perfgate.systems.kafka.managed.containers import remove_leftovers

DEAD = "999999999@0@nowhere"


@pytest.fixture(autouse=True)
def nobody_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfgate.systems.kafka.managed.containers.is_alive", lambda _mark: False)


def inspect_container(identifier: str) -> Mapping[str, Any]:
    if identifier == "gone":
        raise docker.errors.NotFound("No such container: gone")
    return {"Id": identifier, "Name": f"/{identifier}", "Config": {"Labels": {OWNER: DEAD}}}


def test_a_container_that_vanishes_while_they_are_listed_is_none_of_them() -> None:
    api = Mock(containers=Mock(return_value=[{"Id": "gone"}, {"Id": "left"}]), inspect_container=inspect_container)
    engine = Mock(containers=ContainerCollection(client=Mock(api=api)), networks=Mock(list=Mock(return_value=[])))
    assert remove_leftovers(engine) == ["left"]
    api.remove_container.assert_called_once_with("left", force=True, v=True)
