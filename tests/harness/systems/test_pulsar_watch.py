"""Watch of a Pulsar topic: the broker that serves it, the bookies that hold it, and those that are gone or back."""

import time
from collections.abc import Callable, Iterator

import pytest

from perfgate.host.waiting import NotYet, poll_until
from perfgate.model import TopicSpec
from perfgate.model.errors import BrokersFailedError, TargetError
from perfgate.model.target import State
from perfgate.systems.pulsar.client.admin import Admin
from perfgate.systems.pulsar.client.topics import Topics
from perfgate.systems.pulsar.observe import OwnerWatch
from tests.harness.build.pulsar_brokers import Answer, FakePulsar, Request, served

NAME = "persistent://kpg/run/kpg-1-topic"


class Scene:
    """Three brokers with one topic, and a watch of it. `bookies`: those that are there."""

    def __init__(self, pulsar: FakePulsar) -> None:
        self.pulsar = pulsar
        self.bookies = [11, 12, 13]
        addresses = {at: number for number, at in pulsar.addresses.items()}
        services = {f"broker-{number}:6650": number for number in (1, 2, 3)}
        self.watch = OwnerWatch(
            Admin(pulsar.urls, timeout_s=1.0, tries=1),
            NAME,
            brokers=addresses | services,
            bookies={f"bookie-{number}:3181": 11 + number for number in range(3)},
            there=lambda: self.bookies,
            every_s=0.01,
            ensembles_every_s=0.0,
        )

    def sees(self, come: Callable[[State], bool]) -> State:
        def ask() -> State:
            if not come(self.watch.last):
                raise NotYet(str(self.watch.last))
            return self.watch.last

        return poll_until("it was not seen", ask, within_s=10, every_s=0.01)


@pytest.fixture
def scene() -> Iterator[Scene]:
    with served(FakePulsar()) as pulsar:
        pulsar.namespaces["kpg/run"] = {}
        found = Scene(pulsar)
        Topics(lambda: None, Admin(pulsar.urls), lambda: {}).create(NAME, TopicSpec(partitions=3, replication_factor=3))
        yield found


def test_the_first_state_has_owners_ensembles_and_all_nodes(scene: Scene) -> None:
    with scene.watch as watch:
        state = watch.last
    assert state.leaders == (1, 2, 3)
    assert state.replicas == state.in_sync == ((11, 12, 13),) * 3
    assert state.brokers == (1, 2, 3, 11, 12, 13)
    assert state.full
    assert state.at <= time.monotonic()


def test_a_bookie_that_is_gone_is_out_of_sync_until_it_is_back(scene: Scene) -> None:
    with scene.watch:
        scene.bookies = [11, 13]
        gone = scene.sees(lambda state: 12 not in state.brokers)
        assert gone.in_sync == ((11, 13),) * 3
        assert gone.replicas == ((11, 12, 13),) * 3
        assert not gone.full
        scene.bookies = [11, 12, 13]
        assert scene.sees(lambda state: 12 in state.brokers).full
    ats = [state.at for state in scene.watch.states]
    assert ats == sorted(ats)
    assert len(ats) == 3, "a state that is as the one before is none"


def test_a_broker_that_is_gone_leaves_its_partitions_and_what_was_known_of_their_bookies(scene: Scene) -> None:
    with scene.watch:
        scene.pulsar.down = {2}
        gone = scene.sees(lambda state: 2 not in state.brokers)
        assert gone.replicas == ((11, 12, 13),) * 3
        scene.pulsar.owner = lambda path: 1  # type: ignore[method-assign]  # another one serves them now
        moved = scene.sees(lambda state: state.leaders == (1, 1, 1))
        assert moved.brokers == (1, 3, 11, 12, 13)


def test_bookies_are_those_that_were_known_last_where_no_broker_reports_any(scene: Scene) -> None:
    answer = scene.pulsar.answer

    def moving(broker: int, request: Request) -> tuple[Answer, str]:
        if "/internalStats" in request.path:
            return (500, {"reason": "the bundle is being unloaded"}), ""
        return answer(broker, request)

    with scene.watch:
        scene.pulsar.answer = moving  # type: ignore[method-assign]
        scene.bookies = [11, 13]
        assert scene.sees(lambda state: 12 not in state.brokers).replicas == ((11, 12, 13),) * 3
        scene.bookies = [11, 12, 13]
        assert scene.sees(lambda state: 12 in state.brokers).full


def test_brokers_that_never_answered_have_failed_and_a_watch_that_ended_is_over(scene: Scene) -> None:
    with scene.watch as watch:
        watch.states.clear()
        scene.pulsar.down = {1, 2, 3}
        time.sleep(0.1)
        watch.states.clear()
        with pytest.raises(BrokersFailedError, match="never answered"):
            _ = watch.last
    with pytest.raises(TargetError, match="no longer asked"):
        _ = scene.watch.last
