"""A judged metric whose median is 0 had an infinite spread, which JSON has no word for: all verdicts were lost."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.judge.claims.relation import judge_relation
from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.sequential import estimate, looks_until
from perfgate.judge.statistics import share_of, spread
from perfgate.judge.wording import relation_message, scenario_message
from perfgate.model import Measurement, Verdict
from perfgate.report.results import finite, load_run, scenario_entry, write_run
from tests.harness.build import measurement, one_round, profile, relation, threshold
from tests.harness.build.recorded import RECORDED

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["value", "interval", "x"]), inner),
    max_leaves=20,
)
STILL = profile(threshold("records_per_s", 1000.0), threshold("broker_cpu_us_per_record", 50.0))


def standing_still(name: str = "batch-1k") -> Measurement:
    """Return a measurement in which the median rate is 0."""
    taken = measurement([1, 1, 1], name)
    return replace(taken, rounds=tuple(one_round(n, rate, spoilt={}) for n, rate in enumerate([0, 0, 5], 1)))


def test_a_scenario_whose_median_is_zero_is_red_in_run_json(tmp_path: Path) -> None:
    taken = standing_still()
    outcome = judge_scenario(taken, STILL)
    assert outcome.verdict is Verdict.REGRESSED
    assert "spread -" in scenario_message(outcome, taken, STILL)
    document = {**load_run(RECORDED), "scenarios": [scenario_entry(taken, outcome)]}
    write_run(document, tmp_path / "run.json")
    (entry,) = load_run(tmp_path / "run.json")["scenarios"]
    assert (entry["verdict"], entry["metrics"]["records_per_s"]["spread"]) == ("REGRESSED", None)


def test_a_relation_whose_ratios_are_zero_is_red_and_says_its_figures() -> None:
    pair = {"fast": standing_still("fast"), "slow": measurement([500, 500, 500], "slow")}
    outcome = judge_relation(relation(1.5), pair)
    assert outcome.verdict is Verdict.REGRESSED
    assert outcome.judgements[0].spread is None
    assert "spread -" in relation_message(outcome, relation(1.5))


@given(st.lists(st.floats(), min_size=2, max_size=9))
def test_a_spread_is_a_finite_number_or_none(values: list[float]) -> None:
    found = spread(values)
    assert found is None or math.isfinite(found)


@given(JSON)
def test_whatever_is_written_is_json(value: Any) -> None:
    json.dumps(finite({"value": value}), allow_nan=False)


@given(JSON.filter(lambda value: "nan" not in repr(value) and "inf" not in repr(value)))
def test_finite_figures_stay_as_they_are(value: Any) -> None:
    assert finite(value) == value


def test_an_interval_without_an_end_is_none_and_a_round_without_a_figure_keeps_its_place() -> None:
    found = finite({"ratio_interval": (0.5, math.inf), "p99_ms": (1.0, math.nan, 2.0), "interval": (0.5, 2.0)})
    assert found == {"ratio_interval": None, "p99_ms": [1.0, None, 2.0], "interval": [0.5, 2.0]}


@pytest.mark.parametrize("logs", [[600.0, -600.0] * 2, [0.0, 0.0, 0.0, 700.0]])
def test_an_interval_wider_than_numbers_reach_is_as_wide_as_they_reach(logs: list[float]) -> None:
    low, high = estimate(logs, looks_until(len(logs), len(logs), last=True)).interval
    assert all(math.isfinite(share) for share in (share_of(low), share_of(high)))
