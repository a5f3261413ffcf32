"""Settings of living brokers: changed, put back, and left alone where somebody else has changed them."""

import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigResource, ConfigSource
from hypothesis import given
from hypothesis import strategies as st

from perfgate.model import settings
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.systems.kafka.client.admin import MOST_THREADS, broker_config, is_own, put_back_own, set_broker, steps
from perfgate.systems.kafka.client.live_settings import LiveSettings
from tests.harness.build.clock import Clock
from tests.harness.build.real_brokers import Broker, answered

NAME = "num.io.threads"


def held(one: str | None, other: str | None) -> dict[tuple[str, str], str | None]:
    """Return the dynamic value of the setting on each of two brokers."""
    return {("1", NAME): one, ("2", NAME): other}


@pytest.fixture
def brokers(clock: Clock) -> Broker:
    made = Broker()
    made.values = held(None, "16")
    return made


def test_a_change_and_the_way_back_again_and_again(brokers: Broker) -> None:
    noted: list[Any] = []
    live = LiveSettings(brokers.admin, ["1", "2"], lambda *change: noted.append(change))
    for _ in range(3):
        live.change(settings({NAME: 2}))
        assert brokers.values == held("2", "2")
        live.restore()
        assert brokers.values == held(None, "16")
    assert noted == [("1", NAME, None, "8", "2"), ("2", NAME, "16", "16", "2")], "once, before the first change"


def test_what_the_brokers_do_not_know_is_no_setting_of_theirs() -> None:
    """Kafka 4 has no log.message.downconversion.enable: clusters started with it were the SAME."""
    known = {
        NAME: Mock(is_read_only=False, is_sensitive=False),
        "num.partitions": Mock(is_read_only=True, is_sensitive=False),
        "delegation.token.secret.key": Mock(is_read_only=True, is_sensitive=True, value=None),
    }
    admin: Any = Mock(describe_configs=lambda asked, **_: {asked[0]: answered(known)})
    live = LiveSettings(admin, ["1"])
    assert live.fixed([NAME, "num.partitions"]) == ["num.partitions"]
    with pytest.raises(ConfigurationError, match=r"do not know log\.message\.downconversion\.enable: Kafka takes no"):
        live.fixed([NAME, "log.message.downconversion.enable"])
    known["log.message.downconversion.enable"] = Mock(is_read_only=True, is_sensitive=True, value=None)
    with pytest.raises(ConfigurationError, match=r"do not know log\.message\.downconversion\.enable"):
        live.fixed(["log.message.downconversion.enable"])  # of brokers that were started with it
    assert live.fixed(["delegation.token.secret.key"]) == ["delegation.token.secret.key"]


class Refusing(Broker):
    """Brokers that refuse one value of a setting, as one that is too far away, the first time."""

    def __init__(self, refused: str) -> None:
        super().__init__()
        self._refused = refused
        self.asked: list[str | None] = []

    def incremental_alter_configs(
        self, resources: Sequence[ConfigResource], request_timeout: float
    ) -> dict[ConfigResource, Mock]:
        value = resources[0].incremental_configs[0].value
        self.asked.append(value)
        if value == self._refused and self.asked.count(value) == 1:
            error = KafkaException(KafkaError(KafkaError.INVALID_CONFIG, "too far"))
            return {resources[0]: Mock(result=Mock(side_effect=error))}
        return super().incremental_alter_configs(resources, request_timeout)


def test_a_run_that_is_ended_changes_nothing_more() -> None:
    """A broker whose pool was half-way went on to the new size after a second Ctrl-C had put it back."""
    began, ended = threading.Event(), threading.Event()

    class Ending(Refusing):
        def incremental_alter_configs(
            self, resources: Sequence[ConfigResource], request_timeout: float
        ) -> dict[ConfigResource, Mock]:
            if resources[0].name == "2":
                began.wait(10)
                raise KeyboardInterrupt
            if self.asked:  # the first step of broker 1
                began.set()
                ended.wait(10)
            return super().incremental_alter_configs(resources, request_timeout)

    threading.Timer(3.0, ended.set).start()
    brokers = Ending("100")
    with pytest.raises(KeyboardInterrupt):
        LiveSettings(brokers.admin, ["2", "1"]).change(settings({NAME: 100}))
    assert brokers.asked == ["100", "16"], "the step that was under way, and none after it"


