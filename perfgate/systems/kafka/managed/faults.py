"""Faults of nodes that this suite has started, and Kafka's own tools next to them, for requests that no client has."""

from __future__ import annotations

import json
import os
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from perfgate.host.page_cache import drop
from perfgate.host.session import run_in_session
from perfgate.host.toxiproxy import ToxiproxyApi
from perfgate.model import ClusterSpec
from perfgate.model.errors import TargetError
from perfgate.model.target import LoggedChange
from perfgate.systems.kafka.managed.brokers import node_name, quorum_ids
from perfgate.systems.kafka.managed.tiered import FOLDER, local_share
from perfgate.systems.kafka.observe import changes
from perfgate.systems.own_processes import OwnProcesses
from perfgate.systems.own_target import NodeFaults

TOOL_TIMEOUT_S = 60
# Each tool by its name since Kafka 4.0 and that before. Bash alone: an image need not have more.
JAVA = """run() {{ "$java" -Xmx128m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$classpath" "$@"; }}
for tool in {tools}; do run $tool {arguments} && exit; done; exit 1"""
DUMP = 'cd "$metadata" && set -- *.log && files=$(IFS=,; echo "$*")\n' + JAVA.format(
    tools="org.apache.kafka.tools.DumpLogSegments kafka.tools.DumpLogSegments",
    arguments='--cluster-metadata-decoder --files "$files"',
)
MOVE = JAVA.format(
    tools="org.apache.kafka.tools.reassign.ReassignPartitionsCommand kafka.admin.ReassignPartitionsCommand",
    arguments='--bootstrap-server "$bootstrap" --execute --reassignment-json-file <(echo "$moves")',
)
CONFIGURE = JAVA.format(
    tools="org.apache.kafka.tools.ConfigCommand kafka.admin.ConfigCommand",
    arguments='--bootstrap-server "$bootstrap" --alter --entity-type "$kind" --entity-name "$name" --add-config "$set"',
)
METADATA = "__cluster_metadata-0"
QUORUM_STATE = "quorum-state"
LAST_WORDS = 500


class KafkaTools(ABC):
    """One part of :class:`perfgate.model.target.Faults`."""

    @abstractmethod
    def run_script(self, script: str, variables: Mapping[str, str]) -> str:
        """Run a script by bash where a controller runs; return its output. Raises TargetError when it fails.

        Set are `java`, `classpath`, `metadata` (the folder of the controllers' log), `bootstrap` and these variables.
        """

    def metadata_log(self) -> str:
        return self.run_script(DUMP, {})

    def changes(self, topic: str) -> list[LoggedChange] | None:
        """Return the changes in the controllers' log of this topic and the brokers; None where the dump is empty."""
        clock_s = time.monotonic() - time.time()
        dump = self.metadata_log()
        return changes(dump, topic, clock_s) if dump else None

    def add_user(self, user: str, credential: str) -> None:
        self.run_script(CONFIGURE, {"kind": "users", "name": user, "set": credential})

    def limit(self, client_id: str, bytes_per_s: int) -> None:
        self.run_script(CONFIGURE, {"kind": "clients", "name": client_id, "set": f"producer_byte_rate={bytes_per_s}"})

    def move_replicas(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        moves = [{"topic": topic, "partition": n, "replicas": list(ids)} for n, ids in enumerate(replicas)]
        self.run_script(MOVE, {"moves": json.dumps({"version": 1, "partitions": moves})})


class KafkaFaults(NodeFaults, KafkaTools):
    def drop_cache(self) -> float:
        raise TargetError("the page cache of brokers in containers is not dropped")

    def local_share(self, topic: str, replicas: int) -> float:
        raise TargetError("what brokers in containers have in a remote tier is not known")

    @abstractmethod
    def active_controller(self) -> int: ...


class ProcessFaults(KafkaFaults):
    def __init__(
        self,
        processes: OwnProcesses,
        spec: ClusterSpec,
        *,
        spawn: Callable[[int], None],
        proxies: Callable[[], tuple[ToxiproxyApi, Mapping[int, list[str]]] | None],
        tools: Mapping[str, str],
        log_dirs: Sequence[Path],
    ) -> None:
        """`spawn` starts a node again; `proxies` of each broker, where links can be severed; `tools`: variables of
        scripts; `log_dirs`: folders of all brokers' partitions.
        """
        super().__init__(
            {
                **processes.actions(spawn),
                "cut-off": lambda node: self._at_each_link(node, ToxiproxyApi.sever),
                "heal": lambda node: self._at_each_link(node, ToxiproxyApi.mend),
            },
            processes.runs,
        )
        self._proxies, self._tools = proxies, tools
        self._log_dirs, self._tier = log_dirs, processes.data / FOLDER
        self._metadata = {node: processes.data / node_name(spec, node) / METADATA for node in quorum_ids(spec)}

    def drop_cache(self) -> float:
        try:
            return drop(file for folder in self._log_dirs for file in folder.rglob("*.log"))
        except OSError as error:
            raise TargetError(f"the brokers' logs cannot be dropped from the page cache: {error}") from error

    def local_share(self, topic: str, replicas: int) -> float:
        return local_share(topic, replicas, self._log_dirs, self._tier)

    def active_controller(self) -> int:
        files = {node: folder / QUORUM_STATE for node, folder in self._metadata.items()}
        return agreed_leader({node: path.read_text() for node, path in files.items() if path.exists()}, self.absent)

    def run_script(self, script: str, variables: Mapping[str, str]) -> str:
        folder = self._metadata[self.active_controller()]
        environment = {**os.environ, **self._tools, "metadata": str(folder), **variables}
        try:
            code, output = run_in_session(["/bin/bash", "-c", script], TOOL_TIMEOUT_S, environment)
        except subprocess.TimeoutExpired:
            raise TargetError(f"one of Kafka's tools took more than {TOOL_TIMEOUT_S} s") from None
        if code:
            raise TargetError(f"one of Kafka's tools failed: {output[-LAST_WORDS:]}")
        return output

    def _at_each_link(self, broker: int, do: Callable[[ToxiproxyApi, str], None]) -> None:
        if (proxies := self._proxies()) is None:
            raise TargetError("this cluster was started without proxies in its links: nothing can be severed")
        api, names = proxies
        for name in names[broker]:
            do(api, name)


def agreed_leader(states: Mapping[int, str], absent: Collection[int]) -> int:
    """Return the leader that all controllers name which know any: `states` has their files QUORUM_STATE.

    Those of `absent` ones are old. Raises TargetError when they do not agree, or none knows a leader.
    """
    leaders = {leader for node, text in states.items() if node not in absent and (leader := _leader(text)) >= 0}
    leaders -= {*absent}
    if len(leaders) != 1:
        raise TargetError(f"the controllers do not agree on who leads them: {sorted(leaders)}")
    return leaders.pop()


def _leader(text: str) -> int:
    try:
        return int(json.loads(text)["leaderId"])
    except (ValueError, KeyError):
        return -1
