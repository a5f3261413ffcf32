"""What a start does not import: packages that only a live run, a comparison, a proposal or a picture needs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.run_gate import HANG_BOUND_S, ROOT

RECORDED = Path(__file__).parent / "data" / "run.json"
HEAVY = (
    "confluent_kafka", "docker", "jgo", "matplotlib", "otava", "pandas", "prometheus_api_client", "requests", "scipy",
    "testcontainers", "tomlkit", "fixtures.wiring",
)  # fmt: skip
START = f"""
import sys, pytest
code = pytest.main(sys.argv[1:])
found = [name for name in {HEAVY!r} if name in sys.modules]
sys.exit(f"imported: {{', '.join(found)}}" if found else int(code))
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--list-scenarios"], [f"--replay={RECORDED}"]], ids=lambda a: a[0][:9]
)
def test_a_start_imports_only_what_it_needs(tmp_path: Path, arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", START, f"--results={tmp_path}", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=HANG_BOUND_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
