"""A cluster of processes of this machine: combined broker and controller KRaft nodes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from perfgate.host.guard import clean_environment
from perfgate.host.java import AotCaches, cache_path
from perfgate.host.maven import Jars
from perfgate.host.ports import HOST, free_ports
from perfgate.host.session import run_in_session
from perfgate.host.waiting import start_error
from perfgate.load.tools import write_properties
from perfgate.model import ClusterSpec
from perfgate.model.errors import BrokersFailedError
from perfgate.systems.kafka.java import digest_of_build
from perfgate.systems.kafka.managed.brokers import (
    JVM_OPTIONS,
    SeverableLinks,
    broker_ids,
    controller_ids,
    jvm_options,
    log_dirs,
    new_cluster_id,
    node_name,
    node_settings,
    quorum_ids,
)
from perfgate.systems.kafka.managed.faults import ProcessFaults
from perfgate.systems.kafka.managed.monitoring import AGENT_CONFIG, agent_option, exporter_jar, start_prometheus
from perfgate.systems.kafka.managed.own_cluster import LISTENERS, NOT_MONITORED, Monitoring, OwnCluster, listener_ports
from perfgate.systems.kafka.managed.secured import Secured
from perfgate.systems.kafka.managed.tiered import is_tiered, tiered_jar, tiered_settings
from perfgate.systems.own_processes import LOG4J, OwnProcesses

FORMAT_TIMEOUT_S = 300
"""A bound on a hang."""
DATA = "kafka-perf-gate-data-"


class EmbeddedCluster(OwnCluster):
    supervisor: OwnProcesses

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        java: Path,
        jars: Jars,
        logs: Path,
        cross_zone: bool,
        monitoring: Monitoring = NOT_MONITORED,
        warm_start: bool = True,
    ) -> None:
        """`warm_start`: use, or record, what Java learnt of such brokers."""
        nodes = (*controller_ids(spec), *broker_ids(spec))
        ports = iter(free_ports((len(LISTENERS) + 1) * spec.brokers + len(nodes) + 2))
        between = {
            "INTERNAL": {broker: next(ports) for broker in broker_ids(spec)},
            "CONTROLLER": {node: next(ports) for node in nodes},
        }
        super().__init__(spec, listener_ports(spec, monitoring, ports) | between, monitoring, logs)
        self._severable = SeverableLinks(spec, self._ports) if spec.severable else None
        self._java = java
        self._jars = jars
        self._cross_zone = cross_zone
        self._nodes = nodes
        self._proxy_api_port, self._prometheus_port = next(ports), next(ports)
        # Agents and options of a run's own make another JVM; a cache for each would be made once and never used.
        plain = warm_start and not (spec.jvm_options or monitoring.wanted)
        cache = cache_path(java, f"kafka-{jars.version}", jars.classpath, JVM_OPTIONS) if plain else None
        self._aot = AotCaches({"broker": cache})
        self.supervisor = OwnProcesses(partial(node_name, spec), logs, data=DATA, caches=self._aot)
        self._data = self.supervisor.data
        try:
            if spec.security != "plaintext":
                self._secured = Secured(spec.security, java=java, folder=self._data)
        except BaseException:
            self.supervisor.close()
            raise
        self.faults: ProcessFaults = ProcessFaults(
            self.supervisor,
            spec,
            spawn=self._spawn,
            proxies=lambda: (self.proxy, self._severable.names) if self.proxy and self._severable else None,
            tools={"java": str(java), "classpath": jars.classpath, "bootstrap": self._addresses("INTERNAL")},
            log_dirs=self.log_dirs(),
        )

    def start(self) -> None:
        self._logs.mkdir(parents=True, exist_ok=True)
        (self._data / "log4j2.properties").write_text(LOG4J.format(stacks=""))
        for node in self._nodes:
            write_properties(self._properties(node), self._node_settings(node))
        self._format_storage()
        begin = time.monotonic()
        for node in self._nodes:
            self._spawn(node)
        if self._cross_zone or self._severable:
            self.proxy = self.supervisor.start_proxy(self._proxy_api_port)
            if self._cross_zone:
                listen, upstream = (
                    {broker: f"{HOST}:{port}" for broker, port in self._ports[name].items()}
                    for name in ("PROXY", "CROSSZONE")
                )
                self.proxy.add_brokers(listen, upstream)
            if self._severable:
                self._severable.add_to(self.proxy)
        self.wait_until_ready("SAMEZONE", "CROSSZONE", "INTERNAL")
        self._started_s = time.monotonic() - begin
        if self._monitoring.own:
            self.prometheus_url = start_prometheus(
                self.supervisor.guard,
                self._data,
                self._logs / "prometheus.log",
                port=self._prometheus_port,
                agents=self._ports["AGENT"],
                check=self.check,
            )

    def _begin_at(self, *, cross_zone: bool) -> str:
        if self._severable and not cross_zone:
            return ",".join(self._severable.advertised(broker)["SAMEZONE"] for broker in self._ids)
        return super()._begin_at(cross_zone=cross_zone)

    def _spawn(self, node: int) -> None:
        argv = [
            self._java,
            *jvm_options(self.spec.jvm_options),
            *self._aot_options(node),
            *self._agent(node),
            f"-Dlog4j2.configurationFile={self._data}/log4j2.properties",
            "-cp",
            self._jars.classpath,
            "kafka.Kafka",
            self._properties(node),
        ]
        self.supervisor.spawn(node, argv, self.spec.cpus_per_broker if node in self._ids else 0.0)

    def _aot_options(self, node: int) -> list[str]:
        # A broker that records takes seconds to end in good order, which some faults wait for.
        return self._aot.options("broker", node, records=node in self._ids and not self.spec.severable)

    def broker_pids(self) -> Mapping[int, int]:
        return {broker: self.supervisor.pids[broker] for broker in self._ids}

    def log_dirs(self) -> Sequence[Path]:
        return [Path(at) for n in self._ids for at in log_dirs(self.spec, n, self._data / node_name(self.spec, n))]

    @property
    def node_logs(self) -> Mapping[int, Path]:
        return {node: self.supervisor.log(node) for node in self._nodes}

    def facts(self) -> Mapping[str, object]:
        return {
            "kind": "embedded",
            "name": "embedded",
            **self._common_facts(),
            "java": str(self._java),
            **({"build": digest_of_build(self.spec.home)} if self.spec.home else {}),
            "jvm_options": jvm_options(self.spec.jvm_options),
            "ready_s": round(self._started_s, 2),
            "aot_cache": self._aot.used,
        }

    def _agent(self, node: int) -> list[str]:
        if not self._monitoring.wanted or node not in self._ids:
            return []
        config = self._data / "jmx.yml"
        config.write_text(AGENT_CONFIG)
        return [agent_option(f"{HOST}:{self._ports['AGENT'][node]}", exporter_jar(), config)]

    def _properties(self, node: int) -> Path:
        return self._data / f"{node_name(self.spec, node)}.properties"

    def _node_settings(self, node: int) -> dict[str, str]:
        at = {listener: f"{HOST}:{by_node[node]}" for listener, by_node in self._ports.items() if node in by_node}
        cross = "PROXY" if self._cross_zone else "CROSSZONE"
        reached_at = {"SAMEZONE": "SAMEZONE", "CROSSZONE": cross, "INTERNAL": "INTERNAL"}
        advertised = {name: at.get(listener, "") for name, listener in reached_at.items()}
        voters = {voter: f"{HOST}:{self._ports['CONTROLLER'][voter]}" for voter in quorum_ids(self.spec)}
        if self._severable and node in self._ids:
            advertised |= self._severable.advertised(node)
            voters = self._severable.voters(node)
        settings = node_settings(
            self.spec,
            node,
            listeners={name: at.get(name, "") for name in ("SAMEZONE", "CROSSZONE", "INTERNAL", "CONTROLLER")},
            advertised=advertised,
            voters=voters,
            log_dir=self._data / node_name(self.spec, node),
        )
        if is_tiered(self.spec) and node in self._ids:
            settings = {**tiered_settings(self.spec, self._data, tiered_jar(self.spec.version)), **settings}
        if self._secured and node in self._ids:
            settings |= self._secured.broker_settings(settings["listener.security.protocol.map"])
        return settings

    def _format_storage(self) -> None:
        tool: list[object] = [self._java, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", self._jars.classpath]
        tool += [f"-Dlog4j2.configurationFile={self._data}/log4j2.properties", "kafka.tools.StorageTool", "format"]
        tool += ["--cluster-id", new_cluster_id(), "--config"]
        options = self._secured.format_options() if self._secured else []

        def formatted(node: int) -> tuple[int, str]:
            command = [*map(str, tool), str(self._properties(node)), *options]
            return run_in_session(command, FORMAT_TIMEOUT_S, clean_environment())

        try:
            with ThreadPoolExecutor(len(self._nodes)) as pool:
                ended = list(pool.map(formatted, self._nodes))
        except subprocess.TimeoutExpired as error:
            reason = f"formatting the brokers' log folders took more than {FORMAT_TIMEOUT_S} s"
            raise BrokersFailedError(reason, perhaps_late=True) from error
        for code, output in ended:
            if code:
                raise start_error("Kafka refused its log folders or settings", output, self.spec.config)
