"""Brokers that gave no answer at all were INVALID, exit 6, where those that answered wrongly were BROKEN.

On brokers that serve nobody else no answer is their doing, whoever asks: for a topic, its metadata or its offsets, or
as a producer or consumer. So it is of brokers that never get ready.
"""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
from confluent_kafka import KafkaError, KafkaException

from perfgate.host.waiting import SILENCE_S, check_while_starting, start_error
from perfgate.judge.scenario_case import judge_scenario
from perfgate.load import processes
from perfgate.load.clients import LoadClientError, TransactionError, UnansweredError
from perfgate.load.worker import _code_of
from perfgate.measure.assembly import sends_failed
from perfgate.measure.campaign import Campaign
from perfgate.measure.ledger import Ledger
from perfgate.measure.load_watch import LoadWatch
from perfgate.measure.parts import Compared, failing, unhealthy_ends
from perfgate.measure.rounds import Rounds
from perfgate.measure.setup import Setup
from perfgate.measure.sides import Switch, burst, in_turn
from perfgate.model import CanaryReading, ClusterSpec, Load, Measurement, TopicSpec, Verdict
from perfgate.model.errors import (
    BrokersFailedError,
    ConfigurationError,
    StartRefusedError,
    TargetError,
    TopicRefusedError,
)
from perfgate.model.load import LoadError, Observer, Progress, SendsFailedError
from perfgate.model.target import Meter
from perfgate.systems.attached.command_faults import FaultCommands
from perfgate.systems.kafka.attached import cluster as attached
from perfgate.systems.kafka.client.roundtrip import request_rtt_ms
from perfgate.systems.kafka.client.topics import READY_TIMEOUT_S, Topics, answer
from perfgate.systems.kafka.load.client import _failed
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from perfgate.systems.kafka.managed.own_cluster import OwnCluster
from tests.harness.build import measurement, one_round, scenario
from tests.harness.build.benches import Bench, FakeSetup, WarmsUp
from tests.harness.build.canary import QUIET, Canary
from tests.harness.build.clock import Clock
from tests.harness.build.generators import SPEC, driver, observer
from tests.harness.build.generators import processes as processes_of
from tests.harness.build.real_brokers import partition
from tests.harness.measure.test_bursts import AT, Limited
from tests.harness.measure.test_switching import observer as edges_of

SPEC_OF_TOPIC = TopicSpec(partitions=1, replication_factor=1)


def kafka(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


# --- what is asked for by an admin client


class Admin:
    """Gives this to every request."""

    def __init__(self, error: Exception) -> None:
        self._reply = Mock(result=Mock(side_effect=error))
        self._error = error

    def create_topics(self, topics: list[Any], **_: object) -> dict[str, Any]:
        return {topic.topic: self._reply for topic in topics}

    def list_offsets(self, wanted: dict[Any, Any], **_: object) -> dict[Any, Any]:
        return dict.fromkeys(wanted, self._reply)

    def list_topics(self, *_: object, **__: object) -> Any:
        raise self._error


@pytest.fixture
def topics(admin_by: Callable[[Callable[[], object]], None]) -> Callable[[Exception], Topics]:
    def made(error: Exception) -> Topics:
        admin_by(lambda: Admin(error))
        return Topics(MagicMock(client_settings=tuple))

    return made


REQUESTS: list[Callable[[Topics], object]] = [
    lambda topics: topics.create("t", SPEC_OF_TOPIC),
    lambda topics: topics.end_offsets("t", 1),
    lambda topics: topics.leaders("t"),
    lambda topics: topics.exists("t"),
]


@pytest.mark.parametrize("request_", REQUESTS)
def test_no_answer_is_a_failure_of_the_brokers(request_: Callable[[Topics], object], topics: Any) -> None:
    with pytest.raises(BrokersFailedError) as caught:
        request_(topics(kafka(KafkaError._TIMED_OUT)))
    assert caught.value.perhaps_late, "a machine that is busy with something else may be to blame"


@pytest.mark.parametrize("request_", REQUESTS[1:])
@pytest.mark.parametrize(
    ("code", "theirs"),
    [
        (KafkaError.KAFKA_STORAGE_ERROR, True),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False),
        (KafkaError._STATE, False),
    ],
)
def test_an_error_that_they_name_is_theirs_too(
    request_: Callable[[Topics], object], code: int, theirs: bool, topics: Any
) -> None:
    with pytest.raises(TargetError) as caught:
        request_(topics(kafka(code)))
    assert isinstance(caught.value, BrokersFailedError) is theirs
    assert not getattr(caught.value, "perhaps_late", False)


