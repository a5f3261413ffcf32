"""Figures that are no number, or that no broker can reach: once a traceback, IMPROVED, or green."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from perfgate.judge.claims.relation import judge_relation
from perfgate.judge.claims.threshold import judge_threshold
from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.warming import still_warming
from perfgate.judge.wording import scenario_message
from perfgate.measure.assembly import round_of
from perfgate.model import Measurement, Verdict
from perfgate.model.errors import ConfigurationError
from perfgate.report.results import load_run
from tests.harness.build import accounting, load_result, measurement, one_round, profile, relation, threshold
from tests.harness.build.recorded import RECORDED

RATE = threshold("records_per_s", 1000.0, 0.1)
CPU = threshold("broker_cpu_us_per_record", 50.0, 0.1)
NO_NUMBERS = (math.nan, math.inf, -math.inf, -1.0, -1e-9)


def with_round(metric: str, value: float, rates: tuple[float, ...] = (1000, 1010, 990)) -> Measurement:
    """Return a measurement whose second round has this value."""
    taken = measurement(rates)
    second = replace(taken.rounds[1], metrics={**taken.rounds[1].metrics, metric: value})
    return replace(taken, rounds=(taken.rounds[0], second, *taken.rounds[2:]))


@pytest.mark.parametrize("value", NO_NUMBERS)
@pytest.mark.parametrize("metric", ["records_per_s", "broker_cpu_us_per_record"])
def test_what_is_no_number_is_invalid_and_never_green(metric: str, value: float) -> None:
    taken = with_round(metric, value)
    outcome = judge_scenario(taken, profile(RATE, CPU))
    assert outcome.verdict is Verdict.INVALID
    assert "was measured as" in scenario_message(outcome, taken, profile(RATE, CPU))
    pair = {
        "fast": replace(with_round(metric, value), scenario=measurement([1], "fast").scenario),
        "slow": measurement([500, 500, 500], "slow"),
    }
    assert judge_relation(relation(0.5, metric), pair).verdict is Verdict.INVALID
    assert still_warming({"a": taken.rounds, "b": measurement([1, 1, 1]).rounds}) == {}


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_it_does_not_hide_that_another_metric_regressed(value: float) -> None:
    taken = with_round("broker_cpu_us_per_record", value, (700, 710, 690))
    assert judge_scenario(taken, profile(RATE, CPU)).verdict is Verdict.REGRESSED


@pytest.mark.parametrize("values", [[math.nan] * 3, [1000, math.nan, 1000], [math.inf] * 3, [1000, 1000, math.inf]])
def test_judged_by_themselves_they_are_not_green_either(values: list[float]) -> None:
    assert not judge_threshold(values, RATE).verdict.green


@pytest.mark.parametrize(
    ("rounds", "verdict"),
    [
        ([1150, 1160, 1155], Verdict.IMPROVED),
        ([1190, 1200, 1195], Verdict.IMPROVED),
        ([1250, 1260, 1255], Verdict.INCONCLUSIVE),
        ([4000, 4010, 3990], Verdict.INCONCLUSIVE),
    ],
)
def test_a_gain_beyond_twice_the_limits_distance_is_too_good(rounds: list[float], verdict: Verdict) -> None:
    found = judge_threshold(rounds, RATE)
    assert found.verdict is verdict
    assert ("too good" in found.reason) == (verdict is Verdict.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("cpu_us", "verdict"), [(42, Verdict.IMPROVED), (39, Verdict.INCONCLUSIVE), (0.1, Verdict.INCONCLUSIVE)]
)
def test_so_is_cpu_that_vanished(cpu_us: float, verdict: Verdict) -> None:
    assert judge_threshold([cpu_us, cpu_us * 1.01, cpu_us * 0.99], CPU).verdict is verdict


def test_a_row_that_stands_still_is_red_not_a_traceback() -> None:
    assert judge_threshold([0, 0, 0], RATE).verdict is Verdict.REGRESSED
    still = replace(measurement([1, 1]), rounds=(one_round(1, 0), one_round(2, 0)))
    assert judge_scenario(still, profile(RATE, CPU)).verdict is Verdict.REGRESSED


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_source_that_gives_no_number_spoils_its_metric_and_no_other(value: float) -> None:
    usage = {"broker_cpu_us_per_record": value, "broker_rss_mib.max": 900.0}
    r = round_of(1, load_result(), accounting(3000), usage, (), "")
    json.dumps(dict(r.metrics), allow_nan=False)
    assert "broker_cpu_us_per_record was measured as" in r.spoilt("broker_cpu_us_per_record")
    assert r.spoilt("broker_rss_mib.max") == r.spoilt("records_per_s") == ""
    assert r.metrics["broker_rss_mib.max"] == 900.0


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_a_recorded_run_that_holds_no_number_is_refused_by_name(word: str, tmp_path: Path) -> None:
    document = json.loads(RECORDED.read_text())
    document["scenarios"][0]["rounds"][0]["metrics"]["records_per_s"] = math.nan
    recorded = tmp_path / "run.json"
    recorded.write_text(json.dumps(document).replace("NaN", word))
    with pytest.raises(ConfigurationError, match=f"--replay .*run.json: {word} is no number"):
        load_run(recorded)
