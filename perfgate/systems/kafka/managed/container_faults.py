"""Faults of nodes that are containers, by the Docker engine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import docker.errors
import requests
from docker.models.containers import Container

from perfgate.model.errors import TargetError
from perfgate.systems.kafka.managed.faults import ASK_EVERY_S, LAST_WORDS, QUORUM_STATE, STOP_TIMEOUT_S, agreed_leader
from perfgate.systems.kafka.managed.kafka_tools import KafkaTools

METADATA = "__cluster_metadata-0"
CLASSPATH = "/opt/kafka/libs/*"


class ContainerFaults(KafkaTools):
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
        self._containers, self._network, self._alias = containers, network, alias
        self._voters, self._data, self._bootstrap = list(voters), data, bootstrap
        self.absent: set[int] = set()
        """Nodes that are meant to have ended."""

    def kill(self, node: int) -> None:
        """Kill the container."""
        self.absent.add(node)
        with _told(f"killing the container of node {node}"):
            self._containers()[node].kill()

    def stop(self, node: int) -> None:
        """Send SIGTERM to the container's first process."""
        self.absent.add(node)
        with _told(f"stopping the container of node {node}"):
            self._containers()[node].kill(signal="SIGTERM")

    def wait_until_ended(self, node: int) -> None:
        """Wait until the container has ended."""
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while self._state(node)["Running"]:
            if time.monotonic() > deadline:
                raise TargetError(f"node {node} was asked to end and has not done so within {STOP_TIMEOUT_S} s")
            time.sleep(ASK_EVERY_S)

    def start(self, node: int) -> None:
        """Start the container again: its ports are fixed, its data still there."""
        with _told(f"starting the container of node {node}"):
            self._containers()[node].start()
        self.absent.discard(node)

    def pause(self, node: int) -> None:
        """Freeze the container."""
        with _told(f"pausing the container of node {node}"):
            self._containers()[node].pause()

    def resume(self, node: int) -> None:
        """Let it go on."""
        with _told(f"resuming the container of node {node}"):
            self._containers()[node].unpause()

    def cut_off(self, broker: int) -> None:
        """Take the container out of the brokers' network, and its published ports with it."""
        with _told(f"taking broker {broker} out of the network"):
            self._network().disconnect(self._containers()[broker])

    def heal(self, broker: int) -> None:
        """Put it back."""
        with _told(f"putting broker {broker} back into the network"):
            self._network().connect(self._containers()[broker], aliases=[self._alias(broker)])

    def active_controller(self) -> int:
        """Return the leader that the voters' own files name."""
        return agreed_leader(self._leader(node) for node in self._voters if node not in self.absent)

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

    def _leader(self, node: int) -> int:
        # Bash alone: an image need not have more.
        command = ["/bin/bash", "-c", f'echo "$(<{self._data}/{METADATA}/{QUORUM_STATE})"']
        with _told(f"reading who leads the controllers in node {node}"):
            code, output = self._containers()[node].exec_run(command)
        assert isinstance(output, bytes)
        try:
            return int(json.loads(output)["leaderId"]) if code == 0 else -1
        except (ValueError, KeyError):
            return -1

    def _state(self, node: int) -> Mapping[str, Any]:
        container = self._containers()[node]
        with _told(f"looking at the container of node {node}"):
            container.reload()
        state: Mapping[str, Any] = container.attrs["State"]
        return state


@contextmanager
def _told(doing: str) -> Iterator[None]:
    try:
        yield
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise TargetError(f"{doing}: {error}") from None
