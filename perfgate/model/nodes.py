"""The nodes of a cluster that runs: what can be done to them, and what became of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self, get_args

Action = Literal["kill", "stop", "start", "pause", "resume", "cut-off", "heal"]
"""What is done to a node. `kill`: end it at once (SIGKILL); `stop`: ask it to end in an orderly way (SIGTERM); `start`:
start it again with its data and addresses; `pause`: let it stand still with its connections open (SIGSTOP); `resume`:
let it go on (SIGCONT); `cut-off`: sever a broker's links to clients, brokers and controllers, closing none; `heal`:
mend them."""
ACTIONS = get_args(Action)
BACK: Mapping[Action, Action] = {"kill": "start", "stop": "start", "pause": "resume", "cut-off": "heal"}
"""What gives back what each takes away."""
ASK_EVERY_S = 0.1
"""How often a watch asks the brokers: what it sees is known to this."""


@dataclass(frozen=True, slots=True)
class State:
    """What the brokers said at one moment (s on the monotonic clock): per partition its leader (-1: none) and its
    in-sync replicas, and which brokers take part."""

    at: float
    leaders: tuple[int, ...]
    in_sync: tuple[tuple[int, ...], ...]
    replicas: tuple[tuple[int, ...], ...]
    brokers: tuple[int, ...]

    @property
    def full(self) -> bool:
        """Whether every partition has a leader, and all its replicas in sync."""
        return min(self.leaders) >= 0 and all(
            set(here) == set(all_) for here, all_ in zip(self.in_sync, self.replicas, strict=True)
        )

    @property
    def preferred(self) -> bool:
        """Whether every partition is led by its first replica."""
        return all(leader == replicas[0] for leader, replicas in zip(self.leaders, self.replicas, strict=True))


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """One change at a moment (s on the monotonic clock): a broker `fenced`, or `back`; a partition's new `leader` (-1:
    it has none), `unclean` if that one was not in sync; a `controller` that became the active one.

    `number`: of the broker, partition or controller.
    """

    at: float
    what: Literal["fenced", "back", "leader", "controller"]
    number: int
    leader: int = -1
    unclean: bool = False


class Watch(Protocol):
    """Asks for a topic's state again and again while the context is open."""

    topic: str
    states: list[State]
    """Every state that differs from the one before."""

    def __enter__(self) -> Self:
        """Begin to ask."""

    def __exit__(self, *_: object) -> None:
        """Ask no more."""

    @property
    def last(self) -> State:
        """The newest state. Raises TargetError when the brokers have never answered, or are no longer asked."""


class Faults(Protocol):
    """Nodes are named by id. What a fault takes away is no longer missed by the cluster's `check` until it is back.

    Each raises TargetError when the fault cannot be brought about.
    """

    @property
    def allowed(self) -> Collection[int]:
        """The brokers that may be taken away; all when there are none."""

    def do(self, action: Action, node: int) -> None:
        """Do this to a node, and go on."""

    def session_s(self) -> float | None:
        """Return how long a broker may be silent (s), as real brokers tell; 0: they do not; None: as was declared."""

    def wait_until_ended(self, node: int) -> None:
        """Wait until a node that was asked to end has ended."""

    def active_controller(self) -> int:
        """Return the node that leads the controllers' quorum."""

    def changes(self, topic: str) -> Sequence[LoggedChange] | None:
        """Return what the controllers wrote down of this topic and the brokers; None where that is out of reach."""

    def move_replicas(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """Ask the controllers to move each partition's replicas to these brokers, and go on."""
