"""Topics of a run on Pulsar: their quorums, how many messages they took, and policies that are put back."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.measure.round_topics import RoundTopics, refusal_round
from perfgate.model import TopicSpec
from perfgate.model.errors import BrokersFailedError, ConfigurationError, TargetError, TopicRefusedError
from perfgate.systems.pulsar.client import policies
from perfgate.systems.pulsar.client.admin import Admin, Ledger, TopicName
from perfgate.systems.pulsar.client.topics import END, Topics
from tests.harness.build import scenario
from tests.harness.build.clock import Clock
from tests.harness.build.pulsar_brokers import FakePulsar, Partition, asked, metadata, served

NAME = "persistent://kpg/run/kpg-1-topic"
THREE = TopicSpec(partitions=3, replication_factor=3)
DURABLE = {
    "bookkeeperEnsemble": 3,
    "bookkeeperWriteQuorum": 3,
    "bookkeeperAckQuorum": 2,
    "managedLedgerMaxMarkDeleteRate": 0.0,
}


@pytest.fixture
def pulsar() -> Iterator[FakePulsar]:
    with served(FakePulsar()) as found:
        found.namespaces["kpg/run"] = {}
        yield found


@pytest.fixture
def topics(pulsar: FakePulsar, clock: Clock) -> Topics:
    return Topics(lambda: None, Admin(pulsar.urls), lambda: {f"broker-{n}:6650": n for n in (1, 2, 3)})


def of(pulsar: FakePulsar, number: int) -> Partition:
    return pulsar.partitions[f"kpg/run/kpg-1-topic-partition-{number}"]


def test_a_topic_from_its_making_to_its_end(pulsar: FakePulsar, topics: Topics) -> None:
    assert not topics.exists(NAME)
    topics.create(NAME, THREE)
    assert topics.exists(NAME)
    assert topics.leaders(NAME) == (1, 2, 3)
    assert topics.end_offsets(NAME, 3) == (0, 0, 0)
    assert [of(pulsar, number).quorums for number in range(3)] == [[(3, 3, 2)]] * 3
    assert all(of(pulsar, number).subscriptions == {END} for number in range(3))
    assert pulsar.namespaces["kpg/run"] == {"persistence": DURABLE}
    topics.delete(NAME)
    topics.delete(NAME)
    assert not topics.exists(NAME)
    assert not pulsar.partitions
    assert pulsar.namespaces["kpg/run"] == {}, "as it was before"


def test_policies_from_before_are_put_back(pulsar: FakePulsar, topics: Topics) -> None:
    before = {"persistence": {**DURABLE, "bookkeeperAckQuorum": 3}, "message_ttl_in_seconds": 60}
    pulsar.namespaces["kpg/run"] = dict(before)
    topics.create(NAME, TopicSpec(partitions=1, replication_factor=1, config=(("messageTTLInSeconds", "3600"),)))
    assert pulsar.namespaces["kpg/run"]["message_ttl_in_seconds"] == 3600
    topics.delete(NAME)
    assert pulsar.namespaces["kpg/run"] == before


def test_policies_that_are_as_asked_for_are_left_alone(pulsar: FakePulsar, topics: Topics) -> None:
    pulsar.namespaces["kpg/run"] = {"persistence": dict(DURABLE), "publishMaxMessageRate": {"kpg": {"a": 1}}}
    topics.create(NAME, THREE)
    topics.delete(NAME)
    assert not asked(pulsar, "POST", "/persistence")
    assert not asked(pulsar, "DELETE", "/persistence")


def test_a_topic_has_no_policy_of_one_that_was_not_deleted(pulsar: FakePulsar, topics: Topics) -> None:
    """After a round that was broken off all that came later was measured under the rate of its topic: SAME."""
    before = {"deduplicationEnabled": False, "publishMaxMessageRate": {"kpg": {"publishThrottlingRateInMsg": 9}}}
    pulsar.namespaces["kpg/run"] = dict(before)
    limited = replace(THREE, config=(("deduplicationEnabled", "true"), ("publishThrottlingRateInByte", "1000")))
    topics.create(NAME, limited)
    assert pulsar.namespaces["kpg/run"]["deduplicationEnabled"] is True
    topics.create(f"{NAME}-2", THREE)
    assert pulsar.namespaces["kpg/run"] == {**before, "persistence": DURABLE}
    topics.delete(f"{NAME}-2")
    assert pulsar.namespaces["kpg/run"] == before


def test_a_backlog_that_is_kept_is_read_under_its_own_policies(pulsar: FakePulsar, topics: Topics) -> None:
    """Both sides of a comparison were read under the rate of the one whose backlog was written last, and so was every
    later scenario of a block."""
    made = RoundTopics(topics, "r", "persistent://kpg/run/kpg-")
    topic = replace(THREE, config=(("dispatchThrottlingRateInByte", "1000"),))
    free, limited = replace(scenario("free"), topic=THREE), replace(scenario("limited"), topic=topic)
    rate = {"dispatchThrottlingRateInMsg": -1, "dispatchThrottlingRateInByte": 1000, "ratePeriodInSecond": 1}
    names = set[str]()
    for read in (free, limited, free, limited):
        names.add(made.backlog(read, lambda _: None, lambda _: None))
        found = pulsar.namespaces["kpg/run"].get("topicDispatchRate")
        assert found == ({"kpg": rate} if read is limited else None)
    assert len(names) == len(pulsar.topics) == 2
    with made.fresh(free):
        assert "topicDispatchRate" not in pulsar.namespaces["kpg/run"]
    made.delete_backlogs()
    assert (pulsar.topics, pulsar.namespaces["kpg/run"]) == ({}, {})


def test_a_counter_is_not_believed_where_copies_are_dropped(pulsar: FakePulsar, topics: Topics) -> None:
    topics.create(NAME, replace(THREE, config=(("deduplicationEnabled", "true"),)))
    of(pulsar, 0).entries, of(pulsar, 0).counted_too_much = [[1, 1, 1]], 2
    assert topics.end_offsets(NAME, 1) == (3,)


def test_a_ledger_with_the_quorums_from_before_is_made_again(pulsar: FakePulsar, topics: Topics) -> None:
    """A broker that has not heard of the policy yet opens the partition as its namespace was."""
    pulsar.stale_policies = 2
    topics.create(NAME, THREE)
    assert {tuple(of(pulsar, number).quorums) for number in range(3)} == {((3, 3, 2),)}
    assert len(asked(pulsar, "DELETE", "-partition-0")) == 1


def test_a_partition_that_moves_while_its_ledger_is_read_is_asked_again(pulsar: FakePulsar, topics: Topics) -> None:
    """Its broker did not have it for a moment, and the round failed."""
    for status in (404, 500):
        pulsar.first.append((lambda request: "/internalStats" in request.path, (status, {"reason": "not found here"})))
    topics.create(NAME, THREE)
    assert pulsar.first == []
    assert topics.exists(NAME)


def test_a_ledger_that_never_gets_them_is_the_brokers_failure(pulsar: FakePulsar, topics: Topics, clock: Clock) -> None:
    pulsar.stale_policies, clock.times = 10**9, 100.0
    with pytest.raises(BrokersFailedError, match=r"ack quorum \(2, 2, 2\), not \(3, 3, 2\)"):
        topics.create(NAME, THREE)


def test_too_few_bookies_refuse_the_topic(pulsar: FakePulsar, topics: Topics) -> None:
    with pytest.raises(TopicRefusedError, match="Not enough non-faulty bookies") as caught:
        topics.create(NAME, TopicSpec(partitions=1, replication_factor=4))
    assert caught.value.code == "NotEnoughBookies"
    assert (pulsar.topics, pulsar.namespaces["kpg/run"]) == ({}, {})


def test_a_topic_that_must_be_refused_is_not_there_afterwards(pulsar: FakePulsar, topics: Topics) -> None:
    """Pulsar makes a partitioned topic before bookies are asked for: its refusal never passed, and the topic stayed."""
    row = replace(scenario(), topic=replace(THREE, replication_factor=4), refusal="NotEnoughBookies")
    found = refusal_round(RoundTopics(topics, "r", "persistent://kpg/run/kpg-"), row, 1, own_brokers=False)
    assert found.invalid == ()
    assert pulsar.topics == {}


def test_a_topic_that_is_there_is_refused(pulsar: FakePulsar, topics: Topics) -> None:
    topics.create(NAME, THREE)
    with pytest.raises(TopicRefusedError, match="already exists") as caught:
        topics.create(NAME, THREE)
    assert caught.value.code == "Conflict"
    assert topics.exists(NAME), "it is not the one that was refused"


def test_a_namespace_that_is_not_there_is_no_refusal_of_the_topic(pulsar: FakePulsar, topics: Topics) -> None:
    with pytest.raises(TargetError, match="Namespace not found"):
        topics.create("persistent://kpg/another/kpg-1", THREE)


@pytest.mark.parametrize("name", ["kpg-1", "persistent://kpg/kpg-1", "non-persistent://kpg/run/kpg-1"])
def test_a_short_name_is_no_name(topics: Topics, name: str) -> None:
    with pytest.raises(TargetError, match="has no full name"):
        topics.exists(name)


def test_the_counter_counts_where_it_has_seen_all(pulsar: FakePulsar, topics: Topics) -> None:
    topics.create(NAME, THREE)
    of(pulsar, 0).entries = [[1, 1, 1]]
    of(pulsar, 1).entries = [[100, 50]]
    assert topics.end_offsets(NAME, 3) == (3, 150, 0)
    assert not asked(pulsar, "POST", "/analyzeBacklog")


@given(
    ledgers=st.lists(st.lists(st.integers(1, 1000), max_size=30), min_size=1, max_size=4),
    loaded=st.integers(0, 40),
    page=st.integers(1, 20),
    too_much=st.integers(0, 5),
)
def test_every_message_is_counted_once_whatever_became_of_the_brokers(
    ledgers: list[list[int]], loaded: int, page: int, too_much: int
) -> None:
    """A counter that began later, or that counted what was handed in twice, is not believed."""
    partition = Partition([(3, 3, 2)] * len(ledgers), ledgers, subscriptions={END})
    partition.loaded_at = min(loaded, len(partition.all_entries))
    partition.counted_too_much = too_much if len(ledgers) > 1 or partition.loaded_at else 0
    with served(FakePulsar(1)) as pulsar:
        pulsar.page = page
        pulsar.topics["kpg/run/kpg-1-topic"] = 1
        pulsar.partitions["kpg/run/kpg-1-topic-partition-0"] = partition
        keeper = Topics(lambda: None, Admin(pulsar.urls), dict)
        assert keeper.end_offsets(NAME, 1) == (sum(partition.all_entries),)


@pytest.mark.parametrize("what", ["not there", "further on"])
def test_no_number_without_the_subscription_at_the_beginning(
    pulsar: FakePulsar, topics: Topics, what: str, clock: Clock
) -> None:
    topics.create(NAME, THREE)
    of(pulsar, 0).entries = [[7, 7]]
    pulsar.unload("kpg/run/kpg-1-topic-partition-0")
    clock.times = 100.0
    if what == "not there":
        of(pulsar, 0).subscriptions.clear()
    else:
        pulsar.further_on = 1
    with pytest.raises(BrokersFailedError, match="the end of partition 0"):
        topics.end_offsets(NAME, 1)


def test_a_partition_without_a_broker_has_no_leader(pulsar: FakePulsar, topics: Topics) -> None:
    topics.create(NAME, THREE)
    pulsar.first.append((lambda request: "lookup" in request.path, (412, {"reason": "no broker"})))
    assert topics.leaders(NAME) == (-1, 2, 3)


def test_a_topics_ledger_as_bookkeeper_prints_it() -> None:
    found = Ledger.of({"ledgerId": 7, "metadata": metadata(3, 3, 2)})
    assert found.quorums == (3, 3, 2)
    assert found.bookies == ("bookie-0:3181", "bookie-1:3181", "bookie-2:3181"), "of the newest ensemble"
    with pytest.raises(TargetError, match="states no ensemble"):
        Ledger.of({"ledgerId": 7, "metadata": "LedgerMetadata{?}"})


@given(write=st.integers(1, 9))
def test_a_topic_is_confirmed_by_a_majority_of_its_write_quorum(write: int) -> None:
    (body,) = policies.wanted(TopicSpec(partitions=1, replication_factor=write)).values()
    assert isinstance(body, dict)
    assert body["bookkeeperEnsemble"] == body["bookkeeperWriteQuorum"] == write
    assert write / 2 < body["bookkeeperAckQuorum"] <= write


def test_settings_of_a_topic_are_policies() -> None:
    config = (
        ("ensemble", "5"),
        ("publishThrottlingRateInByte", "1000000"),
        ("retentionSizeInMB", "100"),
        ("retentionTimeInMinutes", "60"),
        ("deduplicationEnabled", "True"),
    )
    found = policies.wanted(TopicSpec(partitions=1, replication_factor=3, config=config))
    assert found == {
        "persistence": {**DURABLE, "bookkeeperEnsemble": 5},
        "publishRate": {"publishThrottlingRateInMsg": -1, "publishThrottlingRateInByte": 1000000},
        "retention": {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100},
        "deduplication": True,
    }


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("min.insync.replicas", "2", "no policy of a Pulsar namespace"),
        ("write-quorum", "2", "no policy"),
        ("ensemble", "many", "must be a number"),
        ("messageTTLInSeconds", "true", "= 'true': it must be a number"),
        ("deduplicationEnabled", "1", "= '1': it must be true or false"),
        ("retentionSizeInMB", "1", "retentionTimeInMinutes is to be stated too"),
    ],
)
def test_a_setting_that_is_none(name: str, value: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        policies.wanted(TopicSpec(partitions=1, replication_factor=3, config=((name, value),)))


def test_every_policy_is_set_reported_and_removed_by_one_table() -> None:
    assert len({policy.endpoint for policy in policies.POLICIES}) == len(policies.POLICIES)
    for policy in policies.POLICIES:
        value = {name: 1 for name in policy.fields.values()} if any(policy.fields.values()) else 1
        reported = {policy.reported: {"kpg": value} if policy.by_cluster else value}
        assert policies.same(policies.now(reported, policy.endpoint), value)
        assert policies.now({}, policy.endpoint) is None


def test_names() -> None:
    name = TopicName.of("persistent://a/b/c")
    assert (name.namespace, name.local, str(name.partition(2))) == ("a/b", "c", "persistent://a/b/c-partition-2")
