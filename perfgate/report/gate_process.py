"""A run of the gate in a process of its own: its progress is shown, and it ends when this process is told to end."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from perfgate.report.terminal import LINE_EVERY_S

PROGRESS = re.compile(r"\[(\d+ min )?\d+ s\] ")
GRACE_S = 20.0
"""After Ctrl-C, which the terminal gives to the gate as well, so long before it is ended by SIGTERM."""
END_S = 900.0
"""And so long, while it puts back what it has changed on brokers, before it is killed."""
TAIL = 15


class Interrupted(Exception):
    """Ctrl-C or SIGTERM; the gate's run has ended."""


def run_gate(command: Sequence[str], name: str) -> tuple[int, list[str]]:
    """Run the gate, show its progress, and return its exit code and its last lines. Raises Interrupted."""
    show_line = _shower(name)
    lines: list[str] = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace",
    ) as child:  # fmt: skip
        assert child.stdout is not None
        try:
            for line in child.stdout:
                lines = [*lines[-TAIL + 1 :], line.rstrip()]
                if PROGRESS.match(line):
                    show_line(line.rstrip())
            return child.wait(), [line for line in lines if line]
        except (KeyboardInterrupt, Interrupted) as error:
            print(f"\n{name}: ending the gate's run", flush=True)
            _end(child, wait_s=GRACE_S if isinstance(error, KeyboardInterrupt) else 0.0)
            raise Interrupted from None
        finally:
            show_line("")


def _end(child: subprocess.Popen[str], wait_s: float) -> None:
    """Wait until the gate's run has ended; after so long it is asked to, and at last it is killed."""
    for wait, ask in ((wait_s, child.terminate), (END_S, child.kill)):
        try:
            child.communicate(timeout=wait)
        except (subprocess.TimeoutExpired, KeyboardInterrupt, Interrupted):  # asked twice: do not wait
            ask()
        else:
            return
    child.communicate()


def _shower(name: str) -> Callable[[str], None]:
    """Return what shows the gate's progress: on a terminal one line, redrawn, which "" takes away; else some lines."""
    live, shown_at = sys.stdout.isatty(), time.monotonic()

    def show_line(text: str) -> None:
        nonlocal shown_at
        if live:
            width = shutil.get_terminal_size().columns - 1
            line = f"{name}: {text}"[:width].ljust(width) if text else " " * width + "\r"
            print(f"\r{line}", end="", flush=True)
        elif text and time.monotonic() - shown_at >= LINE_EVERY_S:
            shown_at = time.monotonic()
            print(f"    {text}", flush=True)

    return show_line


@contextmanager
def sigterm_is_ctrl_c() -> Iterator[None]:
    """While open, SIGTERM raises Interrupted."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
