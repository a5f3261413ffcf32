"""The campaign: measures the selected rows, those that belong together on one cluster, each once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from perfgate.experiment.assembly import measured_by, unhealthy
from perfgate.experiment.canary import read_canary
from perfgate.experiment.faults.rounds import measure_faults
from perfgate.experiment.rounds import Rounds
from perfgate.experiment.setup import Setup
from perfgate.model import FEWEST_READINGS, Measurement, Scenario
from perfgate.model.errors import BrokersFailedError, TargetError
from perfgate.model.stopping import StopRule


@dataclass
class Campaign:
    """Measures each row once, together with the rows it is compared with; remembers what it measured."""

    setup: Setup
    stop: StopRule
    """What ends rounds early, or makes them go on."""
    measured: dict[str, Measurement] = field(default_factory=dict)
    measured_again: dict[str, Measurement] = field(default_factory=dict)

    def measure(self, scenario: Scenario) -> Measurement:
        """Return the row's measurement; the first call measures its whole block."""
        if scenario.name not in self.measured:
            able = [row for row in self.setup.scenarios if self.cannot(row) is None]
            block = next(rows for rows in blocks(able) if scenario in rows)
            try:
                self.measured.update(self._measure_block(block))
            finally:
                self.setup.say.clear()
        return self.measured[scenario.name]

    def again(self, scenario: Scenario, red: Collection[str]) -> Measurement | None:
        """Return the row's second measurement, on a fresh cluster; the first call measures all the `red` rows on it."""
        if scenario.name not in self.measured_again:
            rows = [row for row in self.setup.scenarios if row.name in red or row == scenario]
            self.setup.target.close()
            self._announce(rows)
            try:
                for cluster in dict.fromkeys(row.cluster for row in rows):
                    block = [row for row in rows if row.cluster == cluster]
                    self.measured_again.update(self._measure_block(block, again=True))
            finally:
                self.setup.say.clear()
        return self.measured_again[scenario.name]

    def _announce(self, rows: Sequence[Scenario]) -> None:
        """Say what is measured again and how long that may take, by what it took before."""
        spent, measured = self.setup.ledger.seconds(), max(1, len(self.measured))
        again_s = spent["start"] + sum(spent.values()) * len(rows) / measured
        names = ", ".join(row.name for row in rows)
        self.setup.say.note(f"confirmation run, on fresh brokers: {names}; about {again_s / 60:.0f} min")

    def cannot(self, scenario: Scenario) -> str | None:
        """Return why this run cannot measure the row, or None when it can."""
        return self.setup.cannot(scenario)

    def _measure_block(self, block: Sequence[Scenario], *, again: bool = False) -> dict[str, Measurement]:
        setup = self.setup
        run_id = f"{setup.run_id}{'-again' if again else ''}"
        if block[0].fault:
            return measure_faults(setup, block, run_id)
        with setup.ledger.during("canary"):
            canary = [read_canary() for _ in range(FEWEST_READINGS)]
        try:
            with setup.ledger.during("start"):
                cluster = setup.target.cluster(block[0].cluster)
        except TargetError as error:
            broken = isinstance(error, BrokersFailedError)
            rounds = unhealthy(block, {}, f"the target did not start: {error}", broken=broken)
            return measured_by(setup.driver, block, rounds)
        facts = setup.begun(cluster, block, again=again)
        interleaved = Rounds(cluster, setup, run_id=run_id, stop=self.stop, canary=canary)
        measured = interleaved.measure(block)
        replicated = any(row.topic.replication_factor > 1 for row in block)
        if replicated and not any(m.warming for m in measured.values()):  # all that brokers do was learnt, and well
            with setup.ledger.during("start"):
                setup.target.keep_aot_cache()
        facts["warm_up"] = interleaved.warm_up_facts
        return measured


def blocks(scenarios: Sequence[Scenario]) -> list[tuple[Scenario, ...]]:
    """Group rows that run interleaved: same cluster, connected by families. Groups of one cluster stand together."""
    groups: list[list[Scenario]] = []
    for row in scenarios:
        related = [
            group
            for group in groups
            if any(
                row.cluster == other.cluster
                and bool(row.fault) == bool(other.fault)
                and set(row.families) & set(other.families)
                for other in group
            )
        ]
        merged = [other for group in related for other in group]
        groups = [group for group in groups if group not in related] + [[*merged, row]]
    order = {cluster: position for position, cluster in enumerate(dict.fromkeys(row.cluster for row in scenarios))}
    return [tuple(group) for group in sorted(groups, key=lambda group: order[group[0].cluster])]
