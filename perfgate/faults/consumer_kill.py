"""consumer-kill: a member of the consumer group is killed for good; the others take over its partitions."""

from perfgate.faults.costs import FIND_S, unmoved
from perfgate.model.faults import Expectation, FaultKind, FaultScenario, Scene

GROUP_SESSION_MS = 45_000.0
"""Kafka's default of session.timeout.ms, group.consumer.session.timeout.ms and group.share.session.timeout.ms."""


def _act(scene: Scene) -> None:
    scene.mark("kill consumer 1")
    scene.load.kill("consumer-1")
    scene.hold()


def _receiving(scenario: FaultScenario) -> Expectation:
    consumer, broker = dict(scenario.consumers.config) if scenario.consumers else {}, dict(scenario.cluster.config)
    if scenario.consumers and scenario.consumers.membership == "share":
        named = broker.get("group.share.session.timeout.ms", GROUP_SESSION_MS)
    else:
        named = consumer.get("session.timeout.ms", broker.get("group.consumer.session.timeout.ms", GROUP_SESSION_MS))
    session = float(named) / 1e3
    why = f"the dead member's session lasts {session:g} s, then its partitions are shared out"
    return Expectation(0.0, session + FIND_S, why)


FAULT = FaultKind(name="consumer-kill", act=_act, sending=unmoved, receiving=_receiving, commands=(), brokers_down=0)
