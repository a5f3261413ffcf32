"""Faults of nodes that this suite has started, whatever runs on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping

from perfgate.host.waiting import NotYet, poll_until
from perfgate.model.errors import BrokersFailedError
from perfgate.model.target import Action

STOP_TIMEOUT_S = 60
"""A broker that hands its leaders over on SIGTERM takes seconds; Kafka's own limit for that is 3 tries of 5 s."""
ASK_EVERY_S = 0.05


def _late(reason: str) -> BrokersFailedError:
    return BrokersFailedError(reason, perhaps_late=True)


class NodeFaults(ABC):
    """Actions on nodes that this suite has started, by a function each."""

    allowed: Collection[int] = ()

    def __init__(self, actions: Mapping[Action, Callable[[int], None]]) -> None:
        self._actions = actions
        self.absent: set[int] = set()
        """Nodes that are meant to have ended."""

    def do(self, action: Action, node: int) -> None:
        """Act on a node, and go on; one that is to end is expected to be absent until it is started again."""
        if action in ("kill", "stop"):
            self.absent.add(node)
        self._actions[action](node)
        if action == "start":
            self.absent.discard(node)

    def session_s(self) -> float | None:
        """Return None: its nodes have the declared session."""
        return None

    def wait_until_ended(self, node: int) -> None:
        def ended() -> None:
            if self.runs(node):
                raise NotYet("it still runs")

        failure = f"node {node} was asked to end and has not done so"
        poll_until(failure, ended, within_s=STOP_TIMEOUT_S, every_s=ASK_EVERY_S, error=_late)

    @abstractmethod
    def runs(self, node: int) -> bool:
        """Whether the node has not ended yet."""
