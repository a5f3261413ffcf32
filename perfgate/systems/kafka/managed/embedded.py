"""The embedded target: combined broker and controller KRaft nodes as processes of this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from perfgate.host.disk import check_disk
from perfgate.host.java import find_java
from perfgate.host.journal import delete_left_over
from perfgate.host.maven import Jars
from perfgate.host.toxiproxy import toxiproxy_server
from perfgate.model import ClusterSpec
from perfgate.model.counting import counted
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.java import jars_of, java_needed
from perfgate.systems.kafka.managed.brokers import needed_mib
from perfgate.systems.kafka.managed.embedded_cluster import DATA, EmbeddedCluster
from perfgate.systems.kafka.managed.monitoring import exporter_jar, prometheus_server
from perfgate.systems.kafka.managed.own_cluster import NOT_MONITORED, KafkaTarget, Monitoring
from perfgate.systems.kafka.managed.tiered import is_tiered, tiered_jar


def check_no_containers(specs: Iterable[ClusterSpec]) -> None:
    if any(spec.image or spec.memory_mib_per_broker for spec in specs):
        raise ConfigurationError(
            "images (--kafka-image, [cluster] image) and --broker-memory need --target containers; "
            "the embedded target takes --kafka-version"
        )


class EmbeddedTarget(KafkaTarget[EmbeddedCluster]):
    kind, port_taken = "embedded", ("Address already in use",)

    def __init__(
        self,
        *,
        log_folder: Path,
        cross_zone: bool,
        say: Callable[[str], None],
        monitoring: Monitoring = NOT_MONITORED,
        compared: bool = False,
        jars: Callable[[ClusterSpec], Jars] = jars_of,
    ) -> None:
        """`cross_zone`: put Toxiproxy up; `compared`: clusters are judged against each other; `jars` of a cluster."""
        super().__init__(log_folder=log_folder, say=say, monitoring=monitoring)
        self._cross_zone, self._compared, self._jars = cross_zone, compared, jars
        self._warm_start = True

    def check_room(self, at_a_time: float, in_all: float) -> None:
        """Raise ConfigurationError for too little room for temporary files, once data of killed runs is deleted."""
        delete_left_over(DATA)
        check_disk(at_a_time, Path(tempfile.gettempdir()))

    def prepare(self, specs: Iterable[ClusterSpec]) -> None:
        """Fetch and verify all that these clusters need. Raises ConfigurationError when something cannot be had."""
        specs = list(specs)
        check_no_containers(specs)
        largest = max(specs, key=self._needed_mib)
        apart = f" and {largest.controllers} controllers" if largest.controllers else ""
        self._check_memory(self._needed_mib(largest), f"{largest.brokers} brokers{apart}")
        # Brokers with such a cache are quicker at first (docs/evidence/measurement.md), and other options or another
        # version have none, or their own: of two sides that differ so neither starts with it.
        kinds = {(spec.version, spec.home, spec.jvm_options) for spec in specs}
        self._warm_start = not self._compared or len(kinds) == 1
        for version, home in sorted({(spec.version, spec.home) for spec in specs}):
            find_java(java_needed(version), what=f"Kafka {version}")
            self._say(f"Kafka {version}: resolving and verifying its jars")
            self._jars(ClusterSpec(version=version, home=home))
        for version in sorted({spec.version for spec in specs if is_tiered(spec)}):
            tiered_jar(version)
        if self._cross_zone or any(spec.severable for spec in specs):
            self._say("Toxiproxy: building it, once")
            toxiproxy_server()
        if self._monitoring.own:
            prometheus_server()
        if self._monitoring.wanted:
            exporter_jar()

    def _needed_mib(self, spec: ClusterSpec) -> float:
        return (spec.brokers + spec.controllers) * needed_mib(spec.jvm_options)

    def _maker(self, spec: ClusterSpec, logs: Path) -> Callable[[], EmbeddedCluster]:
        java, jars = find_java(), self._jars(spec)
        self._say(f"Kafka {spec.version}: starting {counted(spec.brokers, 'broker')}")
        return lambda: EmbeddedCluster(
            spec,
            java=java,
            jars=jars,
            logs=logs,
            cross_zone=self._cross_zone,
            monitoring=self._monitoring,
            warm_start=self._warm_start,
        )
