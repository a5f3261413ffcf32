"""Gates that are started, waited for and interrupted."""

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.harness.run_gate import BEGUN_BOUND_S, ROOT, Finished, gate_command, hear_interrupts

SHORT = ("--rounds", "2", "--window", "2", "--warmup-max", "2", "--broker-warmup", "0")
VERDICT_BOUND_S = 200
"""Less than the window that what is broken cuts short; on a slow machine most of it is the end of the run."""
ORPHAN_BOUND_S = 90


def children(run: psutil.Process, words: str) -> list[psutil.Process]:
    """Return the processes below `run` whose command line holds `words`."""
    found = []
    for process in run.children(recursive=True):
        try:
            if words in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_for(what: Callable[[], object], seconds: float, name: str) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"waited {seconds} s for {name}"
        time.sleep(0.05)


@contextmanager
def running_gate(results: Path, *arguments: object) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """Run the gate in the background until the block ends."""
    command = gate_command(results, *arguments)
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=hear_interrupts,
    ) as process:
        try:
            yield process, psutil.Process(process.pid)
        except BaseException:
            process.kill()
            print(process.stdout.read() if process.stdout and not process.stdout.closed else "")
            raise
        finally:
            process.kill()


def in_the_middle_of_a_round(run: psutil.Process) -> None:
    """Wait until a generator has been sending for a while."""
    wait_for(lambda: children(run, "perfgate.load.worker"), BEGUN_BOUND_S, "a generator process")
    time.sleep(4)


def finished(process: subprocess.Popen[str], results: Path, within_s: float = VERDICT_BOUND_S) -> Finished:
    output, _ = process.communicate(timeout=within_s)
    return Finished(code=process.returncode, output=output, results=results)


def run_folders() -> set[Path]:
    """Return the temporary folders that runs have at present."""
    return set(Path(tempfile.gettempdir()).glob("kafka-perf-gate-*"))
