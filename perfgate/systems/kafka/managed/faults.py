"""Faults of nodes that are processes of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from perfgate.host.guard import Guard
from perfgate.host.session import run_in_session
from perfgate.model.errors import TargetError
from perfgate.systems.kafka.managed.kafka_tools import TOOL_TIMEOUT_S, KafkaTools
from perfgate.systems.kafka.managed.toxiproxy import ToxiproxyApi

STOP_TIMEOUT_S = 60
"""A broker that hands its leaders over on SIGTERM takes seconds; Kafka's own limit for that is 3 tries of 5 s."""
ASK_EVERY_S = 0.05
QUORUM_STATE = "quorum-state"
LAST_WORDS = 500


class ProcessFaults(KafkaTools):
    """Faults of nodes that are processes of this machine."""

    def __init__(
        self,
        guard: Guard,
        pids: dict[int, int],
        *,
        spawn: Callable[[int], None],
        proxies: Callable[[], tuple[ToxiproxyApi, Mapping[int, list[str]]] | None],
        metadata: Mapping[int, Path],
        tools: Mapping[str, str],
    ) -> None:
        """`pids` by node, which `spawn` renews; `proxies` of each broker, when its links can be severed.

        `metadata`: the folder of the controllers' log by controller; `tools`: java, classpath and bootstrap for Kafka's
        own tools.
        """
        self._guard, self._pids, self._spawn = guard, pids, spawn
        self._proxies, self._metadata, self._tools = proxies, metadata, tools
        self.absent: set[int] = set()
        """Nodes that are meant to have ended."""

    def kill(self, node: int) -> None:
        self.absent.add(node)
        self._guard.kill(self._pids[node])

    def stop(self, node: int) -> None:
        self.absent.add(node)
        self._guard.signal(self._pids[node], signal.SIGTERM)

    def wait_until_ended(self, node: int) -> None:
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while self._guard.exit_status(self._pids[node]) is None:
            if time.monotonic() > deadline:
                raise TargetError(f"node {node} was asked to end and has not done so within {STOP_TIMEOUT_S} s")
            time.sleep(ASK_EVERY_S)

    def start(self, node: int) -> None:
        self._spawn(node)
        self.absent.discard(node)

    def pause(self, node: int) -> None:
        self._guard.signal(self._pids[node], signal.SIGSTOP)

    def resume(self, node: int) -> None:
        self._guard.signal(self._pids[node], signal.SIGCONT)

    def cut_off(self, broker: int) -> None:
        api, proxies = self._severable()
        for name in proxies[broker]:
            api.sever(name)

    def heal(self, broker: int) -> None:
        api, proxies = self._severable()
        for name in proxies[broker]:
            api.mend(name)

    def active_controller(self) -> int:
        files = [folder / QUORUM_STATE for folder in self._metadata.values()]
        states = [json.loads(path.read_text()) for path in files if path.exists()]
        return agreed_leader(int(state.get("leaderId", -1)) for state in states if state["leaderId"] not in self.absent)

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

    def _severable(self) -> tuple[ToxiproxyApi, Mapping[int, list[str]]]:
        found = self._proxies()
        if found is None:
            raise TargetError("this cluster was started without proxies in its links: nothing can be severed")
        return found


def agreed_leader(told: Iterable[int]) -> int:
    """Return the leader that all who know one name. Raises TargetError when they do not agree, or none does."""
    leaders = {leader for leader in told if leader >= 0}
    if len(leaders) != 1:
        raise TargetError(f"the controllers do not agree on who leads them: {sorted(leaders)}")
    return leaders.pop()
