"""Kafka's own tools beside a cluster that this suite has started: they do what no client can be asked for."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from perfgate.model.nodes import LoggedChange
from perfgate.systems.kafka.observe.metadata_log import changes

TOOL_TIMEOUT_S = 60
# Each tool by its name since Kafka 4.0 and the one before. Bash alone: an image need not have more.
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

USER = JAVA.format(
    tools="org.apache.kafka.tools.ConfigCommand kafka.admin.ConfigCommand",
    arguments='--bootstrap-server "$bootstrap" --alter --entity-type users --entity-name "$user" '
    '--add-config "$credential"',
)


class KafkaTools(ABC):
    """One part of :class:`perfgate.model.nodes.Faults`."""

    @abstractmethod
    def run_script(self, script: str, variables: Mapping[str, str]) -> str:
        """Run it by bash where a controller runs, with `java`, `classpath`, `metadata` (the folder of the controllers'
        log), `bootstrap` and these variables set; return what it printed. Raises TargetError when it fails.
        """

    def metadata_log(self) -> str:
        """Return the controllers' log as Kafka's dump tool prints it."""
        return self.run_script(DUMP, {})

    def changes(self, topic: str) -> list[LoggedChange] | None:
        """Return what the controllers' log says of this topic and the brokers; None where the dump is empty."""
        clock_s = time.monotonic() - time.time()
        dump = self.metadata_log()
        return changes(dump, topic, clock_s) if dump else None

    def add_user(self, user: str, credential: str) -> None:
        """Have the brokers know a user by this SCRAM credential. Raises TargetError."""
        self.run_script(USER, {"user": user, "credential": credential})

    def move_replicas(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """Ask the controllers to move each partition's replicas to these brokers, and go on."""
        moves = [{"topic": topic, "partition": n, "replicas": list(ids)} for n, ids in enumerate(replicas)]
        self.run_script(MOVE, {"moves": json.dumps({"version": 1, "partitions": moves})})
