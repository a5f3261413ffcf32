"""The containers target: starts clusters of containers by a Docker engine of this machine.

The image's contract: every setting as an environment variable KAFKA_<NAME>, CLUSTER_ID, KAFKA_HEAP_OPTS and KAFKA_OPTS
(kafka.apache.org/documentation, "Docker"). Setting any of them replaces all of the image's own defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import docker
import docker.errors

from perfgate.host.disk import check_disk
from perfgate.host.journal import is_alive
from perfgate.host.ports import is_this_machine
from perfgate.model import ClusterSpec, FaultScenario, Scenario
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.managed.container_cluster import OWNER, ContainersCluster, DockerErrors, image_of, words_of
from perfgate.systems.kafka.managed.monitoring import exporter_jar
from perfgate.systems.kafka.managed.own_cluster import NOT_MONITORED, KafkaTarget, Monitoring
from perfgate.systems.kafka.managed.tiered import MANAGER, is_tiered

ENGINE_TIMEOUT_S = 8
"""For the answer to a ping."""


class ContainersTarget(KafkaTarget[ContainersCluster]):
    kind = "containers"

    def __init__(
        self,
        *,
        log_folder: Path,
        toxiproxy_image: str | None,
        say: Callable[[str], None],
        note: Callable[[str], None],
        monitoring: Monitoring = NOT_MONITORED,
    ) -> None:
        """`note` reports what was cleaned up. `toxiproxy_image`: for the cross-zone link; None when no scenario needs
        one.
        """
        super().__init__(log_folder=log_folder, say=say, monitoring=monitoring)
        self._toxiproxy_image, self._note = toxiproxy_image, note

    def cannot(self, scenario: Scenario) -> str | None:
        if isinstance(scenario, FaultScenario) and scenario.fault.about.drops_cache:
            return "the page cache of brokers in containers is not dropped: cold reads need --target embedded"
        if is_tiered(scenario.cluster):
            return f"an image has no remote tier: tiered storage needs --target embedded, or a broker.{MANAGER}"
        return super().cannot(scenario)

    def check_room(self, at_a_time: float, in_all: float) -> None:
        """Raise ConfigurationError when the engine's folder on this machine has too little room.

        Leftovers of a killed run are removed before: they may fill that folder.
        """
        engine = docker_engine()
        for what in remove_leftovers(engine):
            self._note(f"removed {what}, left by a run that was killed")
        folder = Path(engine.info().get("DockerRootDir", ""))
        if folder.is_absolute() and folder.is_dir():
            check_disk(at_a_time, folder)

    def prepare(self, specs: Iterable[ClusterSpec]) -> None:
        specs = list(specs)
        if any(spec.home for spec in specs):
            raise ConfigurationError(
                "--kafka-home (cluster.home) needs --target embedded; containers take --kafka-image"
            )
        engine = docker_engine()
        images = {image_of(spec) for spec in specs}
        if self._toxiproxy_image:
            images.add(self._toxiproxy_image)
        if self._monitoring.own:
            images.add(self._monitoring.image)
        if self._monitoring.wanted:
            exporter_jar()
        for image in sorted(images):
            self._have(engine, image)

    def start(self, spec: ClusterSpec, logs: Path) -> ContainersCluster:
        self._say(f"{image_of(spec)}: starting {spec.brokers} brokers in containers")
        cluster = ContainersCluster(spec, logs=logs, toxiproxy_image=self._toxiproxy_image, monitoring=self._monitoring)
        try:
            cluster.start()
        except BaseException:
            cluster.close()
            raise
        return cluster

    def _have(self, engine: docker.DockerClient, image: str) -> None:
        try:
            engine.images.get(image)
        except docker.errors.ImageNotFound:
            self._say(f"{image}: pulling it, once")
            try:
                engine.images.pull(*_repository_and_tag(image))
            except DockerErrors as error:
                raise ConfigurationError(
                    f"image {image} is not on this machine and cannot be pulled: {words_of(error)}; "
                    "name another with --kafka-image"
                ) from None


def docker_engine() -> docker.DockerClient:
    """Return the Docker engine. Raises ConfigurationError when none answers, or it is on another machine.

    The brokers' ports are published on the loopback of the engine's machine.
    """
    try:
        engine = docker.from_env(timeout=ENGINE_TIMEOUT_S)
        refuse_elsewhere(engine.api.base_url)
        engine.ping()
        engine = docker.from_env()
    except DockerErrors as error:
        raise ConfigurationError(
            f"the target 'containers' needs a Docker engine, and none answers ({words_of(error)}); "
            "start one, set DOCKER_HOST, or use --target embedded, which needs none"
        ) from None
    return engine


def refuse_elsewhere(base_url: str) -> None:
    at = urlsplit(base_url)
    if at.scheme.startswith("http+") or is_this_machine(at.hostname or ""):  # http+docker: a socket's file
        return
    raise ConfigurationError(
        f"the target 'containers': the Docker engine is at {at.netloc} (DOCKER_HOST), which is another machine, and "
        "its brokers could not be reached at 127.0.0.1: run the gate on that machine, or (docker-in-docker) share the "
        "engine's network with the job; --target embedded needs no engine"
    )


def remove_leftovers(engine: docker.DockerClient) -> list[str]:
    """Remove containers and networks whose run is no longer alive on this machine; return their names.

    Ryuk does the same within seconds where it is allowed to run: what it is removing the engine refuses to others
    (409), and a network that its containers still have (403).
    """
    removed = []
    for container in engine.containers.list(all=True, filters={"label": OWNER}, ignore_removed=True):
        if not is_alive(container.labels[OWNER]):
            with suppress(docker.errors.APIError):
                container.remove(force=True, v=True)
                removed.append(str(container.name))
    for network in engine.networks.list(filters={"label": OWNER}):
        if not is_alive(network.attrs["Labels"][OWNER]):
            with suppress(docker.errors.APIError):
                network.remove()
                removed.append(str(network.name))
    return removed


def _repository_and_tag(image: str) -> tuple[str, str | None]:
    repository, colon, tag = image.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (image, "latest")
