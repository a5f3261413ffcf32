"""Brokers that the actions of faults choose, with a stand-in for the cluster."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from perfgate.model import FAULTS, Fault, FaultScenario
from perfgate.model.errors import TargetError
from perfgate.model.faults import Scene
from perfgate.model.target import State
from tests.harness.build import scenario

ONE = ((2,), (2,))
DONE = {
    *("kill broker", "stop broker", "pause broker", "cut off broker"),
    *("start node", "resume broker", "mend the links of broker"),
}
REPLICAS = ((3, 1, 2), (1, 2, 3), (2, 3, 1))


class Brokers:
    """Three brokers, the faults that are done to them, and what they say: whoever leads, as at first."""

    def __init__(self, allowed: Collection[int]) -> None:
        self.allowed, self.taken, self.done = allowed, list[int](), 0
        self.last = State(at=0.0, leaders=(3, 1, 2), in_sync=REPLICAS, replicas=REPLICAS, brokers=(1, 2, 3))
        self.states = [self.last]

    def do(self, action: str, node: int, meanwhile: Callable[[], None]) -> None:
        meanwhile()
        self.done += 1
        there = set(self.last.brokers)
        if action in ("start", "resume", "heal"):
            there.add(node)
        else:
            self.taken.append(node)
            there.discard(node)
        self.last = replace(self.last, brokers=tuple(sorted(there)))

    def wait_until_ended(self, node: int) -> None:
        pass


@pytest.mark.parametrize(
    ("kind", "allowed", "taken"),
    [
        *((kind, (), [3]) for kind in ("kill-leader", "stop-leader", "pause-leader", "cut-off", "return")),
        *((kind, (1, 2), [1]) for kind in ("kill-leader", "stop-leader", "pause-leader", "cut-off")),
        ("return", (1, 2), [2]),
        ("return", (1,), [1]),
        ("kill-leader", (7,), [3]),  # none leads: the fault tells
        ("rolling-restart", (), [1, 2, 3]),
    ],
)
def test_a_broker_is_taken_that_may_be(kind: str, allowed: Collection[int], taken: list[int]) -> None:
    """Where the file lists brokers 1 and 2 the scenario was INVALID whenever broker 3 led partition 0."""
    brokers: Any = Brokers(allowed)
    row = FaultScenario.of(scenario(), Fault(kind=kind, hold_s=0.0))
    row.fault.about.act(Scene(row, brokers, Mock(), brokers))
    assert brokers.taken == taken


def test_the_load_is_followed_while_anything_is_done_to_real_brokers() -> None:
    """Its limits, and the health of the other brokers, were looked at again once a command of minutes had ended."""
    for kind, about in FAULTS.items():
        if not about.commands:
            continue
        brokers: Any = Brokers(())
        load = Mock()
        row = FaultScenario.of(scenario(), Fault(kind=kind, hold_s=0.0))
        row.fault.about.act(Scene(row, brokers, load, brokers))
        phases = [call.args[1] for call in load.follow_until.call_args_list]
        followed = [phase for phase in phases if phase.rpartition(" ")[0] in DONE]
        assert len(followed) == brokers.done > 0, kind


def test_no_second_broker_is_taken_where_one_holds_the_topic() -> None:
    """It was a traceback, after the first had been looked for."""
    brokers: Any = Brokers(())
    brokers.last = replace(brokers.last, leaders=(2, 2), in_sync=ONE, replicas=ONE)
    row = FaultScenario.of(scenario(), Fault(kind="two-down", hold_s=0.0))
    with pytest.raises(TargetError, match="broker 2 alone holds the topic"):
        row.fault.about.act(Scene(row, brokers, Mock(), brokers))
    assert not brokers.taken


PULSAR = tuple((11, 12, 13) for _ in range(3))


@pytest.mark.parametrize(
    ("kind", "taken"),
    [
        *((kind, [3]) for kind in ("kill-broker", "stop-broker", "pause-broker")),
        *((kind, [11]) for kind in ("kill-bookie", "kill-bookie-no-spare")),
        ("metadata-away", [21]),
    ],
)
def test_on_pulsar_a_node_of_the_right_role_is_taken_and_waited_for(kind: str, taken: list[int]) -> None:
    """Partitions are held by bookies and served by brokers: neither is among the other's ids."""
    brokers: Any = Brokers(())
    nodes = (1, 2, 3, 11, 12, 13, 21)
    brokers.last = replace(brokers.last, in_sync=PULSAR, replicas=PULSAR, brokers=nodes)
    brokers.states = [brokers.last]
    row = FaultScenario.of(scenario(), Fault(kind=kind, hold_s=0.0))
    scene = Scene(row, brokers, Mock(), brokers)
    row.fault.about.act(scene)
    assert brokers.taken == taken
    assert brokers.last.brokers == nodes
    assert [words.split()[-1] for _, words in scene.marks] == [str(taken[0])] * 2


def test_replicas_that_nobody_has_named_are_not_in_sync() -> None:
    """A partition whose ensemble no broker gave counted as whole at once."""
    known = State(at=0.0, leaders=(1,), in_sync=((1, 2),), replicas=((1, 2),), brokers=(1, 2))
    assert known.full
    unknown = replace(known, in_sync=((),), replicas=((),))
    assert not unknown.full
    assert (known.preferred, unknown.preferred) == (True, False), "it was an IndexError as the round was analysed"
