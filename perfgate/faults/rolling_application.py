"""rolling-application: each member of the consumer group closes, and another joins in its place."""

from perfgate.faults.costs import MEMBER_S, rebalances, shared_out, unmoved
from perfgate.model.faults import FaultKind, Scene


def _act(scene: Scene) -> None:
    assert scene.scenario.consumers is not None, "unfit_for_fault"
    members = scene.scenario.consumers.processes
    for number in range(1, members + 1):
        scene.leave(number)
        scene.hold()
        scene.join(members + number, MEMBER_S)


FAULT = FaultKind(
    name="rolling-application",
    act=_act,
    sending=unmoved,
    receiving=lambda scenario: shared_out(
        scenario, 2, scenario.fault.hold_s
    ),  # a member may come while the group is busy
    commands=(),
    brokers_down=0,
    joins=range,
    meanwhile="with a member away",
    note=rebalances,
)
