"""member-join: another member joins the consumer group, and takes its share of the partitions."""

from perfgate.faults.costs import MEMBER_S, rebalances, shared_out, unmoved
from perfgate.model.faults import FaultKind, Scene


def _act(scene: Scene) -> None:
    assert scene.scenario.consumers is not None, "unfit_for_fault"
    scene.join(scene.scenario.consumers.processes + 1, MEMBER_S)
    scene.hold()


FAULT = FaultKind(
    name="member-join",
    act=_act,
    sending=unmoved,
    receiving=lambda scenario: shared_out(scenario, 1),
    commands=(),
    brokers_down=0,
    joins=lambda members: (members,),
    meanwhile="with a member more",
    note=rebalances,
)
