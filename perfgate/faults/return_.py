"""return: a broker that was down for long comes back and catches up; its return is the fault, not its going."""

from perfgate.faults.costs import moved
from perfgate.model.faults import FaultKind, Scene


def _act(scene: Scene) -> None:
    broker = scene.one_of(scene.holders[::-1])
    scene.do("kill", broker, noted=False)
    scene.hold()
    scene.gone(broker)
    scene.bring_back(broker)


FAULT = FaultKind(name="return", act=_act, sending=moved, commands=("kill", "start"), prepared=True)
