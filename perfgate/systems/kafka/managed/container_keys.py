"""Keys of a secured cluster of containers: made on this machine, mounted into each broker, gone with the cluster."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path

from testcontainers.core.container import DockerContainer

from perfgate.host.guard import Guard
from perfgate.model.errors import BrokersFailedError, TargetError
from perfgate.systems.kafka.java import find_java
from perfgate.systems.kafka.managed.kafka_tools import KafkaTools
from perfgate.systems.kafka.managed.readiness import wait_while_it_progresses
from perfgate.systems.kafka.managed.secured import USER, Secured

INSIDE = "/opt/kafka/config/keys.p12"
"""Where a broker finds its key store."""


class ContainerKeys:
    """Keys, a user and a password of one cluster."""

    def __init__(self, security: str) -> None:
        """Raises TargetError when no certificate can be made.

        The folder is this user's alone, and goes with the run however it ends; the file in it is mounted by itself, for
        the image's own user to read.
        """
        self._guard = Guard()
        try:
            folder = Path(tempfile.mkdtemp(prefix="kafka-perf-gate-keys-"))
            self._guard.owns(folder)
            self.secured = Secured(security, java=find_java(), folder=folder)
            self.secured.store.chmod(0o644)
        except BaseException:
            self.close()
            raise

    def given_to(self, container: DockerContainer, protocols: str) -> Mapping[str, str]:
        """Mount the key store into a broker's container, and return the settings that its listeners need.

        `protocols`: its listener.security.protocol.map.
        """
        container.with_volume_mapping(str(self.secured.store), INSIDE, "ro")
        return self.secured.broker_settings(protocols, INSIDE)

    def add_user(self, tools: KafkaTools, *, check: Callable[[], None], logged: Callable[[], Hashable]) -> None:
        """Have the brokers know the user of their clients, if there is one: the image formats log folders without any.

        `check` and `logged` as for :func:`wait_while_it_progresses`. Raises BrokersFailedError when they never do.
        """
        if not (credential := self.secured.credential()):
            return

        def missing() -> str:
            try:
                tools.add_user(USER, credential)
            except TargetError as error:
                return str(error)
            return ""

        try:
            wait_while_it_progresses(missing, logged=logged, check=check)
        except TimeoutError as error:
            reason = f"the brokers did not take the user of their clients {error}"
            raise BrokersFailedError(reason, perhaps_late=True) from error

    def close(self) -> None:
        """Remove the keys."""
        self._guard.close()
