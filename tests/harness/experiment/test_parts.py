"""Parts of a comparison: what is measured again does not make the plan smaller."""

import time
from typing import Any

import pytest

from perfgate.experiment import parts
from perfgate.experiment.assembly import Finished
from perfgate.experiment.parts import Compared, measure_part
from perfgate.experiment.switching import Switch
from tests.harness.build import one_round, scenario


def test_a_part_takes_as_long_as_the_try_that_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four units were planned for a budget of fifteen, because the first burst had been measured again twice."""
    tries = iter([(0.3, True), (0.3, True), (0.02, False)])

    def one(*_: Any) -> list[tuple[str, Finished]]:
        seconds, spoilt = next(tries)
        time.sleep(seconds)
        found = one_round(1, 1000.0, invalid=("generator saturated",) if spoilt else ())
        return [(side, Finished(round=found, repeatable=spoilt)) for side in "AB"]

    monkeypatch.setattr(parts, "_burst", one)
    row = Compared(dict.fromkeys("AB", scenario()), "turns", 1)
    began = time.monotonic()
    measure_part(row, {}, Switch(), 60, "ABBA")
    assert 0.02 <= row.part_s < (time.monotonic() - began) / 2
    assert [len(found) for found in row.discarded.values()] == [2, 2]
