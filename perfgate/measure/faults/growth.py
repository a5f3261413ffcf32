"""Growth of latency, CPU and memory over a long load: a line through each of them. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from perfgate.measure.faults.history import Record, Written, cores
from perfgate.measure.faults.outage import Interval
from perfgate.metrics.usage import OverTime, Sampler
from perfgate.model import FaultScenario

PARTS, LEAST_S, FEWEST = 30, 10.0, 3
"""The time is cut into at most PARTS parts, of LEAST_S or more each; fewer than FEWEST make no line."""


def growth(values: Sequence[float]) -> float | None:
    """The last of positive values at equal distances over the first; None where that has no answer.

    By a line through their logarithms with the median of all pairs' slopes (Theil and Sen), which no single value
    bends; or, where that is more, the last quarter over the first by their medians: a line does not see a late step.
    """
    if len(values) < FEWEST or min(values) <= 0:
        return None
    pairs = itertools.combinations(enumerate(np.log(values)), 2)
    slope = float(np.median([(b - a) / (j - i) for (i, a), (j, b) in pairs]))
    line, quarter = math.exp(slope * (len(values) - 1)), math.ceil(len(values) / 4)
    if quarter < FEWEST:  # a single bad value would be the median
        return line
    step = float(np.median(values[-quarter:]) / np.median(values[:quarter]))
    return max(line, step) if step > 1 else line


def growth_metrics(written: Written, records: Record) -> dict[str, float]:
    """Growth of p99, CPU per record and memory of all brokers over the time in which nothing was done."""
    if (span := written.endured) is None:
        return {}
    parts = _parts(span)
    due, latency = records.due[records.acknowledged], records.latency[records.acknowledged]
    values: dict[str, list[float]] = {"p99_growth": [], "cpu_per_record_growth": [], "memory_growth": []}
    for opens, closes in parts:
        here = (due >= opens) & (due < closes)
        used = cores(written.cpu, opens, closes)
        memory = [sum(by_broker.values()) for at, by_broker in written.memory if opens <= at < closes]
        if here.any():
            values["p99_growth"].append(float(np.percentile(latency[here], 99.0)))
            if used is not None:
                values["cpu_per_record_growth"].append(used * (closes - opens) / int(here.sum()))
        if memory:
            values["memory_growth"].append(float(np.mean(memory)))
    lines = {name: growth(of_parts) for name, of_parts in values.items() if len(of_parts) == len(parts)}
    return {name: value for name, value in lines.items() if value is not None}


def grown(scenario: FaultScenario, sampler: Sampler) -> dict[str, float]:
    """The growth of CPU per record by a source that reports a window afterwards, not at any moment."""
    if not scenario.fault.about.harmless or sampler.read is not None:
        return {}
    times = growth_of_cores(sampler.over_time())
    return {} if times is None else {"cpu_per_record_growth": times}


def growth_of_cores(steps: OverTime) -> float | None:
    """Growth of the cores of all brokers over a window, which is their CPU per record of a paced load; `steps`: as a
    source reports them that cannot be asked at any moment."""
    if not steps or min(map(len, steps.values())) < FEWEST:
        return None
    opens, closes = max(ends[0][0] for ends in steps.values()), min(ends[-1][0] for ends in steps.values())
    edges = [opens, *(closes for _, closes in _parts((opens, closes)))]
    used = np.zeros(len(edges))
    for ends in steps.values():
        at, cores = np.array(ends).T
        used += np.interp(edges, at, np.concatenate(([0.0], np.cumsum(cores[1:] * np.diff(at)))))
    return growth((np.diff(used) / np.diff(edges)).tolist())


def _parts(span: Interval) -> list[Interval]:
    begin, end = span
    count = max(1, min(PARTS, int((end - begin) / LEAST_S)))
    edges = np.linspace(begin, end, count + 1).tolist()
    return list(itertools.pairwise(edges))
