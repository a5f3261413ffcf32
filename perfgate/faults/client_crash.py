"""client-crash: a producer is killed for good with records in its buffer."""

from perfgate.faults.costs import unmoved
from perfgate.model.faults import FaultKind, Scene


def _act(scene: Scene) -> None:
    scene.mark("kill producer 1")
    scene.load.kill("producer-1")
    scene.hold()


FAULT = FaultKind(name="client-crash", act=_act, sending=unmoved, commands=(), brokers_down=0, ends_load=True)