def test_a_topic_that_is_refused_concerns_its_scenario_alone(topics: Any) -> None:
    with pytest.raises(TopicRefusedError) as caught:
        topics(kafka(KafkaError.INVALID_REPLICATION_FACTOR)).create("t", SPEC_OF_TOPIC)
    assert caught.value.code == "INVALID_REPLICATION_FACTOR"


def test_offsets_that_no_leader_tells_in_time_are_late(topics: Any, clock: Clock) -> None:
    begin = clock.now
    with pytest.raises(BrokersFailedError, match="end offsets of t could not be read") as caught:
        topics(kafka(KafkaError.NOT_LEADER_FOR_PARTITION)).end_offsets("t", 1)
    assert caught.value.perhaps_late
    assert clock.now - begin > READY_TIMEOUT_S


@pytest.mark.parametrize("code", [KafkaError.INVALID_CONFIG, KafkaError.POLICY_VIOLATION])
def test_a_setting_that_brokers_refuse_is_no_failure_of_theirs(code: int) -> None:
    with pytest.raises(TargetError) as caught:
        answer(Mock(result=Mock(side_effect=kafka(code))), "setting num.io.threads")
    assert not isinstance(caught.value, BrokersFailedError)


def test_a_round_trip_that_does_not_come_back_is_the_brokers() -> None:
    with pytest.raises(BrokersFailedError, match="no round trip"):
        request_rtt_ms("127.0.0.1", 1)


# --- brokers that start


def test_brokers_that_never_get_ready_are_broken(
    admin_by: Callable[[Callable[[], object]], None], clock: Clock
) -> None:
    admin_by(lambda: Admin(kafka(KafkaError._TRANSPORT)))
    cluster: Any = MagicMock()
    cluster._wait = partial(OwnCluster._wait, cluster)
    with pytest.raises(BrokersFailedError, match=rf"were not ready after {SILENCE_S:.0f} s: no progress") as caught:
        OwnCluster.wait_until_ready(cluster, "SAMEZONE")
    assert caught.value.perhaps_late


@pytest.mark.parametrize(
    ("evidence", "kind"),
    [
        ("java.lang.OutOfMemoryError: Java heap space", BrokersFailedError),
        ("org.apache.kafka.common.config.ConfigException: Invalid value x", StartRefusedError),
        ("Error: Could not create the Java Virtual Machine.", StartRefusedError),
        ("Error: Could not find or load main class kafka.Kafka", StartRefusedError),
        ("java.net.BindException: Address already in use", TargetError),
    ],
)
def test_what_was_refused_or_taken_is_no_failure_of_brokers(evidence: str, kind: type[Exception]) -> None:
    def check() -> None:
        raise BrokersFailedError(f"node 1 exited with code 1; end of its log:\n{evidence}")

    with pytest.raises(kind) as caught:
        check_while_starting(check, (("num.io.threads", "x"),))
    assert type(caught.value) is kind
    assert evidence in str(caught.value)
    assert type(start_error("Kafka refused its log folders", "java.io.IOException", ())) is TargetError


@pytest.mark.parametrize(
    ("error", "dedicated", "after", "verdict"),
    [
        (BrokersFailedError("not ready", perhaps_late=True), True, QUIET, Verdict.BROKEN),
        (BrokersFailedError("not ready", perhaps_late=True), True, replace(QUIET, steal=0.95), Verdict.INVALID),
        (BrokersFailedError("not ready", perhaps_late=True), False, QUIET, Verdict.INVALID),
        (TargetError("no port was free"), True, QUIET, Verdict.INVALID),
    ],
)
def test_a_block_whose_brokers_never_get_ready_is_broken(
    error: TargetError, dedicated: bool, after: CanaryReading, verdict: Verdict, canary: Canary
) -> None:
    canary.readings = [QUIET, QUIET, QUIET, after]
    setup: Any = MagicMock(run_id="r")
    setup.cluster.side_effect, setup.target.dedicated = error, dedicated
    setup.driver.latency_basis.return_value = setup.driver.by_hand.return_value = ""
    found = Campaign(setup=setup, stop=Mock())._measure_block([scenario()])
    assert judge_scenario(found["batch-1k"], None).verdict is verdict


