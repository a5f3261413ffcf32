"""Health of real brokers while they are measured: what is unwell, away or of another cluster stops the run."""

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource

from perfgate.model import ClusterSpec, TopicSpec, settings
from perfgate.model.errors import TargetError
from perfgate.systems.attached.cluster import BACK_S, HEALTH_AT_MOST_S
from perfgate.systems.kafka.attached.cluster import ExternalCluster, unwell
from tests.harness.build.clock import Clock
from tests.harness.build.real_brokers import BROKERS, Broker, left_in, partition, target


class FailsOnce(Broker):
    """Brokers of which the second fails at its first change."""

    failed = False

    def incremental_alter_configs(
        self, resources: Sequence[ConfigResource], request_timeout: float
    ) -> dict[ConfigResource, Mock]:
        if resources[0].name == "2" and not self.failed:
            self.failed = True
            raise TargetError("broker 2 does not answer")
        return super().incremental_alter_configs(resources, request_timeout)


def test_brokers_of_which_some_took_the_settings_are_not_measured(
    tmp_path: Path, clock: Clock, admin_at: Callable[[Callable[[str], object]], None]
) -> None:
    """The second of three failed to; the next scenario of these settings found them "as set"."""
    admin_at((brokers := FailsOnce()).at)
    attached, spec = target(tmp_path, []), ClusterSpec(config=settings({"num.io.threads": 16}))
    attached._brokers, attached._cluster_id = BROKERS, "c"
    with pytest.raises(TargetError, match="broker 2 does not answer"):
        attached.cluster(spec)
    assert {*brokers.values.values()} == {None}, "what was set is put back"
    attached.cluster(spec)
    assert [*brokers.values.values()] == ["16", "16"]
    attached.close()


def test_settings_that_a_broker_does_not_take_are_not_measured(
    cluster: Callable[..., ExternalCluster], broker: Broker
) -> None:
    """The answer to the change was taken for the proof of it, and what was measured was without the setting."""
    broker.deaf = True
    with pytest.raises(TargetError, match=r"broker 1 did not take num\.io\.threads = 16 within 30 s: it has .* = 8"):
        cluster(config={"num.io.threads": 16})


def test_while_something_is_away_nothing_more_is_done_to_the_brokers(
    tmp_path: Path, cluster: Callable[..., ExternalCluster]
) -> None:
    notes: list[str] = []
    attached = target(tmp_path, notes)
    down = cluster(f'kill = "true"\nstart = "test -e {tmp_path}/mended && touch {tmp_path}/up-{{broker}}"')
    down.faults.do("kill", 2)
    attached._alive = down
    attached.close()
    assert len(attached.left_behind) == 1
    assert "BROKER 2 (kafka-2:9093) IS STILL DOWN" in attached.left_behind[0]
    assert "tried again later" in notes[0]
    with pytest.raises(TargetError, match="nothing more is done to these brokers: BROKER 2"):
        attached.cluster(ClusterSpec())
    (tmp_path / "mended").touch()
    attached.close()
    assert not attached.left_behind
    assert left_in(tmp_path) == []


def test_a_large_cluster_is_looked_at_every_quarter_of_a_minute(
    cluster: Callable[..., ExternalCluster], broker: Broker, clock: Clock
) -> None:
    made = cluster()

    def slowly(**asked: Any) -> Mock:
        clock.sleep(10.0)
        return broker.topics(**asked)

    broker.list_topics = slowly
    made.check()
    assert made._pause == HEALTH_AT_MOST_S


def test_what_stopped_a_run_stops_all_of_it(
    tmp_path: Path, cluster: Callable[..., ExternalCluster], broker: Broker
) -> None:
    """It stopped the rows under way, and the next ones were put on the same brokers."""
    attached, made = target(tmp_path, []), cluster()
    attached._alive, made.meter = made, attached._meter
    broker.missing = {1, 2, 3}
    with pytest.raises(TargetError, match="stopped at once"):
        made.check()
    broker.missing.clear()
    with pytest.raises(TargetError, match=r"stopped at once.*partitions are offline"):
        attached.cluster(made.spec)
    assert attached._alive is None, "and what it had changed is put back"


