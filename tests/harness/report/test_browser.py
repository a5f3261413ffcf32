"""The reports as a reader sees them: opened in headless Chromium, clicked through, and held against run.json."""

import html
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perfgate.report.front import front_html
from perfgate.report.html import ALLURE, ANSWERS, build_report
from perfgate.report.results import load_run
from perfgate.report.view import view_of
from tests.harness.browser import NEEDS_CHROMIUM, browser, page, see_picture
from tests.harness.build.recorded import RECORDED
from tests.harness.forked import gate
from tests.harness.run_gate import RECORDED_THRESHOLDS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LARGEST_MIB = 20
WIDTHS = (400, 1000, 1600)
HOSTILE = """'"><script>window.broken = 1</script><img src=x onerror="window.broken = 1">\n`$&"""

__all__ = ["browser", "page"]
pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def red_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run in which batch-1k has regressed."""
    folder = tmp_path_factory.mktemp("browser")
    thresholds = folder / "thresholds"
    shutil.copytree(RECORDED_THRESHOLDS, thresholds)
    path = thresholds / "embedded-2c.toml"
    path.write_text(re.sub(r"(\[batch-1k\][^\[]*?baseline = )[\d.]+", r"\g<1>90000", path.read_text()))
    gate(folder / "results", f"--replay={RECORDED}", f"--thresholds={thresholds}", pictures=True)
    (run,) = (folder / "results").glob("2*")
    build_report(run)
    return run


def numbers_of(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "run.json").read_text())
    return found


def test_a_reader_finds_what_is_red_and_its_numbers(page: "Page", red_run: Path) -> None:
    report, run = red_run / "report" / "index.html", numbers_of(red_run)
    assert report.with_name(ALLURE).stat().st_size < LARGEST_MIB * 2**20
    page.goto(report.as_uri())
    assert page.title() == f"Kafka performance gate {run['run_id']}: RED"
    (entry,) = [one for one in run["scenarios"] if one["name"] == "batch-1k"]
    judged = next(one for one in entry["judgements"] if one["metric"] == "records_per_s")
    card = page.locator("section.card").first.inner_text()
    for value in (entry["metrics"]["records_per_s"]["value"], judged["baseline"], judged["limit"]):
        assert f"{value:,.0f} records/s" in card
    for other in run["scenarios"]:
        row = page.locator("tr", has=page.get_by_role("link", name=other["name"], exact=True)).inner_text()
        assert f"{other['metrics']['records_per_s']['value']:,.0f} records/s" in row
        assert other["verdict"] in row

    page.get_by_role("link", name="batch-1k", exact=True).first.click()
    page.get_by_text("batch-1k: REGRESSED").first.wait_for()
    rate = f"{entry['metrics']['records_per_s']['value']:,.0f} records/s"
    page.get_by_text(rate).first.wait_for()
    see_picture(page, "batch-1k-rounds.svg")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_six_answers_fit_every_width_and_theme(browser: "Browser", red_run: Path, width: int, theme: Any) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
    page = context.new_page()
    page.set_content(front_html(view_of(load_run(red_run / "run.json")), None))
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 20, 20)"
    assert dark is (theme == "dark")
    context.close()


def test_the_trend_after_three_runs_holds_their_figures(page: "Page", tmp_path: Path) -> None:
    runs: list[Path] = []
    for share in (1.0, 0.9, 0.8):
        document = json.loads(RECORDED.read_text())
        for entry in document["scenarios"]:
            for one in entry["rounds"]:
                one["metrics"]["records_per_s"] *= share
        recorded = tmp_path / "run.json"
        recorded.write_text(json.dumps(document))
        results = tmp_path / "results"
        gate(results, f"--replay={recorded}")
        (run,) = set(results.glob("2*")) - set(runs)
        runs.append(run)
        report = build_report(run)
    first, before, last = (
        next(e["metrics"]["records_per_s"]["value"] for e in numbers_of(run)["scenarios"] if e["name"] == "batch-1k")
        for run in runs
    )
    assert first > before > last
    page.goto(report.with_name(ALLURE).as_uri())
    page.get_by_text("latency", exact=True).click()
    page.get_by_text("paced-500: not run").wait_for()
    page.get_by_text("Report", exact=True).first.click()
    page.get_by_text("Metrics").first.click()
    row = page.locator("tr", has_text="batch-1k: records acknowledged per second").first
    row.wait_for()
    told = [float(number) for number in re.findall(r"(-?[\d.]+) records/s", row.inner_text())]
    assert told[:4] == [pytest.approx(last, rel=1e-4)] * 4, "total, mean, least and most of one figure"
    assert told[4] == pytest.approx(last - before, rel=1e-3)

    page.goto("about:blank")
    page.goto(report.with_name(ALLURE).as_uri())
    page.get_by_text("batch-size").first.click()
    page.get_by_text("batch-1k: ").first.click()
    page.get_by_text("History").first.click()
    page.wait_for_timeout(500)
    dates = re.findall(r"\d+/\d+/\d{4} at \d+:\d+:\d+", page.inner_text("body"))
    assert len(dates) == 3, "the two runs before, and when the report was made"


def test_no_name_scripts_the_page(page: "Page", red_run: Path, tmp_path: Path) -> None:
    hostile = tmp_path / "20261123T000000Z-0000"
    shutil.copytree(red_run / "allure-results", hostile / "allure-results")
    for path in (hostile / "allure-results").glob("*-result.json"):
        result = json.loads(path.read_text())
        if result["name"].startswith("batch-1k"):
            result["name"] = f"batch-1k {HOSTILE}"
            result["statusDetails"] = {"message": HOSTILE, "trace": HOSTILE}
            result["descriptionHtml"] = f"<p>{html.escape(HOSTILE)}</p>"
            path.write_text(json.dumps(result))
    document = {**load_run(red_run / "run.json"), "profile": HOSTILE, "not_run": [{"name": HOSTILE, "reason": HOSTILE}]}
    view = replace(view_of(document, {"batch-1k": HOSTILE}), drifts=(HOSTILE,))
    (hostile / ANSWERS).write_text(front_html(view, None))
    page.goto(build_report(hostile).as_uri())
    page.get_by_text("window.broken = 1").first.wait_for()
    assert page.evaluate("typeof window.broken") == "undefined"
    page.goto((hostile / "report" / ALLURE).as_uri())
    page.get_by_text("Results").first.click()
    page.get_by_text("window.broken = 1").first.click()
    page.wait_for_timeout(300)
    assert all(frame.evaluate("typeof window.broken") == "undefined" for frame in page.frames)
