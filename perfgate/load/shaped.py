"""Shaped loads in a generator process: when each record is due, and the records' outcomes over the window."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from perfgate.load.schedule import Window, exact
from perfgate.model.histogram import COARSE_BITS, COARSE_BUCKETS, HIGHEST_US, LOWEST_US, LatencyRecorder, bucket_of
from perfgate.model.load import TICK_S
from perfgate.model.metrics import PHASE_LATENCY

Times = npt.NDArray[np.float64]


class ShapedSchedule:
    """Every `of`-th record, from `number` on, of a load at a shape's rate from `opens` on; before, at its first."""

    def __init__(self, start: float, opens: float, points: Sequence[tuple[float, float]], number: int, of: int) -> None:
        """`points`: of :class:`perfgate.model.shape.Shape`."""
        self.start, self._number, self._of = start, number, of
        begun = (opens - start) * points[0][1]
        pieces = [(start, 0.0, points[0][1], 0.0)]
        for (start_s, first), (end_s, last) in pairwise(points):
            if (seconds := end_s - start_s) > 0:
                pieces.append((opens + start_s, begun, first, (last - first) / seconds))
                begun += seconds * (first + last) / 2
        pieces.append((opens + points[-1][0], begun, points[-1][1], 0.0))
        self._pieces = pieces
        self._columns = np.array(pieces).T
        """For each piece: its begin, the records due by then, its rate there, and the rate's growth per s."""
        self._times, self._counts = ([*column] for column in self._columns[:2].tolist())

    def due_at(self, index: int) -> float:
        record = index * self._of + self._number
        begins, before, rate, growth = self._pieces[max(0, bisect_right(self._counts, record) - 1)]
        left = record - before
        # Exact at a growth of 0 too.
        return begins + 2 * left / (rate + math.sqrt(max(rate * rate + 2 * growth * left, 0.0)))

    def due(self, indices: Any) -> Times:
        records = indices * float(self._of) + self._number
        piece = np.maximum(np.searchsorted(self._columns[1], records, side="right") - 1, 0)
        begins, before, rate, growth = self._columns[:, piece]
        left = records - before
        return np.asarray(begins + 2 * left / (rate + np.sqrt(np.maximum(rate * rate + 2 * growth * left, 0.0))))

    def due_by(self, now: float) -> int:
        if now < self.start:
            return 0
        begins, before, rate, growth = self._pieces[bisect_right(self._times, now) - 1]
        records = before + (now - begins) * (rate + growth * (now - begins) / 2)
        return exact(self, max(0, math.floor((records - self._number) / self._of) + 1), now)


class OverTime:
    """Counts records that were due in a window by the time since it opened: handed over, acknowledged, how late."""

    def __init__(self, window: Window, seconds: float, phases: Mapping[str, Sequence[float]]) -> None:
        """`phases`: begin and end of each, in s since the window opens."""
        self._window, self._phases = window, phases
        ticks = math.ceil(seconds / TICK_S - 1e-6) + 1  # the last tick is all time after the window
        self.sent, self.acked = np.zeros(ticks, np.int64), np.zeros(ticks, np.int64)
        self.latency = np.zeros((math.ceil(seconds), COARSE_BUCKETS), np.int64)
        self.recorders = {PHASE_LATENCY[name]: LatencyRecorder() for name in phases}

    def handed_over(self, records: int, moment: float) -> None:
        self.sent[self._tick(np.array([moment]))] += records

    def acknowledged(self, due: Times, heard: Times) -> None:
        self.acked += np.bincount(self._tick(heard), minlength=len(self.acked))
        at = due - self._window.opens
        micros = np.clip(np.rint((heard - due) * 1e6), LOWEST_US, HIGHEST_US).astype(np.int64)
        second = np.minimum(at.astype(np.int64), len(self.latency) - 1)
        np.add.at(self.latency, (second, bucket_of(micros, COARSE_BITS)), 1)
        for name, (begin, end) in self._phases.items():
            self.recorders[PHASE_LATENCY[name]].record((heard - due)[(at >= begin) & (at < end)])

    def counts(self) -> dict[str, list[int]]:
        return {
            "sent_over_time": self.sent.tolist(),
            "acked_over_time": self.acked.tolist(),
            "latency_over_time": self.latency.ravel().tolist(),
        }

    def _tick(self, moments: Times) -> npt.NDArray[np.int64]:
        ticks = ((moments - self._window.opens) / TICK_S).astype(np.int64)
        return np.clip(ticks, 0, len(self.acked) - 1)
