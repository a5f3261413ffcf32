"""Faults of real brokers by commands: what is run, how long it may take, and what is said when it fails."""

import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException

from perfgate.model.errors import LimitReachedError, TargetError
from perfgate.model.secret import MASK, Secret
from perfgate.model.target import Action
from perfgate.systems.attached.command_faults import CommandFaults, FaultCommands, FaultJournal, lacking
from perfgate.systems.attached.manifest import Away, Manifest, leftovers
from perfgate.systems.kafka.client.admin import session_s

BROKERS = {1: "kafka-1.example:9093", 2: "kafka-2.example:9094"}


pytestmark = pytest.mark.usefixtures("clock")  # no wait takes time


class Coming:
    """What was asked for at an address is there from the second look on."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()

    def __call__(self, address: str) -> bool:
        self._asked[address] += 1
        return self._asked[address] > 1


class Noted:
    """A journal in memory."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def takes(self, broker: int, address: str, back: str) -> None:
        self.lines.append(f"{broker} at {address}: {back}")

    def has_taken(self, broker: int) -> None:
        self.lines.append(f"{broker} is taken")

    def gives_back(self, broker: int) -> None:
        self.lines.append(f"{broker} is back")


def faults(timeout_s: float = 5.0, journal: FaultJournal | None = None, **commands: str) -> CommandFaults:
    named = {name.replace("_", "-"): command for name, command in commands.items()}
    return CommandFaults(FaultCommands(named, timeout_s), BROKERS, journal or Noted(), seen=Coming(), at_a_time=2)


def test_the_command_is_run_for_the_broker(tmp_path: Path) -> None:
    faults(cut_off=f"echo {{host}} {{port}} {{broker}} > {tmp_path}/told").do("cut-off", 2)
    assert (tmp_path / "told").read_text() == "kafka-2.example 9094 2\n"


def test_what_is_away_is_noted_before_and_brought_back_at_the_end(tmp_path: Path) -> None:
    journal, done = Noted(), tmp_path / "done"
    made = faults(0.5, journal=journal, kill=f"echo kill {{broker}} >> {done}; false", start=f"echo start >> {done}")
    with pytest.raises(TargetError, match="kill for broker 2 ended with 1"):
        made.do("kill", 2)
    assert made.away, "a command that failed may have done half of it"
    made.restore()
    assert done.read_text() == "kill 2\nstart\n"
    assert journal.lines == ["2 at kafka-2.example:9094: start", "2 is back"]
    assert not made.away


@pytest.mark.parametrize(
    ("what", "command"),
    [
        ("kill", "false"),  # killed while the command went on: it may go on still
        ("stop", "true"),  # asked to end: it may go only after the command has ended
    ],
)
def test_a_broker_that_may_still_go_is_not_noted_as_taken(tmp_path: Path, what: Action, command: str) -> None:
    manifest = Manifest(tmp_path, cluster_id="c", run_id="r")
    made = faults(5.0, manifest, **{what: command})
    with nullcontext() if command == "true" else pytest.raises(TargetError):
        made.do(what, 1)
    manifest.close()
    (left,) = leftovers(tmp_path, "c")
    assert left.away == {1: Away("kafka-1.example:9093", "start", taken=False)}


def test_a_killed_run_leaves_a_note_of_who_is_away(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path, cluster_id="c", run_id="r")
    made = faults(journal=manifest, pause="true", resume="true")
    made.do("pause", 1)
    made.do("pause", 2)
    made.do("resume", 1)
    manifest.close()
    (left,) = leftovers(tmp_path, "c")
    # What was resumed is noted as back once it has been seen.
    assert left.away == {
        1: Away("kafka-1.example:9093", "resume", taken=True),
        2: Away("kafka-2.example:9094", "resume", taken=True),
    }
    left.path.unlink()
    whole = Manifest(tmp_path, cluster_id="c", run_id="s")
    again = faults(journal=whole, pause="true", resume="true")
    again.do("pause", 1)
    again.restore()
    whole.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("no_other_secrets")
def test_a_command_that_fails_says_how() -> None:
    password = Secret("s3cr3t-word")
    with pytest.raises(TargetError) as caught:
        faults(stop=f"echo no route to {{host}} with {password!s}; exit 3").do("stop", 1)
    message = str(caught.value)
    assert "[faults] stop for broker 1 ended with 3" in message
    assert "no route to kafka-1.example" in message
    assert password not in message
    assert MASK in message


def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    begin = time.monotonic()
    with pytest.raises(TargetError, match=r"did not end within 0\.5 s"):
        faults(0.5, kill="sleep 60; true").do("kill", 1)
    assert time.monotonic() - begin < 30


