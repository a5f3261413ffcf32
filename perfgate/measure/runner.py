"""The measuring loop: a round, again while it has to be, for the gate and for comparisons."""

from __future__ import annotations

import time
from collections.abc import Callable

from perfgate.measure.assembly import Finished
from perfgate.measure.bench import Bench
from perfgate.model.measured import Arm


def measured_round(
    bench: Bench,
    arm: Arm,
    index: int,
    left: Callable[[], float | None],
    doing: str,
    again: Callable[[Finished, float], bool],
    least_s: float = 0.0,
) -> Finished:
    """Measure a round of the arm, again while the generator alone made it flawed and `again` says so, given the round
    to be discarded and the seconds it took. `left`: the seconds that are left."""
    while True:
        began = time.monotonic()
        finished = bench.round(arm.scenario, index, left(), doing, least_s=least_s, hosts=arm.hosts)
        if not (finished.repeatable and again(finished, time.monotonic() - began)):
            return finished