@pytest.mark.parametrize(
    ("partitions", "excused", "words"),
    [
        ([partition(1, (1, 2, 3))], (), ""),
        ([partition(1, (1, 3))], (), "1 of 1 partitions are under-replicated (0 allowed)"),
        ([partition(1, (1, 3))], (2,), ""),
        ([partition(1, (1,))], (2,), "1 of 1 partitions are under-replicated (0 allowed)"),
        ([partition(1, (1,)), partition(3, (3,))], (2, 3), "1 of 2 partitions are under-replicated (0 allowed)"),
        ([partition(-1, (2,), (2,))], (2,), ""),  # of one replica, and whoever allowed the fault knew of it
        ([partition(-1, (3,), (3,))], (2,), "1 of 1 partitions are offline"),
        ([partition(-1, (3,), (2, 3))], (2,), "1 of 1 partitions are offline"),  # broker 3 has gone besides
    ],
)
def test_what_a_fault_explains_is_not_counted_and_all_else_is(
    partitions: list[Mock], excused: Collection[int], words: str
) -> None:
    admin = Mock()
    admin.list_topics.return_value.topics = {"t": Mock(partitions=dict(enumerate(partitions)))}
    assert unwell(admin, excused=excused) == words


@pytest.mark.parametrize(("leader", "word"), [(1, "under-replicated"), (-1, "offline")])
def test_a_start_that_was_let_go_on_unwell_goes_on_until_it_is_worse(
    tmp_path: Path, broker: Broker, leader: int, word: str
) -> None:
    """--allow-unhealthy passed the start, and the first look stopped the run for what had been there before."""
    sick = [partition(leader, (1, 3)), partition(1, (1, 2, 3))]
    metadata = Mock(cluster_id="c", topics={"t": Mock(partitions=dict(enumerate(sick)))})
    broker.list_topics = Mock(return_value=metadata)
    notes: list[str] = []
    attached = target(tmp_path, notes, unhealthy_is_fine=True)
    attached._brokers, attached._cluster_id, attached._version = BROKERS, "c", "4.3.1"
    attached._seen(broker.admin)
    assert f"1 of 2 partitions are {word}" in notes[-1]
    made = attached.cluster(ClusterSpec())
    made.check()
    made._checked = -1e9
    metadata.topics["t"].partitions[1] = partition(leader, (1, 3))
    with pytest.raises(TargetError, match=f"2 of 2 partitions are {word}"):
        made.check()
    attached.close()


def test_brokers_that_answer_once_alone_at_such_a_start_are_a_clear_error(tmp_path: Path, broker: Broker) -> None:
    """What lacks is counted by a second look, whose failure was the client's own error."""
    metadata = Mock(cluster_id="c", topics={"t": Mock(partitions={0: partition(1, (1, 3))})})
    broker.list_topics = Mock(side_effect=[metadata, KafkaException(KafkaError(KafkaError._TRANSPORT))])
    attached = target(tmp_path, [], unhealthy_is_fine=True)
    attached._brokers, attached._cluster_id, attached._version = BROKERS, "c", "4.3.1"
    with pytest.raises(TargetError, match="the brokers no longer answer"):
        attached._seen(broker.admin)


def test_a_broker_of_another_cluster_at_its_address_is_not_the_one_that_was_taken_away(
    cluster: Callable[..., ExternalCluster], broker: Broker
) -> None:
    """Its address leads to another cluster by now, as of a pod: it was noted as back, and stayed away."""
    made, broker.silent = cluster(), lambda server: False
    assert made._answers(BROKERS[2])
    broker.ids = {BROKERS[2]: "another"}
    assert not made._answers(BROKERS[2])


ELSEWHERE = "stopped at once: these brokers are of cluster prod, and the run began on cluster c"


@pytest.mark.parametrize(("told", "stopped"), [("c", False), (None, False), ("prod", True)])
@pytest.mark.parametrize("away", [False, True])
def test_a_name_that_leads_to_another_cluster_meanwhile_stops_the_run(
    cluster: Callable[..., ExternalCluster], broker: Broker, told: str | None, stopped: bool, away: bool
) -> None:
    """The id was asked for at the start alone: hours later the load went wherever the name led."""
    made = cluster()
    broker.cluster_id = told
    made.faults._away = {1: "start"} if away else {}
    with pytest.raises(TargetError, match=ELSEWHERE) if stopped else nullcontext():
        made.check()
    assert bool(made.meter.stopped) is stopped


