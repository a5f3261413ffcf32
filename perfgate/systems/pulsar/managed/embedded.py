"""The embedded target of Pulsar and its clusters: metadata store, bookies and brokers as processes of this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from perfgate.host.disk import check_disk
from perfgate.host.java import AotCaches, cache_path, find_java, java_release
from perfgate.host.journal import delete_left_over
from perfgate.host.maven import Jars
from perfgate.host.ports import HOST
from perfgate.host.toxiproxy import ToxiproxyApi, toxiproxy_server
from perfgate.host.waiting import start_error, tail_of
from perfgate.load.tools import write_properties
from perfgate.model import ClusterSpec
from perfgate.model.counting import counted
from perfgate.model.errors import ConfigurationError
from perfgate.systems import unable
from perfgate.systems.own_processes import LOG4J, OwnProcesses
from perfgate.systems.pulsar.jars import JAVA_NEEDED, kept_digests, pulsar_jars
from perfgate.systems.pulsar.managed.nodes import (
    CONF_OPTION,
    MAIN,
    METADATA_SETUP,
    ROLES,
    SETUP_MEMORY,
    jvm_options,
    last_words,
    needed_mib,
    node_name,
    role_of,
)
from perfgate.systems.pulsar.managed.own_cluster import NOT_READY, OwnCluster, PulsarFaults, StartedTarget, check_specs

DATA = "kafka-perf-gate-pulsar-data-"
SETUP = "metadata set-up"


class EmbeddedCluster(OwnCluster):
    """See :class:`perfgate.model.target.Cluster`."""

    supervisor: OwnProcesses

    def __init__(
        self, spec: ClusterSpec, *, java: Path, jars: Jars, logs: Path, cross_zone: bool, warm_start: bool
    ) -> None:
        """`cross_zone`: put proxies in front of the brokers; `warm_start`: use, or record, Java's caches."""
        super().__init__(spec, logs, cross_zone=cross_zone)
        self._java, self._jars, self._release = java, jars, java_release(java)
        # A run's own options make another JVM, whose cache would be recorded once and never used.
        options: dict[str, list[str]] = {
            role: jvm_options(role, (), self._release) for role in ROLES if role != "broker" or not spec.jvm_options
        }
        caches: dict[str, list[str]] = {**options, SETUP: self._setup_options()} if warm_start else {}
        self._aot = AotCaches(
            {
                role: cache_path(java, f"pulsar-{jars.version}-{role.replace(' ', '-')}", jars.classpath, own)
                for role, own in caches.items()
            }
        )
        self.supervisor = OwnProcesses(node_name, logs, data=DATA, caches=self._aot, last_words=last_words)
        self._data, self._setup_log = self.supervisor.data, logs / "metadata-setup.log"
        self.faults = PulsarFaults(
            {**self.supervisor.actions(self._spawn), "cut-off": _no_links, "heal": _no_links}, self.supervisor.runs
        )

    @contextmanager
    def _starting(self) -> Iterator[None]:
        (self._data / "log4j2.properties").write_text(LOG4J.format(stacks="%xEx{12}"))
        for node in self._nodes:
            write_properties(self._conf(node), self._settings(node))
        yield

    def _started_proxy(self) -> ToxiproxyApi:
        proxy = self.supervisor.start_proxy(self._proxy_api_port)
        listen = {broker: f"{HOST}:{port}" for broker, port in self._proxy_ports.items()}
        proxy.add_brokers(listen, {broker: self._at(broker) for broker in listen})
        return proxy

    def pids(self) -> Mapping[int, int]:
        """The process of every node, bookies and the metadata store among them."""
        return dict(self.supervisor.pids)

    def facts(self) -> Mapping[str, object]:
        return {
            "kind": "embedded",
            "name": "embedded",
            **self._common_facts(),
            "java": str(self._java),
            "jvm_options": {role: jvm_options(role, self.spec.jvm_options, self._release) for role in ROLES},
            "aot_cache": self._aot.used,
        }

    def _spawn(self, node: int) -> None:
        role = role_of(node)
        argv = [
            self._java,
            *jvm_options(role, self.spec.jvm_options, self._release),
            *self._aot.options(role, node),
            *self._common_options(),
            MAIN[role],
            *CONF_OPTION[role],
            self._conf(node),
        ]
        self.supervisor.spawn(node, argv, self.spec.cpus_per_broker if role == "broker" else 0.0)

    def _common_options(self) -> list[str]:
        # Unpacked libraries outlive a node that is killed: they go to the run's own folder.
        unpacked = f"-Djava.io.tmpdir={self._data}"
        return [unpacked, f"-Dlog4j2.configurationFile={self._data}/log4j2.properties", "-cp", self._jars.classpath]

    def _set_metadata_up(self) -> None:
        argv = [self._java, *self._setup_options(), *self._aot.options(SETUP, 0), *self._common_options()]
        guard = self.supervisor.guard
        pid = guard.spawn([*argv, METADATA_SETUP, *self._setup_arguments()], log=self._setup_log)
        self._wait(lambda: "the metadata's set-up runs" if guard.exit_status(pid) is None else "", NOT_READY)
        if guard.exit_status(pid):
            raise start_error("Pulsar refused its metadata store", tail_of(self._setup_log, 40), self.spec.config)
        self._aot.keep_of(SETUP)

    def _setup_options(self) -> list[str]:
        return [*jvm_options("metadata store", (), self._release), *SETUP_MEMORY]

    def _logged(self) -> int:
        return self.supervisor.logged(self._setup_log)

    def _conf(self, node: int) -> Path:
        return self._data / f"{node_name(node)}.conf"

    def _folder(self, node: int) -> Path:
        return self._data / node_name(node)

    def _broker_of(self, name: str) -> int:
        """See :class:`OwnCluster`: the host is what this machine calls itself, the port is the web service's."""
        return next(broker for broker in self._ids if name.endswith(f":{self._web_ports[broker]}"))


