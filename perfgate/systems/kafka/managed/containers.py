"""The containers target: KRaft nodes from an image with the official apache/kafka image's contract.

That contract: every setting as an environment variable KAFKA_<NAME>, CLUSTER_ID, KAFKA_HEAP_OPTS and KAFKA_OPTS
(kafka.apache.org/documentation, "Docker"). Setting any of them replaces all of the image's own defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import docker
import docker.errors

from perfgate.host.alive import is_alive
from perfgate.host.disk import check_disk
from perfgate.model import ClusterSpec, Scenario
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.managed.container_cluster import OWNER, ContainersCluster, DockerErrors, image_of, words_of
from perfgate.systems.kafka.managed.monitoring import (
    exporter_jar,
)
from perfgate.systems.kafka.managed.own_cluster import NOT_MONITORED, Monitoring


class ContainersTarget:
    """Starts clusters of containers, one at a time; see :class:`perfgate.model.target.Target`."""

    kind = "containers"
    left_behind: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        log_folder: Path,
        toxiproxy_image: str | None,
        say: Callable[[str], None],
        note: Callable[[str], None],
        monitoring: Monitoring = NOT_MONITORED,
    ) -> None:
        """Logs of brokers go to `log_folder`; `say` is told what is awaited, `note` what was cleaned up.

        `toxiproxy_image`: what makes the cross-zone link; None when no row needs one.
        """
        self._log_folder = log_folder
        self._toxiproxy_image = toxiproxy_image
        self._monitoring = monitoring
        self._say, self._note = say, note
        self._alive: ContainersCluster | None = None
        self._started = 0

    def check_room(self, at_a_time: float, in_all: float) -> None:
        """Raise ConfigurationError when the engine's folder has too little room, if the engine runs on this machine."""
        folder = Path(docker_engine().info().get("DockerRootDir", ""))
        if folder.is_absolute() and folder.is_dir():
            check_disk(at_a_time, folder)

    def facts(self, spec: ClusterSpec) -> Mapping[str, object]:
        """Return kind, name and version."""
        return {"kind": self.kind, "name": self.kind, "kafka_version": spec.kafka_version}

    def cannot(self, scenario: Scenario) -> str | None:
        """Return None: it makes the brokers that a row asks for."""
        return None

    def prepare(self, specs: Iterable[ClusterSpec]) -> None:
        """Find the Docker engine, remove what a killed run left, and have every image there."""
        engine = docker_engine()
        for what in remove_leftovers(engine):
            self._note(f"removed {what}, left by a run that was killed")
        images = {image_of(spec) for spec in specs}
        if self._toxiproxy_image:
            images.add(self._toxiproxy_image)
        if self._monitoring.own:
            images.add(self._monitoring.image)
        if self._monitoring.wanted:
            exporter_jar()
        for image in sorted(images):
            self._have(engine, image)

    def cluster(self, spec: ClusterSpec) -> ContainersCluster:
        """Return the cluster of this spec, started if another or none is alive."""
        if self._alive is None or self._alive.spec != spec:
            self.close()
            self._started += 1
            self._say(f"{image_of(spec)}: starting {spec.brokers} brokers in containers")
            logs = self._log_folder / f"cluster-{self._started}"
            cluster = ContainersCluster(
                spec, logs=logs, toxiproxy_image=self._toxiproxy_image, monitoring=self._monitoring
            )
            try:
                cluster.start()
            except BaseException:
                cluster.close()
                raise
            self._alive = cluster
        return self._alive

    def keep_aot_cache(self) -> None:
        """Do nothing: the JVMs are those of images."""

    def close(self) -> None:
        """Remove the containers and the network of the cluster that is alive; its logs stay."""
        if self._alive is not None:
            self._alive.close()
            self._alive = None

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
    """Return the Docker engine. Raises ConfigurationError when none answers."""
    try:
        engine = docker.from_env()
        engine.ping()
    except DockerErrors as error:
        raise ConfigurationError(
            f"the target 'containers' needs a Docker engine, and none answers ({words_of(error)}); "
            "start one, set DOCKER_HOST, or use --target embedded, which needs none"
        ) from None
    return engine


def remove_leftovers(engine: docker.DockerClient) -> list[str]:
    """Remove containers and networks whose run is no longer alive on this machine; return what they were.

    Ryuk does the same within seconds where it is allowed to run.
    """
    removed = []
    for container in engine.containers.list(all=True, filters={"label": OWNER}, ignore_removed=True):
        if not is_alive(container.labels[OWNER]):
            with suppress(docker.errors.NotFound):
                container.remove(force=True, v=True)
                removed.append(str(container.name))
    for network in engine.networks.list(filters={"label": OWNER}):
        if not is_alive(network.attrs["Labels"][OWNER]):
            with suppress(docker.errors.NotFound):
                network.remove()
                removed.append(str(network.name))
    return removed


def _repository_and_tag(image: str) -> tuple[str, str | None]:
    repository, colon, tag = image.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (image, "latest")
