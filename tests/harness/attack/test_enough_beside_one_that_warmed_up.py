"""A scenario that had enough rounds early, beside one that got more because its brokers warmed up: their relation was
INVALID, since hardly any of the rounds that count were measured together.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from perfgate.judge.claims.relation import judge_relation
from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.wording import relation_message
from perfgate.model import Measurement, Verdict
from tests.harness.build import measurement, relation

ENOUGH = "4 of 7 rounds were enough: all its limits are kept by far"
QUIET = (1000.0, 1004.0, 996.0, 1001.0)


def warmed_up(rates: Sequence[float], name: str, extra: int) -> Measurement:
    """A scenario whose first `extra` rounds, a third as fast, are followed by as many more."""
    found = measurement([rates[0] / 3] * extra + list(rates), name)
    return replace(found, rounds=found.rounds[extra:], warm_up=found.rounds[:extra])


@pytest.mark.parametrize("extra", [1, 3, 12])
@pytest.mark.parametrize(
    ("ratio", "expected"), [(1.5, Verdict.PASS), (1.2, Verdict.INCONCLUSIVE), (0.9, Verdict.REGRESSED)]
)
def test_their_relation_is_judged_on_the_rounds_that_count(extra: int, ratio: float, expected: Verdict) -> None:
    early = replace(measurement(QUIET, "slow"), enough=ENOUGH)
    late = warmed_up([ratio * rate for rate in (*QUIET, *QUIET[:3])], "fast", extra)
    held = relation(1.2)
    outcome = judge_relation(held, {"fast": late, "slow": early})
    assert outcome.verdict is expected, "of the warm brokers, not of those beside the first"
    assert not outcome.paired
    if expected is Verdict.REGRESSED:
        text = "7 rounds, unpaired: measured minutes apart from the other scenario's"
        assert text in relation_message(outcome, held)
    turned = replace(held, of="slow", over="fast", at_least=0.01, at_most=1 / 1.2)
    assert judge_relation(turned, {"fast": late, "slow": early}).verdict is expected


def test_a_metric_without_a_source_in_some_rounds_spoils_no_other() -> None:
    early = replace(measurement(QUIET, "slow"), enough=ENOUGH)
    late = warmed_up([1500.0] * 7, "fast", 3)
    dark = replace(late.rounds[0], usage_unavailable="no scrape of Prometheus")
    sides = {"fast": replace(late, rounds=(dark, *late.rounds[1:])), "slow": early}
    assert judge_relation(relation(1.2), sides).verdict is Verdict.PASS
    assert judge_relation(replace(relation(0.1, at_most=0.8), of="slow", over="fast"), sides).verdict is Verdict.PASS


def test_a_scenario_that_was_given_up_stays_undecided() -> None:
    """Nothing is known of it however long the other was measured."""
    given_up = measurement((1000.0, 1400.0, 700.0, 1200.0), "slow")
    outcome = judge_relation(relation(1.2), {"fast": warmed_up([1500.0] * 7, "fast", 3), "slow": given_up})
    assert not outcome.verdict.green
    assert not outcome.verdict.red
    assert judge_scenario(given_up, None).verdict is Verdict.MISSING
