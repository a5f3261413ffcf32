"""Processes of a cluster that the suite starts itself: its nodes and the proxy beside them, with a folder for data."""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from perfgate.host.guard import Guard
from perfgate.host.java import AotCaches
from perfgate.host.journal import LockedFolder
from perfgate.host.machine_use import limit_cpu
from perfgate.host.toxiproxy import ToxiproxyApi, start_toxiproxy
from perfgate.host.waiting import tail_of
from perfgate.model.errors import BrokersFailedError, TargetError
from perfgate.model.target import Action

LOG4J = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n{stacks}
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
"""
"""Java's logs, to its standard output; `stacks`: how an exception is printed, where not in full."""
LAST_LINES, LOOKED_AT = 15, 60
"""Lines of a log that are shown, and those that they are chosen from."""
DISK_FULL, DISK_LOOKED_AT = "No space left on device", 500
"""Why a node ended that is not to blame; what it logs between that and its end are stacks, and lists of partitions."""


def last_lines(log: str) -> str:
    return "\n".join(log.splitlines()[-LAST_LINES:])


class OwnProcesses:
    """Processes that end with this one; see :class:`perfgate.systems.own_target.Supervisor`."""

    def __init__(
        self,
        name_of: Callable[[int], str],
        logs: Path,
        *,
        data: str,
        caches: AotCaches,
        last_words: Callable[[str], str] = last_lines,
    ) -> None:
        """`name_of` a node: of its log; `data`: prefix of the name of the folder of the nodes' data; `last_words` of a
        log: those that say why its node ended.
        """
        self._name_of, self._logs, self._caches, self._last_words = name_of, logs, caches, last_words
        self.guard = Guard()
        self._folder = LockedFolder(data)
        self.data = self._folder.path
        self.guard.owns(self.data)
        self.pids: dict[int, int] = {}
        self._proxy_pid, self._proxy_log = 0, logs / "toxiproxy.log"

    def log(self, node: int) -> Path:
        return self._logs / f"{self._name_of(node)}.log"

    def spawn(self, node: int, argv: Sequence[object], cpus: float = 0.0) -> None:
        """Start a node, for the first time or again; `cpus`: it gets no more; 0: any number."""
        self.pids[node] = self.guard.spawn(argv, log=self.log(node))
        if cpus:
            self.guard.owns(limit_cpu(self.pids[node], cpus))

    def start_proxy(self, api_port: int) -> ToxiproxyApi:
        self._proxy_pid, proxy = start_toxiproxy(self.guard, api_port=api_port, log=self._proxy_log)
        return proxy

    def check(self, absent: Collection[int]) -> None:
        watched = {
            self._name_of(node).replace("-", " "): (pid, self.log(node))
            for node, pid in self.pids.items()
            if node not in absent
        }
        if self._proxy_pid:
            watched["Toxiproxy"] = (self._proxy_pid, self._proxy_log)
        for name, (pid, log) in watched.items():
            status = self.guard.exit_status(pid)
            if status is not None:
                how = f"was killed by signal {-status}" if status < 0 else f"exited with code {status}"
                full = DISK_FULL in tail_of(log, DISK_LOOKED_AT)
                failed = TargetError if full or pid == self._proxy_pid else BrokersFailedError
                why = f": the disk of {self.data} is full" if full else ""
                words = self._last_words(tail_of(log, LOOKED_AT))
                raise failed(f"{name} (pid {pid}) {how}{why}; end of its log:\n{words}")

    def tail(self, node: int, lines: int) -> str:
        return tail_of(self.log(node), lines)

    def logged(self, *others: Path) -> int:
        """Return the bytes that all nodes have logged, with these `others`."""
        logs = (*others, *map(self.log, self.pids))
        return sum(log.stat().st_size for log in logs if log.exists())

    def runs(self, node: int) -> bool:
        return self.guard.exit_status(self.pids[node]) is None

    def actions(self, spawn: Callable[[int], None]) -> dict[Action, Callable[[int], None]]:
        return {
            "kill": lambda node: self.guard.kill(self.pids[node]),
            "stop": self._ask_to_end,
            "start": spawn,
            "pause": lambda node: self.guard.signal(self.pids[node], signal.SIGSTOP),
            "resume": lambda node: self.guard.signal(self.pids[node], signal.SIGCONT),
        }

    @property
    def recording(self) -> bool:
        return bool(self._caches.recording)

    def keep_caches(self) -> None:
        self._caches.keep(self._ask_to_end, lambda node: self.guard.exit_status(self.pids[node]))

    def close(self) -> None:
        self.guard.close()
        self._folder.delete()
        self._caches.delete_drafts()

    def _ask_to_end(self, node: int) -> None:
        self.guard.signal(self.pids[node], signal.SIGTERM)