# --- producers and consumers


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnansweredError("no metadata", "_TIMED_OUT"), "_TIMED_OUT"),
        (TransactionError("not committed", "INVALID_TXN_STATE"), "INVALID_TXN_STATE"),
        (LoadClientError("no such setting"), ""),
        (ValueError("too small"), ""),
    ],
)
def test_what_a_client_failed_of(error: Exception, code: str) -> None:
    assert _code_of(error) == code


@pytest.mark.parametrize(
    ("code", "theirs"),
    [
        (KafkaError._TIMED_OUT, True),
        (KafkaError._TRANSPORT, True),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, True),
        (KafkaError._SSL, False),
    ],
)
def test_metadata_that_brokers_do_not_give(code: int, theirs: bool) -> None:
    assert isinstance(_failed("no metadata", code), UnansweredError) is theirs


SAYS = "import sys\nprint(*{lines!r}, sep='\\n', flush=True)\nfor line in sys.stdin: pass"


def ends(lines: list[dict[str, Any]], load: Load = SPEC.scenario.load) -> LoadError:
    script = SAYS.format(lines=[json.dumps(line) for line in lines])
    spec = replace(SPEC, scenario=replace(SPEC.scenario, load=load), warmup_max_s=0.1)
    with pytest.raises(LoadError) as caught:
        driver(script).run(spec, observer([]))
    return caught.value


def judged(error: LoadError) -> Verdict:
    assert isinstance(error, SendsFailedError)
    found = sends_failed(1, error, own_brokers=True)
    return judge_scenario(replace(measurement([1.0]), rounds=(found,)), None).verdict


@pytest.mark.usefixtures("impatient")
def test_a_client_that_never_got_metadata_is_the_brokers_doing() -> None:
    error = ends([{"event": "failure", "reason": "no metadata of t", "code": "_TIMED_OUT"}])
    assert judged(error) is Verdict.BROKEN
    refused = ends([{"event": "failure", "reason": "no such setting", "code": ""}])
    assert not isinstance(refused, SendsFailedError)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("reads", [True, False])
def test_consumers_that_are_given_none_of_a_backlog_are_the_brokers_doing(reads: bool) -> None:
    """Producers that got nothing acknowledged were BROKEN, these INVALID."""
    with processes_of("consumer-1", leading="consumer", reads=reads) as (running, heard):
        heard("consumer-1", {"event": "progress", "at": 0.0, "attempted": 0, "done": 0, "failed": 0})
        with pytest.raises(LoadError, match="no record was acknowledged or received") as caught:
            running.warm_up(time.monotonic(), 0.0, observer([]))
    assert isinstance(caught.value, SendsFailedError) is reads


@pytest.mark.parametrize(
    ("last", "verdict"),
    [
        (Progress(at=0.0, attempted=9, done=4, failed=0), Verdict.BROKEN),
        (Progress(at=0.0, attempted=0, done=0, failed=0), None),
        (None, None),
    ],
)
def test_a_backlog_that_brokers_do_not_take_in_time_is_broken(
    last: Progress | None, verdict: Verdict | None, generators_by: Callable[[Callable[..., object]], None]
) -> None:
    running = MagicMock()
    running.__exit__.return_value = None
    late = processes.NotInTimeError("the generator process producer gave no result within 130 s")
    running.__enter__.return_value.wait_for.side_effect = [None, late]
    running.__enter__.return_value.last = last
    generators_by(lambda *_, **__: running)
    row = replace(scenario(), load=Load(kind="backlog", records=10))
    with pytest.raises(LoadError) as caught:
        LibrdkafkaDriver().fill(replace(SPEC, scenario=row), Mock())
    if verdict is None:
        assert caught.value is late, "the generator's own doing"
    else:
        assert judged(caught.value) is verdict