@pytest.mark.parametrize("changed_first", [True, False])
def test_what_somebody_else_sets_meanwhile_stays(brokers: Broker, changed_first: bool) -> None:
    live = LiveSettings(brokers.admin, ["1", "2"])
    live.change(settings({NAME: 2}))
    if not changed_first:
        live.restore()
    brokers.values["2", NAME] = "32"
    with pytest.raises(TargetError, match=r"somebody else has set num\.io\.threads of broker 2 to 32"):
        live.restore() if changed_first else live.change(settings({NAME: 2}))
    assert brokers.values["2", NAME] == "32"


def test_a_value_that_a_broker_is_just_taking_is_the_runs_own(brokers: Broker) -> None:
    """It told the default as set dynamically, and the run left it changed for good: "somebody has set it to 8"."""
    live = LiveSettings(brokers.admin, ["1", "2"])
    live.change(settings({NAME: 2}))
    brokers.looks = iter(["8", "8", "2"])
    live.restore()
    assert brokers.values == held(None, "16")
    brokers.values["1", NAME], brokers.looks = "2", iter(["8", "2"])
    assert put_back_own(brokers.admin, "1", NAME, None, "8", "2") == ""
    assert brokers.values["1", NAME] is None


@pytest.mark.parametrize("left_at", ["16", "32", "64", "100"])
def test_a_pool_of_threads_that_stopped_on_its_way_is_still_the_runs_own(brokers: Broker, left_at: str) -> None:
    """A broker that failed between two steps was left alone, as if somebody else had set it."""
    said: list[str] = []
    live = LiveSettings(brokers.admin, ["1", "2"], say=said.append)
    live.change(settings({NAME: 100}))
    brokers.values["1", NAME] = left_at
    live.restore()
    assert brokers.values == held(None, "16")
    assert said == ([] if left_at == "100" else [f"{NAME} of broker 1 was {left_at}, {ON_THE_WAY}"])


ON_THE_WAY = (
    "a size on the way between not set and 100, and is overwritten: where somebody has set it since, set it again"
)


@pytest.mark.parametrize(
    ("name", "stepwise"),
    [
        (NAME, True),
        ("num.network.threads", True),
        ("listener.name.external.num.network.threads", True),
        ("num.replica.fetchers", True),
        ("num.recovery.threads.per.data.dir", True),
        ("background.threads", True),
        ("log.cleaner.threads", True),
        ("remote.log.reader.threads", True),
        ("remote.log.manager.copier.thread.pool.size", True),
        ("log.segment.bytes", False),
        ("log.flush.interval.messages", False),
    ],
)
def test_only_a_pool_of_threads_is_changed_in_steps(name: str, stepwise: bool) -> None:
    """A log.segment.bytes of 256 MiB that a person set while a run had 1 MiB there was deleted, without a word."""
    assert is_own(name, "268435456", None, "1073741824", "1048576") is stepwise
    brokers = Refusing("2")
    brokers.read_only[name] = False
    with nullcontext() if stepwise else pytest.raises(ConfigurationError, match="refuses"):
        set_broker(brokers.admin, "1", name, "2")
    assert brokers.asked == (["2", "4", "2"] if stepwise else ["2"])


class Pool:
    """A broker's pool of threads as Kafka resizes it, in the words of its source; `default` counts once it is put back.

    A request to take the setting away says nothing of the default.
    """

    def __init__(self, dynamic: str | None, default: int, words: tuple[str, str]) -> None:
        self.dynamic, self.default, self._words = dynamic, default, words
        self.sizes: list[int] = []

    def describe_configs(self, asked: list[Any], **_: object) -> dict[Any, Any]:
        source = ConfigSource.DYNAMIC_BROKER_CONFIG if self.dynamic else ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        entry = Mock(value=self.dynamic or str(self.default), source=source.value, is_sensitive=False)
        return {asked[0]: answered({NAME: entry})}

    def incremental_alter_configs(self, asked: list[Any], **_: object) -> dict[Any, Any]:
        (entry,) = asked[0].incremental_configs
        new = None if entry.incremental_operation == AlterConfigOpType.DELETE else entry.value
        now, then = int(self.dynamic or self.default), int(new or self.default)
        if now // 2 <= then <= 2 * now:
            self.dynamic = new
            self.sizes.append(then)
            return {asked[0]: answered(None)}
        words = f"{NAME}={then}, {self._words[then > now]} the current value {now}"
        refused = KafkaException(KafkaError(KafkaError.INVALID_CONFIG, words))
        return {asked[0]: Mock(result=Mock(side_effect=refused))}


