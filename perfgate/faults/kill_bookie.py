"""kill-bookie: a bookie of the first partition crashes (SIGKILL) and comes back; service goes on with a spare bookie,
or if the change of an ensemble is delayed (bookkeeper_delayEnsembleChange) and the ack quorum is left."""

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
