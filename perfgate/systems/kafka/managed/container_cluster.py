"""A cluster of containers with its faults: KRaft nodes from an image with the contract of apache/kafka."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import docker
import docker.errors
import requests
from docker.models.containers import Container
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.exceptions import ContainerStartException
from testcontainers.core.network import Network

from perfgate.host.journal import mark_of_this_process
from perfgate.host.ports import HOST, free_ports
from perfgate.host.session import interrupted_later
from perfgate.host.starting import check_while_starting
from perfgate.host.toxiproxy import ToxiproxyApi
from perfgate.model import CROSS_ZONE, ClusterSpec
from perfgate.model.errors import BrokersFailedError, TargetError
from perfgate.systems.kafka.managed.brokers import (
    HEAP,
    controller_ids,
    names_collector,
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
from perfgate.systems.kafka.managed.own_cluster import LISTENERS, NOT_MONITORED, Monitoring, OwnCluster, listener_ports
from perfgate.systems.kafka.managed.secured import ContainerKeys

OFFICIAL_IMAGE = "apache/kafka"
CHECK_EVERY_S = 0.5
"""Asking the Docker engine about three containers takes some milliseconds of CPU, which the brokers share."""
OWNER = "kafka-perf-gate.owner"
"""Label of everything that a run makes: the mark of its process."""
DATA = "/var/lib/kafka/data"
PORTS = {"SAMEZONE": 9092, "CONTROLLER": 9093, "CROSSZONE": 9094, "INTERNAL": 9095}
PROXY_API, PROXY_FIRST = 8474, 20_000
AGENT_PORT, AGENT_JAR, AGENT_RULES = 9404, Path("/opt/jmx-exporter/agent.jar"), Path("/opt/jmx-exporter/rules.yml")
ANY = "0.0.0.0"  # noqa: S104 - inside a container; its ports are published on loopback only
LOG_LINE = 300
TELLS_VERSION = re.compile(r"Kafka version: (\d[\w.-]*)")
"""Log line of Kafka's AppInfoParser when a broker starts."""
WITHOUT_RYUK = (
    "; where the Ryuk image cannot be had set TESTCONTAINERS_RYUK_DISABLED=true, what a killed run leaves is then "
    "removed at the next start"
)
DockerErrors = (docker.errors.DockerException, requests.RequestException)
CLASSPATH = "/opt/kafka/libs/*"


def image_of(spec: ClusterSpec) -> str:
    return spec.image or f"{OFFICIAL_IMAGE}:{spec.version}"


