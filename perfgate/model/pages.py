"""Pages of the documentation as messages name them: by the path where they are, as in a checkout, else by the title."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs"
"""Beside the package in a checkout, which has a pyproject.toml too; a wheel has no pages, and others' lie there."""
TITLES: Mapping[str, str] = {
    "air-gapped": "Mirrors, and no internet",
    "hosts": "Load from several hosts",
    "measurement": "What is measured, and how",
    "nightly-reference": "A night against a reference",
    "pulsar": "Pulsar",
    "safety": "What a run may do to a cluster that is not its own",
    "targets": "Your own brokers, and other targets",
    "targets-pulsar": "Real Pulsar brokers",
    "targets-security": "Log in to your brokers",
    "thresholds": "Record and accept thresholds",
    "workload-files": "Workload files of other tools",
}
"""By name, of the pages that messages name."""


def page(name: str, folder: Path = FOLDER) -> str:
    """Return a page as messages name it: docs/targets.md, from here where it lies below, or its title."""
    path, here = folder / f"{name}.md", Path.cwd()
    if not (path.is_file() and (folder.parent / "pyproject.toml").is_file()):
        return f'"{TITLES[name]}" in the documentation'
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
