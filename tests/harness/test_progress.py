"""The progress: on a terminal one line through pytest's capture, given back; elsewhere plain lines, not too many."""

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.progress import phase_of
from tests.harness.run_gate import ROOT, gate, hear_interrupts

TEST = """
from fixtures.progress import Progress

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


LINES = """
import time
from fixtures.progress import Progress

def test_long_work(request):
    progress = Progress(request.config, 600, every_s=0.8, gap_s=0.3)
    print("captured")
    time.sleep(0.4)
    for step in range(20):
        progress(f"warming the brokers up with row-{step}, {step} records/s", 90)
        time.sleep(0.01)
    time.sleep(0.4)
    progress("round 1/3 row-1: measuring, 23,000 records/s", None)
    progress("round 1/3 row-2: measuring, 24,000 records/s", 125)
    time.sleep(3.0)
    with progress.within("second look"):
        progress("round 1/3 row-2: measuring, 25,000 records/s", 25)
    time.sleep(1.0)  # its line may have to wait until the one before is old enough
    progress.clear()
    time.sleep(1.0)

def test_short_work(request):
    progress = Progress(request.config)
    progress.log("writing the reports")
"""


def run_lines(command: list[str], tmp_path: Path, *more: str) -> str:
    (tmp_path / "test_long.py").write_text(LINES)
    done = subprocess.run([*command, *more], cwd=tmp_path, env=environment(), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stdout
    assert b"\r" not in done.stdout, "a log has no carriage returns"
    assert b"\x1b" not in done.stdout, "and no escapes"
    return done.stdout.decode()


def test_a_log_gets_a_line_per_phase_and_the_last_state_again_and_again(command: list[str], tmp_path: Path) -> None:
    lines = [line for line in run_lines(command, tmp_path).splitlines() if line.startswith("[")]
    warm, *measured = (line for line in lines if "second look" not in line and "preparing" not in line)
    assert re.fullmatch(
        r"\[\d s\] warming the brokers up with row-\d+, \d+ records/s, at most 1 min (29|30) s more of that", warm
    )
    assert "round 1/3 row-1: measuring, 23,000 records/s, about 9 min 5" in measured[0], "of the whole run, at first"
    assert 2 <= len(measured) <= 6, "the stuck phase is shown again, but not at every call"
    assert all("round 1/3 row-2: measuring, 24,000 records/s, about 2 min 0" in line for line in measured[1:])
    assert "second look, round 1/3 row-2" in lines[-1]
    assert not any("writing the reports" in line for line in lines), "it was over at once"


def test_a_log_gives_the_line_back_and_leaves_captured_output_alone(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import pytest\n\n@pytest.hookimpl(trylast=True)\ndef pytest_runtest_logreport(report):\n"
        "    assert report.capstdout in ('', 'captured\\n'), report.capstdout\n"
    )
    lines = run_lines(command, tmp_path).splitlines()
    last = max(index for index, line in enumerate(lines) if line.startswith("["))
    assert lines[last + 1].startswith("test_long.py .."), lines


def test_quiet_is_quiet(command: list[str], tmp_path: Path) -> None:
    assert "[" not in run_lines(command, tmp_path, "-q").replace("[100%]", "")


def test_an_interrupted_run_ends_its_progress(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_long.py").write_text(LINES.replace("time.sleep(3.0)", "time.sleep(60)"))
    run = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True, preexec_fn=hear_interrupts
    )
    assert run.stdout is not None
    shown = ""
    while "row-2" not in shown:
        shown += run.stdout.readline()
    run.send_signal(signal.SIGINT)
    rest = run.communicate(timeout=20)[0]
    assert run.returncode == 2
    assert "KeyboardInterrupt" in rest
    assert not [line for line in rest.partition("KeyboardInterrupt")[2].splitlines() if line.startswith("[")]


def test_a_phase_is_what_row_and_rate_do_not_change() -> None:
    assert phase_of("round 1/3 batch-1k: measuring, 23,000 records/s") == "round 1/3"
    assert phase_of("warming the brokers up with batch-1k, 5 records/s") == "warming the brokers up"
    assert phase_of("Kafka 4.3.1: starting 3 brokers") != phase_of("Kafka 4.3.1: resolving and verifying its jars")


def test_the_first_line_says_what_the_run_is_about_to_do_at_once(tmp_path: Path) -> None:
    """With no Java the run ends after it: it is there before anything is looked for."""
    done = gate(tmp_path, environment={"JAVA_HOME": "/nowhere"})
    assert "embedded target, tier smoke: 6 scenarios, 8 relations; about " in done.output
    quiet = gate(tmp_path, "-q", environment={"JAVA_HOME": "/nowhere"})
    assert "6 scenarios" not in quiet.output


def test_a_comparison_and_a_replay_say_what_they_are(tmp_path: Path) -> None:
    done = gate(tmp_path, "--compare=changes/linger-5.toml", "-k", "batch-1k", environment={"JAVA_HOME": "/nowhere"})
    assert 'what does "linger 5" change? 1 scenario; at most 10 min' in done.output
    replay = gate(tmp_path, "--replay=tests/harness/data/run.json", "-k", "batch-16k")
    assert "judged again without a cluster: 1 scenario" in replay.output


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux's way to say that the other side of a terminal was closed
        return b""
