"""Putting back what a run has changed on real brokers: every step, in spite of failures, before it is reported."""

import os
import signal
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException

from perfgate.fixtures.book import Book
from perfgate.fixtures.live import put_back
from perfgate.host.journal import claimed
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.systems.attached.manifest import Manifest, leftovers
from perfgate.systems.kafka.attached.cluster import ExternalCluster
from perfgate.systems.kafka.attached.external import KafkaCleaner as Cleaner
from perfgate.systems.kafka.client.admin import dynamic_value
from tests.harness.build.clock import Clock
from tests.harness.build.java import FakeJava
from tests.harness.build.real_brokers import Broker, answered, left_in, partition


def test_one_step_that_fails_keeps_no_other_from_being_tried(
    cluster: Callable[..., ExternalCluster], broker: Broker, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    made = cluster(
        f"""kill = "true"\nstart = "echo {{broker}} >> {done}; """
        f"""test {{broker}} = 2 -o -e {tmp_path}/mended && touch {tmp_path}/up-{{broker}}"\ntwo-down = true""",
        {"num.io.threads": 16},
    )
    made.faults.do("kill", 1)
    made.faults.do("kill", 2)
    broker.fail.add("2")
    first, second = made.close()
    assert first.startswith("BROKER 1 (kafka-1:9093) IS STILL DOWN: [faults] start has to be run for it")
    assert second.startswith("broker 2 may still have num.io.threads = 16, it was not set")
    assert done.read_text().split() == ["1", "2"]
    assert broker.values["1", "num.io.threads"] is None, "what could be put back was"
    assert left_in(tmp_path) == ["r.jsonl"], "the next start has to see to it"
    (tmp_path / "mended").touch()
    broker.fail.clear()
    assert made.close() == []
    assert broker.values["2", "num.io.threads"] is None
    assert left_in(tmp_path) == []


def test_a_quota_is_noted_before_it_is_set_and_removed_by_the_run_or_the_next_one(
    cluster: Callable[..., ExternalCluster], fake_java: FakeJava, tmp_path: Path
) -> None:
    """A run that is killed between both has left a note, and a removal that fails is tried again."""
    fails = "echo no answer; exit 1"
    fake_java.does(f"cp {tmp_path}/m/r.jsonl {tmp_path}/noted", fails, "true")
    made = cluster()
    made.limit("kpg-r-a", 5)
    assert "kpg-r-a" in (tmp_path / "noted").read_text()
    (left,) = made.close()
    assert left.startswith("client kpg-r-a may still have a quota: ")
    assert "no answer" in left
    assert left_in(tmp_path) == ["r.jsonl"]
    assert made.close() == []
    assert left_in(tmp_path) == []
    assert [call[-4:] for call in fake_java.asked] == [
        ["--entity-name", "kpg-r-a", "--add-config", "producer_byte_rate=5"],
        *[["--entity-name", "kpg-r-a", "--delete-config", "producer_byte_rate"]] * 2,
    ]
    killed = Manifest(tmp_path / "killed", cluster_id="c", run_id="k")
    killed.limits("kpg-k-a")
    killed.close()
    (left_by_it,) = leftovers(tmp_path / "killed", "c")
    assert "a quota of client kpg-k-a" in left_by_it.text
    fake_java.does(fails, "true")
    cleaner = Cleaner(Mock(bootstrap="kafka-1:9093"), Mock())
    (told,) = cleaner.put_back(Mock(), [left_by_it])
    assert told.startswith("run k: a quota of client kpg-k-a: ")
    assert "no answer" in told
    assert cleaner.put_back(Mock(), [left_by_it]) == []
    assert fake_java.asked[-1][-3:] == ["kpg-k-a", "--delete-config", "producer_byte_rate"]
    assert list((tmp_path / "killed").glob("*.jsonl")) == []


def test_what_somebody_has_set_meanwhile_is_theirs_and_is_told(
    cluster: Callable[..., ExternalCluster], broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a word nobody knew what it had been: of two runs that set it, one puts the other back."""
    broker.values = {("1", "num.io.threads"): "8"}
    made = cluster(config={"num.io.threads": 16})
    assert broker.values == {("1", "num.io.threads"): "16", ("2", "num.io.threads"): "16"}
    broker.values["2", "num.io.threads"] = "32"
    assert made.close() == []
    assert broker.values == {("1", "num.io.threads"): "8", ("2", "num.io.threads"): "32"}
    assert capsys.readouterr().out == (
        "left num.io.threads of broker 2 alone: somebody has set it to 32 since it was set to 16; before that it was "
        "not set\n"
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("group.share.max.groups", "these brokers do not know group.share.max.groups"),
        ("num.partitions", "num.partitions: brokers take it at their start only"),
    ],
)
def test_what_could_not_be_put_back_is_not_set(
    cluster: Callable[..., ExternalCluster], broker: Broker, tmp_path: Path, name: str, words: str
) -> None:
    """Kafka takes a setting that it does not know, and tells no value of it: no further start was possible."""
    with pytest.raises(ConfigurationError, match=words):
        cluster(config={"num.io.threads": 16, name: 7})
    assert broker.values == {}
    assert '"name"' not in (tmp_path / "m" / "r.jsonl").read_text(), "nothing to put back is noted"


@pytest.mark.parametrize(("value", "told"), [("32", "16"), ("0.50", "0.5"), ("delete, compact", "delete,compact")])
def test_what_stopped_on_its_way_or_is_written_otherwise_is_put_back(
    cluster: Callable[..., ExternalCluster], broker: Broker, capsys: pytest.CaptureFixture[str], value: str, told: str
) -> None:
    """It was taken for somebody else's, left behind, and its note removed; by the next start too."""
    made = cluster(config={"num.io.threads": value})
    broker.values = {("1", "num.io.threads"): told, ("2", "num.io.threads"): value}
    assert made.close() == []
    assert set(broker.values.values()) == {None}
    words = "num.io.threads of broker 1 was 16, a size on the way between not set and 32, and is overwritten"
    assert (words in capsys.readouterr().out) is (told == "16"), "it may have been a person's"


@pytest.mark.parametrize(("told", "left"), [("18", None), ("36", None), ("8", "8")])
def test_the_start_after_a_kill_knows_the_steps_too(
    tmp_path: Path, broker: Broker, told: str, left: str | None
) -> None:
    killed = Manifest(tmp_path, cluster_id="c", run_id="r")
    killed.changes("1", "num.io.threads", None, "9", "36")
    killed.close()
    broker.values["1", "num.io.threads"] = told
    assert Cleaner(Mock(), Mock()).put_back(broker.admin, list(leftovers(tmp_path, "c"))) == []
    assert broker.values["1", "num.io.threads"] == left
    assert list(tmp_path.iterdir()) == []


def test_a_setting_that_a_killed_run_changed_twice_is_as_it_was_before_both(tmp_path: Path, broker: Broker) -> None:
    """Put back in the order of the notes it stayed at 16: 32 was not the first change's, so that one was left alone."""
    killed = Manifest(tmp_path, cluster_id="c", run_id="r")
    killed.changes("1", "num.io.threads", None, "9", "16")
    killed.changes("1", "num.io.threads", "16", "16", "32")
    killed.close()
    broker.values["1", "num.io.threads"] = "32"
    assert Cleaner(Mock(), Mock()).put_back(broker.admin, list(leftovers(tmp_path, "c"))) == []
    assert broker.values["1", "num.io.threads"] is None
    assert list(tmp_path.iterdir()) == []


def test_a_setting_that_two_killed_runs_changed_is_as_it_was_before_both(tmp_path: Path, broker: Broker) -> None:
    """The second one's host could not tell whether the first one had ended. Of it 2 was left alone, as another's, and
    then put back for the second one: it stayed.
    """
    for run_id, before, effective, value in (
        ("20260101T010000Z-ffff", None, "8", "2"),
        ("20260101T020000Z-0000", "2", "2", "40"),
    ):
        killed = Manifest(tmp_path, cluster_id="c", run_id=run_id)
        killed.changes("1", "num.io.threads", before, effective, value)
        killed.close()
    broker.values["1", "num.io.threads"] = "40"
    assert Cleaner(Mock(), Mock()).put_back(broker.admin, list(leftovers(tmp_path, "c"))) == []
    assert broker.values["1", "num.io.threads"] is None
    assert list(tmp_path.iterdir()) == []


def test_what_a_start_that_failed_has_put_back_is_its_owners_from_then_on(tmp_path: Path, broker: Broker) -> None:
    """The owner then set the run's value for good, and the next start took it for what the run had left."""
    killed = Manifest(tmp_path, cluster_id="c", run_id="r")
    for number in ("1", "2"):
        killed.changes(number, "num.io.threads", None, "8", "16")
        broker.values[number, "num.io.threads"] = "16"
    killed.close()
    broker.fail.add("2")
    broker.list_topics = Mock(side_effect=TargetError("no answer"))
    cleaner = Cleaner(Mock(), Mock())
    assert "num.io.threads of broker 2" in cleaner.put_back(broker.admin, list(leftovers(tmp_path, "c")))[0]
    assert broker.values["1", "num.io.threads"] is None
    broker.values["1", "num.io.threads"] = "16"
    broker.fail.clear()
    assert cleaner.put_back(broker.admin, list(leftovers(tmp_path, "c"))) == []
    assert broker.values == {("1", "num.io.threads"): "16", ("2", "num.io.threads"): None}
    assert list(tmp_path.iterdir()) == []


def test_what_another_start_is_putting_back_is_left_to_it(tmp_path: Path, broker: Broker) -> None:
    killed = Manifest(tmp_path, cluster_id="c", run_id="r")
    killed.changes("1", "num.io.threads", None, "9", "16")
    killed.takes(1, "kafka-1:9093", "start")
    killed.close()
    broker.values["1", "num.io.threads"] = "16"
    brought_back = Mock(return_value="")
    found = list(leftovers(tmp_path, "c"))
    cleaner = Cleaner(Mock(faults=Mock(bring_back=brought_back)), Mock())
    with claimed(tmp_path / "r.jsonl"):
        assert cleaner.put_back(broker.admin, found) == cleaner.bring_brokers_back(found[0]) == []
        assert broker.values["1", "num.io.threads"] == "16"
        brought_back.assert_not_called()
    assert cleaner.put_back(broker.admin, found) == []
    assert broker.values["1", "num.io.threads"] is None
    assert cleaner.put_back(broker.admin, found) == [], "what was known of it before is no longer noted"
    brought_back.assert_called_once()


@pytest.mark.parametrize(
    ("there", "holds", "sees", "dropped"),
    [
        ({1, 2}, [1, 2], True, True),
        ({1, 2}, [1, 2, 7], True, False),  # it is only down
        ({1, 2, 7}, [1, 2], True, False),
        ({1, 2}, [1, 2], False, False),
        ({1, 2}, [], True, False),
    ],
)
def test_a_setting_of_a_broker_that_is_no_more_keeps_no_run_from_starting(
    tmp_path: Path,
    broker: Broker,
    there: set[int],
    holds: list[int],
    sees: bool,
    dropped: bool,
) -> None:
    """Every further start on the cluster was refused, and nothing told how to go on."""
    killed = Manifest(tmp_path, cluster_id="c", run_id="r")
    killed.changes("7", "num.io.threads", None, "8", "2")
    killed.close()
    broker.fail.add("7")
    topic = Mock(partitions={0: partition(1, holds, holds)})
    denied = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    described: dict[str, Mock] = defaultdict(lambda: Mock() if sees else Mock(result=Mock(side_effect=denied)))
    broker.list_topics = Mock(return_value=Mock(brokers=dict.fromkeys(there), topics={"t": topic}))
    broker.describe_topics = lambda *_, **__: described
    notes: list[str] = []
    left = Cleaner(Mock(), notes.append).put_back(broker.admin, list(leftovers(tmp_path, "c")))
    if dropped:
        assert left == []
        assert notes[0].startswith(
            "dropped num.io.threads of broker 7, changed by run r: the cluster has no such broker"
        )
        assert notes[0].endswith("should it come back, num.io.threads was not set before")
    else:
        assert left == [
            "run r: num.io.threads of broker 7: broker 7 does not answer; once it has been seen to by hand, take its "
            f"lines out of {tmp_path / 'r.jsonl'}"
        ]
        path = tmp_path / "r.jsonl"
        path.write_text("".join(line for line in path.read_text().splitlines(True) if '"7"' not in line))
        assert Cleaner(Mock(), notes.append).put_back(broker.admin, list(leftovers(tmp_path, "c"))) == []
    assert list(tmp_path.iterdir()) == []


def test_a_topic_that_goes_while_it_is_looked_at_ends_no_start(tmp_path: Path, broker: Broker) -> None:
    """It was a KeyError, and what else the run had left was not seen to."""
    killed = Manifest(tmp_path, cluster_id="c", run_id="r")
    killed.plans("kpg-x")
    killed.close()
    broker.describe_topics = lambda *_, **__: {"kpg-x": answered(Mock(topic_id="id-1"))}
    broker.list_topics = Mock(return_value=Mock(topics={}))
    (left,) = Cleaner(Mock(), Mock()).put_back(broker.admin, list(leftovers(tmp_path, "c")))
    assert left.startswith("run r: topic kpg-x: the topic is not there any more; ")


def test_a_broker_that_cannot_be_healed_is_told_with_what_a_person_can_do(tmp_path: Path) -> None:
    """It had been healed by hand, the rule that its command takes away was gone, and no start was possible."""
    killed = Manifest(tmp_path, cluster_id="c", run_id="r")
    killed.takes(1, "kafka-1:9093", "heal")
    killed.close()
    cleaner = Cleaner(Mock(faults=Mock(bring_back=lambda *_, **__: "Bad rule")), Mock())
    told, _ = cleaner.put_back(Mock(), list(leftovers(tmp_path, "c")))
    assert told.endswith(f"Bad rule; once it has been seen to by hand, take its lines out of {tmp_path / 'r.jsonl'}")


def test_a_setting_that_did_not_go_back_is_told(
    cluster: Callable[..., ExternalCluster], broker: Broker, tmp_path: Path
) -> None:
    """The answer to the change was taken for the proof of it, and the note of the change removed."""
    made = cluster(config={"num.io.threads": 16})
    broker.deaf = True
    first, second = made.close()
    for left, number in ((first, 2), (second, 1)):
        assert left.startswith(
            f"broker {number} may still have num.io.threads = 16, it was not set: broker {number} di"
        )
        assert left.endswith("did not put num.io.threads back within 30 s: it still has num.io.threads = 16")
    broker.deaf = False
    assert made.close() == []
    assert left_in(tmp_path) == []


def test_a_sensitive_setting_is_not_changed_for_nobody_could_put_it_back() -> None:
    from confluent_kafka.admin import ConfigSource

    entry = Mock(value=None, is_sensitive=True, source=ConfigSource.DEFAULT_CONFIG.value)
    reply = Mock(result=Mock(return_value={"ssl.keystore.password": entry}))
    admin: Any = Mock(describe_configs=lambda asked, **_: {asked[0]: reply})
    with pytest.raises(ConfigurationError, match="a run could not put it back"):
        dynamic_value(admin, "1", "ssl.keystore.password")


class Slow:
    """A target that takes a while to put things back, and does not manage at first."""

    own = False

    def __init__(self, works_at: int) -> None:
        self.left_behind: tuple[str, ...] = ()
        self.tries, self.works_at = 0, works_at

    def close(self) -> None:
        self.tries += 1
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
        self.left_behind = () if self.tries >= self.works_at else ("BROKER 1 IS STILL DOWN",)


@pytest.mark.parametrize(("works_at", "left"), [(1, ()), (2, ()), (99, ("BROKER 1 IS STILL DOWN",))])
def test_signals_do_not_end_the_putting_back_and_it_is_tried_again(
    works_at: int, left: tuple[str, ...], clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    book, slow = Book(), Slow(works_at)
    gone = Mock(log=Mock(side_effect=OSError("the terminal is gone")))
    # A shell starts what it runs in the background deaf to SIGINT, and nohup to SIGHUP; so it would stay.
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGHUP)}
    try:
        put_back(slow, book, gone)  # type: ignore[arg-type]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert book.left_behind == left
    assert slow.tries == min(works_at, 3)
    assert "SIGINT: still cleaning up on the brokers" in capfd.readouterr().err
    book.put_back()
    assert slow.tries == min(works_at, 3), "once it is done it is done"


def test_an_error_of_any_kind_keeps_no_other_step_from_being_tried(
    cluster: Callable[..., ExternalCluster], broker: Broker
) -> None:
    made = cluster(config={"num.io.threads": 16})
    broker.fail.add("2")
    broker.error = lambda _broker: OSError(28, "No space left on device")
    (left,) = made.close()
    assert left.startswith("broker 2 may still have num.io.threads = 16")
    assert broker.values["1", "num.io.threads"] is None


def test_what_no_step_could_tell_is_told_all_the_same(clock: Clock) -> None:
    book, failing = Book(), Mock(own=False, left_behind=(), close=Mock(side_effect=RuntimeError("what is this")))
    put_back(failing, book, Mock())
    assert failing.close.call_count == 3
    assert "not everything was put back: RuntimeError('what is this')" in book.left_behind[0]


def test_what_is_still_applied_is_told_whatever_else_fails(clock: Clock) -> None:
    outside: Any = Mock(close=Mock(return_value=("THE CHANGE IS STILL APPLIED",)))
    for own in (True, False):
        book, failing = Book(), Mock(own=own, left_behind=(), close=Mock(side_effect=RuntimeError("what is this")))
        with pytest.raises(RuntimeError) if own else nullcontext():
            put_back(failing, book, Mock(), outside)
        assert "THE CHANGE IS STILL APPLIED" in book.left_behind