# --- who is to blame


class Ends(FakeSetup):
    """Brokers that end as their round begins."""

    def check(self) -> None:
        raise self.ended

    ended: TargetError = BrokersFailedError("broker 1 was killed")


@pytest.mark.usefixtures("canary")
@pytest.mark.parametrize(
    ("ended", "asked", "broken"),
    [
        (BrokersFailedError("broker 1 was killed"), TargetError("no offsets"), True),
        (TargetError("Toxiproxy ended"), BrokersFailedError("no round trip", perhaps_late=True), False),
        (TargetError("Toxiproxy ended"), TargetError("no offsets"), False),
    ],
)
def test_a_proxy_that_ended_is_no_failure_of_brokers_that_could_not_be_reached(
    ended: TargetError, asked: TargetError, broken: bool
) -> None:
    class Asked(Bench):
        def round_trips(self, _scenarios: object) -> dict[str, float]:
            raise asked

    setup: Any = Ends(Asked([one_round(1, 1000.0)]))
    setup.ended = ended
    stop: Any = WarmsUp("batch-1k", 0)
    found: Measurement = Rounds(setup, setup, run_id="r", stop=stop).measure([scenario()])["batch-1k"]
    assert bool(found.rounds[0].broken) is broken


@pytest.mark.parametrize(("dedicated", "broken"), [(True, True), (False, False)])
def test_a_candidate_that_never_gets_ready_is_broken(dedicated: bool, broken: bool) -> None:
    row = Compared(dict.fromkeys("AB", scenario()), "pairs", 1, 6)
    clusters: dict[str, Any] = {"A": MagicMock()}
    with unhealthy_ends([row], lambda: failing(clusters, "AB"), dedicated=dedicated):
        raise BrokersFailedError("3 brokers were not ready", perhaps_late=True)
    assert not row.rounds["A"]
    assert bool(row.rounds["B"][0].broken) is broken


@pytest.mark.parametrize(("edges", "whose"), [(0, "A"), (1, "A"), (2, "B"), (3, "B"), (4, "B"), (6, "A"), (8, "A")])
def test_brokers_that_die_under_a_change_of_clients_are_of_the_side_whose_turn_it_was(edges: int, whose: str) -> None:
    """Of brokers that serve both sides neither was to blame: INVALID."""
    switch, row = Switch(), Compared(dict.fromkeys("AB", scenario()), "turns", 1)
    assert switch.turn == "AB", "while they are warmed up"
    along = switch.along("ABBA", edges_of([]))
    with unhealthy_ends([row], lambda: switch.turn, dedicated=True):
        for at in range(edges):
            along.edge(float(at))
        raise BrokersFailedError("broker 1 was killed")
    assert {side: len(rounds) for side, rounds in row.rounds.items()} == {"A": 0, "B": 0, whose: 1}
    assert row.rounds[whose][0].broken


def test_a_round_is_the_turn_of_its_side() -> None:
    switch = Switch()
    switch.to("B")
    assert (switch.turn, switch.sides) == ("B", "AB")
    switch.rest()
    assert switch.turn == "AB", "a topic that a burst needs is of neither side"


def test_a_setting_that_was_not_taken_is_given_again() -> None:
    """It counted as taken, and the side was measured without it."""
    given: list[str] = []

    def change(_values: object) -> float:
        given.append("B")
        if len(given) == 1:
            raise BrokersFailedError("no answer", perhaps_late=True)
        return 0.1

    switch, settings = Switch(), MagicMock(change=change)
    switch.rehearse(settings, (("num.io.threads", "2"),), times=0)
    with pytest.raises(BrokersFailedError):
        switch.to("B")
    switch.to("B")
    assert (given, switch.sides) == (["B", "B"], "B")


