"""The progress line: on a terminal it shows through pytest's capture and gives the line back; elsewhere it is quiet."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.run_gate import ROOT

TEST = """
from fixtures.report.terminal import Progress

def test_long_work(request):
    progress = Progress(request.config)
    progress("round 1/3 batch-1k: measuring, 23,000 records/s", 125)
    progress.clear()
"""
SHOWN = "round 1/3 batch-1k: measuring, 23,000 records/s, about 2 min 05 s left"


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    (tmp_path / "test_long.py").write_text(TEST)
    return [sys.executable, "-m", "pytest", "--rootdir", str(tmp_path), "-p", "no:cacheprovider", "test_long.py"]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120", "TERM": "xterm"}


def test_a_terminal_shows_it_and_gets_its_line_back(command: list[str], tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=theirs, stderr=theirs, stdin=theirs) as run:
        os.close(theirs)
        output = b""
        while chunk := _read(ours):
            output += chunk
        assert run.wait(timeout=30) == 0
    os.close(ours)
    text = output.decode()
    assert SHOWN in text
    assert "test_long.py" in text.partition(SHOWN)[2].partition("1 passed")[0], "the line was given back"


def test_a_pipe_shows_nothing_of_it(command: list[str], tmp_path: Path) -> None:
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=30)
    assert done.returncode == 0
    assert "round 1/3" not in done.stdout


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux's way to say that the other side of a terminal was closed
        return b""
