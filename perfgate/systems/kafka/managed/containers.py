"""The containers target: starts clusters of containers by a Docker engine of this machine.

The image's contract: every setting as an environment variable KAFKA_<NAME>, CLUSTER_ID, KAFKA_HEAP_OPTS and KAFKA_OPTS
(kafka.apache.org/documentation, "Docker"). Setting any of them replaces all of the image's own defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from perfgate.host import docker_engine
from perfgate.model import ClusterSpec, FaultScenario, Scenario
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.managed.container_cluster import ContainersCluster, image_of
from perfgate.systems.kafka.managed.monitoring import exporter_jar
from perfgate.systems.kafka.managed.own_cluster import NOT_MONITORED, KafkaTarget, Monitoring
from perfgate.systems.kafka.managed.tiered import MANAGER, is_tiered


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
        """See :func:`perfgate.host.docker_engine.check_room`."""
        docker_engine.check_room(at_a_time, self._note)

    def prepare(self, specs: Iterable[ClusterSpec]) -> None:
        specs = list(specs)
        if any(spec.home for spec in specs):
            raise ConfigurationError(
                "--kafka-home (cluster.home) needs --target embedded; containers take --kafka-image"
            )
        images = {image_of(spec) for spec in specs}
        if self._toxiproxy_image:
            images.add(self._toxiproxy_image)
        if self._monitoring.own:
            images.add(self._monitoring.image)
        if self._monitoring.wanted:
            exporter_jar()
        docker_engine.have_images(images, self._say, option="--kafka-image")

    def start(self, spec: ClusterSpec, logs: Path) -> ContainersCluster:
        self._say(f"{image_of(spec)}: starting {spec.brokers} brokers in containers")
        cluster = ContainersCluster(spec, logs=logs, toxiproxy_image=self._toxiproxy_image, monitoring=self._monitoring)
        try:
            cluster.start()
        except BaseException:
            cluster.close()
            raise
        return cluster
