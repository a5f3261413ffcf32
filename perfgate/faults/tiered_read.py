"""tiered-read: consumers stay away for a while; their unread records lie in the brokers' remote tier (KIP-405)."""

import time

from perfgate.faults.consumers_away import back_after, catching_up, stay_away
from perfgate.faults.costs import unmoved
from perfgate.model.errors import TargetError
from perfgate.model.faults import LOOK_EVERY_S, FaultKind, Scene

MOST_LOCAL = 0.5
"""Bytes that brokers may still have in their own logs, over those in the remote tier."""
MOVED_WITHIN_S = 30.0
"""A segment moves once it is full and the next is written; then the brokers delete their own."""


def _act(scene: Scene) -> None:
    def wait_until_moved() -> None:
        topic, replicas = scene.watch.topic, scene.scenario.topic.replication_factor
        deadline = time.monotonic() + MOVED_WITHIN_S
        while (share := scene.faults.local_share(topic, replicas)) > MOST_LOCAL:
            if time.monotonic() > deadline:
                raise TargetError(f"the brokers keep {share:.2g} times of what is in the remote tier in their own logs")
            scene.load.follow_until(time.monotonic() + LOOK_EVERY_S, "waiting for segments to move")
        scene.mark(f"{share:.1%} of it still on the brokers")

    stay_away(scene, wait_until_moved)


FAULT = FaultKind(
    name="tiered-read",
    act=_act,
    sending=unmoved,
    receiving=lambda scenario: back_after(scenario, MOVED_WITHIN_S),
    commands=None,
    brokers_down=0,
    leaves_unread=True,
    tiered=True,
    meanwhile="with nobody reading",
    note=lambda figures: catching_up(figures, "from the remote tier: "),
)
