"""The containers target of Pulsar and its clusters, started by a Docker engine of this machine.

The image's contract (docker/pulsar, bin/pulsar and conf/ of Pulsar's sources): bin/apply-config-from-env.py writes
variables PULSAR_PREFIX_<setting> into a file of conf/, `bin/pulsar zookeeper|bookie|broker` starts a node with it,
`bin/pulsar initialize-cluster-metadata` writes the metadata; PULSAR_MEM, BOOKIE_MEM, PULSAR_GC, PULSAR_EXTRA_OPTS are
options of Java. Nodes run in the image's folder, with their data below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from perfgate.host import docker_engine
from perfgate.host.java import names_collector
from perfgate.host.toxiproxy import ToxiproxyApi
from perfgate.host.waiting import start_error
from perfgate.model import ClusterSpec
from perfgate.model.counting import counted
from perfgate.systems.own_containers import ANY, OwnContainers, publish
from perfgate.systems.pulsar.managed.nodes import (
    METADATA_STORE,
    ROLES,
    SAME_ZONE_LISTENER,
    SETUP_MEMORY,
    Role,
    last_words,
    memory_options,
    needed_mib,
    node_name,
    role_of,
)
from perfgate.systems.pulsar.managed.own_cluster import OwnCluster, PulsarFaults, StartedTarget, check_specs

OFFICIAL_IMAGE = "apachepulsar/pulsar"
PORTS: Mapping[Role, int] = {"metadata store": 2181, "bookie": 3181, "broker": 6650}
WEB_PORTS: Mapping[Role, int] = {"bookie": 8000, "broker": 8080}
"""Ports in the containers: those of the files that a release ships."""
INTERNAL_LISTENER = "internal"
SETTING = "PULSAR_PREFIX_"
"""Prefix of variables that the image's bin/apply-config-from-env.py adds to a file, or sets where the file has them."""
FILES: Mapping[Role, tuple[str, str]] = {
    "metadata store": ("conf/zookeeper.conf", "zookeeper"),
    "bookie": ("conf/bookkeeper.conf", "bookie"),
    "broker": ("conf/broker.conf", "broker"),
}
"""Each role's configuration file, and its command of bin/pulsar."""
FOLDERS: Mapping[Role, str] = {"metadata store": "data/zookeeper", "bookie": "data/bookkeeper"}
EXTRA_OPTIONS = "-Dpulsar.allocator.exit_on_oom=true -Dio.netty.recycler.maxCapacityPerThread=4096"
"""The image's default for PULSAR_EXTRA_OPTS (conf/pulsar_env.sh)."""
LAST_WORDS = 2_000


def image_of(spec: ClusterSpec) -> str:
    return spec.image or f"{OFFICIAL_IMAGE}:{spec.version}"


