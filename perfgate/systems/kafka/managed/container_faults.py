"""Faults of nodes that are containers, by the Docker engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import docker.errors
import requests
from docker.models.containers import Container

from perfgate.model.errors import TargetError
from perfgate.systems.kafka.managed.faults import LAST_WORDS, METADATA, QUORUM_STATE, NodeFaults, agreed_leader

CLASSPATH = "/opt/kafka/libs/*"


class ContainerFaults(NodeFaults):
    """See :class:`perfgate.model.nodes.Faults`. A broker is cut off by taking its container out of the network."""

    def __init__(
        self,
        containers: Callable[[], Mapping[int, Container]],
        network: Callable[[], Any],
        *,
        alias: Callable[[int], str],
        voters: Iterable[int],
        data: str,
        bootstrap: str,
    ) -> None:
        """`containers` by node; `alias`: what a node is called in the `network`; `data`: the log folder inside;
        `bootstrap`: the brokers as they are found there.
        """
        super().__init__(
            {
                "kill": self._does("killing the container of node {}", lambda one, _: one.kill()),
                "stop": self._does("stopping the container of node {}", lambda one, _: one.kill(signal="SIGTERM")),
                # Its ports are fixed, its data still there.
                "start": self._does("starting the container of node {}", lambda one, _: one.start()),
                "pause": self._does("pausing the container of node {}", lambda one, _: one.pause()),
                "resume": self._does("resuming the container of node {}", lambda one, _: one.unpause()),
                "cut-off": self._does("taking broker {} out of the network", lambda one, _: network().disconnect(one)),
                "heal": self._does(
                    "putting broker {} back into the network",
                    lambda one, node: network().connect(one, aliases=[alias(node)]),
                ),
            }
        )
        self._containers = containers
        self._voters, self._data, self._bootstrap = list(voters), data, bootstrap

    def _does(self, doing: str, act: Callable[[Container, int], None]) -> Callable[[int], None]:
        def do(node: int) -> None:
            with _told(doing.format(node)):
                act(self._containers()[node], node)

        return do

    def runs(self, node: int) -> bool:
        container = self._containers()[node]
        with _told(f"looking at the container of node {node}"):
            container.reload()
        return bool(container.attrs["State"]["Running"])

    def active_controller(self) -> int:
        """Return the leader that the voters' own files name."""
        return agreed_leader({node: self._state(node) for node in self._voters if node not in self.absent}, self.absent)

    def run_script(self, script: str, variables: Mapping[str, str]) -> str:
        """Run it in the active controller's container."""
        environment = {
            "java": "java",
            "classpath": CLASSPATH,
            "bootstrap": self._bootstrap,
            "metadata": f"{self._data}/{METADATA}",
            **variables,
        }
        with _told("running one of Kafka's tools in a container"):
            container = self._containers()[self.active_controller()]
            code, output = container.exec_run(["/bin/bash", "-c", script], environment=environment)
        assert isinstance(output, bytes)
        told = output.decode(errors="replace")
        if code:
            raise TargetError(f"one of Kafka's tools failed in a container: {told[-LAST_WORDS:]}")
        return told

    def _state(self, node: int) -> str:
        # Bash alone: an image need not have more.
        command = ["/bin/bash", "-c", f'echo "$(<{self._data}/{METADATA}/{QUORUM_STATE})"']
        with _told(f"reading who leads the controllers in node {node}"):
            code, output = self._containers()[node].exec_run(command)
        assert isinstance(output, bytes)
        return output.decode(errors="replace") if code == 0 else ""


@contextmanager
def _told(doing: str) -> Iterator[None]:
    try:
        yield
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise TargetError(f"{doing}: {error}") from None
