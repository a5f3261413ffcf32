"""An error that ended a measurement was met again by each scenario's test: the same hours, and the error, again."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from perfgate.load.schedule import SIDES
from perfgate.measure.campaign import Campaign
from perfgate.measure.comparing import Comparing
from perfgate.measure.parts import Compared
from perfgate.measure.setup import Setup
from perfgate.model import CROSS_ZONE, SAME_ZONE, Change, Measurement, Scenario, Tier, changed
from tests.harness.build import measurement, scenario

TIER = Tier(name="smoke", rounds=2, window_s=1, warmup_max_s=1, broker_warmup_s=1)
ROWS = [scenario(f"one{n}", ("family",)) for n in range(3)]


def comparing(kind: type[Comparing], **given: Any) -> Comparing:
    setup: Any = MagicMock(spec=Setup, scenarios=ROWS, run_id="r", cannot=lambda _: None, target_facts={})
    for name in ("target", "driver", "engine", "say", "ledger", "tier"):
        setattr(setup, name, MagicMock())
    setup.form = changed
    change = Change(name="x", changes=(("producer.linger.ms", "5"),))
    return kind(change=change, budget_s=1.0, setup=setup, stop=Mock(), **given)


def test_a_comparison_that_ended_in_an_error_is_not_begun_again() -> None:
    begun: list[int] = []

    class Fails(Comparing):
        def _alternate(self, comparisons: Sequence[Compared], budget_s: float) -> None:
            begun.append(len(comparisons))
            raise OSError(28, "No space left on device")

    one = comparing(Fails)
    for row in ROWS:
        with pytest.raises(OSError, match="No space left"):
            one.compare(row)
    assert begun == [3]


@pytest.mark.parametrize("again", [False, True])
def test_nor_is_a_block_or_its_confirmation_run(again: bool) -> None:
    begun: list[int] = []

    class Fails(Campaign):
        def _measure_block(self, block: Sequence[Scenario], *, again: bool = False) -> dict[str, Measurement]:
            begun.append(len(block))
            raise OSError(28, "No space left on device")

    setup: Any = Mock(scenarios=ROWS, tier=TIER, cannot=lambda row: None)
    setup.ledger.seconds.return_value = {"start": 1.0}
    one = Fails(setup=setup, stop=Mock(), measured={row.name: measurement([1.0]) for row in ROWS})
    for row in ROWS:
        with pytest.raises(OSError, match="No space left"):
            one.again([row], {other.name for other in ROWS}) if again else one.measure(row)
    assert begun == [3]


def test_the_other_cluster_over_another_link_is_no_error() -> None:
    """A KeyError, once both clusters were warm: the baseline's link is none of the candidate's."""
    rows = [replace(row, link=CROSS_ZONE) for row in ROWS]
    told: list[str] = []

    class Warm(Comparing):
        def _warm(self, _cluster: object, _forms: object, comparisons: Sequence[Compared], sides: str = SIDES) -> Any:
            links = [SAME_ZONE.name, CROSS_ZONE.name] if sides == "A" else [SAME_ZONE.name]
            for row in comparisons:
                row.series[sides].rtt_ms = dict.fromkeys(links, 1.0)
            return MagicMock()

        def _until_decided(self, *_: object, **__: object) -> None: ...

    one = comparing(Warm, against=True)
    one.setup.say.note = told.append  # type: ignore[assignment]
    one._on_two([Compared({"A": row, "B": replace(row, link=SAME_ZONE)}, "rounds", 2) for row in rows], 1.0)
    assert told == [f"round trip, {SAME_ZONE.name}: 1.00 ms as declared, 1.00 ms to the other cluster"]
