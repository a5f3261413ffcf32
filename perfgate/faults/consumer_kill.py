"""consumer-kill: a member of the consumer group is killed for good; the others take over its partitions."""

from perfgate.faults.costs import FIND_S, group_session_s, unmoved
from perfgate.model.faults import Expectation, FaultKind, FaultScenario, Scene


def _act(scene: Scene) -> None:
    scene.mark("kill consumer 1")
    scene.load.kill("consumer-1")
    scene.hold()


def _receiving(scenario: FaultScenario) -> Expectation:
    session = group_session_s(scenario)
    why = f"the dead member's session lasts {session:g} s, then its partitions are shared out"
    return Expectation(0.0, session + FIND_S, why)


FAULT = FaultKind(
    name="consumer-kill",
    act=_act,
    sending=unmoved,
    receiving=_receiving,
    commands=(),
    brokers_down=0,
    others_read=("group", "share", "shared", "failover", "key-shared"),
)
