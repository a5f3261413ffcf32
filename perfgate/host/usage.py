"""CPU and memory of processes of this machine between two moments, and of the busiest of their threads."""

from __future__ import annotations

import time
from collections.abc import Sequence

import psutil

from perfgate.model import MIB


class Usage:
    """Looks at the counters of some processes; two looks make a span."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._processes = [psutil.Process(pid) for pid in pids]
        self._looks: list[tuple[float, float, dict[int, float]]] = []
        self._rss_bytes = 0

    @property
    def looks(self) -> int:
        """How often the counters have been read."""
        return len(self._looks)

    def look(self) -> None:
        """Read the counters. Raises psutil.NoSuchProcess when a process has ended."""
        cpu = sum(times.user + times.system for times in (p.cpu_times() for p in self._processes))
        threads = {t.id: t.user_time + t.system_time for p in self._processes for t in p.threads()}
        self._rss_bytes = max(self._rss_bytes, *(p.memory_info().rss for p in self._processes))
        self._looks.append((time.monotonic(), cpu, threads))

    def span(self) -> dict[str, float]:
        """Return the cores used by all processes and by the busiest thread between two looks, and the largest memory.

        Raises ValueError unless there were two looks.
        """
        (opened, before, earlier), (closed, after, later) = self._looks
        busiest = max(later[thread] - earlier.get(thread, 0.0) for thread in later)
        return {
            "cpu_cores": (after - before) / (closed - opened),
            "busiest_thread_cores": busiest / (closed - opened),
            "rss_mib": self._rss_bytes / MIB,
        }
