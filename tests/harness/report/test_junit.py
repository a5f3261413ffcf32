"""pytest's JUnit XML: the sentence of the verdict comes first in a failure, and its figures are properties."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from perfgate.judge.claims.same import judge_comparison
from perfgate.report.exports import comparison_properties, valid_figures
from tests.harness.build import measurement, one_round
from tests.harness.forked import gate
from tests.harness.judge.test_comparisons import comparison
from tests.harness.run_gate import RECORDED_THRESHOLDS

RECORDED = Path(__file__).parents[1] / "data" / "run.json"


def cases(path: Path) -> dict[str, ElementTree.Element]:
    """Return the test cases of a JUnit file by the scenario or relation."""
    found = ElementTree.parse(path).iter("testcase")  # noqa: S314 - this run wrote it
    return {case.attrib["name"].partition("[")[2].removesuffix("]"): case for case in found}


def properties(case: ElementTree.Element) -> dict[str, str]:
    return {one.attrib["name"]: one.attrib["value"] for one in case.iter("property")}


def test_a_red_run_tells_junit_the_sentence_and_the_figures(tmp_path: Path) -> None:
    folder = tmp_path / "thresholds"
    shutil.copytree(RECORDED_THRESHOLDS, folder)
    for name, old, new in (
        ("embedded-2c.toml", r"(\[batch-1k\][^\[]*?records_per_s = \{ ?baseline = )[\d.]+", r"\g<1>90000"),
        (
            "relations.toml",
            r"(\[cross-az.rate.shared_cores\][^\[]*?at_least = )[\d.]+\nat_most = [\d.]+",
            r"\g<1>100\nat_most = 200",
        ),
    ):
        text, count = re.subn(old, new, (folder / name).read_text())
        assert count == 1
        (folder / name).write_text(text)
    junit = tmp_path / "junit.xml"
    done = gate(tmp_path / "results", f"--replay={RECORDED}", f"--thresholds={folder}", f"--junit-xml={junit}")
    assert done.code == 1, done.output
    found = cases(junit)
    (failure,) = found["batch-1k"].findall("failure")
    first, *rest = failure.attrib["message"].splitlines()
    figures = r"67\.2 % fewer records/s than its baseline \(29,481 records/s, at least [\d,]+\)"
    assert re.fullmatch(f"Failed: REGRESSED batch-1k sends {figures}", first), first
    assert rest[0] == "  scenario   1 KiB batches: one record each"
    assert properties(found["batch-1k"])["verdict"] == "REGRESSED"
    assert properties(found["batch-1k"])["records_per_s"] == "29481.2"
    (failure,) = found["cross-az-rate"].findall("failure")
    assert re.match(
        r"Failed: REGRESSED cross-az-rate: batch-1k / cross-az in records_per_s is 3\.94, must be 100 \.\. 200\n",
        failure.attrib["message"],
    )
    assert properties(found["cross-az-rate"])["ratio"].startswith("3.9")
    assert properties(found["batch-16k"])["verdict"] == "PASS"
    assert found["batch-16k"].find("failure") is None
    assert "did not record it" in found["paced-500"].findall("skipped")[0].attrib["message"]


def test_what_is_not_valid_is_no_figure() -> None:
    whole = measurement([1000.0, 1010.0])
    assert valid_figures(whole)["records_per_s"] == 1005
    spoilt = replace(whole, rounds=(whole.rounds[0], one_round(2, 1010.0, spoilt={"latency_ms": "sent late"})))
    assert "latency_ms.p99" not in valid_figures(spoilt)
    assert "records_per_s" in valid_figures(spoilt)
    partly = replace(whole.rounds[1], metrics={"records_per_s": 1010.0})
    assert set(valid_figures(replace(whole, rounds=(whole.rounds[0], partly)))) == {"records_per_s"}


def test_a_lost_record_does_not_hide_behind_the_median() -> None:
    lost = [
        replace(one_round(i, 1000.0), metrics={"lost_records": count}) for i, count in enumerate((0.0, 12.0, 0.0), 1)
    ]
    assert valid_figures(replace(measurement([1000.0]), rounds=tuple(lost))) == {"lost_records": 12}


@pytest.mark.parametrize(
    "rounds", [(), (one_round(1, 1000.0),), (one_round(1, 1000.0), one_round(2, 1000.0, invalid=("a broker died",)))]
)
def test_an_invalid_measurement_has_no_figures(rounds: tuple[object, ...]) -> None:
    assert valid_figures(replace(measurement([1000.0]), rounds=rounds)) == {}  # type: ignore[arg-type]


def test_a_comparison_has_its_effect_as_shares() -> None:
    found = dict(comparison_properties(judge_comparison(comparison(0.9))))
    assert (found["verdict"], found["metric"]) == ("SLOWER", "records_per_s")
    assert float(str(found["effect"])) == pytest.approx(-0.1, abs=0.02)
    low, high = str(found["interval"]).split(" .. ")
    assert float(low) < float(str(found["effect"])) < float(high)
