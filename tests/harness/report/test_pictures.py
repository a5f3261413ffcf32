"""The pictures of a recorded run: what they draw is what run.json holds, whatever a name holds."""

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.lines import Line2D

from perfgate.model import Judgement, Measurement, Outcome, Verdict
from perfgate.report.plots import family_pictures, pictures
from perfgate.report.results import load_run, recorded_measurements
from perfgate.report.scenario_plots import cpu_figure, family_figure, latency_figure, rounds_figure
from tests.harness.build.recorded import RECORDED


@pytest.fixture(scope="module")
def measured() -> Mapping[str, Measurement]:
    return recorded_measurements(load_run(RECORDED))


def heights(line: Line2D) -> list[float]:
    found: list[float] = np.asarray(line.get_ydata(), float).tolist()
    return found


def test_rounds_stand_beside_their_limit_and_baseline(measured: Mapping[str, Measurement]) -> None:
    one = measured["batch-1k"]
    judgement = Judgement(
        verdict=Verdict.REGRESSED, metric="records_per_s", measured=1.0, baseline=9e4, limit=8e4, tolerance=0.1
    )
    outcome = Outcome(name="batch-1k", verdict=Verdict.REGRESSED, judgements=(judgement,))
    figure = rounds_figure(one, outcome, {})
    assert figure is not None
    assert "REGRESSED" in figure.get_suptitle()
    (axes,) = figure.axes
    drawn = {line.get_label(): heights(line) for line in axes.get_lines()}
    assert drawn["a round"] == [r.metrics["records_per_s"] for r in one.rounds]
    assert drawn["limit 80,000"][0] == 8e4
    assert drawn["baseline 90,000"][0] == 9e4
    assert axes.get_ylabel().endswith("records/s")


def test_former_runs_are_thin_lines_beside_this_one(measured: Mapping[str, Measurement]) -> None:
    figure = rounds_figure(measured["batch-1k"], None, {"records_per_s": [8e4, 9e4]})
    assert figure is not None
    rate, _cpu = figure.axes
    former = [line for line in rate.get_lines() if line.get_linewidth() < 1]
    assert [heights(line)[0] for line in former] == [8e4, 9e4]
    assert former[0].get_label() == "2 former runs"
    low, high = rate.get_ylim()
    assert low < 8e4 < 9e4 < high, "all of them are in sight"


def test_latency_and_cpu_are_those_of_run_json(measured: Mapping[str, Measurement]) -> None:
    recorded = {entry["name"]: entry["metrics"] for entry in load_run(RECORDED)["scenarios"]}
    for name, one in measured.items():
        latency, cpu = latency_figure(one), cpu_figure(one)
        assert latency is not None
        assert cpu is not None
        metrics = recorded[name]
        told = [metrics[f"latency_ms.{q}"]["value"] for q in ("p50", "p95", "p99", "p999", "p9999", "max")]
        assert heights(latency.axes[0].get_lines()[-1]) == told
        drawn = {line.get_label(): heights(line) for line in cpu.axes[0].get_lines()}
        for broker in (1, 2, 3):
            assert drawn[f"broker {broker}"] == metrics[f"broker_cpu_cores.{broker}"]["rounds"]


def test_cpu_over_time_has_every_round_after_the_one_before(measured: Mapping[str, Measurement]) -> None:
    one = measured["batch-1k"]
    over_time = {"1": ((1.0, 0.25), (2.0, 0.5)), "2": ((1.0, 0.75),)}
    rounds = tuple(replace(r, broker_cpu_over_time=over_time) for r in one.rounds)
    figure = cpu_figure(replace(one, rounds=rounds))
    assert figure is not None
    (axes,) = figure.axes
    drawn = {line.get_label(): line for line in axes.get_lines()}
    first = drawn["broker 1"]
    window_s = rounds[0].window_s
    assert heights(first)[:2] == [0.25, 0.5]
    assert np.isnan(heights(first)[2]), "a gap between two rounds"
    xs = np.asarray(first.get_xdata(), float).tolist()
    assert (xs[0], xs[1], xs[3]) == (1.0, 2.0, window_s + 1.0)
    assert heights(drawn["broker 2"])[0] == 0.75
    ends = [line.get_xdata() for line in axes.get_lines() if line.get_linestyle() == ":" and len(heights(line)) == 2]
    assert len(ends) == len(rounds) - 1
    assert "s (windows" in axes.get_xlabel()
    assert axes.get_ylabel() == "CPU, cores"


def test_a_published_shape_is_scaled_to_the_run(measured: Mapping[str, Measurement]) -> None:
    family = [measured["batch-1k"], measured["batch-16k"]]
    figure = family_figure("batch-size", family, {"batch-1k": 10.0, "batch-16k": 40.0})
    assert figure is not None
    here, published = (heights(line) for line in figure.axes[0].get_lines())
    assert published[1] == pytest.approx(4 * published[0])
    assert min(here) < max(published)
    assert family_figure("batch-size", family[:1], {}) is None, "one alone has no shape"


def test_no_name_makes_markup_or_a_formula(measured: Mapping[str, Measurement]) -> None:
    hostile = 'a$\\frac{1}{0}$<script>alert("1")</script>\n&'
    one = measured["batch-1k"]
    named = replace(one, scenario=replace(one.scenario, factor=(("batch.size", hostile),)))
    found = pictures(one, None, {}) | family_pictures([named, measured["batch-16k"]], {})
    assert len(found) == 4
    for picture in found.values():
        tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(picture).iter()}  # noqa: S314 - of our own
        assert "script" not in tags
        assert "image" not in tags, "lines, not pixels"


def test_what_was_not_measured_has_no_picture(measured: Mapping[str, Measurement]) -> None:
    nothing = replace(measured["batch-1k"], rounds=())
    assert pictures(nothing, None, {}) == {}
    assert family_pictures([nothing, nothing], {}) == {}
