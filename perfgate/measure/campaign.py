"""Campaign of a gate: the selected scenarios, each measured once with those it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from perfgate.measure.assembly import blame, break_off, measurement_of
from perfgate.measure.canary import read_canary
from perfgate.measure.faults.fault_turns import measure_faults
from perfgate.measure.plan import blocks
from perfgate.measure.rounds import Rounds
from perfgate.measure.setup import Setup
from perfgate.model import FEWEST_READINGS, Measurement, Relation, Scenario, parted
from perfgate.model.compared import StopRule
from perfgate.model.errors import TargetError
from perfgate.model.measured import Arm, Series

AGAIN = -1
"""The confirmation run, where other numbers are of a block."""


@dataclass
class Campaign:
    """Measures each scenario once, together with the scenarios it is compared with; keeps the measurements."""

    setup: Setup
    stop: StopRule
    measured: dict[str, Measurement] = field(default_factory=dict)
    measured_again: dict[str, Measurement] = field(default_factory=dict)
    baselines: dict[tuple[str, str], Measurement] = field(default_factory=dict)
    """Second measurements of scenarios, beside those of another family, by that family and their name."""
    earlier: Mapping[tuple[str, str], Measurement] = field(default_factory=dict)
    """Measurements of the interrupted run that is continued, by family and name."""
    earlier_blocks: Collection[frozenset[str]] = ()
    """Names that that run measured together: only such a block is taken over."""
    keep: Callable[[], None] = lambda: None
    """Called when a block is measured, so that a run that is killed leaves its measurements."""
    _blocks: list[tuple[Scenario, ...]] = field(default_factory=list)
    _done: dict[int, dict[str, Measurement]] = field(default_factory=dict)
    """Measurements by their block's number."""
    _failed: dict[int, Exception] = field(default_factory=dict)
    """The error that ended a block, or (AGAIN) the confirmation run: it is not begun anew for each scenario."""

    def measure(self, scenario: Scenario, family: str = "") -> Measurement:
        """The scenario's measurement, from its own family's block or this family's, on whose rounds a relation is
        judged. The first call measures the block; later ones raise its error again."""
        number = self._block_of(scenario, family or scenario.families[0])
        if number in self._failed:
            raise self._failed[number]
        if number not in self._done:
            if (taken_over := self._taken_over(number)) is not None:
                self._done[number] = taken_over
            else:
                try:
                    self._done[number] = self._measure_block(self._blocks[number])
                except Exception as error:
                    self._failed[number] = error
                    raise
                finally:
                    self.setup.say.clear()
            for member in self._blocks[number]:
                self._remember(member, number)
            self.keep()
        return self._done[number][scenario.name]

    def _remember(self, scenario: Scenario, number: int) -> None:
        measurement = self._done[number][scenario.name]
        if self._block_of(scenario, scenario.families[0]) == number:
            self.measured[scenario.name] = measurement
            return
        for family in self._families_in(scenario, number):
            self.baselines[family, scenario.name] = measurement

    def _families_in(self, scenario: Scenario, number: int) -> list[str]:
        """The scenario's families that are measured in this block."""
        return [family for family in scenario.families if self._block_of(scenario, family) == number]

    def _taken_over(self, number: int) -> dict[str, Measurement] | None:
        """The block as the interrupted run measured it; None when it did not, or not all of it."""
        block = self._blocks[number]
        # Faults are taken over singly (_faults_before).
        if block[0].has_fault or {scenario.name for scenario in block} not in self.earlier_blocks:
            return None
        measurements = self._earlier({scenario: self._families_in(scenario, number) for scenario in block})
        return measurements if len(measurements) == len(block) else None

    def _faults_before(self, scenarios: Sequence[Scenario]) -> dict[str, Measurement]:
        """Measurements of the scenarios whose rounds the interrupted run had all measured, alone or in turns."""
        measured = frozenset[str]().union(*self.earlier_blocks)
        return self._earlier({scenario: scenario.families for scenario in scenarios if scenario.name in measured})

    def _earlier(self, families: Mapping[Scenario, Sequence[str]]) -> dict[str, Measurement]:
        """Measurements by the interrupted run for any of the scenarios' families, by name."""
        keys = [(family, scenario.name) for scenario, names in families.items() for family in reversed(names)]
        return {key[1]: self.earlier[key] for key in keys if key in self.earlier}

    def _drop_second_looks(self) -> None:
        """Drop second looks of the interrupted run whose first look is not taken over: they confirm no other."""
        looked_at = [scenario for block in self._blocks for scenario in block if scenario.name in self.measured_again]
        earlier = {scenario.name for scenario in looked_at if self._is_earlier(scenario)}
        for name in self.measured_again.keys() - earlier:
            del self.measured_again[name]

    def _is_earlier(self, scenario: Scenario) -> bool:
        """Whether the scenario's own measurement is that of the interrupted run."""
        if scenario.has_fault:
            return bool(self._faults_before([scenario]))
        return self._taken_over(self._block_of(scenario, scenario.families[0])) is not None

    def _block_of(self, scenario: Scenario, family: str) -> int:
        if not self._blocks:
            able = [other for other in self.setup.scenarios if self.cannot(other) is None]
            self._blocks = blocks(able, self.setup.tier)
            self._drop_second_looks()
        holding = [number for number, scenarios in enumerate(self._blocks) if scenario in scenarios]
        members = {s for s in self.setup.scenarios if family in s.families and s.cluster == scenario.cluster}
        return max(holding, key=lambda number: (len(members & set(self._blocks[number])), -number))

    def apart(self, relation: Relation) -> str | None:
        """Message about a relation whose scenarios on equal clusters were measured in different blocks, or None."""
        scenarios = [scenario for scenario in self.setup.scenarios if scenario.name in relation.names]
        placed = {(scenario.cluster, self._block_of(scenario, relation.family)) for scenario in scenarios}
        if len(placed) == len({scenario.cluster for scenario in scenarios}):
            return None
        return f"{', '.join(scenario.name for scenario in scenarios)} were not measured side by side"

    def again(self, scenarios: Sequence[Scenario], red: Collection[str]) -> Mapping[str, Measurement] | None:
        """Second measurements of these scenarios, on one fresh cluster; the first call measures all `red`. Where any is
        missing all are measured, for relations."""
        if AGAIN in self._failed:
            raise self._failed[AGAIN]
        if any(scenario.name not in self.measured_again for scenario in scenarios):
            names = {scenario.name for scenario in scenarios} | (set(red) - self.measured_again.keys())
            chosen = [scenario for scenario in self.setup.scenarios if scenario.name in names]
            self.setup.target.close()
            self._announce(chosen)
            try:
                for cluster in dict.fromkeys(scenario.cluster for scenario in chosen):
                    block = [scenario for scenario in chosen if scenario.cluster == cluster]
                    self.measured_again.update(self._measure_block(block, again=True))
            except Exception as error:
                self._failed[AGAIN] = error
                raise
            finally:
                self.setup.say.clear()
            self.keep()
        return {scenario.name: self.measured_again[scenario.name] for scenario in scenarios}

    def _announce(self, scenarios: Sequence[Scenario]) -> None:
        """Say what is measured again and how long that may take, by what it took before."""
        spent, measured = self.setup.ledger.seconds(), max(1, len(self.measured))
        again_s = spent["start"] + sum(spent.values()) * len(scenarios) / measured
        names = ", ".join(scenario.name for scenario in scenarios)
        self.setup.say.note(f"confirmation run, on fresh brokers: {names}; about {again_s / 60:.0f} min")

    def cannot(self, scenario: Scenario) -> str | None:
        return self.setup.cannot(scenario)

    def _measure_block(self, block: Sequence[Scenario], *, again: bool = False) -> dict[str, Measurement]:
        setup = self.setup
        if faulty := parted(block)[1]:
            known = self._faults_before(faulty)
            self.measured.update(known)
            left = [scenario for scenario in faulty if scenario.name not in known]
            for measurement in measure_faults(setup, left, setup.run_id):
                self.measured[measurement.scenario.name] = known[measurement.scenario.name] = measurement
                self.keep()  # at once: it may have taken minutes
            return known
        with setup.ledger.during("canary"):
            canary = [read_canary() for _ in range(FEWEST_READINGS)]
        try:
            cluster = setup.cluster(block[0].cluster)
        except TargetError as error:
            with setup.ledger.during("canary"):
                canary.append(read_canary())
            series = {scenario.name: Series(Arm(scenario=scenario)) for scenario in block}
            why = blame(error, dedicated=setup.target.dedicated)
            break_off([[own] for own in series.values()], f"the target did not start: {error}", **why)
            return {name: measurement_of(setup.driver, own, canary=canary) for name, own in series.items()}
        run_id = f"{setup.run_id}{'-again' if again else ''}"
        facts = setup.begun(cluster, block, again=again)
        interleaved = Rounds(cluster, setup, run_id=run_id, stop=self.stop, canary=canary, again=again)
        measured = interleaved.measure(block)
        facts["warm_up"] = interleaved.warm_up
        replicated = any(scenario.topic.replication_factor > 1 for scenario in block)
        if setup.target.own and any(r.target_unhealthy for m in measured.values() for r in m.rounds):
            with setup.ledger.during("start"):
                setup.target.close()  # a broker of it has ended, or its proxy: the next block gets a new cluster
        elif replicated and not any(m.warming for m in measured.values()):  # brokers have compiled all that they do
            with setup.ledger.during("start"):
                setup.target.keep_aot_cache()
        return measured
