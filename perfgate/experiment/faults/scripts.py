"""Scripts of the faults, step by step. Each ends once what it took away has been given back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from perfgate.model import Fault, Scenario
from perfgate.model.errors import TargetError
from perfgate.model.load import JournaledLoad
from perfgate.model.nodes import Faults, State, Watch

BACK_WITHIN_S = 90.0
"""A node that is started again has to be back, in sync everywhere, within this time."""
SECOND_DOWN_AFTER_S = 2.0
LOOK_EVERY_S = 0.1


@dataclass
class Scene:
    """What a script can do and see; what it does is noted with its time."""

    row: Scenario
    faults: Faults
    load: JournaledLoad
    watch: Watch
    marks: list[tuple[float, str]] = field(default_factory=list)

    @property
    def fault(self) -> Fault:
        """What was declared."""
        assert self.row.fault is not None
        return self.row.fault

    def mark(self, words: str) -> None:
        """Note that something is done now."""
        self.marks.append((time.monotonic(), words))

    def leader(self) -> int:
        """Return the broker that leads the first partition."""
        return self.watch.last.leaders[0]

    @property
    def holders(self) -> list[int]:
        """The brokers that hold the topic, by whatever numbers they have."""
        return sorted({broker for ids in self.watch.last.replicas for broker in ids})

    def hold(self, seconds: float | None = None) -> None:
        """Let the load go on for so long, or as long as the fault says."""
        self.load.follow_until(time.monotonic() + (self.fault.hold_s if seconds is None else seconds), "with the fault")

    def until(self, come: Callable[[State], bool], what: str) -> None:
        """Let the load go on until the brokers say so. Raises TargetError when they do not."""
        deadline = time.monotonic() + BACK_WITHIN_S
        while not come(self.watch.last):
            if time.monotonic() > deadline:
                raise TargetError(f"{what}: not so within {BACK_WITHIN_S:.0f} s; the brokers say {self.watch.last}")
            self.load.follow_until(time.monotonic() + LOOK_EVERY_S, f"waiting until {what}")

    def gone(self, broker: int) -> None:
        """Make sure that the brokers no longer count this one: a fault that did nothing would cost nothing."""
        self.until(lambda state: broker not in state.brokers, f"the cluster no longer counts broker {broker}")

    def bring_back(self, node: int) -> None:
        """Start a node again and wait until it is in sync everywhere."""
        self.mark(f"start node {node}")
        self.faults.start(node)
        if node in self.holders:
            self.until(lambda state: node in state.brokers, f"broker {node} is back")
        self.until(lambda state: state.full, f"all replicas are in sync after node {node} came back")


def kill_leader(scene: Scene) -> None:
    """The broker that leads the first partition loses power, and comes back."""
    broker = scene.leader()
    scene.mark(f"kill broker {broker}")
    scene.faults.kill(broker)
    scene.hold()
    scene.gone(broker)
    scene.bring_back(broker)


def stop_leader(scene: Scene) -> None:
    """It is shut down in an orderly way."""
    broker = scene.leader()
    scene.mark(f"stop broker {broker}")
    scene.faults.stop(broker)
    scene.hold()
    scene.faults.wait_until_ended(broker)
    scene.gone(broker)
    scene.bring_back(broker)


def pause_leader(scene: Scene) -> None:
    """It stands still, and goes on."""
    _for_a_while(scene, "pause", scene.faults.pause, "resume", scene.faults.resume)


def cut_off(scene: Scene) -> None:
    """All its links are severed, and mended."""
    _for_a_while(scene, "cut off", scene.faults.cut_off, "mend the links of", scene.faults.heal)


def _for_a_while(
    scene: Scene, taken: str, take: Callable[[int], None], given_back: str, give_back: Callable[[int], None]
) -> None:
    broker = scene.leader()
    scene.mark(f"{taken} broker {broker}")
    take(broker)
    # Where this is broken off the target gives it back: an error in that must not hide what broke it off.
    scene.hold()
    scene.gone(broker)
    scene.mark(f"{given_back} broker {broker}")
    give_back(broker)
    scene.until(lambda state: state.full and broker in state.brokers, f"all replicas are in sync again on {broker}")


def kill_controller(scene: Scene) -> None:
    """The active controller loses power; another takes over."""
    node = scene.faults.active_controller()
    scene.mark(f"kill controller {node}")
    scene.faults.kill(node)
    scene.hold()
    scene.bring_back(node)


def rolling_restart(scene: Scene) -> None:
    """Brokers that hold the topic are shut down and started again, the next one once all replicas are in sync."""
    for broker in scene.holders:
        scene.mark(f"stop broker {broker}")
        scene.faults.stop(broker)
        scene.faults.wait_until_ended(broker)
        scene.gone(broker)
        scene.bring_back(broker)


def two_down(scene: Scene) -> None:
    """Two of three brokers lose power: with min.insync.replicas=2 there is no service until one of them returns."""
    first = scene.leader()
    second = next(broker for broker in scene.holders if broker != first)
    scene.mark(f"kill broker {first}")
    scene.faults.kill(first)
    scene.hold(SECOND_DOWN_AFTER_S)
    scene.mark(f"kill broker {second}")
    scene.faults.kill(second)
    scene.hold()
    scene.gone(first)
    scene.gone(second)
    scene.mark(f"start node {second}")
    scene.faults.start(second)
    scene.until(lambda state: second in state.brokers, f"broker {second} is back")
    scene.hold()
    scene.bring_back(first)


def returning(scene: Scene) -> None:
    """A broker that was down for long comes back and catches up: its return is the fault, not its going."""
    broker = scene.holders[-1]
    scene.faults.kill(broker)
    scene.hold()
    scene.gone(broker)
    scene.bring_back(broker)


def scale_out(scene: Scene) -> None:
    """A broker that held nothing of the topic joins, and takes its share of the replicas over."""
    newcomer = scene.row.cluster.brokers
    scene.faults.kill(newcomer)
    scene.hold()
    scene.gone(newcomer)
    scene.mark(f"start node {newcomer}")
    scene.faults.start(newcomer)
    scene.until(lambda state: newcomer in state.brokers, f"broker {newcomer} is there")
    moved = with_newcomer(scene.watch.last.replicas, newcomer)
    scene.mark(f"move replicas to broker {newcomer}")
    scene.faults.move_replicas(scene.watch.topic, moved)
    scene.until(lambda state: state.replicas == moved and state.full, f"broker {newcomer} has its replicas in sync")
    scene.mark("replicas moved")


def with_newcomer(replicas: tuple[tuple[int, ...], ...], newcomer: int) -> tuple[tuple[int, ...], ...]:
    """Return the replicas with the newcomer's share: one of each of the first partitions, of the leader's place too."""
    brokers = {broker for ids in replicas for broker in ids}
    share = sum(len(ids) for ids in replicas) // (len(brokers) + 1)
    return tuple(
        tuple(
            newcomer if partition < share and place == partition % len(ids) else broker
            for place, broker in enumerate(ids)
        )
        for partition, ids in enumerate(replicas)
    )


def consumer_kill(scene: Scene) -> None:
    """A member of the consumer group is killed; the others take its partitions over."""
    scene.mark("kill consumer 1")
    scene.load.kill("consumer-1")
    scene.hold()


def client_crash(scene: Scene) -> None:
    """A producer is killed with records in its buffer."""
    scene.mark("kill producer 1")
    scene.load.kill("producer-1")
    scene.hold()


SCRIPTS: Mapping[str, Callable[[Scene], None]] = {
    "kill-leader": kill_leader,
    "stop-leader": stop_leader,
    "pause-leader": pause_leader,
    "cut-off": cut_off,
    "kill-controller": kill_controller,
    "rolling-restart": rolling_restart,
    "two-down": two_down,
    "return": returning,
    "scale-out": scale_out,
    "consumer-kill": consumer_kill,
    "client-crash": client_crash,
}
