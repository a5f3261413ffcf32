"""The embedded target of Pulsar: its metadata store, bookies and brokers as processes of this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from perfgate.host.disk import check_disk
from perfgate.host.java import find_java
from perfgate.host.journal import delete_left_over
from perfgate.host.toxiproxy import toxiproxy_server
from perfgate.model import ClusterSpec
from perfgate.model.counting import counted
from perfgate.model.errors import ConfigurationError
from perfgate.systems.pulsar.jars import JAVA_NEEDED, kept_digests, pulsar_jars
from perfgate.systems.pulsar.managed.embedded_cluster import DATA, EmbeddedCluster
from perfgate.systems.pulsar.managed.own_cluster import StartedTarget, check_memory, check_specs


class PulsarTarget(StartedTarget[EmbeddedCluster]):
    """Starts clusters as processes; see :class:`perfgate.model.target.Target`."""

    kind, port_taken = "embedded", ("Address already in use", "BindException")

    def __init__(
        self, *, log_folder: Path, cross_zone: bool, say: Callable[[str], None], compared: bool = False
    ) -> None:
        """`cross_zone` puts Toxiproxy up. `compared`: clusters are judged against one another, not scenarios."""
        super().__init__(log_folder=log_folder, say=say)
        self._cross_zone, self._compared = cross_zone, compared
        self._warm_start = True
        """Whether nodes start with Java's caches of earlier ones."""

    def check_room(self, at_a_time: float, in_all: float) -> None:
        """Raise ConfigurationError when the folder for temporary files has too little room.

        A bookie writes each entry twice, into its journal and its ledgers. Nodes' data of a run that was killed with
        its guard is deleted before: it may fill that folder.
        """
        delete_left_over(DATA)
        check_disk(2 * at_a_time, Path(tempfile.gettempdir()))

    def prepare(self, specs: Iterable[ClusterSpec]) -> None:
        specs = list(specs)
        check_processes(specs)
        check_memory(specs)
        # Of two sides with other JVMs or versions one alone may have a cache: so neither starts with it.
        self._warm_start = not self._compared or len({(spec.version, spec.jvm_options) for spec in specs}) == 1
        for version in sorted({spec.version for spec in specs}):
            find_java(JAVA_NEEDED, what=f"Pulsar {version}")
            self._say(f"Pulsar {version}: fetching and verifying its jars")
            pulsar_jars(version)
        if self._cross_zone:
            self._say("Toxiproxy: building it, once")
            toxiproxy_server()

    def keep_aot_cache(self) -> None:
        """Keep the recordings of the nodes that are alive, where no run has done so; they end then."""
        if self._alive is not None and self._alive.recording:
            self._say("keeping what Java learnt of Pulsar's nodes, once: later runs warm up sooner")
            self._alive.keep_aot_cache()
            self.close()

    def _maker(self, spec: ClusterSpec, logs: Path) -> Callable[[], EmbeddedCluster]:
        java, jars = find_java(), pulsar_jars(spec.version)
        nodes = f"{counted(spec.bookies, 'bookie')} and {counted(spec.brokers, 'broker')}"
        self._say(f"Pulsar {spec.version}: starting {nodes}")
        return lambda: EmbeddedCluster(
            spec, java=java, jars=jars, logs=logs, cross_zone=self._cross_zone, warm_start=self._warm_start
        )


def check_processes(specs: Iterable[ClusterSpec]) -> None:
    """Raise ConfigurationError for a cluster that is not of processes, and for a version whose jars are not known."""
    specs = list(specs)
    if any(spec.image or spec.memory_mib_per_broker for spec in specs):
        raise ConfigurationError(
            "images (--pulsar-image, [cluster] image) and --broker-memory need --target containers; "
            "the embedded target takes --pulsar-version"
        )
    check_specs(specs)
    for spec in specs:
        kept_digests(spec.version)
