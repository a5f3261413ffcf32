"""kill-controller: the active controller crashes (SIGKILL), another takes over, and it comes back."""

from perfgate.faults.costs import unmoved
from perfgate.model.faults import FaultKind, Scene


def _act(scene: Scene) -> None:
    node = scene.faults.active_controller()
    scene.do("kill", node, "controller")
    scene.hold()
    scene.bring_back(node)


FAULT = FaultKind(
    name="kill-controller",
    act=_act,
    sending=unmoved,
    commands=None,  # no source names the active one
    elects_controller=True,
)
