"""Pages that messages name are there under their titles, by which a wheel, which has none, names them."""

import re
from pathlib import Path

import pytest

from perfgate.model import pages
from tests.harness.run_gate import ROOT


def test_titles_are_those_of_the_pages() -> None:
    for name, title in pages.TITLES.items():
        assert (ROOT / "docs" / f"{name}.md").read_text().splitlines()[0] == f"# {title}"


def test_a_page_is_named_by_its_path_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(ROOT)
    assert pages.page("targets") == "docs/targets.md"
    monkeypatch.chdir(tmp_path)
    assert pages.page("targets") == str(ROOT / "docs" / "targets.md")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "targets.md").write_text("# Of another package\n")
    assert pages.page("targets", tmp_path / "docs") == '"Your own brokers, and other targets" in the documentation'


def test_no_message_names_a_page_that_a_wheel_lacks() -> None:
    """Sources and comments may: their readers have a checkout."""
    for path in (ROOT / "perfgate").rglob("*.py"):
        for line in path.read_text().splitlines():
            if re.search(r"docs/[a-z-]+\.md|CONTRIBUTING\.md", line.partition("#")[0]):
                assert not re.match(r"\s*f?['\"](?!\"\")|.*= f?\"|.*return f?\"", line), f"{path.name}: {line.strip()}"
