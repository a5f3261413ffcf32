"""scale-out: a broker that held nothing of the topic joins, and takes over its share of the replicas."""

from perfgate.faults.costs import moved
from perfgate.model.faults import FaultKind, Scene


def _act(scene: Scene) -> None:
    newcomer = scene.scenario.cluster.brokers
    scene.do("kill", newcomer, noted=False)
    scene.hold()
    scene.gone(newcomer)
    scene.do("start", newcomer, "node")
    scene.until(lambda state: newcomer in state.brokers, f"broker {newcomer} is there")
    replicas = with_newcomer(scene.watch.last.replicas, newcomer)
    scene.mark(f"move replicas to broker {newcomer}")
    scene.faults.move_replicas(scene.watch.topic, replicas)
    scene.until(lambda state: state.replicas == replicas and state.full, f"broker {newcomer} has its replicas in sync")
    scene.mark("replicas moved")


def with_newcomer(replicas: tuple[tuple[int, ...], ...], newcomer: int) -> tuple[tuple[int, ...], ...]:
    """The replicas with the newcomer's share: a replica of each of the first partitions, in the leader's place too."""
    brokers = {broker for ids in replicas for broker in ids}
    share = sum(len(ids) for ids in replicas) // (len(brokers) + 1)
    return tuple(
        tuple(
            newcomer if partition < share and place == partition % len(ids) else broker
            for place, broker in enumerate(ids)
        )
        for partition, ids in enumerate(replicas)
    )


FAULT = FaultKind(
    name="scale-out",
    act=_act,
    sending=moved,
    commands=None,  # a target file declares no spare broker
    prepared=True,
)
