"""member-leave: a member of the consumer group closes for good; the others take over its partitions."""

from perfgate.faults.costs import group_session_s, rebalances, shared_out, unmoved
from perfgate.model.faults import FaultKind, Scene


def _act(scene: Scene) -> None:
    scene.leave(1)
    scene.hold()


FAULT = FaultKind(
    name="member-leave",
    act=_act,
    sending=unmoved,
    receiving=lambda scenario: shared_out(scenario, 1, group_session_s(scenario)),
    commands=(),
    brokers_down=0,
    joins=lambda members: (),
    meanwhile="with a member less",
    note=rebalances,
)