@pytest.mark.parametrize(("two", "dedicated"), [(True, True), (True, False), (False, True)])
def test_a_client_that_gets_no_metadata_of_one_of_two_clusters_is_of_its_side(two: bool, dedicated: bool) -> None:
    error = SendsFailedError("no metadata of t", attempted=0, failed=0, code="_TIMED_OUT", process="B-producer-1")
    ledger = Ledger(now=lambda: 0.0)
    benches: Any = {side: Limited(ledger, error, 1e9) for side in "AB"}
    benches = benches if two else dict.fromkeys("AB", benches["A"])
    for one in benches.values():
        one.dedicated = dedicated
    done = burst(benches, dict.fromkeys("AB", scenario()), "ABBA", AT, 1, None, lambda observer: observer)
    assert all(finished.round.invalid for finished in done.values())
    assert [bool(done[side].round.broken) for side in "AB"] == [False, two and dedicated]


def test_a_broker_that_ends_in_a_burst_on_two_clusters_is_of_its_side() -> None:
    def fails() -> None:
        raise BrokersFailedError("broker 1 was killed")

    def one(check: Callable[[], None]) -> Observer:
        return Observer(edge=lambda _at: None, check=check, progress=lambda *_: None, written=lambda: 0)

    both = in_turn({"A": one(lambda: None), "B": one(fails)}, "ABBA")
    with pytest.raises(BrokersFailedError) as caught:
        both.check()
    assert caught.value.side == "B"


# --- brokers of others that serve nobody else


@pytest.fixture
def described() -> Any:
    limits = SimpleNamespace(
        error_rate=0.1, bytes_per_s=1e9, read_bytes_per_s=1e9, total_bytes=1e9, under_replicated=0, most_s=1e9
    )
    return SimpleNamespace(
        path=Path("t.toml"),
        limits=limits,
        bootstrap="127.0.0.1:1",
        client=(),
        prefix="kpg-",
        faults=FaultCommands({}, 1.0),
        fault_brokers=(),
        two_down_allowed=False,
        dedicated=True,
    )


def test_replicas_that_fall_behind_are_the_failure_of_brokers(
    described: Any, admin_by: Callable[[Callable[[], object]], None]
) -> None:
    topic = Mock(partitions={0: partition(1, (1, 2))})
    admin_by(lambda: Mock(list_topics=lambda **_: Mock(cluster_id="c", topics={"t": topic})))
    manifest: Any = MagicMock(cluster_id="c")
    cluster = attached.ExternalCluster(ClusterSpec(), described, manifest, brokers={1: "b:1"}, facts={})
    assert cluster.dedicated
    with pytest.raises(BrokersFailedError, match="under-replicated"):
        cluster.check()
    assert cluster.meter.stopped


def test_sends_that_fail_stop_the_run_as_the_failure_of_brokers() -> None:
    cluster: Any = SimpleNamespace(meter=Meter(), most_failed=0.1)
    watch = LoadWatch(cluster, MagicMock(), MagicMock())
    with pytest.raises(BrokersFailedError, match="5 of 10 sends failed"):
        watch.hold_limits(scenario(), Progress(at=0.0, attempted=10, done=5, failed=5))


def test_what_the_file_limits_is_no_failure_of_brokers() -> None:
    meter = Meter(most=1.0)
    with pytest.raises(TargetError) as caught:
        meter.under_way(2.0)
    assert not isinstance(caught.value, BrokersFailedError)


@pytest.mark.parametrize(
    ("error", "own", "started", "kind"),
    [
        (TargetError("no port was free"), True, False, ConfigurationError),
        (TargetError("no port was free"), True, True, TargetError),
        (TargetError("no port was free"), False, False, TargetError),
        (BrokersFailedError("never ready"), True, False, BrokersFailedError),
    ],
)
def test_a_first_cluster_that_cannot_be_had_ends_the_run(
    error: TargetError, own: bool, started: bool, kind: type[Exception]
) -> None:
    """Every scenario was INVALID, exit 6, which CI lets pass, every night."""
    target = MagicMock(own=own)
    setup = Setup(
        tier=Mock(),
        driver=Mock(),
        engine=Mock(),
        target=target,
        scenarios=(),
        run_id="r",
        histories=Path(),
        say=Mock(),
        sampler=Mock(),
    )
    if started:
        setup.cluster(ClusterSpec())
    target.cluster.side_effect = error
    with pytest.raises(kind, match=str(error)) as caught:
        setup.cluster(ClusterSpec())
    assert type(caught.value) is kind
