"""Rounds of a shaped load that are made of what was due, handed over and acknowledged in each tick."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from perfgate.measure.assembly import round_of
from perfgate.measure.shaped import with_shape
from perfgate.measure.validity import not_sustained, round_flaws
from perfgate.model import Load, Round
from perfgate.model.histogram import COARSE_BITS, COARSE_BUCKETS, bucket_of
from perfgate.model.load import TICK_S, LoadResult, OverTime
from perfgate.model.shape import Shape, area, read_shape
from tests.harness.build.loads import load_result, sent
from tests.harness.build.rounds import accounting, histogram

SPIKE = read_shape("load.shape", "spike:base=200,peak=1000,seconds=10,period=40")
SPIKED = Load(kind="shaped", rate=SPIKE.mean, shape=SPIKE)


def rate_at(shape: Shape, moment: float) -> float:
    """Return the rate at this moment (s), after a jump there; beyond its ends those of its ends."""
    for (s, a), (e, b) in pairwise(shape.points):
        if moment < e:
            return a if moment <= s else a + (b - a) * (moment - s) / (e - s)
    return shape.points[-1][1]


def records_by(shape: Shape, moment: float) -> float:
    """Return how many records are due from its begin until this moment (s)."""
    return area([*(one for one in shape.points if one[0] <= moment), (moment, rate_at(shape, moment))])


def over_time(
    shape: Shape,
    *,
    sent_by: Callable[[float], float] = lambda at: at,
    acked_by: Callable[[float], float] = lambda at: at,
    p99_ms: Callable[[float], float] = lambda at: 2.0,
) -> OverTime:
    """Return what became of it where all records that were due at the moments that these give were handed over and
    acknowledged, and waited so long."""
    ticks = np.arange(round(shape.seconds / TICK_S) + 1) * TICK_S

    def counts(by: Callable[[float], float]) -> list[int]:
        sums = [int(records_by(shape, min(max(0.0, by(at)), shape.seconds))) for at in ticks.tolist()]
        return [*np.diff(sums).tolist(), int(records_by(shape, shape.seconds)) - sums[-1]]

    latency = np.zeros((int(shape.seconds), COARSE_BUCKETS), np.int64)
    for second in range(len(latency)):
        bucket = bucket_of(np.array([int(p99_ms(second) * 1e3)]), COARSE_BITS)[0]
        latency[second, bucket] = int(records_by(shape, second + 1) - records_by(shape, second))
    phases = {
        name: histogram([p99_ms(second) / 1e3 for second in range(int(begin), int(end))])
        for name, (begin, end) in shape.phases.items()
    }
    return OverTime(sent=counts(sent_by), acked=counts(acked_by), latency=latency.ravel().tolist(), phases=phases)


def shaped_result(over: OverTime, *, load: Load = SPIKED, **changes: object) -> LoadResult:
    """Return the result of a round in which all was acknowledged in the end."""
    records = round(load.rate * load.window_s)
    values = {
        "attempted_in_window": records,
        "acked_in_window": records,
        "attempted": records,
        "acked": records,
        "schedule_delay": histogram([1e-4] * 100),
        "latency": histogram([0.002] * 100),
        "over_time": over,
        **changes,
    }
    return replace(load_result(sent=sent(**values)), window_s=load.window_s)


def shaped_round(index: int, over: OverTime, *, load: Load = SPIKED, **changes: object) -> Round:
    """Return the round that a bench makes of it."""
    result = shaped_result(over, load=load, **changes)
    assert result.sent
    whole = accounting(result.sent.acked)
    found = round_flaws(load, result, whole, {}, shares_cores=False)
    brokers = {"broker_cpu_us_per_record": 50.0, "broker_cpu_cores.sum": 0.5}
    r = round_of(index, result, whole, brokers, found, not_sustained(load, result), own_brokers=True)
    cpu = {"1": tuple((float(at + 1), 0.1 if at < 8 or at > 17 else 0.5) for at in range(int(load.window_s)))}
    return with_shape(replace(r, broker_cpu_over_time=cpu), load, result)
