"""Pairs of clusters beside recorded A/A pairs: what is pooled, when it is not, how often that is wrong, its words."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchmarks.unit_errors import beside_recorded
from perfgate.judge.bounds_files import load_ratios
from perfgate.judge.claims.ratio import ReferenceStopRule, judge_against_reference
from perfgate.judge.claims.same import SequentialStopRule, judge_comparison
from perfgate.judge.scatter import scatter
from perfgate.judge.thresholds import load_profile
from perfgate.judge.wording import comparison_message
from perfgate.model import Comparison, Effect, RecordedPairs, Verdict
from perfgate.model.errors import ConfigurationError
from tests.harness.build.comparisons import comparison
from tests.harness.build.units import judge_units

EFFECTS = (0.05, -0.04, 0.06, -0.05, 0.03, -0.06, 0.05, -0.05)


def recorded(*effects: float, metric: str = "records_per_s") -> RecordedPairs:
    return RecordedPairs(metric=metric, rounds_per_unit=1, effects=effects or EFFECTS)


def pairs(factor: float, *noise: float) -> Comparison:
    return comparison(factor, noise=noise, method="pairs", recorded=(recorded(),))


def test_both_variances_are_weighted_by_their_degrees_of_freedom() -> None:
    own = [0.0, 0.03, -0.03]
    found = scatter(own, recorded())
    square = sum(x * x for x in EFFECTS)
    assert (found.freedom, found.besides, found.refused) == (8 + 2, 8, False)
    assert found.variance == pytest.approx((square + 2 * np.var(own, ddof=1)) / 10)
    alone = scatter(own, None)
    assert alone.variance == pytest.approx(0.0009)
    assert (alone.freedom, alone.besides) == (2, 0)


def test_the_interval_is_students_with_all_degrees_of_freedom() -> None:
    _, found = judge_units([-0.3, -0.26, -0.34], 3, final=True, known=recorded())
    assert found.freedom == 10
    half = (found.interval[1] - found.interval[0]) / 2
    assert half == pytest.approx(stats.t.isf(0.025, 10) * found.error)
    assert found.level == pytest.approx(stats.t.isf(0.001, 10))


def test_pairs_that_scatter_more_than_the_recorded_ones_stand_alone() -> None:
    """At the limit of the F test at 1 %, and just beyond it."""
    square = sum(x * x for x in EFFECTS) / len(EFFECTS)
    edge = math.sqrt(square * stats.f.isf(0.01, 3, len(EFFECTS)))
    shape = np.array([-1.0, 1.0, -1.0, 1.0]) / math.sqrt(4 / 3)
    assert not scatter((shape * edge * 0.999).tolist(), recorded()).refused
    wide = (shape * edge * 1.001).tolist()
    assert scatter(wide, recorded()).refused
    _, beside = judge_units(wide, 4, final=True, known=recorded())
    _, alone = judge_units(wide, 4, final=True)
    assert beside.level >= alone.level, "three were looked at before"
    assert replace(beside, refused=False, interval=alone.interval, level=alone.level) == alone
    assert judge_units([-2.0, -3.0, -2.5], 3, final=True, known=recorded())[0] is None, "three alone say nothing"


@pytest.mark.parametrize(("planned", "count"), [(3, 5), (3, 10), (4, 8), (9, 5)])
def test_false_alarms_stay_as_rare_as_stated(planned: int, count: int) -> None:
    """By many more draws: benchmarks/unit_errors.py. At 1 in 1,000 a side three would be expected."""
    said = beside_recorded(planned, count, 1.0, 1500)
    assert said[-1] + said[1] <= 3, said


def test_three_pairs_tell_of_a_third_and_say_what_they_rest_on() -> None:
    found = pairs(0.7, 1.0, 1.01, 0.99)
    outcome = judge_comparison(found)
    assert outcome.effect is Effect.SLOWER
    assert SequentialStopRule().decided(found)
    message = comparison_message(outcome, "a change")
    assert "scatter between pairs from 8 recorded A/A pairs of this machine class too" in message
    alone = judge_comparison(replace(found, recorded=()))
    assert alone.effect is Effect.INCONCLUSIVE
    assert alone.primary is not None
    assert alone.primary.estimate == pytest.approx(-0.3)
    assert alone.reasons == ("3 unit(s) were measured; an interval and a decision need 4",)
    other = judge_comparison(replace(found, recorded=(recorded(metric="latency_ms.p99"),)))
    assert other.effect is Effect.INCONCLUSIVE, "of another metric they say nothing"


def test_what_was_not_used_is_said() -> None:
    outcome = judge_comparison(pairs(0.9, 1.2, 0.8, 1.25, 0.75))
    assert outcome.effect is Effect.INCONCLUSIVE
    assert "the 8 recorded A/A pairs of this machine class were not used: these pairs scatter by " in outcome.scatter
    assert ", those by 5.0 % (F test, 1 %)" in outcome.scatter


def test_a_reference_of_pairs_is_judged_with_them_too(tmp_path: Path) -> None:
    (tmp_path / "ratios.toml").write_text("[default]\nrecords_per_s = { at_least = 0.95 }\n")
    ratios, found = load_ratios(tmp_path), pairs(0.7, 1.0, 1.01, 0.99)
    outcome = judge_against_reference(found, ratios)
    assert outcome.verdict is Verdict.REGRESSED
    assert "from 8 recorded A/A pairs" in str(outcome.reasons)
    assert ReferenceStopRule(ratios).decided(found.turned())
    assert judge_against_reference(replace(found, recorded=()), ratios).verdict is Verdict.INCONCLUSIVE


PROFILE = '[profile]\ntarget = "embedded"\n[pairs.batch-1k]\n'
FIVE = "effects = [0.1, -0.1, 0, 0.05, -0.02]"


def test_a_profile_holds_recorded_pairs(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f"{PROFILE}records_per_s = {{ rounds_per_unit = 6, {FIVE} }}\n")
    effects = (0.1, -0.1, 0.0, 0.05, -0.02)
    assert load_profile(path).pairs == {
        "batch-1k": (RecordedPairs(metric="records_per_s", rounds_per_unit=6, effects=effects),)
    }


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (f"speed = {{ rounds_per_unit = 6, {FIVE} }}", "[pairs.batch-1k] names unknown metric 'speed'"),
        (f"records_per_s = {{ {FIVE} }}", "lacks the key 'rounds_per_unit'"),
        (f"records_per_s = {{ rounds_per_unit = 0, {FIVE} }}", "rounds_per_unit = 0 must be a whole number from 1"),
        ("records_per_s = { rounds_per_unit = 6, effects = [0.1] }", "must be a list of 5 numbers or more"),
        ("records_per_s = { rounds_per_unit = 6, effects = [0.1, 0.2, nan, 0.1, 0.1] }", "effects"),
        ("records_per_s = 5", "must be a table"),
    ],
)
def test_a_slip_in_recorded_pairs_is_an_error(tmp_path: Path, entry: str, said: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f"{PROFILE}{entry}\n")
    with pytest.raises(ConfigurationError) as raised:
        load_profile(path)
    assert said in str(raised.value)
