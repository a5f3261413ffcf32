"""The reference pages are what the code says now."""

import subprocess
import sys
from pathlib import Path

import pytest

from perfgate.model.changes import PATHS
from perfgate.model.metrics import METRICS
from tests.documents.reference import FOLDER, PAGES, current
from tests.harness.run_gate import HANG_BOUND_S, ROOT


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_current(name: str) -> None:
    assert (FOLDER / name).read_text() == current(name), "make reference"


def test_no_page_is_left_behind() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*PAGES}


def test_every_path_metric_and_verdict_has_a_meaning() -> None:
    pages = {name: (FOLDER / name).read_text() for name in PAGES}
    assert all(f"| `{path}` |" in pages["scenario-fields.md"] for path in PATHS)
    assert all(f"| `{name}` |" in pages["metrics.md"] for name in METRICS)
    for name in ("files.md", "metrics.md", "verdicts.md", "command-line.md"):
        rows = [line for line in pages[name].splitlines() if line.startswith("| ")]
        assert not [row for row in rows if row.rstrip(" |") == row.rpartition("|")[0].rpartition("|")[0].rstrip(" |")]


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """A link that leads nowhere, or a page in no list, is one."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-d", str(tmp_path / "read")]
    done = subprocess.run(
        [*command, "-c", "docs", ".", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANG_BOUND_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "docs" / "index.html").exists()
