"""two-down: two of three brokers crash; with min.insync.replicas=2 there is no service until either is back."""

from perfgate.model.errors import TargetError
from perfgate.model.faults import Case, Expectation, FaultKind, Scene

SECOND_DOWN_AFTER_S = 2.0
START_S = 30.0
"""A killed broker that starts again recovers its logs and has to be unfenced."""


def _act(scene: Scene) -> None:
    first = scene.leader()
    second = next((broker for broker in scene.holders if broker != first), None)
    if second is None:
        raise TargetError(f"broker {first} alone holds the topic: no second one can be taken away")
    scene.do("kill", first)
    scene.hold(SECOND_DOWN_AFTER_S)
    scene.do("kill", second)
    scene.hold()
    scene.gone(first)
    scene.gone(second)
    scene.do("start", second, "node")
    scene.until(lambda state: second in state.brokers, f"broker {second} is back")
    scene.hold()
    scene.bring_back(first)


def _sending(case: Case) -> Expectation:
    why = f"two of three replicas are gone for {case.hold:g} s, then one starts"
    # With acks=1, or where no partition has both, service is back as soon as both are fenced.
    return Expectation(min(case.first, case.hold), case.hold + case.last + START_S, why)


FAULT = FaultKind(name="two-down", act=_act, sending=_sending, commands=("kill", "start"), brokers_down=2)
