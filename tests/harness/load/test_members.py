"""Members of a consumer group that come and go: which processes there are, who they are, and when they join."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from perfgate.load.consuming import Reader
from perfgate.load.journaled import JournaledGenerators
from perfgate.load.schedule import Window
from perfgate.model import Consumers, Fault, FaultScenario, TopicSpec, settings
from perfgate.systems.kafka.load.clients import member_settings, stores_when_done
from perfgate.systems.kafka.load.librdkafka import KafkaInstructions
from tests.harness.build.faults import faulty
from tests.harness.build.generators import SPEC

STATIC = Consumers(membership="group", processes=3, threads=2, config=settings({"group.instance.id": "app"}))
ROW = replace(faulty(), consumers=STATIC, topic=TopicSpec(partitions=8, replication_factor=1))


def workers(kind: str, consumers: Consumers = STATIC) -> Mapping[str, Any]:
    row = FaultScenario.of(replace(ROW, consumers=consumers), Fault(kind=kind))
    spec = replace(SPEC, scenario=row)
    return JournaledGenerators(KafkaInstructions(), spec, Path("journals"), Mock(), Mock())._consumers()


@pytest.mark.parametrize(
    ("kind", "late"),
    [("rolling-application", {4: 0, 5: 2, 6: 4}), ("member-join", {4: 6}), ("member-leave", {}), ("kill-leader", {})],
)
def test_those_that_join_later_are_processes_of_the_same_group(kind: str, late: dict[int, int]) -> None:
    found = workers(kind)
    assert [*found] == [f"consumer-{n}" for n in range(1, 4 + len(late))]
    assert [one["first"] for one in found.values()] == [2 * n for n in range(3 + len(late))], "each has its journals"
    assert {one["client"]["group.id"] for one in found.values()} == {"t"}
    places = {n: found[f"consumer-{n}"]["place"] for n in range(1, len(found) + 1) if "place" in found[f"consumer-{n}"]}
    assert places == late
    assert all(("joins_later" in one) is ("place" in one) for one in found.values())


def test_a_static_member_and_its_successor_have_one_name() -> None:
    names = [
        member_settings(worker, number)["group.instance.id"]
        for worker in workers("rolling-application").values()
        for number in range(worker["first"], worker["first"] + 2)
    ]
    assert names == [f"app-{n}" for n in (0, 1, 2, 3, 4, 5)] * 2


@pytest.mark.parametrize(
    ("consumers", "history", "stores"),
    [(STATIC, "j", True), (STATIC, "", False), (Consumers(membership="assigned"), "j", False)],
)
def test_positions_are_committed_after_the_journal_has_them(consumers: Consumers, history: str, stores: bool) -> None:
    """Of a member that is killed between the two a record would be passed over for good."""
    worker = workers("kill-leader", consumers)["consumer-1"]
    assert stores_when_done({**worker, "history": history}) is stores


def reader(joins: threading.Event, client: MagicMock) -> Reader:
    spec = {**workers("member-join")["consumer-4"], "run": 1, "history": None}
    return Reader(spec, 6, Window(), client, threading.Event(), joins=joins)


def test_one_that_joins_later_connects_when_it_is_told_to() -> None:
    joins, client = threading.Event(), MagicMock()
    client.take.return_value = 0
    one = reader(joins, client)
    one.connect()
    assert not client.connect.called
    running = threading.Thread(target=one.run, args=(0.0,))
    running.start()
    joins.set()
    while not client.take.called:
        assert running.is_alive()
    one.stop()
    running.join(10)
    client.connect.assert_called_once_with(8)
    assert not client.assignment.called, "a group that gives it nothing is what is measured"


def test_one_that_never_joins_ends_without_a_word_to_the_brokers() -> None:
    client = MagicMock()
    one = reader(threading.Event(), client)
    one.stop()
    one.run(0.0)
    assert not client.connect.called
    assert not client.take.called