_no_links = unable("links of Pulsar's nodes cannot be severed: no proxies are in them")


class PulsarTarget(StartedTarget[EmbeddedCluster]):
    """Starts clusters as processes; see :class:`perfgate.model.target.Target`."""

    kind, port_taken = "embedded", ("Address already in use", "BindException")

    def __init__(
        self,
        *,
        log_folder: Path,
        cross_zone: bool,
        say: Callable[[str], None],
        compared: bool = False,
        jars: Callable[[str], Jars] = pulsar_jars,
    ) -> None:
        """`cross_zone`: install Toxiproxy; `compared`: clusters are judged against each other; `jars` of a version."""
        super().__init__(log_folder=log_folder, say=say)
        self._cross_zone, self._compared, self._jars = cross_zone, compared, jars
        self._warm_start = True

    def check_room(self, at_a_time: float, in_all: float) -> None:
        """Raise ConfigurationError when the folder for temporary files has too little room, without killed runs' data.

        A bookie writes each entry twice, into its journal and its ledgers.
        """
        delete_left_over(DATA)
        check_disk(2 * at_a_time, Path(tempfile.gettempdir()))

    def prepare(self, specs: Iterable[ClusterSpec]) -> None:
        specs = list(specs)
        check_processes(specs)
        self._check_memory(max(map(needed_mib, specs)), self.nodes_called)
        # Of two sides with different JVMs or versions only one may have a cache: so neither starts with it.
        self._warm_start = not self._compared or len({(spec.version, spec.jvm_options) for spec in specs}) == 1
        for version in sorted({spec.version for spec in specs}):
            find_java(JAVA_NEEDED, what=f"Pulsar {version}")
            self._say(f"Pulsar {version}: fetching and verifying its jars")
            self._jars(version)
        if self._cross_zone:
            self._say("Toxiproxy: building it, once")
            toxiproxy_server()

    def _maker(self, spec: ClusterSpec, logs: Path) -> Callable[[], EmbeddedCluster]:
        java, jars = find_java(), self._jars(spec.version)
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
