"""The containers target and its clusters of KRaft nodes, started by a Docker engine of this machine.

The image's contract: every setting as an environment variable KAFKA_<NAME>, CLUSTER_ID, KAFKA_HEAP_OPTS and KAFKA_OPTS
(kafka.apache.org/documentation, "Docker"). Setting any of them replaces all of the image's own defaults.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from testcontainers.core.container import DockerContainer

from perfgate.host import docker_engine
from perfgate.host.java import names_collector
from perfgate.host.ports import HOST, free_ports
from perfgate.model import ClusterSpec, FaultScenario, Scenario
from perfgate.model.counting import counted
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.systems.kafka.managed.brokers import (
    HEAP,
    broker_ids,
    controller_ids,
    new_cluster_id,
    node_name,
    node_settings,
    quorum_ids,
)
from perfgate.systems.kafka.managed.faults import LAST_WORDS, METADATA, QUORUM_STATE, KafkaFaults, agreed_leader
from perfgate.systems.kafka.managed.monitoring import (
    AGENT_CONFIG,
    agent_option,
    exporter_jar,
    server_config,
    wait_for_prometheus,
)
from perfgate.systems.kafka.managed.own_cluster import (
    LISTENERS,
    NOT_MONITORED,
    KafkaTarget,
    Monitoring,
    OwnCluster,
    listener_ports,
)
from perfgate.systems.kafka.managed.secured import ContainerKeys
from perfgate.systems.kafka.managed.tiered import MANAGER, is_tiered
from perfgate.systems.own_containers import ANY, OwnContainers, publish, tail_of

OFFICIAL_IMAGE = "apache/kafka"
DATA = "/var/lib/kafka/data"
PORTS = {"SAMEZONE": 9092, "CONTROLLER": 9093, "CROSSZONE": 9094, "INTERNAL": 9095}
AGENT_PORT, AGENT_JAR, AGENT_RULES = 9404, Path("/opt/jmx-exporter/agent.jar"), Path("/opt/jmx-exporter/rules.yml")
VERSION_LINE = re.compile(r"Kafka version: (\d[\w.-]*)")
"""Log line of Kafka's AppInfoParser when a broker starts."""
CLASSPATH = "/opt/kafka/libs/*"


def image_of(spec: ClusterSpec) -> str:
    return spec.image or f"{OFFICIAL_IMAGE}:{spec.version}"


class ContainersCluster(OwnCluster):
    """One cluster of containers with its faults; see :class:`perfgate.model.target.Cluster`."""

    supervisor: OwnContainers

    def __init__(
        self, spec: ClusterSpec, *, logs: Path, toxiproxy_image: str | None, monitoring: Monitoring = NOT_MONITORED
    ) -> None:
        ports = iter(free_ports(len(LISTENERS) * spec.brokers + 2))
        super().__init__(spec, listener_ports(spec, monitoring, ports), monitoring, logs)
        self._toxiproxy_image = toxiproxy_image
        self._proxy_api_port, self._prometheus_port = next(ports), next(ports)
        self.supervisor = OwnContainers(partial(node_name, spec), logs)
        self.faults = ContainerFaults(self.supervisor, spec)
        self._keys: ContainerKeys | None = None
        self._version = spec.version

    def start(self) -> None:
        begin = time.monotonic()
        cluster_id = new_cluster_id()
        self._logs.mkdir(parents=True, exist_ok=True)
        if self.spec.security != ClusterSpec().security:
            self._keys = ContainerKeys(self.spec.security)
            self._secured = self._keys.secured
        with self.supervisor.starting():
            for node in (*controller_ids(self.spec), *self._ids):
                self._node(node, cluster_id).start()
            if self._toxiproxy_image:
                self.proxy = self.supervisor.start_proxy(
                    self._toxiproxy_image,
                    api_port=self._proxy_api_port,
                    ports=self._ports["PROXY"],
                    upstream={broker: f"broker-{broker}:{PORTS['CROSSZONE']}" for broker in self._ids},
                    check=self.check,
                )
            if self._monitoring.own:
                self._start_prometheus()
        if self._keys:
            failure = "the brokers did not take the user of their clients"
            self._wait(partial(self._keys.lacking_user, self.faults), failure)
        self.wait_until_ready("SAMEZONE", "CROSSZONE")
        self._started_s = time.monotonic() - begin
        if match := VERSION_LINE.search(self.supervisor.log(self._ids[0])):
            self._version = match[1]
        if self._monitoring.own:
            url = f"http://{HOST}:{self._prometheus_port}"
            self.prometheus_url = wait_for_prometheus(
                url, len(self._ids), self.check, tail_of(self.supervisor.others["Prometheus"], 5)
            )

    def close(self) -> None:
        try:
            super().close()
        finally:
            if self._keys:
                self._keys.close()

    def agents(self) -> Mapping[str, int]:
        if not self._monitoring.own:
            return super().agents()
        return {f"{node_name(self.spec, broker)}:{AGENT_PORT}": broker for broker in self._ids}

    def container_ids(self) -> Mapping[int, str]:
        ids = self.supervisor.ids()
        return {broker: ids[broker] for broker in self._ids}

    @property
    def node_logs(self) -> Mapping[int, str]:
        return self.supervisor.names

    def facts(self) -> Mapping[str, object]:
        return {
            "kind": "containers",
            "name": "containers",
            "image": image_of(self.spec),
            **self._common_facts(),
            "kafka_version": self._version,
            "broker_cpus": self.spec.cpus_per_broker,
            "broker_memory_mib": self.spec.memory_mib_per_broker,
            "ready_s": round(self._started_s, 2),
        }

    def _node(self, node: int, cluster_id: str) -> DockerContainer:
        name = node_name(self.spec, node)
        cross = "PROXY" if self._toxiproxy_image else "CROSSZONE"
        settings = node_settings(
            self.spec,
            node,
            listeners={listener: f"{ANY}:{port}" for listener, port in PORTS.items()},
            advertised={
                "SAMEZONE": f"{HOST}:{self._ports['SAMEZONE'].get(node)}",
                "CROSSZONE": f"{HOST}:{self._ports[cross].get(node)}",
                "INTERNAL": f"{name}:{PORTS['INTERNAL']}",
            },
            voters={n: f"{node_name(self.spec, n)}:{PORTS['CONTROLLER']}" for n in quorum_ids(self.spec)},
            log_dir=DATA,
        )
        limits = self.spec if node in self._ids else None
        container = self.supervisor.node(node, image_of(self.spec), limits)
        if self._keys and node in self._ids:
            settings |= self._keys.given_to(container, settings["listener.security.protocol.map"])
        container.with_envs(
            CLUSTER_ID=cluster_id,
            KAFKA_HEAP_OPTS=" ".join(HEAP),
            **({"KAFKA_JVM_PERFORMANCE_OPTS": "-server"} if names_collector(self.spec.jvm_options) else {}),
            KAFKA_OPTS=" ".join([*self._agent(container, node), *self.spec.jvm_options]),
            **{_variable(setting): value for setting, value in settings.items()},
        )
        if node in self._ids:
            for listener in ("SAMEZONE", "CROSSZONE"):
                publish(container, PORTS[listener], self._ports[listener][node])
        return container

    def _agent(self, container: DockerContainer, node: int) -> list[str]:
        if not self._monitoring.wanted or node not in self._ids:
            return []
        config = self._logs / "jmx.yml"
        config.write_text(AGENT_CONFIG)
        _mount(exporter_jar(), container, AGENT_JAR)
        _mount(config, container, AGENT_RULES)
        publish(container, AGENT_PORT, self._ports["AGENT"][node])
        return [agent_option(f"{ANY}:{AGENT_PORT}", AGENT_JAR, AGENT_RULES)]

    def _start_prometheus(self) -> None:
        config = self._logs / "prometheus.yml"
        config.write_text(server_config(self.agents()))
        container = self.supervisor.beside("Prometheus", self._monitoring.image)
        _mount(config, container, Path("/etc/prometheus/prometheus.yml"))
        publish(container, 9090, self._prometheus_port)
        container.start()


