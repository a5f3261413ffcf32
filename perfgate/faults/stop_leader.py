"""stop-leader: the broker that leads the first partition is shut down in good order (SIGTERM), and started again."""

from perfgate.faults.costs import moved
from perfgate.model.faults import FaultKind, Scene


def _act(scene: Scene) -> None:
    broker = scene.leader()
    scene.do("stop", broker)
    scene.hold()
    scene.faults.wait_until_ended(broker)
    scene.gone(broker)
    scene.bring_back(broker)


FAULT = FaultKind(name="stop-leader", act=_act, sending=moved, commands=("stop", "start"))
