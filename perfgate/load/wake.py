"""Wake-up delay of this machine while it is loaded: a property of the machine, not of a generator.

A process of its own sleeps 4 ms at a time. Inside a generator the interpreter's lock would be measured too.
``python perfgate/load/wake.py`` reads a line, "opens closes" (s on the monotonic clock, both past), and answers with
the 99th percentile in ms, or - when there were too few sleeps.
"""

from __future__ import annotations

import ctypes
import math
import select
import subprocess
import sys
import time
from array import array
from pathlib import Path

SLEEP_S = 0.004
"""250 wake-ups in a window of a second, which take 1 to 2 % of a processor (2 vCPU)."""
FEWEST_SLEEPS = 100
"""Fewer have no meaningful 99th percentile."""
ANSWER_WITHIN_S = 30.0
QUANTILE = 0.99
TIMER_SLACK_NS = 1_000
PR_SET_TIMERSLACK = 29


class WakeProbe:
    """Measures while its context is open; leaving it ends the process."""

    def __enter__(self) -> WakeProbe:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the run
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def p99_ms(self, opens: float, closes: float) -> float | None:
        """The 99th percentile of the delays between these moments, in ms; None when it is not known."""
        try:
            output, _ = self._process.communicate(f"{opens} {closes}\n", timeout=ANSWER_WITHIN_S)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            return None
        words = output.split()
        whole = output.endswith("\n")  # else it ended while it wrote
        return float(words[-1]) if whole and words and words[-1] != "-" else None


def p99_ms(delays_s: list[float]) -> float | None:
    """The 99th percentile in ms; None when there are too few delays."""
    if len(delays_s) < FEWEST_SLEEPS:
        return None
    return sorted(delays_s)[math.ceil(QUANTILE * len(delays_s)) - 1] * 1e3


def main() -> None:
    """Sleep and measure until a line comes, or the run is gone."""
    # As in the generators: Linux adds 50 us by default.
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(TIMER_SLACK_NS))
    due, late = array("d"), array("d")
    while True:
        wake = time.monotonic() + SLEEP_S
        if select.select([sys.stdin], [], [], SLEEP_S)[0]:
            break
        due.append(wake)
        late.append(time.monotonic() - wake)
    line = sys.stdin.readline()
    if line:
        opens, closes = map(float, line.split())
        p99 = p99_ms([delay for at, delay in zip(due, late, strict=True) if opens <= at < closes])
        print("-" if p99 is None else f"{p99:.4f}")


if __name__ == "__main__":
    main()
