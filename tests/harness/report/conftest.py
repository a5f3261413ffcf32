"""The recorded run, its replay and its thresholds."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perfgate.report.results import load_run
from tests.harness.build.recorded import RECORDED
from tests.harness.forked import gate
from tests.harness.run_gate import RECORDED_THRESHOLDS, Finished


@pytest.fixture(scope="session")
def document() -> dict[str, Any]:
    return load_run(RECORDED)


@pytest.fixture(scope="session")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    results = tmp_path_factory.mktemp("replayed")
    return gate(results, f"--replay={RECORDED}", f"--benchmark-json={results / 'benchmark.json'}", pictures=True)


@pytest.fixture
def thresholds(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that copies the recorded run's thresholds with one file changed."""

    def changed(name: str, old: str, new: str) -> Path:
        folder = tmp_path / "thresholds"
        shutil.copytree(RECORDED_THRESHOLDS, folder)
        path = folder / name
        text, count = re.subn(old, new, path.read_text())
        assert count, f"{old!r} does not stand in {name}"
        path.write_text(text)
        return folder

    return changed
