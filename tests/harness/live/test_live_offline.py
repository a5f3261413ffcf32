"""A run without internet: what `make fetch` has filled is carried elsewhere and used with the network cut off."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.namespaces import cannot
from tests.harness.run_gate import HANG_BOUND_S, ROOT

pytestmark = pytest.mark.slow
ALONE = "ip link set lo up && . {folder}/offline.sh && cd {checkout} && make gate ARGS='{arguments}'"
SHORT = "-k cross-az --rounds 2 --window 1 --warmup-max 1 --broker-warmup 0 --relations-only --results {results}"


def test_what_was_fetched_is_all_that_a_run_needs(tmp_path: Path) -> None:
    assert not (reason := cannot()), reason
    packed, carried, checkout = tmp_path / "packed", tmp_path / "elsewhere" / "carried", tmp_path / "checkout"
    subprocess.run([sys.executable, "-m", "perfgate", "fetch", packed], cwd=ROOT, check=True, timeout=HANG_BOUND_S)
    carried.parent.mkdir()
    shutil.move(packed, carried)
    subprocess.run(["git", "clone", "--quiet", ROOT, checkout], check=True, timeout=HANG_BOUND_S)
    arguments = SHORT.format(results=tmp_path / "results")
    script = ALONE.format(folder=carried, checkout=checkout, arguments=arguments)
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "XDG_", "npm_"))}
    done = subprocess.run(
        ["unshare", "--net", "bash", "-c", script],
        env={**kept, "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=HANG_BOUND_S,
        check=False,
    )
    (run,) = (tmp_path / "results").glob("2*/run.json")
    assert (run.parent / "report" / "index.html").exists(), done.stdout + done.stderr
    assert "cross-az" in run.read_text()
