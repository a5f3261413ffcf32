"""One broker of a gate's cluster, at half its speed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

SLICE_S = 0.05
THE_BROKER = "broker-1.properties"
"""What its command line ends with."""


@contextmanager
def one_broker_at_half_speed(gate_pid: int) -> Iterator[threading.Event]:
    """Stop broker 1 of whatever cluster that gate runs for half of the time, in slices of 50 ms.

    While the event is set that is given; it is at first.
    """
    done, slowed = threading.Event(), threading.Event()
    slowed.set()

    def limit() -> None:
        while not done.is_set():
            with suppress(psutil.NoSuchProcess):
                for process in psutil.Process(gate_pid).children(recursive=True):
                    if process.cmdline()[-1:] and process.cmdline()[-1].endswith(THE_BROKER):
                        _stop_and_go(process)
            done.wait(SLICE_S)

    def _stop_and_go(broker: psutil.Process) -> None:
        while not done.is_set() and broker.is_running():
            if slowed.wait(SLICE_S):
                broker.suspend()
                done.wait(SLICE_S)
                broker.resume()
            done.wait(SLICE_S)

    thread = threading.Thread(target=limit)
    thread.start()
    try:
        yield slowed
    finally:
        done.set()
        thread.join()
