"""Latency over time, what was owed and integrity of a shaped load, computed anew from the journals of its producers.

Nothing of it is the engine's: due times are read off a sum of the rate over slices of a millisecond, percentiles off
sorted latencies.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from perfgate.load.history import OUTCOME, SEND, outcomes_path, read_journal, sends_path
from perfgate.model.load import TICK_S
from perfgate.model.shape import Shape
from tests.harness.build.shapes import rate_at

SLICE_S = 0.001
APART = 3
"""Records at the edge of a second may lie on either side of it by the error of the sum."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Recorded:
    """Of every record that was due in the window: when it was due and acknowledged, in s since it opened."""

    due: Floats
    heard: Floats
    acked: npt.NDArray[np.int64]
    """Partition, offset, producer and sequence of every acknowledged record, row by row."""

    def p99_bounds_ms(self, begin: float, end: float) -> tuple[float, float] | None:
        """Return what the p99 of the records due in this time lies between; None without any."""
        latencies = np.sort((self.heard - self.due)[(self.due >= begin) & (self.due < end)])
        if not len(latencies):
            return None
        rank = max(int(0.99 * len(latencies) + 0.5), 1) - 1
        low, high = (float(latencies[np.clip(rank + by, 0, len(latencies) - 1)]) * 1e3 for by in (-APART, APART))
        return low - 2e-3, high * (1 + 1 / 16) + 2e-3

    def owed(self, shape: Shape) -> float:
        """Return the most records that were due and not acknowledged, at the ends of ticks."""
        ends = np.arange(0, shape.seconds + 1e-9, TICK_S)
        by = np.searchsorted(np.sort(self.due), ends) - np.searchsorted(np.sort(self.heard), ends)
        return float(by.max())


def recorded(folder: Path, producers: int, shape: Shape, start: float, opens: float) -> Recorded:
    """Return what the journals in `folder` say of a load that began at `start`, whose window opened at `opens`."""
    first = rate_at(shape, 0.0)
    grid = np.arange(0.0, shape.seconds + SLICE_S / 2, SLICE_S)
    rates = np.array([rate_at(shape, moment + SLICE_S / 2) for moment in grid[:-1].tolist()])
    sums = (opens - start) * first + np.concatenate(([0.0], np.cumsum(rates * SLICE_S)))
    due, heard, acked = [], [], []
    for number in range(producers):
        sends, outcomes = (
            read_journal(sends_path(folder, number), SEND),
            read_journal(outcomes_path(folder, number), OUTCOME),
        )
        assert sends["count"].sum() == len(outcomes)
        assert not outcomes["error"].any()
        record = outcomes["sequence"] * producers + number
        at = np.interp(record, sums, grid, left=np.nan, right=np.nan)
        inside = ~np.isnan(at) & (at >= 0) & (at < shape.seconds)
        due.append(at[inside])
        heard.append(outcomes["at"][inside] - opens)
        whose = np.full(len(outcomes), number)
        acked.append(np.column_stack([outcomes["partition"], outcomes["offset"], whose, outcomes["sequence"]]))
    return Recorded(np.concatenate(due), np.concatenate(heard), np.concatenate(acked).astype(np.int64))
