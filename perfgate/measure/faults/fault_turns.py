"""Turns of the rounds of all scenarios with a fault, so that none of those compared has the warmer brokers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfgate.measure.assembly import blame, measurement_of, unmeasured
from perfgate.measure.bench import Bench
from perfgate.measure.setup import Setup
from perfgate.model import FaultScenario, Measurement
from perfgate.model.errors import TargetError
from perfgate.model.measured import Arm, Series
from perfgate.model.target import Cluster

WARM_UP = 0.5
"""Share of the tier's warm-up: a fault's cost does not depend on the last percent of the brokers' speed."""


def measure_faults(setup: Setup, scenarios: Sequence[FaultScenario], run_id: str) -> Iterator[Measurement]:
    """Yield the measurement of every scenario as soon as its last round is over."""
    groups: dict[object, list[FaultScenario]] = {}
    for scenario in scenarios:
        # What is done to brokers changes those of the next round: such a scenario is measured whole.
        leaves_brokers_alone = scenario.fault.about.brokers_down == 0
        key = (scenario.measured_with, scenario.cluster) if leaves_brokers_alone else scenario.name
        groups.setdefault(key, []).append(scenario)
    before = 0
    for turns in groups.values():
        yield from _measured_in_turns(setup, turns, f"{run_id}-{before + 1}", scenarios)
        before += len(turns)


def _measured_in_turns(
    setup: Setup, scenarios: Sequence[FaultScenario], run_id: str, every: Sequence[FaultScenario]
) -> Iterator[Measurement]:
    """The same of scenarios that take turns; `every`: all with a fault, for the progress."""
    times = {scenario.name: scenario.rounds(setup.tier) for scenario in scenarios}
    series = {scenario.name: Series(Arm(scenario=scenario)) for scenario in scenarios}
    left = list(scenarios)
    cluster: Cluster | None = None
    bench: Bench | None = None
    index = 0
    while left:
        index += 1
        for scenario in left if index % 2 else left[::-1]:
            rounds, log_tail, over = series[scenario.name].rounds, "", False
            try:
                if cluster is None or bench is None:
                    cluster = setup.cluster(scenario.cluster)
                    bench = setup.warm_bench(cluster, left, run_id, WARM_UP)
                series[scenario.name].rtt_ms = bench.round_trips([scenario])
                place = f"{every.index(scenario) + 1}/{len(every)}"
                doing = f"scenario {place}, fault {index}/{times[scenario.name]}"
                rounds.append(bench.fault_round(scenario, index, doing))
                if over := index >= times[scenario.name]:
                    log_tail = cluster.log_tail()
            except TargetError as error:
                # A command of [faults] that fails is no sick target: what it stops is this scenario alone.
                stopped = cluster is not None and bool(cluster.meter.stopped) and not cluster.meter.by_limit
                why = blame(error, dedicated=setup.target.dedicated)
                rounds.append(unmeasured(len(rounds) + 1, f"target unhealthy: {error}", **why, unhealthy=stopped))
                setup.target.close()
                over, cluster, bench = True, None, None
            except Exception:  # whatever it is, no broker stays away while the next test goes on
                setup.target.close()
                raise
            if over:
                left = [other for other in left if other is not scenario]
                yield measurement_of(setup.engine, series[scenario.name], log_tail=log_tail)
