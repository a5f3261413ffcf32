"""slow-follower: a broker that leads nothing of the topic gets a fifth of its time; it is slow, but stays in sync."""

import time

from perfgate.faults.costs import unmoved
from perfgate.model.faults import BEFORE_S, FaultKind, Scene

STILL_S, GOING_S = 0.4, 0.1
"""Its pauses and bursts, in turn: others wait for it this long at a time, far less than replica.lag.time.max.ms."""
SETTLE_S = 3.0


def _act(scene: Scene) -> None:
    broker = scene.holders[-1]
    led_by_others = tuple((*(other for other in ids if other != broker), broker) for ids in scene.watch.last.replicas)
    scene.faults.move_replicas(scene.watch.topic, led_by_others)
    scene.until(lambda state: state.full and broker not in state.leaders, f"broker {broker} leads nothing")
    scene.hold(BEFORE_S + SETTLE_S)
    scene.mark(f"slow broker {broker} down")
    until = time.monotonic() + scene.scenario.fault.hold_s
    while time.monotonic() < until:
        scene.do("pause", broker, noted=False)
        scene.hold(STILL_S)
        scene.do("resume", broker, noted=False)
        scene.hold(GOING_S)
    scene.mark(f"broker {broker} as before")
    scene.until(lambda state: state.full, "all replicas are in sync")


FAULT = FaultKind(
    name="slow-follower",
    act=_act,
    sending=unmoved,
    commands=None,  # it stands still several times a second
    prepared=True,
    follows=True,
)
