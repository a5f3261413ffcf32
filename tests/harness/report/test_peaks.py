"""A load whose rate changes over a window: its row at the terminal, and its picture."""

from dataclasses import replace
from typing import Any

import pytest

from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.assembly import measurement_of
from perfgate.model import Measurement
from perfgate.model.measured import Arm, Series
from perfgate.report import plots
from perfgate.report.results import recorded_measurement, scenario_entry
from perfgate.report.terminal_tables import PEAK_COLUMNS, peak_rows
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from tests.harness.build import measurement, scenario
from tests.harness.build.shapes import SPIKE, SPIKED, over_time, shaped_round


def spike() -> Measurement:
    """Return rounds whose p99 is three times as long in the peak and for 3 s after it."""
    over = over_time(SPIKE, p99_ms=lambda at: 6.0 if 7.5 <= at < 20 else 2.0, acked_by=lambda at: at - 0.05)
    row = replace(scenario("spike-5x"), load=SPIKED)
    rounds = [shaped_round(index, over) for index in (1, 2, 3)]
    return measurement_of(LibrdkafkaDriver(), Series(Arm(scenario=row), rounds=rounds))


def test_a_row_has_the_figures_of_each_phase_and_other_loads_have_none() -> None:
    measured = {"spike-5x": spike(), "batch-1k": measurement([1000.0] * 3)}
    outcomes = {name: judge_scenario(one, None) for name, one in measured.items()}
    (found,) = peak_rows(outcomes, measured)
    assert len(found) == len(PEAK_COLUMNS)
    name, rates, before, peak, after, back, owed, *cpu, verdict = found
    assert (name, rates, back, owed, verdict) == ("spike-5x", "200 to 1,000", "3.5", "51", "MISSING")
    assert [float(cell) for cell in (before, peak, after)] == pytest.approx([2.0, 6.0, 6.0], rel=0.01)
    assert [float(cell) for cell in cpu] == pytest.approx([0.1, 0.48, 0.109], abs=0.01)


def test_the_picture_has_offered_achieved_p99_and_what_was_owed() -> None:
    measured = spike()
    assert {"spike-5x-shape-1.png", "spike-5x-shape-3.png"} <= plots.pictures(measured, None, {}).keys()
    drawn: Any = plots.peak_figure("spike-5x", measured.rounds[0].shape or pytest.fail("no figures"))
    rate, latency, owed = drawn.axes
    offered, achieved = (patch.get_data().values for patch in rate.patches if hasattr(patch, "get_data"))
    assert [one.max() for one in (offered, achieved)] == pytest.approx([1000, 1000], rel=0.01)
    assert latency.lines[0].get_ydata()[10] == pytest.approx(6.0, rel=1 / 16)
    assert max(owed.patches[0].get_data().values) == pytest.approx(50, abs=2)
    assert [text.get_text() for text in rate.texts] == ["before the peak", "in the peak", "after the peak"]


def test_a_recorded_run_has_the_shape_and_its_figures_again() -> None:
    measured = spike()
    again = recorded_measurement(scenario_entry(measured, judge_scenario(measured, None)))
    assert again.scenario.load == measured.scenario.load
    assert again.rounds[0].shape == measured.rounds[0].shape
    assert plots.peak_figure("again", again.rounds[0].shape or pytest.fail("no figures"))
