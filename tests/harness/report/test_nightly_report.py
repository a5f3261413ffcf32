"""The report of a whole nightly run: every scenario of the tier, with faults, as large as real rounds make it."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perfgate.catalogue.kafka import FAMILIES
from perfgate.measure.faults.analysis import analyse
from perfgate.model import FaultScenario, Measurement, Round, Scenario
from perfgate.model.usual import TIERS
from perfgate.report.html import ALLURE, build_report
from perfgate.report.results import load_run, recorded_measurements, scenario_entry
from tests.harness.browser import NEEDS_CHROMIUM, browser, open_test, page, see_picture
from tests.harness.build.faults import history
from tests.harness.build.recorded import RECORDED
from tests.harness.report.test_browser import LARGEST_MIB
from tests.harness.run_gate import gate

if TYPE_CHECKING:
    from playwright.sync_api import Page

OPENS_WITHIN_MS = 60_000
"""A hang bound; docs/outputs.md says how long it takes."""

__all__ = ["browser", "page"]
pytestmark = [NEEDS_CHROMIUM, pytest.mark.slow]
NIGHTLY = TIERS["nightly"]
DECLARED = [one for family in FAMILIES for one in family.scenarios if one.tier != "full" and not one.refusal]


def measured(scenario: Scenario, place: int, like: Round) -> Measurement:
    """Return a measurement of this scenario: rounds as large as those of a run, figures that no other has."""
    rounds = tuple(replace(one, index=index) for index, one in enumerate(rounds_of(scenario, place, like), 1))
    return Measurement(
        scenario=scenario, rounds=rounds, rtt_ms={scenario.link.name: 0.1}, latency_basis="intended-send"
    )


def rounds_of(scenario: Scenario, place: int, like: Round) -> list[Round]:
    share = 1 + place / 1000
    if isinstance(scenario, FaultScenario):
        failover, metrics, accounting = analyse(history())
        one = replace(like, failover=failover, metrics=metrics, accounting=accounting, latency_histogram="")
        return [one] * scenario.rounds(NIGHTLY)
    over_time = {
        str(broker): tuple((s, round(0.01 * s * broker * share, 4)) for s in range(1, 11)) for broker in (1, 2, 3)
    }
    metrics = {**like.metrics, "records_per_s": like.metrics["records_per_s"] * share}
    return [replace(like, metrics=metrics, window_s=NIGHTLY.window_s, broker_cpu_over_time=over_time)] * NIGHTLY.rounds


@pytest.fixture(scope="module")
def nightly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the run."""
    recorded = load_run(RECORDED)
    (like, *_) = recorded_measurements(recorded)["batch-16k"].rounds
    found = [measured(scenario, place, like) for place, scenario in enumerate(DECLARED)]
    document = {**recorded, "tier": asdict(NIGHTLY), "relations": [], "second_looks": []}
    document["scenarios"] = [scenario_entry(one, None) for one in found]
    folder = tmp_path_factory.mktemp("nightly")
    path = folder / "run.json"
    path.write_text(json.dumps(document))
    done = gate(folder / "results", f"--replay={path}", "--tier=nightly")
    runs = list((folder / "results").glob("2*"))
    assert runs, done.output
    build_report(runs[0])
    return runs[0]


def test_a_whole_nightly_is_one_file_that_opens(page: "Page", nightly: Path) -> None:
    report = nightly / "report" / "index.html"
    allure = report.with_name(ALLURE)
    run: dict[str, Any] = json.loads((nightly / "run.json").read_text())
    scenarios = {entry["name"]: entry for entry in run["scenarios"]}
    assert scenarios.keys() == {scenario.name for scenario in DECLARED}
    assert allure.stat().st_size < LARGEST_MIB * 2**20
    page.goto(report.as_uri(), timeout=OPENS_WITHIN_MS)
    assert page.locator("tbody tr").count() == len([entry for entry in scenarios.values() if entry["metrics"]])
    page.goto(allure.as_uri(), timeout=OPENS_WITHIN_MS)
    page.get_by_text(f"Kafka performance gate {run['run_id']}").first.wait_for(timeout=OPENS_WITHIN_MS)
    for family, name in (
        ("batch-size", "batch-1k"),
        ("compression", "compression-zstd"),
        ("partitions", "partitions-6"),
    ):
        page.goto("about:blank")
        open_test(page, report, family, f"{name}: ")
        rate = f"{scenarios[name]['metrics']['records_per_s']['value']:,.0f} records/s"
        page.get_by_text(rate).first.wait_for()
        see_picture(page, f"{name}-cpu.svg")
    page.goto("about:blank")
    open_test(page, report, "failover", "kill-leader: ")
    see_picture(page, "kill-leader-fault-1.png")
