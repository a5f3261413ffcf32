"""Shapes of a rate: the texts that declare them, their phases, and loads that have one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfgate.catalogue.kafka import FAMILIES
from perfgate.model import Load, with_changes
from perfgate.model.errors import ConfigurationError
from perfgate.model.loads.shaped import Shaped
from perfgate.model.shape import read_shape
from tests.harness.build import scenario
from tests.harness.build.shapes import rate_at, records_by
from tests.harness.run_gate import ROOT

SPIKE = "spike:base=1000,peak=5000,seconds=10,period=40"
PACED = replace(scenario(), load=Load(kind="paced", rate=100))


@pytest.mark.parametrize(
    ("text", "seconds", "rates", "mean", "phases"),
    [
        ("constant:rate=500,seconds=20", 20, (500, 500), 500, {"peak": (0, 20)}),
        ("ramp:from=100,to=300,seconds=20", 20, (100, 300), 200, {"before": (0, 10), "peak": (10, 20)}),
        (SPIKE, 40, (1000, 5000), 2000, {"before": (0, 7.5), "peak": (7.5, 17.5), "after": (17.5, 40)}),
        (
            "wave:base=100,peak=300,period=40",
            40,
            (100, 300),
            200,
            {"before": (0, 10), "peak": (10, 30), "after": (30, 40)},
        ),
        ("steps:rates=100/300/200,seconds=5", 15, (100, 300), 200, {"before": (0, 5), "peak": (5, 15)}),
        ("points:0=100/10=300/20=100", 20, (100, 300), 200, {"before": (0, 5), "peak": (5, 15), "after": (15, 20)}),
    ],
)
def test_a_text_declares_points_and_the_peak_is_above_the_middle(
    text: str, seconds: float, rates: tuple[float, float], mean: float, phases: dict[str, tuple[float, float]]
) -> None:
    shape = read_shape("load.shape", text)
    assert shape.seconds == seconds
    assert shape.rates == pytest.approx(rates)
    assert shape.mean == pytest.approx(mean)
    assert {name: pytest.approx(span) for name, span in phases.items()} == dict(shape.phases)


def test_points_of_a_file_are_compressed_into_the_seconds_asked_for(tmp_path: Path) -> None:
    (tmp_path / "day.csv").write_text("seconds,rate\n0,100\n43200,500\n86400,100\n")
    shape = read_shape("load.shape", f"csv:{tmp_path / 'day.csv'},seconds=60")
    assert shape.points == ((0, 100), (30, 500), (60, 100))
    assert (rate_at(shape, 15), records_by(shape, 30)) == (300, 9000)


@pytest.mark.parametrize("text", ["\ufeff0,100\n30,500\n60,100", "1e3,100\n1030,500\n1060,100"], ids=["mark", "1e3"])
def test_the_first_line_of_a_file_is_no_heading_where_it_has_numbers(tmp_path: Path, text: str) -> None:
    """It was dropped behind the mark that some editors write, or in another notation: another shape was measured."""
    (tmp_path / "day.csv").write_text(text)
    assert read_shape("load.shape", f"csv:{tmp_path / 'day.csv'}").points == ((0, 100), (30, 500), (60, 100))


def test_a_file_that_is_no_list_is_refused(tmp_path: Path) -> None:
    """A line that no reader takes was a traceback."""
    (tmp_path / "day.csv").write_text("x" * 200_000)
    with pytest.raises(ConfigurationError, match="field larger than field limit"):
        read_shape("load.shape", f"csv:{tmp_path / 'day.csv'}")


def test_the_day_of_the_catalogue_is_that_of_the_example() -> None:
    shape = read_shape("load.shape", f"csv:{ROOT / 'examples' / 'shapes' / 'day.csv'},seconds=48")
    (day,) = (row.load.shape for one in FAMILIES for row in one.scenarios if row.name == "day-48s")
    assert day
    assert np.array(shape.points) == pytest.approx(np.array(day.points))
    assert day.phases["peak"] == pytest.approx((14.3636, 43.3333), abs=1e-3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("saw:rate=5", "is no shape of a rate"),
        ("spike:base=1,peak=5,seconds=10", "needs base, peak, seconds, period, each once"),
        ("constant:rate=5,rate=6,seconds=9", "needs rate, seconds, each once"),
        ("spike:base=1,peak=5,seconds=10,period=10", "leaves nothing of its period of 10 s"),
        ("ramp:from=0,to=5,seconds=10", r"rates must be from 0\.01 to"),
        ("ramp:from=nan,to=5,seconds=10", r"rates must be from 0\.01 to"),
        ("constant:rate=5,seconds=0.5", r"lasts 0\.5 s and must last from 1 to 900 s"),
        ("constant:rate=5,seconds=901", "lasts 901 s and must last"),
        ("points:1=5/10=5", "must begin at 0 s and follow one another"),
        ("points:0=5/10=5/9=5", "must begin at 0 s and follow one another"),
        ("points:0=5", "it has 1 points and needs 2"),
        ("points:0=5/10", "must be two numbers"),
        ("csv:/nowhere/day.csv", "No such file"),
        (7, "is no shape of a rate"),
    ],
)
def test_a_wrong_text_is_refused_with_what_is_legal(text: object, words: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"load\.shape = .*{words}.*; legal: constant:rate=R"):
        with_changes(PACED, [("load.shape", text)])


def test_a_paced_load_gets_a_shape_and_its_rate_is_the_mean() -> None:
    row = with_changes(PACED, [("load.shape", SPIKE)])
    assert type(row.load) is Shaped
    assert (row.load.rate, row.load.most_rate, row.load.window_s) == (2000, 5000, 40)
    assert row.offered_bytes_per_s == 5000 * row.logged_bytes
    judged = ("peak_latency_ms.p99", "p99_back_s", "owed_records")
    assert row.load.judged(readers=False) == judged
    assert row.load.judged(readers=True) == (*judged, "end_to_end_latency_ms.p99")
    assert [row.load.windows_of(seconds, 4) for seconds in (7, 18, 60)] == [4, 2, 1]
    halved = with_changes(row, [("load.rate", 1000)]).load
    assert (halved.rate, halved.most_rate, halved.window_s) == (1000, 2500, 40)
    flat = with_changes(PACED, [("load.shape", "constant:rate=7,seconds=9")])
    assert flat.load.judged(readers=False) == ("peak_latency_ms.p99", "owed_records")
    capped = scenario()
    assert with_changes(capped, [("load.shape", SPIKE)]) == capped
    assert capped.load.lacks("shape") == "its load is capped, not paced"


def test_a_shape_at_a_share_of_the_knee_waits_for_it() -> None:
    load = with_changes(PACED, [("load.shape", SPIKE), ("load.rate", "0.5 x knee")]).load
    assert load.no_rate
    assert load.at_rate(4000).most_rate == 10_000
