"""The measuring loop: what it measures again, and that there is no other."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perfgate.measure.assembly import Finished
from perfgate.measure.runner import measured_round
from perfgate.model.measured import Arm
from tests.harness.build import one_round, scenario
from tests.harness.build.clock import Clock

MEASURE = Path(__file__).parents[3] / "perfgate" / "measure"


@pytest.mark.parametrize(("flawed", "tries", "expected"), [(0, 5, 1), (2, 5, 3), (9, 2, 3)])
def test_a_round_is_measured_again_while_it_may_be(flawed: int, tries: int, expected: int, clock: Clock) -> None:
    ends, asked, discarded = clock.now + 60, list[tuple[Any, ...]](), list[float]()

    def measure(*given: Any, **named: Any) -> Finished:
        clock.now += 10
        asked.append((*given, named))
        return Finished(round=one_round(1, 1000.0), repeatable=len(asked) <= flawed)

    def again(_finished: Finished, seconds: float) -> bool:
        if len(discarded) == tries:
            return False
        discarded.append(seconds)
        return True

    row, bench = scenario(), SimpleNamespace(round=measure)
    arm = Arm(scenario=row, form="one host fewer", hosts=2)
    found = measured_round(bench, arm, 4, lambda: ends - clock.now, "round 4", again, 5.0)  # type: ignore[arg-type]
    expected_calls = [(row, 4, 60 - 10.0 * n, "round 4", {"least_s": 5.0, "hosts": 2}) for n in range(expected)]
    assert asked == expected_calls
    assert discarded == [10.0] * (expected - 1)
    assert found.repeatable is (flawed >= expected)


def test_there_is_one_measuring_loop() -> None:
    """Gate, comparison and one host fewer had a loop each."""
    calls = {path.name: path.read_text() for path in MEASURE.glob("*.py")}
    assert {name for name, text in calls.items() if re.search(r"bench\w*(\[\w+\])?\.round\(", text)} == {"runner.py"}
    loops = {name for name, text in calls.items() if re.search(r"(?<![.\w])measured_round\(", text)}
    assert loops == {"runner.py", "rounds.py", "parts.py"}