def test_a_command_that_goes_on_is_ended_by_a_limit_of_the_run_and_undone(tmp_path: Path) -> None:
    """A command of two minutes on a production cluster went unwatched: its limits held once it had ended."""
    asked, done = 0, tmp_path / "done"

    def limited() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise LimitReachedError("too many bytes")

    made = faults(60.0, kill=f"echo begun >> {done}; sleep 60; echo ended >> {done}", start=f"echo start >> {done}")
    with pytest.raises(LimitReachedError, match="too many bytes"):
        made.do("kill", 1, limited)
    assert made.away == {1}
    made.restore()
    assert done.read_text().split()[-1] == "start"
    assert "ended" not in done.read_text()
    assert not made.away


def test_the_load_is_watched_while_a_cluster_is_waited_for_that_is_not_well() -> None:
    sick = CommandFaults(
        FaultCommands({"kill": "true"}, 5.0), BROKERS, Noted(), seen=Coming(), unwell=lambda: "1 partition is offline"
    )
    with pytest.raises(LimitReachedError, match="it is late"):
        sick.do("kill", 1, Mock(side_effect=[None, LimitReachedError("it is late")]))
    assert not sick.away


@pytest.mark.parametrize(
    ("kind", "commands", "words"),
    [
        ("kill-leader", {"kill": "x", "start": "x"}, None),
        ("kill-leader", {"stop": "x", "start": "x"}, "states no [faults] kill"),
        ("cut-off", {}, "states no [faults] cut-off and heal"),
        ("client-crash", {}, None),
        ("kill-controller", {"kill": "x"}, "cannot be brought about on real brokers"),
    ],
)
def test_what_a_fault_lacks_is_named(kind: str, commands: dict[str, str], words: str | None) -> None:
    found = lacking(kind, commands, {})
    assert found is None if words is None else words in str(found)


def test_no_broker_is_taken_from_a_cluster_that_is_not_well(tmp_path: Path) -> None:
    answers = iter(["2 of 9 partitions are under-replicated (0 allowed)", "", "", "not asked while one is away"])
    made = CommandFaults(
        FaultCommands({"kill": f"echo {{broker}} >> {tmp_path}/hit", "start": "true"}, 5),
        BROKERS,
        Noted(),
        seen=Coming(),
        unwell=lambda: next(answers),
        at_a_time=2,
    )
    made.do("kill", 1)
    assert (tmp_path / "hit").read_text() == "1\n", "waited for"
    made.do("kill", 2)
    made.restore()
    assert next(answers) == ""
    offline = "1 of 9 partitions are offline"
    sick = CommandFaults(FaultCommands({"kill": "false"}, 5), BROKERS, Noted(), seen=Coming(), unwell=lambda: offline)
    with pytest.raises(TargetError, match=r"broker 1 is not taken away.*1 of 9 partitions are offline"):
        sick.do("kill", 1)
    assert not sick.away


def test_only_brokers_that_are_listed_are_taken() -> None:
    commands = FaultCommands({"kill": "true", "start": "true"}, 5)
    made = CommandFaults(commands, BROKERS, Noted(), seen=Coming(), allowed=(2,))
    with pytest.raises(TargetError, match=r"broker 1 is not among \[faults\] brokers: 2"):
        made.do("kill", 1)
    made.do("kill", 2)


@pytest.mark.parametrize(
    ("command", "hosts", "blunt"),
    [
        ("ssh {host} kill", ("a:1", "b:1", "c:1"), False),
        ("ssh {host} kill", ("a:1", "a:2", "c:1"), True),
        ("ssh {host} kill {port}", ("a:1", "a:2", "c:1"), False),
        ("ssh {host} kill {broker}", ("a:1", "a:2", "c:1"), False),
    ],
)
def test_a_command_that_would_hit_two_brokers_is_refused(command: str, hosts: tuple[str, ...], blunt: bool) -> None:
    reason = lacking("kill-leader", {"kill": command, "start": "x {broker}"}, dict(enumerate(hosts, start=1)))
    assert bool(reason) is blunt
    assert not reason or "[faults] kill names neither {port} nor {broker}" in reason


@pytest.mark.parametrize(
    ("kill", "allowed", "words"),
    [
        ("kubectl delete pod kafka-2", (), "[faults] kill names none of {host}, {port} and {broker}"),
        ("kubectl delete pod kafka-2", (1, 2), "[faults] kill names none of {host}, {port} and {broker}"),
        ("kubectl delete pod kafka-2", (2,), None),
        ("kubectl delete pod kafka-{broker}", (), None),
        ("ssh {host} kill", (), None),
    ],
)
def test_a_command_that_hits_the_same_broker_whichever_is_meant_is_refused(
    kill: str, allowed: tuple[int, ...], words: str | None
) -> None:
    """The broker that it hit was not the one that was noted, watched and brought back, nor one of [faults] brokers."""
    reason = lacking("kill-leader", {"kill": kill, "start": "x {broker}"}, BROKERS, allowed)
    assert (reason is None) if words is None else words in str(reason)


