"""A generator on a busy machine heard of its window when that was open: the rest of it was taken for all of it.

The run tells every process 50 ms ahead. One that gets no processor for half a second counted 17 % fewer records in a
window of 3 s, whatever the brokers did.
"""

import json
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from perfgate.load import worker
from perfgate.load.schedule import Window, now
from perfgate.measure.validity import flaws
from perfgate.model import Load
from tests.harness.build import accounting, load_result, received, sent
from tests.harness.build.generators import RESULT, SPEC, TALK, driver, observer


@pytest.mark.parametrize(("late_s", "spoilt"), [(0.0, False), (0.03, False), (0.05, True), (0.5, True)])
def test_a_round_whose_window_was_heard_of_late_is_measured_again(late_s: float, spoilt: bool) -> None:
    """2 % of a window of 2 s may be lost so."""
    pushed_back = sent(pushback_s=1.9, pushback_in_window_s=1.9)
    told = load_result(sent=pushed_back, window_late_s=late_s)
    found = flaws(Load(kind="capped", rate=1000.0), told, accounting(3000))
    assert [flaw.again for flaw in found] == [True] * spoilt
    reading = load_result(received=received(), window_late_s=late_s)
    found = flaws(Load(kind="backlog", records=3000), reading, accounting(0))
    assert [flaw.again for flaw in found] == [True] * spoilt


class Idle:
    """A client that is there until the window closes."""

    errors: Mapping[str, str] = {}

    def __init__(self, window: Window) -> None:
        self._window = window

    def run(self, _start: float) -> None:
        time.sleep(max(0.0, self._window.closes - now()))

    def progress(self) -> dict[str, int]:
        return {}

    def result(self) -> dict[str, Any]:
        return {}

    def recorders(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(("opens_in", "late_s"), [(0.05, 0.0), (-0.3, 0.3)])
def test_a_generator_says_how_late_it_heard(opens_in: float, late_s: float, capsys: pytest.CaptureFixture[str]) -> None:
    window = Window()
    window.set(now() + opens_in, now() + 0.2)
    control: Any = SimpleNamespace(window=window, wait_for_start=now, stop=SimpleNamespace(is_set=lambda: False))
    client: Any = Idle(window)
    worker.run(control, [client])
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["window_late_s"] == pytest.approx(late_s, abs=0.05)


def test_the_last_of_all_processes_counts() -> None:
    late = RESULT.replace("clients=1,", "clients=1, window_late_s=0.25,")
    assert driver(TALK + late).run(SPEC, observer([])).window_late_s == 0.25
