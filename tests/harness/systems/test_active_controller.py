"""Who leads the controllers: what those that are there have written down, and nobody else."""

import json

import pytest

from perfgate.model.errors import TargetError
from perfgate.systems.kafka.managed.faults import agreed_leader


def states(*leaders: int | None) -> dict[int, str]:
    """Return the files of controllers 1, 2 ... that name these leaders; None: a file that is being written."""
    return {node: json.dumps({"leaderId": x}) if x is not None else '{"lea' for node, x in enumerate(leaders, 1)}


@pytest.mark.parametrize(
    ("told", "absent", "leader"),
    [
        (states(2, 2, 2), set(), 2),
        (states(-1, 2, None), set(), 2),
        (states(1, 2, 2), {1}, 2),  # it is gone, and its file with it is not
        (states(1, 1, 3), {1}, 3),  # one has not noticed yet
    ],
)
def test_those_that_are_there_say_who_leads(told: dict[int, str], absent: set[int], leader: int) -> None:
    assert agreed_leader(told, absent) == leader


@pytest.mark.parametrize(("told", "absent"), [(states(1, 2, 2), set()), (states(1, 1, 1), {1}), (states(-1), set())])
def test_who_leads_is_not_told_before_they_agree(told: dict[int, str], absent: set[int]) -> None:
    with pytest.raises(TargetError, match="do not agree"):
        agreed_leader(told, absent)


def test_what_an_absent_one_wrote_last_is_of_before() -> None:
    """Its file of an older leader that is alive kept the others from being heard."""
    assert agreed_leader(states(3, 2, 2), {1}) == 2
