"""consumer-slow: a member of a share group takes longer over records than its lock lasts; others get them as well."""

from perfgate.faults.costs import FIND_S, unmoved
from perfgate.model.faults import Expectation, FaultKind, FaultScenario, Scene, record_lock_s

SLOW_LOCKS = 2.0
"""The slow member takes this many times as long as its lock on the records lasts."""


def _act(scene: Scene) -> None:
    lock_s = record_lock_s(scene.scenario)
    scene.mark("slow consumer 1 down")
    scene.load.slow_down("consumer-1", SLOW_LOCKS * lock_s)
    scene.hold()
    scene.mark("consumer 1 as before")
    scene.load.slow_down("consumer-1", 0.0)


def _receiving(scenario: FaultScenario) -> Expectation:
    lock_s = record_lock_s(scenario)
    return Expectation(0.0, lock_s + FIND_S, f"the other members go on, and a slow one's locks last {lock_s:g} s")


FAULT = FaultKind(
    name="consumer-slow",
    act=_act,
    sending=unmoved,
    receiving=_receiving,
    commands=(),
    brokers_down=0,
    redelivers=True,
    others_read=("share",),
    meanwhile="with a slow consumer",
)
