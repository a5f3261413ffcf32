"""The reference pages are what the code says now."""

import pytest

from perfgate.model.changes import PATHS
from perfgate.model.metrics import METRICS
from tests.documents.reference import FOLDER, PAGES, current


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_current(name: str) -> None:
    assert (FOLDER / name).read_text() == current(name), "make reference"


def test_no_page_is_left_behind() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*PAGES}


def test_every_path_metric_and_verdict_has_a_meaning() -> None:
    pages = {name: (FOLDER / name).read_text() for name in PAGES}
    assert all(f"| `{path}` |" in pages["scenario-fields.md"] for path in PATHS)
    assert all(f"| `{name}` |" in pages["metrics.md"] for name in METRICS)
    for name in ("files.md", "metrics.md", "verdicts.md", "options.md"):
        rows = [line for line in pages[name].splitlines() if line.startswith("| ")]
        assert not [row for row in rows if row.rstrip(" |") == row.rpartition("|")[0].rpartition("|")[0].rstrip(" |")]
