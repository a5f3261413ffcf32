"""The page over all runs: every run with its figure, limits, what changed; no name scripts it, and it fits a phone."""

import html
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfgate.model.command import command_line
from perfgate.report import history
from perfgate.report.history_page import page
from perfgate.report.results import load_run
from tests.harness.build.recorded import RECORDED, night
from tests.harness.called import called

CHROMIUM = shutil.which("chromium")
HOSTILE = """'"><script>window.broken = 1</script><img src=x onerror="window.broken = 1">\n&"""


def nights(count: int = 24) -> list[dict[str, Any]]:
    """Return lines of a history in which batch-1k is 15 % slower from the 14th night on."""
    noise = np.random.default_rng(1).normal(0, 0.01, count)
    document = load_run(RECORDED)
    levels = [(0.85 if number >= 14 else 1.0) * (1 + noise[number - 1]) for number in range(1, count + 1)]
    return [history.entry_of(night(document, number, level)) for number, level in enumerate(levels, 1)]


def charts(text: str) -> dict[str, ET.Element]:
    """Return each picture by its label."""
    pictures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    found = [ET.fromstring(svg) for svg in pictures]  # noqa: S314 - the page is our own
    return {str(svg.get("aria-label")): svg for svg in found}


def titles(svg: ET.Element, kind: str) -> list[str]:
    return [str(one.findtext("title")) for one in svg.iter() if one.get("class") == kind]


def test_every_run_is_drawn_with_its_figure_and_the_change_point_is_noted() -> None:
    entries = nights()
    entries[20]["rows"]["batch-1k"]["verdict"] = "REGRESSED"
    entries[21]["rows"]["batch-1k"]["verdict"] = "INCONCLUSIVE"
    (label,) = (label for label in charts(page(entries)) if label.startswith("batch-1k: records_per_s"))
    svg = charts(page(entries))[label]
    assert label.startswith("batch-1k: records_per_s, records/s, 24 runs, latest ")
    assert [len(titles(svg, kind)) for kind in "oxr"] == [22, 1, 1]
    points = [*titles(svg, "o"), *titles(svg, "x"), *titles(svg, "r")]
    for entry in entries:
        value = f"{entry['rows']['batch-1k']['records_per_s']:,.0f}"
        assert any(words.startswith(f"{entry['run_id']}: {value}, ") for words in points)
    (moved,) = titles(svg, "moved")
    assert "since 2026-01-14 (worse)" in moved


def test_limits_commits_and_machines_are_marked_and_kinds_are_not_joined() -> None:
    entries = nights(6)
    for entry in entries:
        entry["rows"]["batch-1k"]["limits"] = {"records_per_s": 9000.0}
    entries[3]["commit"] = "fixed"
    for entry in entries[4:]:
        entry["commit"], entry["facts"] = "fixed", {**entry["facts"], "cpu_model": "another"}
    (svg,) = (one for label, one in charts(page(entries)).items() if label.startswith("batch-1k: records_per_s"))
    assert titles(svg, "mark") == [
        f"commit was {entries[0]['commit']}, is fixed",
        f"cpu_model was {entries[0]['facts']['cpu_model']}, is another",
    ]
    for kind in ("series", "limit"):
        lines = [str(one.get("points")).split() for one in svg.iter() if one.get("class") == kind]
        assert [len(line) for line in lines] == [4, 2], kind


def test_families_are_reached_and_older_lines_still_count() -> None:
    entries = nights(3)
    text = page(entries)
    names = {entry["family"] for entry in load_run(RECORDED)["scenarios"]}
    assert {html.unescape(name) for name in re.findall(r'<a href="#f\d+">(.*?)</a>', text)} == names
    for entry in entries:
        for row in entry["rows"].values():
            row.pop("family"), row.pop("limits")
    assert '<a href="#f0">other</a>' in page(entries)


def test_a_history_without_runs_says_what_to_do() -> None:
    assert command_line("gate") in page([])
    (modified,) = nights(1)
    modified["modified"] = ["--set x=1"]
    assert "No run of the gate is recorded yet" in page([modified])
    assert "1 modified and not drawn" in page([*nights(2), modified])


def hostile() -> str:
    entries = nights(2)
    for entry in entries:
        entry["rows"][HOSTILE] = {**entry["rows"].pop("batch-1k"), "family": HOSTILE, "verdict": HOSTILE}
        entry["run_id"] = entry["commit"] = entry["started"] = HOSTILE
    return page(entries)


def test_no_name_scripts_the_page() -> None:
    text = hostile()
    assert "<script" not in text
    assert "<img" not in text
    assert charts(text), "and the pictures are still well-formed"


def test_the_command_writes_the_page_beside_the_history(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "history.jsonl"
    for number in (1, 2):
        history.append(path, night(load_run(RECORDED), number, 1.0))
    assert called(history.command, "--history", path) == 0
    assert f"over time: {tmp_path / 'history.html'}" in capsys.readouterr().out
    assert "2 runs" in (tmp_path / "history.html").read_text()


@pytest.mark.skipif(not CHROMIUM and not os.environ.get("CHROMIUM_REQUIRED"), reason="no chromium on the PATH")
@pytest.mark.parametrize("text", ["nights", "hostile"])
def test_the_page_fits_a_phone_and_runs_nothing(text: str, tmp_path: Path) -> None:
    """Its own frame is 400 px wide; what is written there afterwards is what Chromium found."""
    (tmp_path / "history.html").write_text(page(nights()) if text == "nights" else hostile())
    probe = (
        '<iframe id="f" style="width:400px;height:800px;border:0" src="history.html"></iframe><pre id="said"></pre>'
        "<script>"
        "f.onload = () => { const d = f.contentDocument.documentElement; said.textContent = "
        "`${d.scrollWidth <= 400} ${typeof f.contentWindow.broken} ${d.querySelectorAll('svg').length}` }</script>"
    )
    (tmp_path / "probe.html").write_text(probe)
    options = (
        "--headless",
        "--no-sandbox",
        "--allow-file-access-from-files",
        "--virtual-time-budget=4000",
        "--dump-dom",
    )
    command = [str(CHROMIUM), *options, (tmp_path / "probe.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = re.search(r'<pre id="said">(.*?)</pre>', done.stdout)
    assert found is not None, done.stderr
    fits, broken, pictures = found[1].split()
    assert (fits, broken) == ("true", "undefined")
    assert int(pictures) > 5