def test_nothing_is_written_to_another_cluster(
    cluster: Callable[..., ExternalCluster], broker: Broker, tmp_path: Path
) -> None:
    """It has brokers 1 and 2 as well; and what it does not have counted as put back."""
    made = cluster(config={"num.io.threads": 16})
    topics = made.topics()
    topics._made = {"kpg-r-1": 1}
    broker.cluster_id = "prod"
    broker.values.clear()
    live = made.live_settings()
    for write in (
        made.apply_settings,
        lambda: topics.create("kpg-r-2", TopicSpec(partitions=1, replication_factor=1)),
        lambda: topics.delete("kpg-r-1"),
        lambda: live.change(settings({"num.io.threads": 16})),
        live.restore,
    ):
        with pytest.raises(TargetError, match=ELSEWHERE):
            write()
    left = made.close()
    assert [ELSEWHERE in text for text in left] == [True] * 3, "two settings and a topic"
    assert not broker.values
    assert left_in(tmp_path) == ["r.jsonl"], "the next start on the run's cluster has to see to it"
    broker.cluster_id, topics._made = "", {}
    assert made.close() == [], "that nobody tells is no difference"


def test_another_broker_that_goes_while_one_is_away_ends_the_run(
    cluster: Callable[..., ExternalCluster], broker: Broker, clock: Clock
) -> None:
    """Nothing was looked at until the fault was over and two minutes had passed."""
    made = cluster('kill = "true"\nstart = "true"')
    broker.missing = {2}
    made.faults._away = {2: "start"}
    clock.now += HEALTH_AT_MOST_S
    made.check()
    made.faults._away = {}
    clock.now += HEALTH_AT_MOST_S
    made.check()  # it is back, and copies what it lacks
    broker.missing |= {3}
    clock.now += HEALTH_AT_MOST_S
    with pytest.raises(
        TargetError, match="stopped at once, as the target file asks for: 1 of 1 partitions are under-rep"
    ):
        made.check()
    broker.missing -= {3}
    clock.now += BACK_S + 1
    with pytest.raises(TargetError, match="stopped at once"):
        made.check()  # it has not caught up in all that time


def test_a_broker_that_was_seen_well_before_the_next_fault_excuses_nothing_more(
    cluster: Callable[..., ExternalCluster], broker: Broker, clock: Clock, tmp_path: Path
) -> None:
    """Over a rolling restart all brokers were excused in the end."""
    made = cluster('kill = "true"\nstart = "true"')
    made.faults._away = {1: "start"}
    clock.now += HEALTH_AT_MOST_S
    made.check()
    made.faults._away = {}
    made.faults.do("kill", 2)  # which waits until all is well
    broker.missing |= {1, 2}
    clock.now += HEALTH_AT_MOST_S
    with pytest.raises(TargetError, match="stopped at once"):
        made.check()
    (tmp_path / "up-2").touch()


def test_brokers_that_are_well_again_excuse_nothing_more(
    cluster: Callable[..., ExternalCluster], broker: Broker, clock: Clock
) -> None:
    made = cluster('kill = "true"\nstart = "true"')
    broker.missing = {2}
    made.faults._away = {2: "start"}
    clock.now += HEALTH_AT_MOST_S
    made.check()
    made.faults._away = {}
    broker.missing.clear()
    clock.now += HEALTH_AT_MOST_S
    made.check()
    broker.missing |= {2}
    clock.now += HEALTH_AT_MOST_S
    with pytest.raises(TargetError, match="stopped at once"):
        made.check()


def test_no_broker_is_taken_while_any_partition_lacks_a_replica(
    cluster: Callable[..., ExternalCluster], broker: Broker, tmp_path: Path
) -> None:
    """Of as many as a run may go on with, the broker held the last replica: others could not write any more."""
    made = cluster(f'kill = "touch {tmp_path}/killed"\nstart = "true"', limits="under-replicated-partitions = 1")
    broker.missing = {3}
    made.check()
    with pytest.raises(TargetError, match=r"broker 1 is not taken away: .*1 of 1 partitions are under-replicated"):
        made.faults.do("kill", 1)
    assert not (tmp_path / "killed").exists()
    assert not made.faults.away
    broker.missing.clear()
    made.faults.do("kill", 1)
    (tmp_path / "up-1").touch()
