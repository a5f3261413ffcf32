"""rolling-restart: each broker that holds the topic is shut down and started again, once all replicas are in sync."""

from perfgate.faults.costs import moved
from perfgate.model.faults import FaultKind, Scene


def _act(scene: Scene) -> None:
    for broker in scene.holders:
        scene.do("stop", broker)
        scene.faults.wait_until_ended(broker)
        scene.gone(broker)
        scene.bring_back(broker)


FAULT = FaultKind(name="rolling-restart", act=_act, sending=moved, commands=("stop", "start"), every_broker=True)