@pytest.mark.parametrize(
    "words",
    [
        ("value should be at least half", "value should not be greater than double"),
        ("cannot be reduced to less than half", "cannot be increased to more than double"),
    ],
)
@pytest.mark.parametrize(
    ("value", "default", "sizes"),
    [
        ("2", 8, [4, 8]),  # as it was before the run
        ("2", 32, [4, 8, 16, 32]),
        ("32", 1, [16, 8, 4, 2, 1]),
        ("32", 200, [64, 128, 200]),  # the other way than to what it was before
        ("2", 4, [4]),
    ],
)
def test_a_pool_goes_back_to_a_default_that_somebody_has_changed_meanwhile(
    value: str, default: int, sizes: list[int], words: tuple[str, str]
) -> None:
    """It went to what counted before the run, from where Kafka refused to take it away: it stayed changed for good."""
    pool: Any = Pool(value, default, words)
    assert put_back_own(pool, "1", NAME, None, "8", value) == ""
    assert (pool.dynamic, pool.sizes) == (None, sizes)


def test_a_default_that_is_not_told_is_not_sought_for_ever() -> None:
    pool: Any = Pool("2", 10**6, ("half", "double"))
    with pytest.raises(ConfigurationError, match=r"broker 1 refuses num\.io\.threads = None"):
        put_back_own(pool, "1", NAME, None, "8", "2")
    assert max(pool.sizes) <= MOST_THREADS
    pool = Pool("2", 32, ("no", "no"))  # without Kafka's words nobody knows where to
    with pytest.raises(ConfigurationError, match=r"broker 1 refuses num\.io\.threads = None"):
        put_back_own(pool, "1", NAME, None, "8", "2")
    assert pool.sizes == [4]


@pytest.mark.parametrize(
    ("told", "own"),
    [("0.5", True), (None, True), ("0.50", True), ("0.6", False), ("0.25", False)],
)
def test_a_value_is_known_however_brokers_write_it(told: str | None, own: bool) -> None:
    assert is_own("log.cleaner.min.cleanable.ratio", told, None, "1.0", "0.50") is own


@pytest.mark.parametrize(("told", "own"), [("delete,compact", True), ("delete", True), ("compact", False)])
def test_a_list_is_known_without_its_spaces(told: str, own: bool) -> None:
    assert is_own("log.cleanup.policy", told, "delete", "delete", "delete, Compact") is own


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_every_step_of_both_ways_is_the_runs_own_and_what_lies_beyond_them_is_not(before: int, value: int) -> None:
    ways = [*steps(str(before), str(value)), *steps(str(value), str(before)), str(value)]
    assert all(is_own(NAME, size, None, str(before), str(value)) for size in ways)
    assert not is_own(NAME, str(4 * max(before, value)), None, str(before), str(value))


@pytest.mark.parametrize(("breaks", "taken"), [(1, True), (4, True), (5, False)])
def test_a_connection_that_breaks_under_a_request_is_no_answer(breaks: int, taken: bool) -> None:
    """Fewer network threads close the connections of those that end: a change of 3 to 1 ended the comparison."""
    broken = KafkaException(KafkaError(KafkaError._TRANSPORT))
    results = iter([*[Mock(side_effect=broken)] * breaks, Mock(return_value={"num.io.threads": 8})])
    admin = Mock(describe_configs=lambda asked, **_: {asked[0]: Mock(result=next(results))})
    if taken:
        assert broker_config(admin, "1") == {"num.io.threads": 8}
        return
    with pytest.raises(TargetError, match="reading the settings of broker 1"):
        broker_config(admin, "1")


def test_an_answer_is_not_asked_for_again() -> None:
    refused = KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))
    ask = Mock(side_effect=lambda asked, **_: {asked[0]: Mock(result=Mock(side_effect=refused))})
    with pytest.raises(TargetError):
        broker_config(Mock(describe_configs=ask), "1")
    assert ask.call_count == 1
