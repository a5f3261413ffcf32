"""kill-bookie: a bookie that holds the first partition crashes (SIGKILL) and comes back; service is to go on.

It does where entries need not all be on it: with a spare bookie that takes its place, or where the change of an
ensemble is delayed (bookkeeper_delayEnsembleChange) and as many as the ack quorum are left.
"""

from perfgate.faults.costs import moved
from perfgate.model.faults import FaultKind, Scene


def kill_a_bookie(scene: Scene) -> None:
    """Kill a bookie of the first partition, hold that, and bring it back."""
    bookie = scene.one_of(scene.watch.last.replicas[0])
    scene.do("kill", bookie, "bookie")
    scene.hold()
    scene.gone(bookie)
    scene.bring_back(bookie)


FAULT = FaultKind(name="kill-bookie", act=kill_a_bookie, sending=moved, commands=None)
