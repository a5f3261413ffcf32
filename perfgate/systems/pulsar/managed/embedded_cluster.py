"""A cluster of Pulsar as processes of this machine: one metadata store, bookies and brokers."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from perfgate.host.guard import Guard
from perfgate.host.java import AotCaches, cache_path, java_release
from perfgate.host.journal import LockedFolder
from perfgate.host.machine_use import limit_cpu
from perfgate.host.ports import HOST
from perfgate.host.toxiproxy import ToxiproxyApi, start_toxiproxy
from perfgate.host.waiting import start_error, tail_of
from perfgate.model import ClusterSpec
from perfgate.model.errors import BrokersFailedError, TargetError
from perfgate.systems.pulsar.jars import PulsarJars
from perfgate.systems.pulsar.managed.faults import ProcessFaults
from perfgate.systems.pulsar.managed.nodes import (
    CONF_OPTION,
    CROSS_ZONE_LISTENER,
    LOG4J,
    MAIN,
    METADATA_SETUP,
    METADATA_STORE,
    ROLES,
    SAME_ZONE_LISTENER,
    SETUP_MEMORY,
    as_properties,
    bookie_settings,
    broker_settings,
    jvm_options,
    last_words,
    metadata_store_settings,
    node_name,
    role_of,
)
from perfgate.systems.pulsar.managed.own_cluster import OwnCluster

DATA = "kafka-perf-gate-pulsar-data-"
"""Prefix of the names of folders with nodes' data."""
SETUP = "metadata set-up"


