"""Removing containers, also those that a killed run left, on a stand-in for the Docker engine's interface."""

import math
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import docker
import docker.errors
import pytest
from docker.models.containers import ContainerCollection

from perfgate.host.docker_engine import OWNER, remove_leftovers
from perfgate.host.journal import mark_of_this_process
from perfgate.model import ClusterSpec
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.managed.containers import ContainersCluster, ContainersTarget
from perfgate.systems.kafka.managed.own_cluster import KafkaTarget
from tests.harness.build.docker import FakeDocker

HERE = mark_of_this_process().split("@", 2)[2]
DEAD = f"999999999@0@{HERE}"
"""Mark of a process of this machine that has ended."""


@pytest.fixture
def cluster(fake_docker: FakeDocker) -> ContainersCluster:
    """Return one whose brokers run, and whose logs cannot be written."""
    made = ContainersCluster(ClusterSpec(), logs=Path("/dev/full"), toxiproxy_image=None)
    engine_s = Mock(logs=Mock(return_value=b"log"))
    made.supervisor.nodes = {node: Mock(get_wrapped_container=Mock(return_value=engine_s)) for node in (1, 2, 3)}
    return made


def inspect_container(identifier: str) -> Mapping[str, Any]:
    if identifier == "gone":
        raise docker.errors.NotFound("No such container: gone")
    return {"Id": identifier, "Name": f"/{identifier}", "Config": {"Labels": {OWNER: DEAD}}}


def test_a_container_that_vanishes_while_they_are_listed_is_none_of_them() -> None:
    api = Mock(containers=Mock(return_value=[{"Id": "gone"}, {"Id": "left"}]), inspect_container=inspect_container)
    engine = Mock(containers=ContainerCollection(client=Mock(api=api)), networks=Mock(list=Mock(return_value=[])))
    assert remove_leftovers(engine) == ["left"]
    api.remove_container.assert_called_once_with("left", force=True, v=True)


def test_what_somebody_else_removes_just_now_is_none_of_them() -> None:
    """Ryuk does so right after a kill -9, and the next start ended with a traceback."""
    left = [Mock(labels={OWNER: DEAD}, attrs={"Labels": {OWNER: DEAD}}) for _ in range(3)]
    for one, name in zip(left, ("going", "left", "network"), strict=True):
        one.name = name
    left[0].remove.side_effect = docker.errors.APIError("removal of container going is already in progress")
    left[2].remove.side_effect = docker.errors.APIError("network has active endpoints")
    engine = Mock()
    engine.containers.list.return_value, engine.networks.list.return_value = left[:2], left[2:]
    assert remove_leftovers(engine) == ["left"]


def test_no_room_for_their_logs_keeps_no_container_from_its_end(cluster: ContainersCluster) -> None:
    """None was ended, and the next start found no room either."""
    nodes: dict[int, Any] = {**cluster.supervisor.nodes}
    cluster.close()
    assert [node.stop.call_count for node in nodes.values()] == [1, 1, 1]


def test_an_interruption_of_their_end_waits_until_all_have_ended(cluster: ContainersCluster) -> None:
    """Ctrl-C ended it after the first, and the others ran on."""
    nodes: dict[int, Any] = {**cluster.supervisor.nodes}
    nodes[1].stop.side_effect = lambda: os.kill(os.getpid(), signal.SIGINT)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            cluster.close()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert [node.stop.call_count for node in nodes.values()] == [1, 1, 1]


class OfMocks(KafkaTarget[Any]):
    """Starts clusters that need nothing."""

    kind = "of mocks"

    def check_room(self, at_a_time: float, in_all: float) -> None: ...

    def prepare(self, specs: Iterable[ClusterSpec]) -> None: ...

    def _maker(self, spec: ClusterSpec, logs: Path) -> Callable[[], Any]:
        return lambda: Mock(spec=["start", "close", "spec"])


def test_a_cluster_whose_end_was_broken_off_is_ended_by_the_next_close(tmp_path: Path) -> None:
    """It was forgotten before it had ended: the run's end closed nothing."""
    target = OfMocks(log_folder=tmp_path, say=print)
    both = target.cluster(ClusterSpec()), target.beside(ClusterSpec())
    for one in both:
        one.close.side_effect = [KeyboardInterrupt, None]
    with pytest.raises(KeyboardInterrupt):
        target.close()
    for _ in range(2):
        target.close()
    assert [one.close.call_count for one in both] == [2, 2]


def test_a_cluster_whose_end_failed_is_not_given_out_again(tmp_path: Path) -> None:
    """Its brokers were gone, and their scenarios would have been BROKEN."""
    target = OfMocks(log_folder=tmp_path, say=print)
    first, beside = target.cluster(ClusterSpec()), target.beside(ClusterSpec())
    first.spec, first.close.side_effect = ClusterSpec(), OSError("still there")
    with pytest.raises(OSError, match="still there"):
        target.close()
    assert beside.close.call_count == 1
    assert target.cluster(ClusterSpec()) is not first


def test_room_is_looked_for_once_what_was_left_is_removed(tmp_path: Path, fake_docker: FakeDocker) -> None:
    fake_docker.containers = {"left": {OWNER: DEAD}, "alive": {OWNER: mark_of_this_process()}}
    notes: list[str] = []
    target = ContainersTarget(log_folder=tmp_path, toxiproxy_image=None, say=notes.append, note=notes.append)
    with pytest.raises(ConfigurationError, match="too little disk"):
        target.check_room(math.inf, math.inf)
    assert notes == ["removed left, left by a run that was killed"]
    assert [*fake_docker.containers] == ["alive"]
