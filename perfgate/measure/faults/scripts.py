"""Scripts of the faults, step by step. Each ends once what it took away has been given back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from perfgate.measure.faults.written import BEFORE_S, NOTHING_DONE, READ_AGAIN
from perfgate.model import FaultScenario, record_lock_s
from perfgate.model.errors import BrokersFailedError
from perfgate.model.load import JournaledLoad
from perfgate.model.nodes import BACK, Action, Faults, State, Watch

BACK_WITHIN_S = 90.0
"""A node that is started again has to be back, in sync everywhere, within this time."""
SECOND_DOWN_AFTER_S = 2.0
LOOK_EVERY_S = 0.1
CATCH_UP_WITHIN = 1.0
"""Consumers that were away for so long times this have to have caught up: they read at twice the rate of the load."""
CAUGHT_UP_RECORDS = 100
STILL_S, GOING_S = 0.4, 0.1
"""What a slow broker does in turn: others wait for it so long at a time, far less than replica.lag.time.max.ms."""
SETTLE_S = 3.0
SLOW_LOCKS = 2.0
"""A slow member of a share group takes so many times as long as its lock on the records lasts."""
WORDS: Mapping[Action, str] = {"cut-off": "cut off", "heal": "mend the links of"}
"""What is noted of an action, where that is not its name."""


@dataclass
class Scene:
    """What a script can do and see; what it does is noted with its time."""

    row: FaultScenario
    faults: Faults
    load: JournaledLoad
    watch: Watch
    marks: list[tuple[float, str]] = field(default_factory=list)

    def mark(self, words: str) -> None:
        """Note that something is done now."""
        self.marks.append((time.monotonic(), words))

    def do(self, action: Action, node: int, called: str = "broker") -> None:
        """Do this to a node, and note it."""
        self.mark(f"{WORDS.get(action, action)} {called} {node}")
        self.faults.do(action, node)

    def leader(self) -> int:
        """Return the broker that leads the first partition whose leader may be taken away."""
        return self.one_of(self.watch.last.leaders)

    def one_of(self, brokers: Sequence[int]) -> int:
        """Return the first that may be taken away; the first of all where none may, which the fault then tells."""
        allowed = self.faults.allowed or brokers
        return next((one for one in brokers if one in allowed), brokers[0])

    @property
    def holders(self) -> list[int]:
        """The brokers that hold the topic, by whatever numbers they have."""
        return sorted({broker for ids in self.watch.last.replicas for broker in ids})

    def hold(self, seconds: float | None = None) -> None:
        """Let the load go on for so long, or as long as the fault says."""
        held_s = self.row.fault.hold_s if seconds is None else seconds
        self.load.follow_until(time.monotonic() + held_s, self.row.fault.about.meanwhile)

    def until(self, come: Callable[[State], bool], what: str) -> None:
        """Let the load go on until the brokers say so. Raises BrokersFailedError when they do not: late, or never."""
        deadline = time.monotonic() + BACK_WITHIN_S
        while not come(self.watch.last):
            if time.monotonic() > deadline:
                reason = f"{what}: not so within {BACK_WITHIN_S:.0f} s; the brokers say {self.watch.last}"
                raise BrokersFailedError(reason, perhaps_late=True)
            self.load.follow_until(time.monotonic() + LOOK_EVERY_S, f"waiting until {what}")

    def gone(self, broker: int) -> None:
        """Make sure that the brokers no longer count this one: a fault that did nothing would cost nothing."""
        self.until(lambda state: broker not in state.brokers, f"the cluster no longer counts broker {broker}")

    def bring_back(self, node: int) -> None:
        """Start a node again and wait until it is in sync everywhere."""
        self.do("start", node, "node")
        if node in self.holders:
            self.until(lambda state: node in state.brokers, f"broker {node} is back")
        self.until(lambda state: state.full, f"all replicas are in sync after node {node} came back")


Script = Callable[[Scene], None]
SCRIPTS: dict[str, Script] = {}
"""By kind of fault."""


def script(kind: str) -> Callable[[Script], Script]:
    """Return what enters a function as the script of this kind of fault."""
    return lambda made: SCRIPTS.setdefault(kind, made)


@script("kill-leader")
def kill_leader(scene: Scene) -> None:
    """The broker that leads the first partition crashes (SIGKILL), and comes back."""
    broker = scene.leader()
    scene.do("kill", broker)
    scene.hold()
    scene.gone(broker)
    scene.bring_back(broker)


@script("stop-leader")
def stop_leader(scene: Scene) -> None:
    """It is shut down in an orderly way."""
    broker = scene.leader()
    scene.do("stop", broker)
    scene.hold()
    scene.faults.wait_until_ended(broker)
    scene.gone(broker)
    scene.bring_back(broker)


@script("pause-leader")
def pause_leader(scene: Scene) -> None:
    """It stands still, and goes on."""
    _for_a_while(scene, "pause")


@script("cut-off")
def cut_off(scene: Scene) -> None:
    """All its links are severed, and mended."""
    _for_a_while(scene, "cut-off")


def _for_a_while(scene: Scene, action: Action) -> None:
    broker = scene.leader()
    scene.do(action, broker)
    # Where this is broken off the target gives it back: an error in that must not hide what broke it off.
    scene.hold()
    scene.gone(broker)
    scene.do(BACK[action], broker)
    scene.until(lambda state: state.full and broker in state.brokers, f"all replicas are in sync again on {broker}")


@script("slow-follower")
def slow_follower(scene: Scene) -> None:
    """A broker that leads nothing of the topic gets a fifth of its time: slow, but never away, and so in sync."""
    broker = scene.holders[-1]
    led_by_others = tuple((*(one for one in ids if one != broker), broker) for ids in scene.watch.last.replicas)
    scene.faults.move_replicas(scene.watch.topic, led_by_others)
    scene.until(lambda state: state.full and broker not in state.leaders, f"broker {broker} leads nothing")
    scene.hold(BEFORE_S + SETTLE_S)
    scene.mark(f"slow broker {broker} down")
    until = time.monotonic() + scene.row.fault.hold_s
    while time.monotonic() < until:
        scene.faults.do("pause", broker)
        scene.hold(STILL_S)
        scene.faults.do("resume", broker)
        scene.hold(GOING_S)
    scene.mark(f"broker {broker} as before")
    scene.until(lambda state: state.full, "all replicas are in sync")


@script("kill-controller")
def kill_controller(scene: Scene) -> None:
    """The active controller crashes (SIGKILL); another takes over."""
    node = scene.faults.active_controller()
    scene.do("kill", node, "controller")
    scene.hold()
    scene.bring_back(node)


@script("rolling-restart")
def rolling_restart(scene: Scene) -> None:
    """Brokers that hold the topic are shut down and started again, the next one once all replicas are in sync."""
    for broker in scene.holders:
        scene.do("stop", broker)
        scene.faults.wait_until_ended(broker)
        scene.gone(broker)
        scene.bring_back(broker)


@script("two-down")
def two_down(scene: Scene) -> None:
    """Two of three brokers crash: with min.insync.replicas=2 there is no service until one of them returns."""
    first = scene.leader()
    second = next(broker for broker in scene.holders if broker != first)
    scene.do("kill", first)
    scene.hold(SECOND_DOWN_AFTER_S)
    scene.do("kill", second)
    scene.hold()
    scene.gone(first)
    scene.gone(second)
    scene.do("start", second, "node")
    scene.until(lambda state: second in state.brokers, f"broker {second} is back")
    scene.hold()
    scene.bring_back(first)


@script("return")
def returning(scene: Scene) -> None:
    """A broker that was down for long comes back and catches up: its return is the fault, not its going."""
    broker = scene.one_of(scene.holders[::-1])
    scene.faults.do("kill", broker)
    scene.hold()
    scene.gone(broker)
    scene.bring_back(broker)


@script("scale-out")
def scale_out(scene: Scene) -> None:
    """A broker that held nothing of the topic joins, and takes its share of the replicas over."""
    newcomer = scene.row.cluster.brokers
    scene.faults.do("kill", newcomer)
    scene.hold()
    scene.gone(newcomer)
    scene.do("start", newcomer, "node")
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


@script("consumer-kill")
def consumer_kill(scene: Scene) -> None:
    """A member of the consumer group is killed; the others take its partitions over."""
    scene.mark("kill consumer 1")
    scene.load.kill("consumer-1")
    scene.hold()


@script("consumer-slow")
def consumer_slow(scene: Scene) -> None:
    """A member of a share group takes longer over records than its lock on them lasts: others get them as well."""
    lock_s = record_lock_s(scene.row)
    scene.mark("slow consumer 1 down")
    scene.load.slow_down("consumer-1", SLOW_LOCKS * lock_s)
    scene.hold()
    scene.mark("consumer 1 as before")
    scene.load.slow_down("consumer-1", 0.0)


@script("consumers-away")
def consumers_away(scene: Scene) -> None:
    """The first group's consumers read nothing for a while; then they come back to what is unread."""
    usual = max(scene.load.unread(), CAUGHT_UP_RECORDS)
    scene.mark("consumers stop reading")
    scene.load.rest_readers()
    scene.hold()
    scene.mark(READ_AGAIN)
    scene.load.wake_readers()
    deadline = time.monotonic() + CATCH_UP_WITHIN * scene.row.fault.hold_s
    while scene.load.unread() > 2 * usual and time.monotonic() < deadline:
        scene.load.follow_until(time.monotonic() + LOOK_EVERY_S, "reading what was left unread")


@script("time")
def endure(scene: Scene) -> None:
    """Nothing is done but let the load go on."""
    scene.mark(NOTHING_DONE)
    scene.hold()
    scene.mark("the time is over")


@script("client-crash")
def client_crash(scene: Scene) -> None:
    """A producer is killed with records in its buffer."""
    scene.mark("kill producer 1")
    scene.load.kill("producer-1")
    scene.hold()
