"""All rounds of rows with a fault: each row on brokers that are well, each fault as often as the tier asks."""

from __future__ import annotations

from collections.abc import Sequence

from fixtures.rig import Rig
from perfgate.experiment.assembly import measured_by, unmeasured
from perfgate.model import Measurement, Round, Scenario
from perfgate.model.errors import TargetError

WARM_UP = 0.5
"""Of the tier's warm-up: what a fault costs does not hang on the last percent of what the brokers can do."""


def measure_faults(rig: Rig, rows: Sequence[Scenario], run_id: str) -> dict[str, Measurement]:
    """Return the measurement of every row. A cluster that does not get well again is replaced for the next row."""
    measured: dict[str, Measurement] = {}
    for number, row in enumerate(rows, start=1):
        rounds: list[Round] = []
        rtt: dict[str, float] = {}
        log_tail = ""
        assert row.fault is not None
        times = row.fault.times(rig.tier)
        try:
            with rig.ledger.during("start"):
                cluster = rig.target.cluster(row.cluster)
            rig.target_facts.update(cluster.facts())
            stand = rig.stand(cluster, f"{run_id}-{number}", WARM_UP)
            stand.warm_up([row])
            rtt = stand.round_trips([row])
            for index in range(1, times + 1):
                doing = f"row {number}/{len(rows)}, fault {index}/{times}"
                rounds.append(stand.fault_round(row, index, doing))
            log_tail = cluster.log_tail()
        except TargetError as error:
            rounds.append(unmeasured(len(rounds) + 1, f"target unhealthy: {error}"))
            rig.target.close()
        except Exception:  # whatever it is, no broker stays away while the next test goes on
            rig.target.close()
            raise
        basis = {row.name: rig.driver.latency_basis(row.load)}
        measured |= measured_by([row], {row.name: rounds}, {}, rtt, basis, log_tail)
    return measured
