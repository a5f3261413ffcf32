"""Puts a driver's load on a real broker without the gate around it, for the tests of the load engine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Generic, TypeVar

from perfgate.host.waiting import poll_until
from perfgate.model import SAME_ZONE, Scenario
from perfgate.model.errors import TopicRefusedError
from perfgate.model.load import Driver, LoadResult, LoadSpec, Observer
from perfgate.systems.kafka.client.topics import Topics
from perfgate.systems.kafka.managed.containers import ContainersCluster
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster

RUN_ID = "live"
FENCED_S = 60.0
"""Brokers that a stall of the machine left fenced, for it was longer than their session, have so long to come back."""
C = TypeVar("C", EmbeddedCluster, ContainersCluster)


class LiveLoad(Generic[C]):
    """One cluster, and rounds of load on it."""

    def __init__(self, cluster: C) -> None:
        self.cluster: C = cluster
        self.topics = Topics(cluster)
        self._made = 0

    @contextmanager
    def topic(self, scenario: Scenario) -> Iterator[str]:
        """A topic as the row declares it, for the length of the block."""
        self._made += 1
        name = f"live-{self._made}"
        poll_until(
            f"the brokers did not take the topic {name}",
            lambda: self.topics.create(name, scenario.topic),
            within_s=FENCED_S,
            every_s=1,
            not_yet=(TopicRefusedError,),
            check=self.cluster.check,
        )
        try:
            yield name
        finally:
            self.topics.delete(name, scenario.topic.count)

    def spec(self, scenario: Scenario, topic: str, *, window_s: float = 2.0, warmup_max_s: float = 2.0) -> LoadSpec:
        """Return a round of this row."""
        return LoadSpec(
            scenario=scenario,
            bootstrap=self.cluster.bootstrap(SAME_ZONE),
            security=(),
            topic=topic,
            run_id=RUN_ID,
            seed=1,
            window_s=window_s,
            warmup_max_s=warmup_max_s,
        )

    def observer(
        self, topic: str, partitions: int, count: int = 1, *, edge: Callable[[], None] = lambda: None
    ) -> Observer:
        """Return an observer that hears of the window's edges."""
        return Observer(
            edge=lambda _at: edge(),
            check=self.cluster.check,
            progress=lambda phase, last: None,
            written=lambda: sum(self.topics.end_offsets(topic, partitions, count)),
        )

    def run(
        self, driver: Driver, scenario: Scenario, *, window_s: float = 2.0, edge: Callable[[], None] = lambda: None
    ) -> tuple[LoadResult, int]:
        """Run one round; return its result and the topic's end offsets added up."""
        with self.topic(scenario) as topic:
            topics = scenario.topic
            observer = self.observer(topic, topics.partitions, topics.count, edge=edge)
            result = driver.run(self.spec(scenario, topic, window_s=window_s), observer)
            return result, sum(self.topics.end_offsets(topic, topics.partitions, topics.count))


def row(base: Scenario, **changes: object) -> Scenario:
    """Return `base` with other fields."""
    return replace(base, **changes)  # type: ignore[arg-type]  # the tests name the fields they change
