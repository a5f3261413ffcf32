"""metadata-away: the metadata store crashes (SIGKILL) and comes back before any session ends; service is to go on."""

from perfgate.faults.costs import unmoved
from perfgate.model.faults import FaultKind, Scene

STORE = 21
"""The node's id; see perfgate/systems/pulsar/managed/nodes.py."""


def _act(scene: Scene) -> None:
    scene.do("kill", STORE, "metadata store")
    scene.hold()
    scene.bring_back(STORE)


FAULT = FaultKind(name="metadata-away", act=_act, sending=unmoved, commands=None, brokers_down=0)