@pytest.mark.parametrize(
    ("back", "command", "listens", "left"),
    [
        ("start", "true", (False, True), ""),
        ("start", "true", (False, False), "its command ended well, but nothing has answered at"),
        ("start", "false", (False, False), "[faults] start for broker 1 ended with 1"),
        ("start", "false", (True, True), ""),
        ("heal", "false", (True, True), "[faults] heal for broker 1 ended with 1"),
        ("heal", "true", (True, True), ""),
        ("resume", "true", (False, False), "its command ended well, but nothing has answered at"),
        ("heal", "false", (False, False), "[faults] heal for broker 1 ended with 1"),
        ("resume", "false", (True, True), "[faults] resume for broker 1 ended with 1"),
        ("resume", "true", (True, True), ""),
    ],
)
def test_a_broker_is_back_when_it_is_seen(back: str, command: str, listens: tuple[bool, bool], left: str) -> None:
    """Neither does a command that ends well bring a broker back, nor does one that fails keep it away."""
    looks = iter(listens)
    commands = FaultCommands({back: command}, 5)
    found = commands.bring_back(back, 1, BROKERS[1], run=True, ended=True, seen=lambda _: next(looks, listens[1]))
    assert left in found
    assert bool(found) is bool(left)


@pytest.mark.parametrize("back", ["start", "heal", "resume"])
def test_what_brings_a_broker_back_is_run_whatever_is_seen(tmp_path: Path, back: str) -> None:
    """One that is being stopped, or is cut off from the others, still answers."""
    commands = FaultCommands({back: f"echo {back} >> {tmp_path}/done"}, 0.1)
    found = commands.bring_back(back, 1, BROKERS[1], run=True, ended=False, seen=lambda _: True)
    assert found == ""
    assert (tmp_path / "done").read_text() == f"{back}\n"


@pytest.mark.parametrize("back", ["start", "heal", "resume"])
def test_a_broker_that_goes_only_now_is_brought_back_again(tmp_path: Path, back: str) -> None:
    """The command that took it was interrupted, and what it had begun went on: one that was cut off stayed so."""
    looks = iter([True, True, False])
    done = tmp_path / "done"
    found = FaultCommands({back: f"echo {back} >> {done}"}, 0.5).bring_back(
        back,
        1,
        BROKERS[1],
        run=True,
        ended=False,
        seen=lambda _: next(looks, done.read_text() == f"{back}\n{back}\n"),
    )
    assert found == ""
    assert done.read_text() == f"{back}\n{back}\n"


def test_an_error_of_any_kind_keeps_no_other_broker_away(tmp_path: Path) -> None:
    """A client whose file of certificates was gone raised its library's own error, and nothing more was tried."""

    def seen(address: str) -> bool:
        if address == BROKERS[1]:
            raise RuntimeError("ssl.ca.location failed: no such file")
        return True

    named = {"kill": "true", "start": f"echo {{broker}} >> {tmp_path}/done"}
    made = CommandFaults(FaultCommands(named, 5.0), BROKERS, Noted(), at_a_time=2, seen=seen)
    made.do("kill", 1)
    made.do("kill", 2)
    (left,) = made.restore()
    assert left.startswith("BROKER 1 (kafka-1.example:9093) IS STILL DOWN: [faults] start has to be run for it")
    assert "no such file" in left
    assert (tmp_path / "done").read_text() == "1\n2\n"


def test_what_is_back_is_noted_when_the_cluster_is_well_again(tmp_path: Path) -> None:
    """It stayed noted as away: the next start, days later, would have started a broker that somebody had stopped."""
    manifest = Manifest(tmp_path, cluster_id="c", run_id="r")
    answering = {BROKERS[1]: False}
    named = {"kill": "true", "start": "true"}
    made = CommandFaults(FaultCommands(named, 5.0), BROKERS, manifest, seen=answering.__getitem__)
    made.do("kill", 1)
    made.do("start", 1)
    made.settled()
    assert list(tmp_path.iterdir()), "it has not been seen"
    answering[BROKERS[1]] = True
    made.settled()
    manifest.close()
    assert not list(tmp_path.iterdir())


def test_a_second_broker_is_not_taken_while_one_is_away() -> None:
    """A fault that was broken off leaves one away; what comes next must not take another."""
    made = CommandFaults(FaultCommands({"kill": "true", "start": "true"}, 5), BROKERS, Noted(), seen=Coming())
    made.do("kill", 1)
    with pytest.raises(TargetError, match=r"broker 2 is not taken away: 1 is, and \[faults\] two-down is not true"):
        made.do("kill", 2)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"process.roles": "broker", "broker.session.timeout.ms": "18000"}, 18.0),
        ({"process.roles": "", "broker.session.timeout.ms": "9000", "zookeeper.session.timeout.ms": "6000"}, 6.0),
        ({}, 0.0),
        (None, 0.0),
    ],
)
def test_the_session_is_that_of_whoever_watches_the_brokers(told: dict[str, str] | None, expected: float) -> None:
    reply = Mock(return_value={name: Mock(value=value) for name, value in (told or {}).items()})
    if told is None:
        reply.side_effect = KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))
    admin = Mock(describe_configs=lambda asked, **_: {asked[0]: Mock(result=reply)})
    assert session_s(admin, "1") == expected
