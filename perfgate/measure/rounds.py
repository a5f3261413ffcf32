"""Schedule of the gate: interleaved rounds of a block's scenarios, in random order, on the same warm brokers. Drift
hits all alike, and relations are judged on the ratios within each round."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from perfgate.measure.assembly import Finished, break_off_by, measurement_of
from perfgate.measure.canary import read_canary
from perfgate.measure.ledger import WINDOWS
from perfgate.measure.plan import compared_with, repeats, with_extra_rounds
from perfgate.measure.runner import measured_round
from perfgate.measure.setup import Setup
from perfgate.model import CanaryReading, Measurement, Round, Scenario
from perfgate.model.compared import StopRule
from perfgate.model.errors import BrokersFailedError, TargetError
from perfgate.model.measured import Arm, Series
from perfgate.model.target import Cluster

FEWEST_SOUND, SAME_AGAIN = 2, 2
"""This many rounds that count show that a scenario is slow. A load that did not come about this often will not in a
third round either."""


def nothing_left(earlier: Sequence[Round], rounds: int) -> bool:
    """Whether nothing more can be judged by these `rounds`: an invalid one takes back no slowness of the others."""
    invalid = [r for r in earlier if r.invalid]
    unmade = [r for r in invalid if not r.metrics]
    return any(r.broken for r in earlier) or len(unmade) >= SAME_AGAIN or len(invalid) > max(0, rounds - FEWEST_SOUND)


class Rounds:
    """Measures a block of scenarios on a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        setup: Setup,
        *,
        run_id: str,
        stop: StopRule,
        canary: Sequence[CanaryReading] = (),
        again: bool = False,
    ) -> None:
        """`stop` ends the measurement early, or makes it go on; not of the confirmation run (`again`), which has all
        rounds. `canary`: the readings before the cluster started."""
        self._stop, self._again, self._fewer = stop, again, setup.fewer
        self._bench = setup.bench(cluster, run_id)
        self.warm_up: Mapping[str, object] = {}
        """Entry of run.json on the warm-up before the rounds."""
        self._canary = list(canary)
        self._cluster = cluster
        self._driver, self._tier, self._ledger = setup.driver, setup.tier, setup.ledger
        self._random = random.Random(run_id)
        self._series: dict[str, list[Series]] = {}
        """Series by scenario: as declared, and on one load host fewer where that is asked for."""
        self._began, self._index, self._total, self._finished = 0.0, 0, 0, 0
        self._enough = dict[str, str]()
        """Scenarios that need no more rounds, each with the reason."""

    def measure(self, scenarios: Sequence[Scenario]) -> dict[str, Measurement]:
        """The measurement of every scenario; a failure is a reason in its rounds, never an exception. Rounds of brokers
        that were still warming up are followed by others, within bounds, and are not judged."""
        self._series = {
            scenario.name: [Series(arm) for arm in (Arm(scenario=scenario), self._fewer(scenario)) if arm]
            for scenario in scenarios
        }
        try:
            self.warm_up = self._bench.warm_up(scenarios)
            rtt_ms = self._bench.round_trips(scenarios)
            for declared, *_ in self._series.values():
                declared.rtt_ms = rtt_ms
            self._began = time.monotonic()
            for sweep in self._schedule(scenarios):
                for scenario in sweep:
                    self._part(scenario)
            self._read_canary()
            self._bench.delete_backlogs()
            if self._cluster.own:  # the end of a broker since the last load is of this block, not of the next
                self._cluster.check()
        except TargetError as error:
            break_off_by(
                self._cause(error), [each[:1] for each in self._series.values()], dedicated=self._cluster.dedicated
            )
        log_tail = self._cluster.log_tail()
        return {
            name: self._judged_part(
                measurement_of(self._driver, each[0], log_tail=log_tail, canary=self._canary), scenarios
            )
            for name, each in self._series.items()
        }

    def _cause(self, error: TargetError) -> TargetError:
        """The end of a broker, or of a proxy before it, if any has ended: requests failed for that."""
        try:
            self._cluster.check()
        except TargetError as ended:
            return ended if any(isinstance(each, BrokersFailedError) for each in (ended, error)) else error
        return error

    def _judged_part(self, measurement: Measurement, scenarios: Sequence[Scenario]) -> Measurement:
        """The measurement with the last rounds to be judged, those before them as warm-up."""
        name = measurement.scenario.name
        declared, *others = self._series[name]
        compared = compared_with(scenarios, [name])
        first = max(0, max(len(self._series[scenario.name][0].rounds) for scenario in compared) - self._tier.rounds)
        if name in self._enough or len(declared.rounds) <= first:
            first = 0  # it was ended early: it has no others
        earlier = tuple(r for r in measurement.rounds if r.index <= first and not r.invalid)
        self._ledger.move(sum(r.window_s for r in earlier), WINDOWS, "warm-up")
        return replace(
            measurement,
            rounds=tuple(r for r in measurement.rounds if r not in earlier),
            warm_up=earlier,
            warming=self._warming().get(name, ""),
            enough=self._enough.get(name, ""),
            one_host_fewer=tuple(r for series in others for r in series.rounds if r.index > first or r.invalid),
        )

    def _warming(self) -> dict[str, str]:
        rounds = self._tier.rounds
        return self._stop.still_warming({name: each[0].rounds[-rounds:] for name, each in self._series.items()})

    def _schedule(self, scenarios: Sequence[Scenario]) -> Iterator[list[Scenario]]:
        """Every scenario in random order, as often as the tier asks, then those that are still warming up."""
        rounds = self._tier.rounds
        for index in range(1, with_extra_rounds(self._tier, own=self._cluster.own) + 1):
            self._index = index
            if index > rounds:
                if not (warming := self._warming()):
                    return
                names = ", ".join(warming)
                self._bench.note(f"one more round ({index}): the brokers were still warming up at {names}")
                scenarios = compared_with(scenarios, warming)  # others have had their rounds
            self._total = sum(
                len(each[0].rounds) if scenario.name in self._enough else len(each) * max(rounds, index)
                for scenario in scenarios
                for each in (self._series[scenario.name],)
            )
            self._read_canary()
            yield self._random.sample(list(scenarios), len(scenarios))

    def _part(self, scenario: Scenario) -> None:
        """Measure a round of every arm of the scenario, unless nothing can come of it. One host fewer comes first in
        every other round: brokers that still get faster favour neither."""
        index, rounds, every = self._index, self._tier.rounds, self._series[scenario.name]
        earlier = every[0].rounds
        if nothing_left(earlier, rounds) or self._stop.hopeless(scenario, [r for r in earlier if not r.invalid]):
            return
        if self._are_enough(scenario):
            return
        spent_s = time.monotonic() - self._began
        left_s = spent_s / self._finished * (self._total - self._finished) if self._finished else None
        for series in every if index % 2 else every[::-1]:
            if series.arm.hosts and any(r.invalid for each in every for r in each.rounds):
                continue  # an invalid scenario is not measured on fewer hosts again
            self._add_round(series, left_s, f"round {index}/{max(rounds, index)}")

    def _are_enough(self, scenario: Scenario) -> bool:
        """Whether more rounds of the scenario would change nothing; those on one host fewer are all needed."""
        name, rounds, most = scenario.name, len(self._series[scenario.name][0].rounds), self._tier.rounds
        if self._again or name in self._enough or len(self._series[name]) > 1 or rounds >= most:
            return name in self._enough
        block = {
            other: measurement_of(self._driver, each[0], canary=self._canary) for other, each in self._series.items()
        }
        if not self._stop.sure(scenario, block) or name in self._warming():
            return False
        self._enough[name] = f"{rounds} of {most} rounds were enough: all its limits are kept by far"
        self._total -= most - rounds
        self._bench.note(f"{name}: {self._enough[name]}")
        return True

    def _add_round(self, series: Series, left_s: float | None, doing: str) -> None:
        """Add a round of an arm, again while the generator alone made it flawed, :func:`repeats` times, and as often
        again where only some metrics were concerned."""
        hosts, most = series.arm.hosts, repeats(self._tier)
        if hosts:
            doing += f" on {hosts} load host{'s' if hosts > 1 else ''}:"

        def again(finished: Finished, _seconds: float) -> bool:
            invalid = bool(finished.round.invalid)
            if sum(bool(r.invalid) == invalid for r in series.discarded) >= most:
                return False
            self._ledger.move(finished.round.window_s, WINDOWS, "load start")
            series.discarded.append(finished.round)
            return True

        finished = measured_round(self._bench, series.arm, self._index, lambda: left_s, doing, again)
        series.rounds.append(finished.round)
        self._finished += 1

    def _read_canary(self) -> None:
        with self._ledger.during("canary"):
            self._canary.append(read_canary(self._bench.brokers_cpu_s))