class ContainersCluster(OwnCluster):
    """One cluster of containers; see :class:`perfgate.model.target.Cluster`."""

    def __init__(
        self, spec: ClusterSpec, *, logs: Path, toxiproxy_image: str | None, monitoring: Monitoring = NOT_MONITORED
    ) -> None:
        ports = iter(free_ports(len(LISTENERS) * spec.brokers + 2))
        super().__init__(spec, listener_ports(spec, monitoring, ports), monitoring, logs)
        self._toxiproxy_image = toxiproxy_image
        self._proxy_api_port, self._prometheus_port = next(ports), next(ports)
        self._network = Network(docker_network_kw={"labels": {OWNER: mark_of_this_process()}})
        self.faults = ContainerFaults(
            lambda: {node: one.get_wrapped_container() for node, one in self._nodes.items()},
            lambda: self._network._network,
            alias=lambda node: node_name(spec, node),
            voters=quorum_ids(spec),
            data=DATA,
            bootstrap=",".join(f"{node_name(spec, broker)}:{PORTS['INTERNAL']}" for broker in self._ids),
        )
        self._nodes: dict[int, DockerContainer] = {}
        self._others: dict[str, DockerContainer] = {}
        """Containers next to the brokers, by name."""
        self._checked = 0.0
        self._keys: ContainerKeys | None = None
        self._version = spec.version

    def start(self) -> None:
        begin = time.monotonic()
        cluster_id = new_cluster_id()
        self._logs.mkdir(parents=True, exist_ok=True)
        if self.spec.security != ClusterSpec().security:
            self._keys = ContainerKeys(self.spec.security)
            self._secured = self._keys.secured
        try:
            self._network.create()
            for node in (*controller_ids(self.spec), *self._ids):
                self._nodes[node] = self._node(node, cluster_id)
                self._nodes[node].start()
            if self._toxiproxy_image:
                self._start_proxy(self._toxiproxy_image)
            if self._monitoring.own:
                self._start_prometheus()
        except DockerErrors as error:
            ryuk = "" if testcontainers_config.ryuk_disabled else WITHOUT_RYUK
            raise TargetError(f"a container did not start: {words_of(error)}{ryuk}") from None
        if self._keys:
            check = partial(check_while_starting, self.check, self.spec.config)
            self._keys.add_user(self.faults, check=check, logged=lambda: self.log_tail(1))
        self._wait_until_ready("SAMEZONE", "CROSSZONE", logged=lambda: self.log_tail(1))
        self._started_s = time.monotonic() - begin
        self._version = self._version_told() or self.spec.version
        if self._monitoring.own:
            url = f"http://{HOST}:{self._prometheus_port}"
            self.prometheus_url = wait_for_prometheus(
                url, len(self._ids), self.check, _tail(self._others["Prometheus"], 5)
            )

    def close(self) -> None:
        """Keep the logs, where there is room for them, then remove every container and the network."""
        for node, container in self._nodes.items():
            with suppress(*DockerErrors, ContainerStartException, OSError):
                (self._logs / f"{node_name(self.spec, node)}.log").write_bytes(container.get_wrapped_container().logs())
        with interrupted_later():
            for container in [*self._nodes.values(), *self._others.values()]:
                with suppress(*DockerErrors):
                    container.stop()
            self._nodes, self._others = {}, {}
            if self._network._network is not None:
                with suppress(*DockerErrors):
                    self._network.remove()
            if self._keys:
                self._keys.close()

    def agents(self) -> Mapping[str, int]:
        """The broker of every JMX exporter, by its address as the Prometheus calls it."""
        if not self._monitoring.own:
            return super().agents()
        return {f"{node_name(self.spec, broker)}:{AGENT_PORT}": broker for broker in self._ids}

    def container_ids(self) -> Mapping[int, str]:
        return {broker: self._nodes[broker].get_container_id() for broker in self._ids}

    def check(self) -> None:
        if time.monotonic() - self._checked < CHECK_EVERY_S:
            return
        self._checked = time.monotonic()
        watched = {
            node_name(self.spec, node).replace("-", " "): one
            for node, one in self._nodes.items()
            if node not in self.faults.absent
        }
        for name, container in (watched | self._others).items():
            try:
                container.reload()
                state: Mapping[str, Any] = container.get_wrapped_container().attrs["State"]
            except DockerErrors as error:
                raise TargetError(f"{name}: its container cannot be inspected: {words_of(error)}") from None
            if not state["Running"]:
                how = "was killed for want of memory" if state.get("OOMKilled") else f"ended with {state['ExitCode']}"
                failed = TargetError if name in self._others else BrokersFailedError
                raise failed(f"{name}: its container {how}; end of its log:\n{_tail(container, 15)}")

    @property
    def node_logs(self) -> Mapping[int, str]:
        return {node: node_name(self.spec, node) for node in self._nodes}

    def tail(self, node: int, lines: int) -> str:
        return _tail(self._nodes[node], lines)

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

    def _version_told(self) -> str:
        """Version in the first broker's log; empty where it has none."""
        with suppress(*DockerErrors):
            logged = self._nodes[self._ids[0]].get_wrapped_container().logs().decode(errors="replace")
            if found := TELLS_VERSION.search(logged):
                return found[1]
        return ""

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
        container = DockerContainer(image_of(self.spec))
        if self._keys and node in self._ids:
            settings |= self._keys.given_to(container, settings["listener.security.protocol.map"])
        container.with_envs(
            CLUSTER_ID=cluster_id,
            KAFKA_HEAP_OPTS=" ".join(HEAP),
            **({"KAFKA_JVM_PERFORMANCE_OPTS": "-server"} if names_collector(self.spec.jvm_options) else {}),
            KAFKA_OPTS=" ".join([*self._agent(container, node), *self.spec.jvm_options]),
            **{_variable(setting): value for setting, value in settings.items()},
        )
        limits: dict[str, object] = {}
        if node in self._ids:
            for listener in ("SAMEZONE", "CROSSZONE"):
                _publish(container, PORTS[listener], self._ports[listener][node])
            if cpus := self.spec.cpus_per_broker:
                limits["nano_cpus"] = int(cpus * 1e9)
            if memory := self.spec.memory_mib_per_broker:
                limits["mem_limit"] = limits["memswap_limit"] = f"{memory}m"  # the same: no swap
        container.with_network(self._network).with_network_aliases(name)
        return container.with_kwargs(labels={OWNER: mark_of_this_process()}, hostname=name, **limits)

    def _agent(self, container: DockerContainer, node: int) -> list[str]:
        """Put the JMX exporter into a broker's container, from this machine's files; return its JVM option."""
        if not self._monitoring.wanted or node not in self._ids:
            return []
        config = self._logs / "jmx.yml"
        config.write_text(AGENT_CONFIG)
        container.with_volume_mapping(str(exporter_jar()), str(AGENT_JAR), "ro")
        container.with_volume_mapping(str(config.absolute()), str(AGENT_RULES), "ro")
        _publish(container, AGENT_PORT, self._ports["AGENT"][node])
        return [agent_option(f"{ANY}:{AGENT_PORT}", AGENT_JAR, AGENT_RULES)]

    def _beside(self, name: str, image: str) -> DockerContainer:
        """Return a container in the brokers' network that is watched and removed with them."""
        container = DockerContainer(image)
        container.with_network(self._network).with_kwargs(labels={OWNER: mark_of_this_process()})
        self._others[name] = container
        return container

    def _start_prometheus(self) -> None:
        config = self._logs / "prometheus.yml"
        config.write_text(server_config(self.agents()))
        container = self._beside("Prometheus", self._monitoring.image)
        container.with_volume_mapping(str(config.absolute()), "/etc/prometheus/prometheus.yml", "ro")
        _publish(container, 9090, self._prometheus_port)
        container.start()

    def _start_proxy(self, image: str) -> None:
        container = self._beside("Toxiproxy", image)
        container.with_command(["-host", ANY, "-port", str(PROXY_API)])
        _publish(container, PROXY_API, self._proxy_api_port)
        for broker in self._ids:
            _publish(container, PROXY_FIRST + broker, self._ports["PROXY"][broker])
        container.start()
        self.proxy = ToxiproxyApi(HOST, self._proxy_api_port)
        self.proxy.wait_until_ready(self.check)
        for broker in self._ids:
            self.proxy.add_proxy(
                f"broker-{broker}",
                listen=f"{ANY}:{PROXY_FIRST + broker}",
                upstream=f"broker-{broker}:{PORTS['CROSSZONE']}",
                added_rtt_ms=CROSS_ZONE.added_rtt_ms,
            )


