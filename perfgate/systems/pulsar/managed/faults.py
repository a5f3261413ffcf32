"""Faults of Pulsar's nodes that the suite starts: 1, 2, ... are brokers, 11, 12, ... bookies, 21 the metadata store."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence

from perfgate.host.guard import Guard
from perfgate.model.errors import TargetError
from perfgate.model.target import Action, LoggedChange
from perfgate.systems.own_target import NodeFaults


class PulsarFaults(NodeFaults):
    """What Pulsar has no counterpart of; see :class:`perfgate.model.target.Faults`."""

    def active_controller(self) -> int:
        """Raise TargetError: what is decided of a partition here its own broker decides."""
        raise TargetError("Pulsar has no controller")

    def changes(self, topic: str) -> Sequence[LoggedChange] | None:
        """Return None: no node keeps a log of who served which partition."""
        return None

    def move_replicas(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """Raise TargetError: where a ledger's entries lie its bookies alone decide."""
        raise TargetError("Pulsar moves no replicas: an entry stays on the bookies that it was written to")

    def drop_cache(self) -> float:
        """Raise TargetError: bookies keep what they read in a cache of their own."""
        raise TargetError("Pulsar's bookies keep entries in caches of their own, which cannot be dropped")

    def local_share(self, topic: str, replicas: int) -> float:
        """Raise TargetError: its offloading is not measured."""
        raise TargetError("Pulsar's offloading is not measured")


class ProcessFaults(PulsarFaults):
    """Actions on processes."""

    def __init__(self, guard: Guard, pids: dict[int, int], *, spawn: Callable[[int], None]) -> None:
        """`pids` by node, which `spawn` renews."""
        super().__init__(
            {
                "kill": lambda node: guard.kill(pids[node]),
                "stop": lambda node: guard.signal(pids[node], signal.SIGTERM),
                "start": spawn,
                "pause": lambda node: guard.signal(pids[node], signal.SIGSTOP),
                "resume": lambda node: guard.signal(pids[node], signal.SIGCONT),
            }
        )
        self._guard, self._pids = guard, pids

    def do(self, action: Action, node: int) -> None:
        """See :meth:`NodeFaults.do`. Raises TargetError for a link that is to be cut: there is no proxy in it."""
        if action in ("cut-off", "heal"):
            raise TargetError("links of Pulsar's nodes cannot be severed: no proxies are in them")
        super().do(action, node)

    def runs(self, node: int) -> bool:
        return self._guard.exit_status(self._pids[node]) is None
