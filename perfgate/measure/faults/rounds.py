"""All rounds of scenarios with a fault: each on brokers that are well, as often as the tier asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perfgate.measure.assembly import measured_by, unmeasured
from perfgate.measure.setup import Setup
from perfgate.model import FaultScenario, Measurement, Round
from perfgate.model.errors import BrokersFailedError, TargetError
from perfgate.model.target import Cluster

WARM_UP = 0.5
"""Of the tier's warm-up: what a fault costs does not hang on the last percent of what the brokers can do."""


def measure_faults(
    setup: Setup, rows: Sequence[FaultScenario], run_id: str, done: Callable[[str, Measurement], None]
) -> dict[str, Measurement]:
    """Return the measurement of every scenario. A cluster that does not get well again is replaced.

    `done` is told the name of each and its measurement, before the next one begins.
    """
    measured: dict[str, Measurement] = {}
    for number, row in enumerate(rows, start=1):
        rounds: list[Round] = []
        rtt: dict[str, float] = {}
        log_tail = ""
        times = row.rounds(setup.tier)
        cluster: Cluster | None = None
        try:
            cluster = setup.cluster(row.cluster)
            facts = setup.begun(cluster, [row])
            bench = setup.bench(cluster, f"{run_id}-{number}", WARM_UP)
            bench.warm_up([row])
            facts["warm_up"] = bench.warm_up_facts
            rtt = bench.round_trips([row])
            for index in range(1, times + 1):
                doing = f"scenario {number}/{len(rows)}, fault {index}/{times}"
                rounds.append(bench.fault_round(row, index, doing))
            log_tail = cluster.log_tail()
        except TargetError as error:
            failed = isinstance(error, BrokersFailedError) and setup.target.dedicated
            late = isinstance(error, BrokersFailedError) and error.perhaps_late
            reason = f"target unhealthy: {error}"
            # A command of [faults] that fails is no sick target: what it stops is this scenario alone.
            stopped = cluster is not None and bool(cluster.meter.stopped) and not cluster.meter.by_limit
            rounds.append(unmeasured(len(rounds) + 1, reason, broken=failed, perhaps_late=late, unhealthy=stopped))
            setup.target.close()
        except Exception:  # whatever it is, no broker stays away while the next test goes on
            setup.target.close()
            raise
        measured |= measured_by(setup.engine, [row], {row.name: rounds}, {}, rtt, log_tail)
        done(row.name, measured[row.name])
    return measured
