"""Partitions of a topic on Pulsar are given to the brokers in turn, by the bundles that they are in."""

from collections.abc import Mapping
from typing import Any

import pytest

from perfgate.model.errors import BrokersFailedError, TargetError
from perfgate.systems.pulsar.client.admin import TopicName
from perfgate.systems.pulsar.client.topics import place
from tests.harness.build.clock import Clock

TOPIC = TopicName.of("persistent://kpg/run/kpg-1-topic")
NAMES = {1: "here:8081", 2: "here:8082", 3: "here:8083"}
ADDRESSES = {f"127.0.0.1:665{broker}": broker for broker in NAMES}


class Brokers:
    """Bundles and who has each. `bundles` of the partitions; a broker that is `deaf` is given nothing at first."""

    def __init__(self, bundles: Mapping[int, str], *, deaf_for: int = 0) -> None:
        self.bundles, self.deaf_for = bundles, deaf_for
        self.owners: dict[str, int] = {}
        self.unloaded: list[tuple[str, str]] = []

    def bundle(self, topic: TopicName) -> str:
        return self.bundles[int(topic.local.rpartition("-")[2])]

    def unload_bundle(self, namespace: str, bundle: str, destination: str) -> None:
        assert namespace == "kpg/run"
        self.unloaded.append((bundle, destination))
        wanted = next(broker for broker, name in NAMES.items() if name == destination)
        self.owners[bundle] = 1 if self.deaf_for else wanted
        self.deaf_for = max(0, self.deaf_for - 1)

    def owner(self, topic: TopicName) -> dict[str, str]:
        return {"brokerUrl": f"pulsar://127.0.0.1:665{self.owners.get(self.bundle(topic), 1)}"}

    def leaders(self, partitions: int) -> list[int]:
        return [self.owners[self.bundles[number]] for number in range(partitions)]


def placed(brokers: Any, partitions: int) -> Any:
    def check() -> None:
        if len(brokers.unloaded) > 100:
            raise BrokersFailedError("broker 2 has ended")

    place(brokers, TOPIC, partitions, names=NAMES, brokers=ADDRESSES, check=check)
    return brokers


pytestmark = pytest.mark.usefixtures("clock")


def test_partitions_go_to_the_brokers_in_turn() -> None:
    brokers = placed(Brokers({number: f"bundle-{number}" for number in range(7)}), 7)
    assert brokers.leaders(7) == [1, 2, 3, 1, 2, 3, 1]
    assert len(brokers.unloaded) == 7, "each is given away once"


def test_partitions_in_one_bundle_stay_together() -> None:
    brokers = placed(Brokers({0: "a", 1: "b", 2: "a", 3: "c"}), 4)
    assert brokers.leaders(4) == [1, 2, 1, 1]
    assert [bundle for bundle, _ in brokers.unloaded] == ["a", "b", "c"]


def test_a_bundle_that_went_elsewhere_is_given_away_again() -> None:
    brokers = placed(Brokers({0: "a", 1: "b", 2: "c"}, deaf_for=3), 3)
    assert brokers.leaders(3) == [1, 2, 3]
    assert len(brokers.unloaded) > 3


def test_a_broker_that_takes_nothing_is_an_error_that_names_it(clock: Clock) -> None:
    clock.times = 100.0
    with pytest.raises(TargetError, match=r"kpg-1-topic-partition-1 was not given to broker 2 .* broker 1 has it"):
        placed(Brokers({0: "a", 1: "b"}, deaf_for=10_000), 2)


def test_brokers_that_have_ended_end_the_wait() -> None:
    with pytest.raises(BrokersFailedError, match="has ended"):
        placed(Brokers({0: "a", 1: "b"}, deaf_for=10_000), 2)
