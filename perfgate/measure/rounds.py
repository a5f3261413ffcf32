"""Interleaved rounds: every scenario once in random order, then again, on the same warm brokers.

Drift of the machine then hits all scenarios alike, and a relation can be judged on the ratios within each round.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from perfgate.measure.assembly import measured_by, unhealthy
from perfgate.measure.blocks import compared_with
from perfgate.measure.canary import read_canary
from perfgate.measure.ledger import WINDOWS
from perfgate.measure.one_host_fewer import OneHostFewer
from perfgate.measure.room import repeats, with_extra_rounds
from perfgate.measure.setup import Setup
from perfgate.model import CanaryReading, Measurement, Round, Scenario
from perfgate.model.errors import BrokersFailedError, LimitReachedError, TargetError
from perfgate.model.stopping import StopRule
from perfgate.model.target import Cluster

FEWEST_SOUND, SAME_AGAIN = 2, 2
"""So many rounds that count show that a scenario is slow. A load that did not come about so often will not in a third
round either."""


def nothing_left(earlier: Sequence[Round], rounds: int) -> bool:
    """Return whether nothing can be judged by what is left of so many rounds.

    What one round found broken is a result. One that is invalid takes no slowness of the others back.
    """
    spoilt = [r for r in earlier if r.invalid]
    unmade = [r for r in spoilt if not r.metrics]
    return any(r.broken for r in earlier) or len(unmade) >= SAME_AGAIN or len(spoilt) > max(0, rounds - FEWEST_SOUND)


class Rounds:
    """Measures a block of scenarios on one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        setup: Setup,
        *,
        run_id: str,
        stop: StopRule,
        canary: Sequence[CanaryReading] = (),
    ) -> None:
        """`run_id`: of this measurement; the confirmation run of a run has one of its own.

        `stop`: what ends the measurement early, or makes it go on.

        `canary`: the readings that were taken before the cluster started.
        """
        self._stop = stop
        self._canary = list(canary)
        self._cluster = cluster
        self._driver, self._tier, self._ledger = setup.driver, setup.tier, setup.ledger
        self._random = random.Random(run_id)
        self._bench = setup.bench(cluster, run_id)
        self._done: dict[str, list[Round]] = {}
        self._discarded: dict[str, list[Round]] = {}
        self._fewer = setup.fewer
        self._done_on_fewer: dict[str, list[Round]] = {}
        self._discarded_on_fewer: dict[str, list[Round]] = {}
        self._finished = 0

    @property
    def warm_up_facts(self) -> Mapping[str, object]:
        """What run.json says of the warm-up before the rounds."""
        return self._bench.warm_up_facts

    def measure(self, scenarios: Sequence[Scenario]) -> dict[str, Measurement]:
        """Return the measurement of every scenario; what went wrong is a reason in its rounds, never an exception.

        A scenario is measured no further once its brokers were broken, or too few rounds are left that may count. Once
        the target is unhealthy nothing is. Rounds of brokers that were still warming up are followed by others, within
        bounds, and are not judged.
        """
        self._done = {scenario.name: [] for scenario in scenarios}
        self._discarded = {scenario.name: [] for scenario in scenarios}
        self._done_on_fewer = {scenario.name: [] for scenario in scenarios}
        self._discarded_on_fewer = {scenario.name: [] for scenario in scenarios}
        rtt: dict[str, float] = {}
        try:
            self._bench.warm_up(scenarios)
            rtt = self._bench.round_trips(scenarios)
            self._measure_rounds(scenarios)
            self._bench.delete_backlogs()
        except TargetError as error:
            found = self._cause(error)
            broken = self._cluster.dedicated and isinstance(found, BrokersFailedError)
            late = isinstance(found, BrokersFailedError) and found.perhaps_late
            self._done = unhealthy(
                scenarios,
                self._done,
                f"target unhealthy: {found}",
                broken=broken,
                perhaps_late=late,
                stopped=not isinstance(found, LimitReachedError),
            )
        measured = measured_by(
            self._driver, scenarios, self._done, self._discarded, rtt, self._cluster.log_tail(), tuple(self._canary)
        )
        return {name: self._judged_part(m, scenarios) for name, m in measured.items()}

    def _cause(self, error: TargetError) -> TargetError:
        """Return that a broker has ended, when one has: what was asked of it failed for that.

        So it did for what lies between: a proxy that has ended is no failure of brokers.
        """
        try:
            self._cluster.check()
        except BrokersFailedError as ended:
            return ended
        except TargetError as ended:
            return ended if isinstance(error, BrokersFailedError) else error
        return error

    def _judged_part(self, measurement: Measurement, scenarios: Sequence[Scenario]) -> Measurement:
        """Return the measurement with the last rounds to be judged, those before them as warm-up."""
        rows = compared_with(scenarios, [measurement.scenario.name])
        first = max(0, max(len(self._done[row.name]) for row in rows) - self._tier.rounds)
        if len(self._done[measurement.scenario.name]) <= first:
            first = 0  # it was ended early: it has no others
        earlier = tuple(r for r in measurement.rounds if r.index <= first and not r.invalid)
        self._ledger.move(sum(r.window_s for r in earlier), WINDOWS, "warm-up")
        reason = self._warming().get(measurement.scenario.name, "")
        judged = tuple(r for r in measurement.rounds if r not in earlier)
        fewer = tuple(r for r in self._done_on_fewer[measurement.scenario.name] if r.index > first or r.invalid)
        return replace(measurement, rounds=judged, warm_up=earlier, warming=reason, one_host_fewer=fewer)

    def _warming(self) -> dict[str, str]:
        return self._stop.still_warming({name: rounds[-self._tier.rounds :] for name, rounds in self._done.items()})

    def _measure_rounds(self, scenarios: Sequence[Scenario]) -> None:
        begin, rounds = time.monotonic(), self._tier.rounds
        for index in range(1, with_extra_rounds(self._tier, own=self._cluster.own) + 1):
            warming = self._warming() if index > rounds else {}
            if index > rounds and not warming:
                break
            if index > rounds:
                rows = ", ".join(warming)
                self._bench.note(f"one more round ({index}): the brokers were still warming up at {rows}")
                scenarios = compared_with(scenarios, warming)  # others have had their rounds
            self._read_canary()
            for scenario in self._shuffled(scenarios):
                earlier = self._done[scenario.name]
                if nothing_left(earlier, rounds) or self._stop.hopeless(
                    scenario, [r for r in earlier if not r.invalid]
                ):
                    continue
                total = sum(2 if self._fewer(row) else 1 for row in scenarios) * max(rounds, index)
                left = self._time_left(begin, total)
                self._measure_round(scenario, index, left, f"round {index}/{max(rounds, index)}")
        self._read_canary()

    def _measure_round(self, scenario: Scenario, index: int, left: float | None, doing: str) -> None:
        """Add a round of the scenario, and beside it one on a load host fewer, where there is to be one.

        That one comes first in every other round, so that brokers that still get faster favour neither.
        """
        fewer = self._fewer(scenario)
        self._add_round(scenario, index, left, doing, fewer if index % 2 == 0 else None)
        if fewer:
            self._add_round(scenario, index, left, doing, None if index % 2 == 0 else fewer)

    def _add_round(
        self, scenario: Scenario, index: int, left: float | None, doing: str, fewer: OneHostFewer | None
    ) -> None:
        """Add a round, on one load host `fewer` or on all; one that the generator alone spoilt is measured again.

        So often for a scenario (:func:`repeats`), and as often where it spoilt no more than some of the round's
        metrics. What a round on one host fewer found invalid is not measured on fewer hosts again.
        """
        name, most = scenario.name, repeats(self._tier)
        done, discarded = self._done[name], self._discarded[name]
        if fewer:
            done, discarded = self._done_on_fewer[name], self._discarded_on_fewer[name]
            if any(r.invalid for r in (*done, *self._done[name])):
                return
            doing = f"{doing} on {fewer.hosts} load host{'s' if fewer.hosts > 1 else ''}:"
        result = self._bench.round(scenario, index, left, doing, fewer=fewer)
        while result.repeatable and sum(bool(r.invalid) == bool(result.round.invalid) for r in discarded) < most:
            self._ledger.move(result.round.window_s, WINDOWS, "load start")
            discarded.append(result.round)
            result = self._bench.round(scenario, index, left, doing, fewer=fewer)
        done.append(result.round)
        self._finished += 1

    def _read_canary(self) -> None:
        with self._ledger.during("canary"):
            self._canary.append(read_canary(self._bench.brokers_cpu_s))

    def _time_left(self, begin: float, total: int) -> float | None:
        return (time.monotonic() - begin) / self._finished * (total - self._finished) if self._finished else None

    def _shuffled(self, scenarios: Sequence[Scenario]) -> list[Scenario]:
        return self._random.sample(list(scenarios), len(scenarios))
