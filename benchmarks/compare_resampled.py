"""Comparisons that are drawn from recorded units, judged as a whole by the product's own judge.

By what decides, and by what a SAME is held to besides.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.verdict_report import BLOCK
from benchmarks.warm_cluster import BY_NAME
from perfgate.judge.claims.same import judge_comparison
from perfgate.model import Accounting, Comparison, ComparisonOutcome, Measurement, RecordedPairs, Round
from perfgate.model.judged import UNSOUND

RESAMPLED = 300
SIDES = ("baseline", "candidate")
ALL_ARRIVED = Accounting(attempted=1, acked=1, failed={}, unresolved=0, offset_delta=1)
Metrics = Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """One unit of the statistics as it was recorded: the metrics of each side's rounds, in their order."""

    baseline: tuple[Metrics, ...]
    candidate: tuple[Metrics, ...]

    def log(self, metric: str) -> float | None:
        """Return the logarithm of candidate over baseline; None where a round lacks the metric."""
        logs = self.parts(metric)
        return statistics.fmean(logs) if logs else None

    def parts(self, metric: str) -> list[float]:
        """Return that of each of its bursts or rounds; none where one lacks the metric."""
        pairs = list(zip(self.baseline, self.candidate, strict=True))
        if not all(one.get(metric, 0.0) > 0 for pair in pairs for one in pair):
            return []
        return [math.log(after[metric] / before[metric]) for before, after in pairs]

    def moved(self, by: Mapping[str, float]) -> Unit:
        """Return the unit with the candidate's metrics moved by these logarithms."""
        candidate = tuple(
            {name: value * math.exp(by.get(name, 0.0)) for name, value in one.items()} for one in self.candidate
        )
        return Unit(baseline=self.baseline, candidate=candidate)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """The units of a line's sound comparisons, by comparison; `unit_min` is how long one took (median)."""

    scenario: str
    method: Any
    rounds_per_unit: int
    unit_min: float
    stretches: tuple[tuple[Unit, ...], ...]
    metric: str
    recorded: tuple[RecordedPairs, ...]

    @classmethod
    def of(cls, entries: Sequence[Mapping[str, Any]]) -> Pool | None:
        """Return the pool of these entries, all of one line; None where none is sound."""
        sound = [one for one in entries if one["verdict"] not in UNSOUND and one["units"] and not one["invalid"]]
        if not sound:
            return None
        first = sound[-1]
        # Two whole rounds are a unit; when the first of them were recorded it was a block of four.
        size = 1 if first["method"] == "rounds" else first["rounds_per_unit"]
        stretches = tuple(_units(one, size) for one in sound)
        return cls(
            scenario=first["scenario"],
            method=first["method"],
            rounds_per_unit=size,
            unit_min=statistics.median(
                one["minutes"] / len(units) for one, units in zip(sound, stretches, strict=True)
            ),
            stretches=stretches,
            metric=Counter(one["metric"] for one in sound if one["metric"]).most_common(1)[0][0],
            recorded=tuple(RecordedPairs(**{**one, "effects": tuple(one["effects"])}) for one in first["recorded"]),
        )

    @property
    def units(self) -> tuple[Unit, ...]:
        return tuple(unit for stretch in self.stretches for unit in stretch)

    def logs(self) -> list[float]:
        """Return every unit's effect on what decides."""
        return [log for unit in self.units if (log := unit.log(self.metric)) is not None]

    def means(self) -> dict[str, float]:
        """Return the mean effect on each metric."""
        names = {name for unit in self.units for one in unit.baseline for name in one}
        found = {name: [unit.log(name) for unit in self.units] for name in names}
        return {
            name: statistics.fmean(told)
            for name, logs in found.items()
            if (told := [log for log in logs if log is not None])
        }

    def comparison(self, units: Sequence[Unit], recorded: Sequence[RecordedPairs] | None = None) -> Comparison:
        """Return a comparison of these units, all that its budget affords."""
        return Comparison(
            change="drawn",
            baseline=_measurement(self.scenario, [one for unit in units for one in unit.baseline]),
            candidate=_measurement(self.scenario, [one for unit in units for one in unit.candidate]),
            method=self.method,
            rounds_per_unit=self.rounds_per_unit,
            planned_units=len(units),
            orders=("ABBA",) * len(units),
            minutes=len(units) * self.unit_min,
            recorded=tuple(self.recorded if recorded is None else recorded),
        )


def _units(entry: Mapping[str, Any], size: int) -> tuple[Unit, ...]:
    rounds = {
        side: [
            {name: value for name, value in zip(columns, values, strict=True) if value is not None}
            for values in zip(*columns.values(), strict=True)
        ]
        for side in SIDES
        if (columns := entry["rounds"][side])
    }
    count = min(map(len, rounds.values())) // size
    parts = {side: [tuple(found[size * i : size * (i + 1)]) for i in range(count)] for side, found in rounds.items()}
    return tuple(Unit(baseline=a, candidate=b) for a, b in zip(parts["baseline"], parts["candidate"], strict=True))


def _measurement(scenario: str, rounds: Sequence[Metrics]) -> Measurement:
    made = tuple(
        Round(
            index=number,
            window_s=1.0,
            warmup_s=0.0,
            steady=True,
            metrics=metrics,
            accounting=ALL_ARRIVED,
            generator=None,
            latency_histogram="",
        )
        for number, metrics in enumerate(rounds, 1)
    )
    return Measurement(scenario=BY_NAME[scenario], rounds=made, rtt_ms={})


def drawn(
    pool: Pool, effect: float | None, minutes: float, *, seed: int, times: int = RESAMPLED, beside: bool = False
) -> Iterator[ComparisonOutcome]:
    """Give the outcome of comparisons drawn from the pool's units, of as many as `minutes` afford.

    Blocks of neighbours are drawn with replacement and never cross from one comparison to another; pairs of clusters
    are drawn one by one. An `effect` of None leaves units as they were recorded; else each metric's mean is taken off
    and what decides is moved by it. `beside`: a half of the units, drawn anew each time, is what A/A pairs are recorded
    of; the other half is drawn from.
    """
    rng, planned = np.random.default_rng(seed), max(2, int(minutes / pool.unit_min))
    size = 1 if pool.method == "pairs" else BLOCK
    blocks = [s[i : i + min(size, len(s))] for s in pool.stretches for i in range(max(1, len(s) - size + 1))]
    by = {} if effect is None else {name: -mean for name, mean in pool.means().items()}
    if effect:
        by[pool.metric] = by.get(pool.metric, 0.0) + math.log1p(effect)
    for _ in range(times):
        own, recorded = blocks, None
        if beside:
            order = rng.permutation(len(blocks))
            own, kept = ([blocks[i] for i in half] for half in np.array_split(order, 2))
            recorded = _recorded(pool, [unit for block in kept for unit in block])
        units: list[Unit] = []
        while len(units) < planned:
            units += own[int(rng.integers(len(own)))]
        yield judge_comparison(pool.comparison([unit.moved(by) for unit in units[:planned]], recorded))


def _recorded(pool: Pool, units: Sequence[Unit]) -> list[RecordedPairs]:
    logs = {name: [unit.log(name) for unit in units] for name in pool.means()}
    return [
        RecordedPairs(metric=name, rounds_per_unit=pool.rounds_per_unit, effects=tuple(told))
        for name, found in logs.items()
        if len(told := [log for log in found if log is not None]) == len(units)
    ]
