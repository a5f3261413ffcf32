"""An error that ended a measurement was met again by each scenario's test: the same hours, and the error, again."""

from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from perfgate.measure.campaign import Campaign
from perfgate.measure.comparing import Comparing
from perfgate.measure.parts import Compared
from perfgate.measure.setup import Setup
from perfgate.model import CROSS_ZONE, SAME_ZONE, Change, Scenario, Tier, changed
from tests.harness.build import measurement, scenario

TIER = Tier(name="smoke", rounds=2, window_s=1, warmup_max_s=1, broker_warmup_s=1)
ROWS = [scenario(f"one{n}", ("family",)) for n in range(3)]


def comparing(**given: Any) -> Comparing:
    setup: Any = MagicMock(spec=Setup, scenarios=ROWS, run_id="r", cannot=lambda _: None, target_facts={})
    for name in ("target", "driver", "engine", "say", "ledger", "tier"):
        setattr(setup, name, MagicMock())
    setup.form = changed
    change = Change(name="x", changes=(("producer.linger.ms", "5"),))
    return Comparing(change=change, budget_s=1.0, setup=setup, stop=Mock(), **given)


def test_a_comparison_that_ended_in_an_error_is_not_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    def fails(_self: Comparing, rows: list[Compared], _budget_s: float) -> None:
        begun.append(len(rows))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Comparing, "_alternate", fails)
    one = comparing()
    for row in ROWS:
        with pytest.raises(OSError, match="No space left"):
            one.compare(row)
    assert begun == [3]


@pytest.mark.parametrize("again", [False, True])
def test_nor_is_a_block_or_its_confirmation_run(again: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    def fails(_self: Campaign, block: list[Scenario], **_: object) -> None:
        begun.append(len(block))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Campaign, "_measure_block", fails)
    setup: Any = Mock(scenarios=ROWS, tier=TIER, cannot=lambda row: None)
    setup.ledger.seconds.return_value = {"start": 1.0}
    one = Campaign(setup=setup, stop=Mock(), measured={row.name: measurement([1.0]) for row in ROWS})
    for row in ROWS:
        with pytest.raises(OSError, match="No space left"):
            one.again([row], {other.name for other in ROWS}) if again else one.measure(row)
    assert begun == [3]


def test_the_other_cluster_over_another_link_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A KeyError, once both clusters were warm: the baseline's link is none of the candidate's."""
    rows = [replace(row, link=CROSS_ZONE) for row in ROWS]
    one = comparing(against=True)
    told: list[str] = []
    one.setup.say.note = told.append  # type: ignore[assignment]

    def warm(_self: Comparing, _cluster: object, _forms: object, rows: list[Compared], side: str) -> MagicMock:
        links = [SAME_ZONE.name, CROSS_ZONE.name] if side == "A" else [SAME_ZONE.name]
        for row in rows:
            row.series[side].rtt_ms = dict.fromkeys(links, 1.0)
        return MagicMock()

    monkeypatch.setattr(Comparing, "_warm", warm)
    monkeypatch.setattr(Comparing, "_until_decided", lambda *_: None)
    one._on_two([Compared({"A": row, "B": replace(row, link=SAME_ZONE)}, "rounds", 2) for row in rows], 1.0)
    assert told == [f"round trip, {SAME_ZONE.name}: 1.00 ms as declared, 1.00 ms to the other cluster"]
