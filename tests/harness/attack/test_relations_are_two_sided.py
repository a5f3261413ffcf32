"""A relation had a minimum alone: a row many times slower than the one that it is compared with kept it."""

from pathlib import Path

import pytest

from perfgate.judge.bounds_files import load_relations
from perfgate.judge.claims.relation import judge_relation
from perfgate.judge.wording import relation_message
from perfgate.model import PairRelation, RangeRelation, Verdict
from tests.harness.build import measurement, relation
from tests.harness.run_gate import ROOT

SLOW = [1000.0, 1010.0, 990.0]


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        ((1.0, 1.0, 1.0), Verdict.REGRESSED),
        ((1.5, 1.6, 1.4), Verdict.INCONCLUSIVE),
        ((2.0, 2.1, 1.9), Verdict.PASS),
        ((9.0, 9.1, 8.9), Verdict.PASS),
        ((10.0, 10.1, 9.9), Verdict.INCONCLUSIVE),
        ((12.0, 12.1, 11.9), Verdict.REGRESSED),
        ((200.0, 210.0, 190.0), Verdict.REGRESSED),
        # One lucky round takes nothing back.
        ((12.0, 12.1, 9.9), Verdict.REGRESSED),
        ((1.0, 1.05, 1.6), Verdict.REGRESSED),
        # Beyond in every third round.
        ((5.0, 5.1, 4.9, 5.0, 12.0, 11.8, 12.1), Verdict.INCONCLUSIVE),
    ],
)
def test_a_ratio_keeps_both_ends_of_its_range(times: tuple[float, ...], verdict: Verdict) -> None:
    slow = measurement([1000.0] * len(times), "slow")
    fast = measurement([1000.0 * factor for factor in times], "fast")
    held = relation(1.5, at_most=10.0)
    outcome = judge_relation(held, {"fast": fast, "slow": slow})
    assert outcome.verdict is verdict
    if verdict is Verdict.REGRESSED:
        message = relation_message(outcome, held)
        assert "1.5 to 10 x slow" in message
        assert f"from the {'maximum' if times[0] > 10 else 'minimum'}" in message


@pytest.mark.parametrize("shares_cores", [True, False])
def test_every_shipped_relation_sees_a_row_twenty_times_slower(shares_cores: bool) -> None:
    """From the paper's own ratio on: whichever of its two rows is 20 times worse, the relation is red."""
    found = [
        one.here(shares_cores=shares_cores)
        for one in load_relations(ROOT / "perfgate" / "catalogue" / "relations.toml")
    ]
    assert len(found) >= 8
    pairs = [pair for one in found for pair in (one.steps if isinstance(one, RangeRelation) else (one,))]
    for one in pairs:
        assert isinstance(one, PairRelation)
        usual = (one.at_least * one.at_most) ** 0.5
        for ratio in (usual / 20, usual * 20):
            assert not one.at_least <= ratio <= one.at_most, one.name


def test_the_range_is_read_and_shown(tmp_path: Path) -> None:
    path = tmp_path / "relations.toml"
    path.write_text((ROOT / "perfgate" / "catalogue" / "relations.toml").read_text())
    first = load_relations(path)[0]
    assert (first.name, first.accepted) == ("batch-size-rate", "2 .. 25")
