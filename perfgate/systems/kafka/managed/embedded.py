"""The embedded target: combined broker and controller KRaft nodes as processes of this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

from perfgate.host.disk import check_disk
from perfgate.host.java import find_java
from perfgate.host.journal import delete_left_over
from perfgate.host.toxiproxy import toxiproxy_server
from perfgate.model import MIB, ClusterSpec
from perfgate.model.counting import counted
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.java import jars_of, java_needed
from perfgate.systems.kafka.managed.brokers import needed_mib
from perfgate.systems.kafka.managed.embedded_cluster import DATA, EmbeddedCluster
from perfgate.systems.kafka.managed.monitoring import exporter_jar, prometheus_server
from perfgate.systems.kafka.managed.own_cluster import NOT_MONITORED, KafkaTarget, Monitoring
from perfgate.systems.kafka.managed.tiered import is_tiered, tiered_jar


def check_no_containers(specs: Iterable[ClusterSpec]) -> None:
    """Raise ConfigurationError where one of these clusters needs containers."""
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
    ) -> None:
        """`cross_zone` puts Toxiproxy up. `compared`: clusters are judged against one another, not scenarios."""
        super().__init__(log_folder=log_folder, say=say, monitoring=monitoring)
        self._cross_zone, self._compared = cross_zone, compared
        self._paired = False
        self._warm_start = True
        """Whether brokers start with Java's cache of earlier ones."""

    def check_room(self, at_a_time: float, in_all: float) -> None:
        """Raise ConfigurationError when the folder for temporary files has too little room.

        Brokers' data of a run that was killed with its guard is deleted before: it may fill that folder.
        """
        delete_left_over(DATA)
        check_disk(at_a_time, Path(tempfile.gettempdir()))

    def prepare(self, specs: Iterable[ClusterSpec]) -> None:
        """Fetch and verify all that these clusters need. Raises ConfigurationError when something cannot be had.

        Memory counts: where it runs out the kernel kills a broker, which is then blamed for it.
        """
        specs = list(specs)
        check_no_containers(specs)
        largest = max(specs, key=_needed_mib)
        needed, apart = _needed_mib(largest), largest.controllers
        if needed > (free := psutil.virtual_memory().available / MIB):
            nodes = f"{largest.brokers} brokers{f' and {apart} controllers' if apart else ''}"
            raise ConfigurationError(
                f"too little memory: {nodes} take about {needed:,.0f} MiB, and {free:,.0f} MiB are "
                "available: end what else runs here, or run on a larger machine"
            )
        # Brokers with such a cache are quicker at first (docs/evidence/measurement.md), and other options or another
        # version have none, or one of their own: of two sides that differ so neither starts with it.
        kinds = {(spec.version, spec.home, spec.jvm_options) for spec in specs}
        self._warm_start = not self._compared or len(kinds) == 1
        for version, home in sorted({(spec.version, spec.home) for spec in specs}):
            find_java(java_needed(version), what=f"Kafka {version}")
            self._say(f"Kafka {version}: resolving and verifying its jars")
            jars_of(ClusterSpec(version=version, home=home))
        for version in sorted({spec.version for spec in specs if is_tiered(spec)}):
            tiered_jar(version)
        if self._cross_zone or any(spec.severable for spec in specs):
            self._say("Toxiproxy: building it, once")
            toxiproxy_server()
        if self._monitoring.own:
            prometheus_server()
        if self._monitoring.wanted:
            exporter_jar()

    def beside(self, spec: ClusterSpec) -> EmbeddedCluster:
        """Start another cluster next to the one now alive. Raises ConfigurationError where memory would run out."""
        needed, free = _needed_mib(spec), psutil.virtual_memory().available / MIB
        first, self._paired = not self._paired, True
        if first and needed > free:  # what was measured is not given up for what is less later
            raise ConfigurationError(
                f"a second cluster side by side takes about {needed:,.0f} MiB of memory, and {free:,.0f} MiB are "
                "available: end what else runs here, or compare on a larger machine"
            )
        return super().beside(spec)

    def keep_aot_cache(self) -> None:
        """Keep the recording of the brokers that are alive, where no run has done so; they end then."""
        if self._alive is not None and self._alive.recording:
            self._say("keeping what Java learnt of the brokers, once: later runs warm up sooner")
            self._alive.keep_aot_cache()
            self.close()

    def _maker(self, spec: ClusterSpec, logs: Path) -> Callable[[], EmbeddedCluster]:
        java, jars = find_java(), jars_of(spec)
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


def _needed_mib(spec: ClusterSpec) -> float:
    return (spec.brokers + spec.controllers) * needed_mib(spec.jvm_options)