def _publish(container: DockerContainer, inside: int, outside: int) -> None:
    """Publish a port on loopback only; testcontainers' own method would publish it on every interface."""
    ports: dict[str, Any] = container.ports
    ports[f"{inside}/tcp"] = (HOST, outside)


def _variable(setting: str) -> str:
    """The variable that the image turns into this setting: dots become _, _ becomes __, - becomes ___."""
    return "KAFKA_" + setting.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def _tail(container: DockerContainer, lines: int) -> str:
    try:
        text = container.get_wrapped_container().logs(tail=lines).decode(errors="replace")
    except DockerErrors as error:
        return f"(no log: {words_of(error)})"
    return "\n".join(line[:LOG_LINE] for line in text.splitlines())


def words_of(error: Exception) -> str:
    explanation = getattr(error, "explanation", None)
    return str(explanation or error).strip()


class ContainerFaults(KafkaFaults):
    """See :class:`perfgate.model.nodes.Faults`. A broker is cut off by taking its container out of the network."""

    def __init__(
        self,
        containers: Callable[[], Mapping[int, Container]],
        network: Callable[[], Any],
        *,
        alias: Callable[[int], str],
        voters: Iterable[int],
        data: str,
        bootstrap: str,
    ) -> None:
        """`containers` by node; `alias`: a node's name in the `network`; `data`: the log folder inside; `bootstrap`:
        the brokers' addresses there.
        """
        does = self._does
        super().__init__(
            {
                "kill": does("killing the container of node {}", lambda one, _: one.kill()),
                "stop": does("stopping the container of node {}", lambda one, _: one.kill(signal="SIGTERM")),
                # Its ports are fixed, its data still there.
                "start": does("starting the container of node {}", lambda one, _: one.start()),
                "pause": does("pausing the container of node {}", lambda one, _: one.pause()),
                "resume": does("resuming the container of node {}", lambda one, _: one.unpause()),
                "cut-off": does("taking broker {} out of the network", lambda one, _: network().disconnect(one)),
                "heal": does(
                    "putting broker {} back into the network", lambda one, n: network().connect(one, aliases=[alias(n)])
                ),
            }
        )
        self._containers = containers
        self._voters, self._data, self._bootstrap = list(voters), data, bootstrap

    def _does(self, doing: str, act: Callable[[Container, int], None]) -> Callable[[int], None]:
        def do(node: int) -> None:
            with _told(doing.format(node)):
                act(self._containers()[node], node)

        return do

    def runs(self, node: int) -> bool:
        container = self._containers()[node]
        with _told(f"looking at the container of node {node}"):
            container.reload()
        return bool(container.attrs["State"]["Running"])

    def active_controller(self) -> int:
        return agreed_leader({node: self._state(node) for node in self._voters if node not in self.absent}, self.absent)

    def run_script(self, script: str, variables: Mapping[str, str]) -> str:
        given = {"java": "java", "classpath": CLASSPATH, "bootstrap": self._bootstrap}
        environment = {**given, "metadata": f"{self._data}/{METADATA}", **variables}
        with _told("running one of Kafka's tools in a container"):
            container = self._containers()[self.active_controller()]
            code, output = container.exec_run(["/bin/bash", "-c", script], environment=environment)
        assert isinstance(output, bytes)
        printed = output.decode(errors="replace")
        if code:
            raise TargetError(f"one of Kafka's tools failed in a container: {printed[-LAST_WORDS:]}")
        return printed

    def _state(self, node: int) -> str:
        # Bash alone: an image need not have more.
        command = ["/bin/bash", "-c", f'echo "$(<{self._data}/{METADATA}/{QUORUM_STATE})"']
        with _told(f"reading who leads the controllers in node {node}"):
            code, output = self._containers()[node].exec_run(command)
        assert isinstance(output, bytes)
        return output.decode(errors="replace") if code == 0 else ""


@contextmanager
def _told(doing: str) -> Iterator[None]:
    try:
        yield
    except DockerErrors as error:
        raise TargetError(f"{doing}: {error}") from None
