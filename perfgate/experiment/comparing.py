"""Measures what a change does: each scenario as declared and changed, in turn, until all is decided."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from perfgate.experiment.assembly import Finished, measured_by, unmeasured
from perfgate.experiment.bench import Bench
from perfgate.experiment.setup import Setup
from perfgate.experiment.switching import GAP_TIMES, OF_CONNECTIONS, Switch, live_values
from perfgate.load.turns import SIDES, pace
from perfgate.model import DECIDES_PACED, Change, Comparison, Round, Scenario
from perfgate.model.errors import BrokersFailedError, ConfigurationError, TargetError
from perfgate.model.stopping import ComparisonStopRule
from perfgate.model.target import Cluster

ROUNDS_PER_EPOCH = 3
REPEATS = 2
UNITS_PER_REPEAT = 4
"""So many units of a scenario may be measured again because the generator itself was the limit or turns ran into one
another, and one more for every four that were sound: a broker of a busy machine stands still for half a second."""
QUADS = ("ABBA", "BAAB")
MIRRORED = str.maketrans("AB", "BA")


@dataclass
class _Row:
    """One scenario's two forms and what has been measured of each."""

    sides: Mapping[str, Scenario]
    method: str
    per_unit: int
    rounds: dict[str, list[Round]] = field(default_factory=lambda: {side: [] for side in SIDES})
    discarded: dict[str, list[Round]] = field(default_factory=lambda: {side: [] for side in SIDES})
    orders: list[str] = field(default_factory=list)
    planned: int = 0
    seconds: float = 0.0
    rtt_ms: Mapping[str, float] = field(default_factory=dict)
    log_tail: str = ""

    @property
    def name(self) -> str:
        return self.sides["A"].name

    @property
    def units(self) -> int:
        return len(self.orders)

    @property
    def unsound(self) -> bool:
        """Whether the scenario can no longer be decided; a paced load is decided by its latency."""
        paced = self.sides["A"].load.kind == "paced"
        return any(r.invalid or (paced and r.spoilt(DECIDES_PACED)) for rounds in self.rounds.values() for r in rounds)

    def break_off(self, reason: str, sides: Sequence[str], *, broken: bool) -> None:
        """Note on these sides why nothing more can be measured; `broken`: their own brokers are to blame."""
        for side in sides:
            self.rounds[side].append(unmeasured(len(self.rounds[side]) + 1, reason, broken=broken))


