"""Thresholds of a scenario whose name was misspelt, or that had been renamed, were accepted and held nothing."""

import shutil
from pathlib import Path

import pytest

from tests.harness.forked import gate
from tests.harness.run_gate import RECORDED_THRESHOLDS, ROOT

RECORDED = ROOT / "tests" / "harness" / "data" / "run.json"


@pytest.mark.parametrize(
    ("wrong", "code"), [("batch-1k", 0), ("batch-1kb", 2), ("replicas-4", 2)], ids=["right", "misspelt", "gone"]
)
def test_a_profile_of_a_scenario_that_is_declared_nowhere_is_one_error(tmp_path: Path, wrong: str, code: int) -> None:
    folder = tmp_path / "thresholds"
    shutil.copytree(RECORDED_THRESHOLDS, folder)
    path = folder / "embedded-2c.toml"
    path.write_text(path.read_text().replace("[batch-1k]", f"[{wrong}]"))
    done = gate(tmp_path / "results", f"--replay={RECORDED}", f"--thresholds={folder}")
    assert done.code == code, done.output
    if code:
        assert f"embedded-2c.toml: [{wrong}] is no scenario, so that nothing is held by it; legal: " in done.output
        assert "batch-1k, " in done.output