def _mount(file: Path, container: DockerContainer, inside: Path) -> None:
    """Mount a file to be read by the image's own user, whom a umask of 077 or 027 keeps from it."""
    with suppress(OSError):  # another user's: it stays as it is
        file.chmod(file.stat().st_mode | 0o444)
    container.with_volume_mapping(str(file.absolute()), str(inside), "ro")


def _variable(setting: str) -> str:
    return "KAFKA_" + setting.replace("_", "__").replace("-", "___").replace(".", "_").upper()


class ContainerFaults(KafkaFaults):
    """See :class:`perfgate.model.target.Faults`. A broker is cut off by taking its container out of the network."""

    def __init__(self, containers: OwnContainers, spec: ClusterSpec) -> None:
        super().__init__(containers.actions(), containers.runs)
        self._containers, self._voters = containers, quorum_ids(spec)
        inside = ",".join(f"{node_name(spec, broker)}:{PORTS['INTERNAL']}" for broker in broker_ids(spec))
        self._tools = {"java": "java", "classpath": CLASSPATH, "bootstrap": inside, "metadata": f"{DATA}/{METADATA}"}

    def active_controller(self) -> int:
        return agreed_leader({node: self._state(node) for node in self._voters if node not in self.absent}, self.absent)

    def run_script(self, script: str, variables: Mapping[str, str]) -> str:
        controller, doing = self.active_controller(), "running one of Kafka's tools in a container"
        command, environment = ["/bin/bash", "-c", script], {**self._tools, **variables}
        code, printed = self._containers.run(controller, command, environment, doing)
        if code:
            raise TargetError(f"one of Kafka's tools failed in a container: {printed[-LAST_WORDS:]}")
        return printed

    def _state(self, node: int) -> str:
        # Bash alone: an image need not have more.
        command = ["/bin/bash", "-c", f'echo "$(<{DATA}/{METADATA}/{QUORUM_STATE})"']
        code, text = self._containers.run(node, command, {}, f"reading who leads the controllers in node {node}")
        return text if code == 0 else ""


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
        """`note` reports clean-ups. `toxiproxy_image`: for the cross-zone link; None when no scenario needs it."""
        super().__init__(log_folder=log_folder, say=say, monitoring=monitoring)
        self._toxiproxy_image, self._note = toxiproxy_image, note

    def cannot(self, scenario: Scenario) -> str | None:
        if isinstance(scenario, FaultScenario) and scenario.fault.about.drops_cache:
            return "the page cache of brokers in containers is not dropped: cold reads need --target embedded"
        if is_tiered(scenario.cluster):
            return f"an image has no remote tier: tiered storage needs --target embedded, or a broker.{MANAGER}"
        return super().cannot(scenario)

    def check_room(self, at_a_time: float, in_all: float) -> None:
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

    def _maker(self, spec: ClusterSpec, logs: Path) -> Callable[[], ContainersCluster]:
        self._say(f"{image_of(spec)}: starting {counted(spec.brokers, 'broker')} in containers")
        return lambda: ContainersCluster(
            spec, logs=logs, toxiproxy_image=self._toxiproxy_image, monitoring=self._monitoring
        )
