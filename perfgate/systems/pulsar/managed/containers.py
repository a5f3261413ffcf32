"""The containers target of Pulsar: starts clusters of containers by a Docker engine of this machine.

The image's contract (docker/pulsar, bin/pulsar and conf/ of Pulsar's sources): bin/apply-config-from-env.py writes
variables PULSAR_PREFIX_<setting> into a file of conf/, `bin/pulsar zookeeper|bookie|broker` starts a node with it,
`bin/pulsar initialize-cluster-metadata` sets the metadata up; PULSAR_MEM, BOOKIE_MEM, PULSAR_GC, PULSAR_EXTRA_OPTS are
options of Java. Nodes run in the image's folder, with their data below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from perfgate.host import docker_engine
from perfgate.model import ClusterSpec
from perfgate.systems.pulsar.managed.container_cluster import ContainersCluster, image_of
from perfgate.systems.pulsar.managed.own_cluster import StartedTarget, check_memory, check_specs


class ContainersTarget(StartedTarget[ContainersCluster]):
    """Starts clusters of containers; see :class:`perfgate.model.target.Target`."""

    kind = "containers"

    def __init__(
        self,
        *,
        log_folder: Path,
        toxiproxy_image: str | None,
        say: Callable[[str], None],
        note: Callable[[str], None],
    ) -> None:
        """`note` reports what was cleaned up. `toxiproxy_image`: for the cross-zone link; None when no scenario needs
        one.
        """
        super().__init__(log_folder=log_folder, say=say)
        self._toxiproxy_image, self._note = toxiproxy_image, note

    def check_room(self, at_a_time: float, in_all: float) -> None:
        """See :func:`perfgate.host.docker_engine.check_room`; a bookie writes each entry twice."""
        docker_engine.check_room(2 * at_a_time, self._note)

    def prepare(self, specs: Iterable[ClusterSpec]) -> None:
        """Have all images that these clusters need. Raises ConfigurationError when something cannot be had."""
        specs = list(specs)
        check_specs(specs)
        check_memory(specs)
        proxies = [self._toxiproxy_image] if self._toxiproxy_image else []
        docker_engine.have_images([*map(image_of, specs), *proxies], self._say, option="--pulsar-image")

    def start(self, spec: ClusterSpec, logs: Path) -> ContainersCluster:
        """Return a cluster that has started. Raises TargetError."""
        self._say(f"{image_of(spec)}: starting {spec.bookies} bookies and {spec.brokers} brokers in containers")
        cluster = ContainersCluster(spec, logs=logs, toxiproxy_image=self._toxiproxy_image)
        try:
            cluster.start()
        except BaseException:
            cluster.close()
            raise
        return cluster