class EmbeddedCluster(OwnCluster):
    """See :class:`perfgate.model.target.Cluster`."""

    faults: ProcessFaults

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        java: Path,
        jars: PulsarJars,
        logs: Path,
        cross_zone: bool,
        warm_start: bool = True,
    ) -> None:
        """`cross_zone`: put proxies in front of the brokers, for clients of another zone. `warm_start`: use, or record,
        what Java learnt of such nodes.
        """
        super().__init__(spec, logs, cross_zone=cross_zone)
        self._java, self._jars, self._release = java, jars, java_release(java)
        self._guard = Guard()
        self._folder = LockedFolder(DATA)
        self._data = self._folder.path
        self._guard.owns(self._data)
        self._pids: dict[int, int] = {}
        self._proxy_pid = 0
        self._proxy_log, self._setup_log = logs / "toxiproxy.log", logs / "metadata-setup.log"
        # Options of a run's own make another JVM; a cache for each would be made once and never used.
        options: dict[str, list[str]] = {
            role: jvm_options(role, (), self._release) for role in ROLES if role != "broker" or not spec.jvm_options
        }
        caches: dict[str, list[str]] = {**options, SETUP: self._setup_options()} if warm_start else {}
        self._aot = AotCaches(
            {
                what: cache_path(java, f"pulsar-{jars.version}-{what.replace(' ', '-')}", jars.classpath, of_it)
                for what, of_it in caches.items()
            }
        )
        self.faults = ProcessFaults(self._guard, self._pids, spawn=self._spawn)

    @contextmanager
    def _starting(self) -> Iterator[None]:
        (self._data / "log4j2.properties").write_text(LOG4J)
        for node in self._nodes:
            self._conf(node).write_text(as_properties(self._settings(node)))
        yield

    def _started_proxy(self) -> ToxiproxyApi:
        self._proxy_pid, proxy = start_toxiproxy(self._guard, api_port=self._proxy_api_port, log=self._proxy_log)
        listen = {broker: f"{HOST}:{port}" for broker, port in self._proxy_ports.items()}
        proxy.add_brokers(listen, {broker: f"{HOST}:{self._ports[broker]}" for broker in listen})
        return proxy

    def pids(self) -> Mapping[int, int]:
        """Return the process of every node, bookies and the metadata store among them."""
        return dict(self._pids)

    def check(self) -> None:
        watched = {
            node_name(node).replace("-", " "): (pid, self._log(node))
            for node, pid in self._pids.items()
            if node not in self.faults.absent
        }
        if self.proxy is not None:
            watched["Toxiproxy"] = (self._proxy_pid, self._proxy_log)
        for name, (pid, log) in watched.items():
            status = self._guard.exit_status(pid)
            if status is not None:
                how = f"was killed by signal {-status}" if status < 0 else f"exited with code {status}"
                failed = TargetError if pid == self._proxy_pid else BrokersFailedError
                raise failed(f"{name} (pid {pid}) {how}; end of its log:\n{last_words(tail_of(log, 60))}")

    def tail(self, node: int, lines: int) -> str:
        return tail_of(self._log(node), lines)

    def facts(self) -> Mapping[str, object]:
        return {
            "kind": "embedded",
            "name": "embedded",
            **self._common_facts(),
            "java": str(self._java),
            "jvm_options": {role: jvm_options(role, self.spec.jvm_options, self._release) for role in ROLES},
            "aot_cache": self._aot.used,
        }

    def close(self) -> None:
        """Kill every process and remove the data; the logs stay."""
        self._guard.close()
        self._folder.delete()
        self._aot.delete_drafts()

    @property
    def recording(self) -> bool:
        return bool(self._aot.recording)

    def keep_aot_cache(self) -> None:
        """End the nodes that record, and keep their caches for later runs. They are missing afterwards."""
        self._aot.keep(
            lambda node: self._guard.signal(self._pids[node], signal.SIGTERM),
            lambda node: self._guard.exit_status(self._pids[node]),
        )

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
        self._pids[node] = self._guard.spawn(argv, log=self._log(node))
        if self.spec.cpus_per_broker and node in self._ids:
            self._guard.owns(limit_cpu(self._pids[node], self.spec.cpus_per_broker))

    def _common_options(self) -> list[str]:
        # Libraries that are unpacked there stay behind a node that is killed: it is the run's own folder.
        unpacked = f"-Djava.io.tmpdir={self._data}"
        return [unpacked, f"-Dlog4j2.configurationFile={self._data}/log4j2.properties", "-cp", self._jars.classpath]

    def _set_metadata_up(self) -> None:
        argv = [self._java, *self._setup_options(), *self._aot.options(SETUP, 0), *self._common_options()]
        pid = self._guard.spawn([*argv, METADATA_SETUP, *self._setup_arguments()], log=self._setup_log)

        def running() -> str:
            return "" if self._guard.exit_status(pid) is not None else "the metadata's set-up runs"

        self._wait(running)
        if self._guard.exit_status(pid):
            raise start_error("Pulsar refused its metadata store", tail_of(self._setup_log, 40), self.spec.config)
        self._aot.keep_of(SETUP)

    def _setup_options(self) -> list[str]:
        return [*jvm_options("metadata store", (), self._release), *SETUP_MEMORY]

    def _logged(self) -> int:
        logs = [self._setup_log, *(self._log(node) for node in self._nodes)]
        return sum(log.stat().st_size for log in logs if log.exists())

    def _log(self, node: int) -> Path:
        return self._logs / f"{node_name(node)}.log"

    def _conf(self, node: int) -> Path:
        return self._data / f"{node_name(node)}.conf"

    def _at(self, node: int, *, web: bool = False) -> str:
        return f"{HOST}:{(self._web_ports if web else self._ports)[node]}"

    def _broker_of(self, name: str) -> int:
        """See :class:`OwnCluster`: the host is what this machine calls itself, the port is the web service's."""
        return next(broker for broker in self._ids if name.endswith(f":{self._web_ports[broker]}"))

    def _settings(self, node: int) -> Mapping[str, str]:
        store, folder = self._at(METADATA_STORE), self._data / node_name(node)
        match role_of(node):
            case "metadata store":
                return metadata_store_settings(port=self._ports[node], folder=folder)
            case "bookie":
                return bookie_settings(
                    self.spec,
                    port=self._ports[node],
                    http_port=self._web_ports[node],
                    metadata=store,
                    folder=folder,
                )
            case "broker":
                listeners = {SAME_ZONE_LISTENER: self._at(node)}
                if node in self._proxy_ports:
                    listeners[CROSS_ZONE_LISTENER] = f"{HOST}:{self._proxy_ports[node]}"
                return broker_settings(
                    self.spec,
                    port=self._ports[node],
                    web_port=self._web_ports[node],
                    metadata=store,
                    listeners=listeners,
                )