@dataclass
class Comparing:
    """Compares each scenario once; all scenarios take their share of the budget. Source of the comparisons of a run."""

    change: Change
    budget_s: float
    setup: Setup
    stop: ComparisonStopRule
    _compared: dict[str, Comparison] = field(default_factory=dict)
    _benches: int = 0

    def __post_init__(self) -> None:
        """Raise ConfigurationError when the change concerns none of the scenarios."""
        self._random = random.Random(self.setup.run_id)
        if all(map(self.cannot, self.setup.scenarios)):
            raise ConfigurationError(f"no selected scenario can be compared: {self.cannot(self.setup.scenarios[0])}")

    def cannot(self, scenario: Scenario) -> str | None:
        """Return why the scenario cannot be compared, or None when it can."""
        if self.change.concerns_consumers and scenario.consumers is None:
            return "the change concerns consumers, and this scenario has none"
        if scenario.load.kind == "backlog" and self.change.concerns_sending_alone:
            return "the change concerns how records are sent, and this scenario only reads"
        if scenario.load.kind == "ramp":
            return "a search for the knee takes minutes a round: compare a scenario at a rate of its own"
        candidate = self.setup.form(scenario, self.change)
        if self.change.changes and candidate == scenario:
            return "the change leaves it as it is: there would be nothing to compare"
        return self.setup.cannot(scenario) or self.setup.cannot(candidate)

    def compare(self, scenario: Scenario) -> Comparison:
        """Return the scenario's comparison; the first call measures all scenarios."""
        if not self._compared:
            compared = [row for row in self.setup.scenarios if self.cannot(row) is None]
            try:
                fresh = self.change.concerns_brokers and not self._change_live(compared)
                rows = [self._row(row, fresh=fresh) for row in compared]
                (self._epochs if fresh else self._alternate)(rows)
            finally:
                self.setup.target.close()
                self.setup.say.clear()
            self._compared = {row.name: self._comparison(row) for row in rows}
        return self._compared[scenario.name]

    def _change_live(self, scenarios: Sequence[Scenario]) -> bool:
        """Return whether the brokers take the change while they run, whichever of these scenarios they serve.

        Each cluster's first start is not in the budget. A cluster that does not start is left to what measures.
        """
        if self.change.restarts_brokers:
            return False
        with suppress(TargetError), self.setup.ledger.during("start"):
            for spec in dict.fromkeys(row.cluster for row in scenarios):
                if live_values(self.change, self.setup.target.cluster(spec)) is None:
                    self.setup.say.note("the brokers take this change at their start only: fresh ones for each side")
                    return False
            return True
        return False

    def _row(self, scenario: Scenario, *, fresh: bool) -> _Row:
        # What a bench keeps by name (backlogs, warm-up rates) must not be shared between the two forms.
        sides = {"A": scenario, "B": replace(self.setup.form(scenario, self.change), name=f"{scenario.name}-candidate")}
        if fresh:
            return _Row(sides, "epochs", ROUNDS_PER_EPOCH)
        # Turns need buffers of their own size, the same on both sides: a change of the buffer would be undone.
        buffered = any(name.startswith("queue.buffering.max") for name, _ in self.change.settings("producer"))
        # Links across zones add one delay at a time.
        links = {form.link for form in sides.values() if form.link.crosses_zones}
        # A connection keeps what was set when it was made. Real brokers are not to be changed every second.
        settings = self.change.settings("broker")
        kept = any(name.startswith(OF_CONNECTIONS) or not self.setup.target.own for name, _ in settings)
        if self.setup.driver.takes_turns and not (scenario.consumers or buffered or kept) and len(links) < 2:
            return _Row(sides, "turns", 1)
        return _Row(sides, "rounds", 2)

    # --- both sides on the same brokers

    def _alternate(self, rows: Sequence[_Row]) -> None:
        for cluster_spec in dict.fromkeys(row.sides["A"].cluster for row in rows):
            here = [row for row in rows if row.sides["A"].cluster == cluster_spec]
            switch = Switch()
            with _unhealthy_ends(here, switch, own=self.setup.target.own):
                with self.setup.ledger.during("start"):
                    cluster = self.setup.target.cluster(cluster_spec)
                if values := live_values(self.change, cluster):
                    switch.rehearse(cluster.live_settings(), values)
                    took = f"within {switch.slowest_s:.2f} s"
                    self.setup.say.note(f"{', '.join(dict(values))}: changed while the brokers run, {took}")
                bench = self._warm(cluster, [form for row in here for form in row.sides.values()], here)
                deadline = time.monotonic() + self.budget_s * len(here) / len(rows)
                self._until_decided(here, deadline, {row.name: self._unit_of(bench, row, switch) for row in here})
                switch.to("A")
                bench.delete_backlogs()

    def _unit_of(self, bench: Bench, row: _Row, switch: Switch) -> Callable[[float], None]:
        if row.method == "rounds":
            return lambda left: self._unit(row, lambda index: self._block_of_rounds(bench, row, switch, index, left))
        first_rate = min(bench.rate_of(form) for form in row.sides.values())

        def burst(index: int, left: float) -> tuple[str, list[tuple[str, Finished]]]:
            order = self._next_order(row)
            # Brokers may still get faster after their warm-up, and the buffers have to keep up with them.
            last = [rounds[-1].metrics.get("records_per_s", 0.0) for rounds in row.rounds.values() if rounds]
            at = pace(list(row.sides.values()), min(last, default=first_rate))
            at = replace(at, gap_s=max(at.gap_s, GAP_TIMES * switch.slowest_s))
            done = bench.turns(row.sides, order, at, index, left, partial(switch.along, order))
            return order, [(side, switch.in_time(finished, at.gap_s)) for side, finished in done.items()]

        return lambda left: self._unit(row, lambda index: burst(index, left))

    def _next_order(self, row: _Row) -> str:
        """Return a random order, then its mirror image, and so on: what an order favours evens out within two units."""
        if row.units % 2:
            return row.orders[-1].translate(MIRRORED)
        return self._random.choice(QUADS)

    def _block_of_rounds(
        self, bench: Bench, row: _Row, switch: Switch, index: int, left: float
    ) -> tuple[str, list[tuple[str, Finished]]]:
        order = self._next_order(row)
        seen = dict.fromkeys(SIDES, 2 * index - 2)
        measured = []
        for side in order:
            seen[side] += 1
            switch.to(side)
            measured.append((side, bench.round(row.sides[side], seen[side], left, f"block {index}, side {side},")))
        return order, measured

    def _unit(self, row: _Row, measure: Callable[[int], tuple[str, list[tuple[str, Finished]]]]) -> None:
        """Add a unit to the scenario; one that the generator spoilt is measured again."""
        while True:
            order, measured = measure(row.units + 1)
            again = any(finished.repeatable for _, finished in measured) and all(
                finished.repeatable or not finished.round.invalid for _, finished in measured
            )
            spent = (len(row.discarded["A"]) + len(row.discarded["B"])) // len(measured)
            if not again or spent >= REPEATS + row.units // UNITS_PER_REPEAT:
                break
            for side, finished in measured:
                row.discarded[side].append(finished.round)
        for side, finished in measured:
            row.rounds[side].append(finished.round)
        row.orders.append(order)

    def _until_decided(self, rows: Sequence[_Row], deadline: float, add: Mapping[str, Callable[[float], None]]) -> None:
        """Give every undecided scenario a unit, again and again; a scenario that is decided at a look leaves."""
        open_rows = list(rows)
        share = (deadline - time.monotonic()) / len(rows)
        while open_rows:
            for row in self._random.sample(open_rows, len(open_rows)):
                begin = time.monotonic()
                if begin + row.seconds / max(1, row.units) > deadline:
                    return
                add[row.name](deadline - begin)
                row.seconds += time.monotonic() - begin
                row.planned = row.planned or self._planned(share, row.seconds)
                if self._decided(row):
                    open_rows.remove(row)

    def _planned(self, seconds: float, unit_s: float) -> int:
        """Return how many units of `unit_s` the time affords; the looks follow from it."""
        return max(self.stop.fewest_units, int(seconds / unit_s))

    def _decided(self, row: _Row) -> bool:
        if row.unsound or row.units >= row.planned:
            return True
        return self.stop.decided(self._comparison(row))

    # --- fresh brokers for each side

    def _epochs(self, rows: Sequence[_Row]) -> None:
        deadline = time.monotonic() + self.budget_s
        open_rows, longest, order = list(rows), 0.0, ""
        while open_rows and time.monotonic() + longest <= deadline:
            begin = time.monotonic()
            # Two pairs of epochs make ABBA or BAAB.
            order = order[::-1] if len(order) == 2 else self._random.choice(("AB", "BA"))
            number = open_rows[0].units + 1
            for side in order:
                with _unhealthy_ends(open_rows, Switch(side), own=self.setup.target.own):
                    self._epoch(open_rows, side, number, deadline)
                if all(row.unsound for row in open_rows):
                    break
            longest = max(longest, time.monotonic() - begin)
            for row in list(open_rows):
                row.orders.append(order)
                row.seconds += (time.monotonic() - begin) / len(open_rows)
                row.planned = row.planned or self._planned(self.budget_s, time.monotonic() - begin)
                if self._decided(row):
                    open_rows.remove(row)
            order = "" if number % 2 == 0 else order

    def _epoch(self, rows: Sequence[_Row], side: str, number: int, deadline: float) -> None:
        """Measure one side's rounds on brokers of its own."""
        self.setup.target.close()
        with self.setup.ledger.during("start"):
            cluster = self.setup.target.cluster(rows[0].sides[side].cluster)
        bench = self._warm(cluster, [row.sides[side] for row in rows], rows)
        for part in range(1, ROUNDS_PER_EPOCH + 1):
            for row in self._random.sample(list(rows), len(rows)):
                index = (number - 1) * ROUNDS_PER_EPOCH + part
                left = deadline - time.monotonic()
                doing = f"epoch {number}, side {side}, round {part}/{ROUNDS_PER_EPOCH}"
                finished = bench.round(row.sides[side], index, left, doing)
                while finished.repeatable and len(row.discarded[side]) < REPEATS:
                    row.discarded[side].append(finished.round)
                    finished = bench.round(row.sides[side], index, left, doing)
                row.rounds[side].append(finished.round)
        for row in rows:
            row.log_tail = cluster.log_tail()
        bench.delete_backlogs()

    # --- common

    def _warm(self, cluster: Cluster, forms: Sequence[Scenario], rows: Sequence[_Row]) -> Bench:
        facts = self.setup.begun(cluster, forms, candidate=cluster.spec != rows[0].sides["A"].cluster)
        self._benches += 1
        run_id = f"{self.setup.run_id}-{self._benches}" if self._benches > 1 else self.setup.run_id
        # Both forms of a scenario take as long to warm up as two scenarios.
        bench = self.setup.bench(cluster, run_id, warmup_factor=len(forms) / len(rows))
        bench.warm_up(forms)
        facts["warm_up"] = bench.warm_up_facts
        rtt = bench.round_trips(forms)
        for row in rows:
            row.rtt_ms = {**row.rtt_ms, **rtt}
        return bench

    def _comparison(self, row: _Row) -> Comparison:
        forms = {
            side: measured_by(
                self.setup.driver,
                [replace(form, name=row.name)],
                {row.name: row.rounds[side]},
                {row.name: row.discarded[side]},
                row.rtt_ms,
                row.log_tail,
            )[row.name]
            for side, form in row.sides.items()
        }
        return Comparison(
            change=self.change.name,
            baseline=forms["A"],
            candidate=forms["B"],
            method=row.method,  # type: ignore[arg-type]  # one of the three that _row gives
            rounds_per_unit=row.per_unit,
            planned_units=max(row.planned, row.units, 1),
            orders=tuple(row.orders),
            minutes=row.seconds / 60,
        )


@contextmanager
def _unhealthy_ends(rows: Sequence[_Row], switch: Switch, *, own: bool) -> Iterator[None]:
    """Let a target that is no longer healthy end the scenarios' measurement, and be the reason why.

    Where only one side had the brokers then, and they are the suite's `own`, their failure is that side's.
    """
    try:
        yield
    except TargetError as error:
        sides = switch.sides
        broken = own and isinstance(error, BrokersFailedError) and len(sides) == 1
        for number, row in enumerate(rows):
            reason = str(error) if not number else str(error).partition("\n")[0]
            row.break_off(f"target unhealthy: {reason}", sides, broken=broken)
