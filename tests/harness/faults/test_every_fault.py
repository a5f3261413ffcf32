"""Every kind of fault has its file and a scenario; a scenario with a fault is a type of its own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfgate import faults
from perfgate.catalogue import pulsar
from perfgate.catalogue.kafka import SCENARIOS
from perfgate.judge.faults.expectation import expected_outage, expected_receiving
from perfgate.model import FAULTS, Consumers, Fault, FaultScenario, Tier, TopicSpec, parted
from perfgate.model.errors import ConfigurationError
from perfgate.model.target import BACK
from tests.harness.build import scenario

FULL = Tier(name="full", rounds=7, window_s=1.0, warmup_max_s=1.0, broker_warmup_s=1.0)


def test_a_file_has_the_name_of_its_fault() -> None:
    """`return` is a word of Python: its file ends in an underscore."""
    files = {path.stem for path in Path(faults.__file__).parent.glob("*.py")} - {"__init__", "costs"}
    assert {name.rstrip("_").replace("_", "-") for name in files} == set(FAULTS)


@pytest.mark.parametrize("kind", FAULTS)
def test_a_kind_of_fault_has_all_its_parts(kind: str) -> None:
    assert kind in {row.fault.kind for row in parted([*SCENARIOS, *pulsar.SCENARIOS])[1]}, "a row"
    if commands := FAULTS[kind].commands:
        taken, back = commands
        assert back == BACK[taken], "what a command takes away another one gives back"
    row = FaultScenario.of(scenario(), Fault(kind=kind))
    outage = expected_outage(row)
    for expected in (outage, expected_receiving(row, outage)):
        assert 0 <= expected.low_s <= expected.high_s
        assert expected.why


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("slow-follower", {"topic": TopicSpec(partitions=3, replication_factor=2)}, ""),
        ("slow-follower", {"topic": TopicSpec(partitions=3, replication_factor=1)}, "topic.replicas=2 or more"),
        ("client-crash", {"producers": 2}, ""),
        ("client-crash", {"producers": 1}, "it needs 2 producers.processes or more"),
        ("consumer-kill", {"consumers": Consumers(membership="group", processes=2)}, ""),
        ("consumer-kill", {"consumers": Consumers(membership="share", processes=2)}, ""),
        ("consumer-kill", {"consumers": Consumers(membership="group")}, "and 2 consumers.processes or more"),
        ("consumer-kill", {"consumers": Consumers(membership="assigned", processes=2)}, "membership=group, share,"),
        ("consumer-kill", {}, "membership=group, share,"),
        ("consumer-slow", {"consumers": Consumers(membership="share", processes=2)}, ""),
        ("consumer-slow", {"consumers": Consumers(membership="share")}, "and 2 consumers.processes or more"),
        ("consumer-slow", {"consumers": Consumers(membership="group", processes=2)}, "consumers.membership=share, and"),
    ],
)
def test_what_others_go_on_without_is_not_all_that_there_is(kind: str, changes: dict[str, Any], words: str) -> None:
    """`--set consumers.processes=1` made healthy brokers red: nobody was left to take the partitions over."""
    row = replace(FaultScenario.of(scenario(), Fault(kind=kind)), **changes)
    assert words in row.unfit_for_fault
    assert bool(row.unfit_for_fault) is bool(words)


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="unknown fault 'meteor'; legal: client-crash, cold-read, "):
        Fault(kind="meteor")


def test_a_scenario_with_a_fault_is_like_the_one_without_but_for_the_fault() -> None:
    plain = scenario()
    faulty = FaultScenario.of(plain, Fault(kind="two-down", hold_s=10, repeats=3))
    assert faulty != plain
    assert repr(faulty) == repr(plain) == "batch-1k"
    assert parted([plain, faulty]) == ([plain], [faulty])
    assert replace(faulty, record_bytes=1).fault == faulty.fault, "a change leaves it what it is"
    assert (plain.rounds(FULL), faulty.rounds(FULL), faulty.rounds(replace(FULL, name="smoke"))) == (7, 3, 1)
    assert faulty.seconds(FULL) == 300
    assert (plain.confirmable, faulty.confirmable) == (True, False)