class ContainersCluster(OwnCluster):
    """A metadata store, bookies and brokers as containers; see :class:`perfgate.model.target.Cluster`."""

    supervisor: OwnContainers
    internal, same_zone = INTERNAL_LISTENER, SAME_ZONE_LISTENER
    bound = ANY

    def __init__(self, spec: ClusterSpec, *, logs: Path, toxiproxy_image: str | None) -> None:
        """`toxiproxy_image` of the proxies before the brokers, for clients of another zone; None: no proxies."""
        super().__init__(spec, logs, cross_zone=toxiproxy_image is not None)
        self._toxiproxy_image = toxiproxy_image or ""
        self.supervisor = OwnContainers(node_name, logs, last_words)
        self.faults = PulsarFaults(self.supervisor.actions(), self.supervisor.runs)
        self._version = spec.version

    def start(self) -> None:
        """See :class:`OwnCluster`; the version is then that which the brokers report."""
        super().start()
        self._version = self.admin.version()

    def container_ids(self) -> Mapping[int, str]:
        return self.supervisor.ids()

    def facts(self) -> Mapping[str, object]:
        return {
            "kind": "containers",
            "name": "containers",
            "image": image_of(self.spec),
            **self._common_facts(),
            "pulsar_version": self._version,
            "jvm_options": {role: [*memory_options(role), *self._asked(role)] for role in ROLES},
            "broker_cpus": self.spec.cpus_per_broker,
            "broker_memory_mib": self.spec.memory_mib_per_broker,
        }

    def _starting(self) -> AbstractContextManager[None]:
        return self.supervisor.starting()

    def _spawn(self, node: int) -> None:
        role = role_of(node)
        container = self.supervisor.node(node, image_of(self.spec), self.spec if role == "broker" else None)
        file, command = FILES[role]
        script = f"bin/apply-config-from-env.py {file} && exec bin/pulsar {command}"
        container.with_command(["bash", "-c", script])
        settings = {f"{SETTING}{name}": value for name, value in self._settings(node).items()}
        container.with_envs(**settings, **self._java_variables(role))
        publish(container, PORTS[role], self._ports[node])
        if role in WEB_PORTS:
            publish(container, WEB_PORTS[role], self._web_ports[node])
        container.start()

    def _asked(self, role: Role) -> tuple[str, ...]:
        return self.spec.jvm_options if role == "broker" else ()

    def _java_variables(self, role: Role) -> dict[str, str]:
        """Variables of a role's Java: its memory, and a run's own options; all else is the image's."""
        name = "BOOKIE_MEM" if role == "bookie" else "PULSAR_MEM"
        variables = {name: " ".join(memory_options(role))}
        if asked := self._asked(role):
            variables["PULSAR_EXTRA_OPTS"] = " ".join([EXTRA_OPTIONS, *asked])
            if names_collector(asked):  # a JVM with two collectors does not start
                variables["PULSAR_GC"] = "-server"
        return variables

    def _set_metadata_up(self) -> None:
        command = ["bin/pulsar", "initialize-cluster-metadata", *self._setup_arguments()]
        memory = {"PULSAR_MEM": " ".join(SETUP_MEMORY)}
        code, printed = self.supervisor.run(METADATA_STORE, command, memory, "setting the cluster's metadata up")
        (self._logs / "metadata-setup.log").write_text(printed)
        if code:
            raise start_error("Pulsar refused its metadata store", printed[-LAST_WORDS:], self.spec.config)

    def _started_proxy(self) -> ToxiproxyApi:
        return self.supervisor.start_proxy(
            self._toxiproxy_image,
            api_port=self._proxy_api_port,
            ports=self._proxy_ports,
            upstream={broker: self._at(broker) for broker in self._ids},
            check=self.check,
        )

    def _host(self, node: int) -> str:
        return node_name(node)

    def _port(self, node: int, *, web: bool = False) -> int:
        return (WEB_PORTS if web else PORTS)[role_of(node)]

    def _folder(self, node: int) -> str:
        return FOLDERS[role_of(node)]

    def _broker_of(self, name: str) -> int:
        """See :class:`OwnCluster`: the host is the container's, which a name server may give a domain."""
        host = name.partition(":")[0].partition(".")[0]
        return next(broker for broker in self._ids if node_name(broker) == host)


class ContainersTarget(StartedTarget[ContainersCluster]):
    """Starts clusters of containers; see :class:`perfgate.model.target.Target`."""

    kind = "containers"

    def __init__(
        self, *, log_folder: Path, toxiproxy_image: str | None, say: Callable[[str], None], note: Callable[[str], None]
    ) -> None:
        """`note` reports removed leftovers. `toxiproxy_image` for the cross-zone link; None: no scenario needs it."""
        super().__init__(log_folder=log_folder, say=say)
        self._toxiproxy_image, self._note = toxiproxy_image, note

    def check_room(self, at_a_time: float, in_all: float) -> None:
        """See :func:`perfgate.host.docker_engine.check_room`; a bookie writes each entry twice."""
        docker_engine.check_room(2 * at_a_time, self._note)

    def prepare(self, specs: Iterable[ClusterSpec]) -> None:
        specs = list(specs)
        check_specs(specs)
        self._check_memory(max(map(needed_mib, specs)), self.nodes_called)
        proxies = [self._toxiproxy_image] if self._toxiproxy_image else []
        docker_engine.have_images([*map(image_of, specs), *proxies], self._say, option="--pulsar-image")

    def _maker(self, spec: ClusterSpec, logs: Path) -> Callable[[], ContainersCluster]:
        nodes = f"{counted(spec.bookies, 'bookie')} and {counted(spec.brokers, 'broker')}"
        self._say(f"{image_of(spec)}: starting {nodes} in containers")
        return lambda: ContainersCluster(spec, logs=logs, toxiproxy_image=self._toxiproxy_image)
