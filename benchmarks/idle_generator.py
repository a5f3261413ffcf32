"""A generator process that sends nothing: the engine's own process and protocol, without a broker and its load."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, get_type_hints

import numpy as np

from perfgate.load.schedule import Window, now
from perfgate.load.worker import Control, emit, run
from perfgate.model.histogram import LatencyRecorder
from perfgate.model.load import Sent

LATENCIES = 10_000
"""The histogram of a result has so many values, and its text the length of a real one's."""


class IdleClient:
    """See :class:`perfgate.load.worker.LoadClient`. Reports one record, without which no load is warm."""

    errors: Mapping[str, str] = {}

    def __init__(self, window: Window, seed: int) -> None:
        self._window, self._stopped = window, threading.Event()
        self._recorder = LatencyRecorder()
        self._recorder.record(np.random.default_rng(seed).lognormal(-6, 1, LATENCIES))

    def connect(self) -> None:
        """Nothing is connected to."""

    def run(self, start: float) -> None:
        """Wait for the end of the window."""
        while now() < self._window.closes and not self._stopped.is_set():
            self._stopped.wait(min(0.1, max(0.0, self._window.closes - now())))

    def stop(self) -> None:
        """End `run`."""
        self._stopped.set()

    def progress(self) -> Mapping[str, int]:
        """Return the one record."""
        return {"attempted": 1, "done": 1, "failed": 0}

    def result(self) -> Mapping[str, Any]:
        """Return the counts of a producer that sent nothing."""
        numbers = {name: 0 for name, declared in get_type_hints(Sent).items() if declared in (int, float)}
        partitions = {
            "acked_by_partition": [0],
            "markers_by_partition": [0],
            "latency_by_partition": [],
            "latency_by_topic": [],
        }
        return {**numbers, **partitions, "failed": {}, "errors": {}}

    def recorders(self) -> Mapping[str, LatencyRecorder]:
        """Return what a producer of a paced load returns."""
        return {name: self._recorder for name in ("latency", "send_latency", "schedule_delay")}


def main() -> None:
    """Run one round as the standard input says."""
    control = Control()
    client = IdleClient(control.window, control.spec["first"])
    emit("ready")
    run(control, [client])


if __name__ == "__main__":
    main()
