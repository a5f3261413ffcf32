"""Comparison of each scenario as declared with itself changed, in turn, until all are decided."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from perfgate.load.schedule import SIDES
from perfgate.measure.assembly import break_off, measurement_of
from perfgate.measure.bench import Bench
from perfgate.measure.parts import (
    OVERRUN,
    WARMING_PARTS,
    Compared,
    failing,
    measure_part,
    next_order,
    too_short,
    unhealthy_ends,
)
from perfgate.measure.setup import Setup
from perfgate.measure.sides import (
    OF_A_RATE,
    OF_CONNECTIONS,
    OF_SEGMENTS,
    Switch,
    bounds_a_rate,
    differ_in_policies,
    in_force,
    live_values,
    topics_own,
)
from perfgate.model import AS_USUAL, Change, ClusterSpec, Comparison, Deciding, RecordedPairs, Scenario
from perfgate.model.command import command_line
from perfgate.model.compared import OF_A_PROCESS, ComparisonStopRule, declared_digest
from perfgate.model.errors import BrokersFailedError, ConfigurationError, StartRefusedError, TargetError, of_side
from perfgate.model.target import Cluster, OutsideChange


def cannot_be_compared(
    scenario: Scenario, change: Change, setup: Setup, decides: Deciding, *, against: bool
) -> str | None:
    """Why the scenario cannot be compared with itself changed; `against`: each side has a cluster that exists."""
    try:
        candidate = setup.form(scenario, change)
    except ConfigurationError as error:  # what it does not fit into in this scenario may fit in another
        return str(error).removeprefix(f"{scenario.name}: ")
    if why := not_to_be_compared(scenario, candidate, change, decides, against=against):
        return why
    blind = next((name for name in decides.metrics if name.startswith("broker_")), "")
    if blind and (no_source := setup.target_facts.get("no_usage")):
        return f"{blind} cannot decide: {no_source}"
    return setup.cannot(scenario) or setup.cannot(candidate)


def not_to_be_compared(
    scenario: Scenario, candidate: Scenario, change: Change, decides: Deciding, *, against: bool
) -> str | None:
    """The reason as far as the declarations show it; `candidate`: the scenario with the change."""
    if not against and (why := _unconcerned(scenario, candidate, change)):
        return why
    if why := scenario.load.incomparable:
        return why
    shared = next((name for name in decides.metrics if name.startswith(OF_A_PROCESS)), "")
    if shared and not (against or change.on_pairs or change.restarts_brokers):
        return (
            f"{shared} cannot decide: the same brokers serve both sides; "
            "`pairs = true` in the change file gives each side its own"
        )
    return decides.cannot(scenario)


def _unconcerned(scenario: Scenario, candidate: Scenario, change: Change) -> str | None:
    if change.concerns_consumers and scenario.consumers is None:
        return "the change concerns consumers, and this scenario has none"
    if not scenario.load.sends and change.concerns_sending_alone:
        return "the change concerns how records are sent, and this scenario only reads"
    if change.changes and candidate == scenario:
        return "the change leaves it as it is: there would be nothing to compare"
    if change.changes and in_force(candidate) == in_force(scenario):
        stated = [own for name, own in topics_own(candidate).items() if name in dict(change.settings("broker"))]
        return f"its topic states {' and '.join(stated)} itself, whatever the brokers' setting is: ask by [topic]"
    return None


BURSTS_PER_PAIR, BLOCKS_PER_PAIR = 6, 2
"""Of a scenario on each pair of clusters: a burst scatters by 9 to 15 %, pairs of the same version by some 5 %."""
PAIRS_LOST = 2
"""Pairs of clusters in a row that came to nothing: another would fail in the same way."""
SAME_WINDOW = 0.01
"""Windows that differ by less are of the same length."""


def _of_the_same(pairs: RecordedPairs, compared: Compared) -> bool:
    return pairs.declared == declared_digest(compared.sides["A"])


@dataclass
class Comparing:
    """Compares each scenario once; all scenarios share the budget. Source of the comparisons of a run."""

    change: Change
    budget_s: float
    setup: Setup
    stop: ComparisonStopRule
    decides: Deciding = AS_USUAL
    against: bool = False
    """Whether the target is two clusters that exist, one a side."""
    outside: OutsideChange | None = None
    """Makes a change that the suite does not make: commands, or a person."""
    recorded: Mapping[str, Sequence[RecordedPairs]] = field(default_factory=dict)
    """A/A pairs of this machine class, by scenario."""
    _compared: dict[str, Comparison] = field(default_factory=dict)
    _failed: Exception | None = None
    """The error that ended the measurement: nothing is measured after it, or each test would use the whole budget."""
    _benches: int = 0
    _stuck: str = ""

    def __post_init__(self) -> None:
        """Raise ConfigurationError when the change concerns none of the scenarios."""
        self._random = random.Random(self.setup.run_id)
        if all(map(self.cannot, self.setup.scenarios)):
            raise ConfigurationError(f"no selected scenario can be compared: {self.cannot(self.setup.scenarios[0])}")

    def cannot(self, scenario: Scenario) -> str | None:
        return cannot_be_compared(scenario, self.change, self.setup, self.decides, against=self.against)

    def compare(self, scenario: Scenario) -> Comparison:
        """The scenario's comparison; the first call measures all scenarios, and later ones raise the same error."""
        if self._failed is not None:
            raise self._failed
        if not self._compared:
            comparisons: list[Compared] = []
            try:
                self._measure(comparisons)
            except Exception as error:
                self._failed = error
                raise
            except KeyboardInterrupt:
                self._compared = {
                    compared.name: self._comparison(compared) for compared in comparisons if compared.units
                }
                raise
            finally:
                if self.outside is not None:
                    self.outside.close()  # while the brokers are there; the run's end tries again
                self.setup.target.close()
                self.setup.say.clear()
            self._compared = {compared.name: self._comparison(compared) for compared in comparisons}
        return self._compared[scenario.name]

    def _measure(self, comparisons: list[Compared]) -> None:
        """Measure all that can be compared, cluster by cluster, and add them to `comparisons`. A change that brokers
        refuse is an error, unless others have answers already."""
        comparable = [scenario for scenario in self.setup.scenarios if self.cannot(scenario) is None]
        for spec in dict.fromkeys(scenario.cluster for scenario in comparable):
            scenarios = [scenario for scenario in comparable if scenario.cluster == spec]
            here: list[Compared] = []
            try:
                pairs = self.change.on_pairs or (
                    not self.against and self.change.concerns_brokers and not self._change_live(spec, scenarios)
                )
                here = [self._begun(scenario, pairs=pairs) for scenario in scenarios]
                left_s = max(0.0, self.budget_s - sum(compared.seconds for compared in comparisons))
                left_s *= len(here) / (len(comparable) - len(comparisons))
                comparisons += here
                measure = self._on_two if self.against else self._pairs if pairs else self._alternate
                measure(here, left_s)
            except ConfigurationError as error:
                if not any(any(compared.rounds.values()) for compared in comparisons):
                    raise
                if not here:
                    comparisons += (here := [self._begun(scenario, pairs=False) for scenario in scenarios])
                for compared in here:
                    break_off([compared.undecided(SIDES)], str(error))

    def so_far(self, scenario: Scenario) -> Comparison | None:
        """The scenario's comparison as far as it went before an interruption; None without a whole unit."""
        return self._compared.get(scenario.name)

    def _change_live(self, spec: ClusterSpec, scenarios: Sequence[Scenario]) -> bool:
        """Whether these brokers take the change while they run. Raises ConfigurationError where real brokers do not."""
        if self.change.restarts_brokers:
            return False
        own = self.setup.target.own
        try:
            if live_values(self.change, self.setup.cluster(spec)) is not None:
                return True
        except TargetError:
            return not own  # the measurement fails in the same way, and says so
        names = ", ".join(scenario.name for scenario in scenarios)
        why = "brokers take this change at their start only, or these scenarios state it themselves"
        if not own:
            raise ConfigurationError(f"{self.change.name}, {names}: {why}; real brokers are not restarted for it")
        self.setup.say.note(f"{names}: {why}: a pair of clusters for each unit")
        return False

    def _begun(self, scenario: Scenario, *, pairs: bool) -> Compared:
        candidate = self.setup.form(scenario, self.change)
        # A limit of the target allows fewer records of more replicas: both sides are offered what it allows of both.
        least = min(scenario.load.rate, candidate.load.rate)
        forms = [replace(form, load=form.load.at_most(least)) for form in (scenario, candidate)]
        # Backlogs and warm-up rates, which a bench keeps by name, must not be shared between the two forms.
        sides = {"A": forms[0], "B": replace(forms[1], name=f"{scenario.name}-candidate")}
        # Turns need buffers of their own size, the same on both sides: a change of the buffer would be undone.
        buffered = any(name in self.setup.engine.buffer_settings for name, _ in self.change.settings("producer"))
        links = {form.link for form in sides.values() if form.link.crosses_zones}  # these add one delay at a time
        # Connections and segments keep their settings, and topics of one namespace share its policies. Real brokers are
        # not changed every second.
        settings = self.change.settings("broker")
        kept = any(
            name.startswith((*OF_CONNECTIONS, *OF_SEGMENTS)) or not self.setup.target.own for name, _ in settings
        ) or (not self.against and differ_in_policies(sides["A"], sides["B"]))
        # A load with an open transaction does not pause while the other side's turn is measured, nor does a shape.
        kept_up = any(form.transaction_ms or form.beside for form in sides.values())
        averaged = any(map(bounds_a_rate, sides.values())) or any(OF_A_RATE.search(name) for name, _ in settings)
        pauses = not (scenario.consumers or scenario.load.shape or kept_up or averaged)
        turns = self.setup.driver.takes_turns and pauses
        if pairs:
            parts = (1, BURSTS_PER_PAIR) if turns and not buffered else (2, BLOCKS_PER_PAIR)
            return Compared(sides, "pairs", *parts, decides=self.decides)
        in_turns = turns and not buffered and not kept and len(links) < 2 and self.outside is None
        return Compared(sides, "turns" if in_turns else "rounds", 1, decides=self.decides)

    def _alternate(self, comparisons: Sequence[Compared], budget_s: float) -> None:
        switch = Switch()
        with unhealthy_ends(comparisons, lambda: switch.turn, dedicated=self.setup.target.dedicated):
            if self._stuck:
                raise TargetError(self._stuck)
            cluster = self.setup.cluster(comparisons[0].sides["A"].cluster)
            values = live_values(self.change, cluster)
            if self.outside is not None:
                self._rehearse(switch, self.outside)
            elif values:
                switch.rehearse(cluster.live_settings(), values)
                took = f"changed while the brokers run, within {switch.slowest_s:.2f} s"
                self.setup.say.note(f"{', '.join(dict(values))}: {took}")
            bench = self._warm(
                cluster, [form for compared in comparisons for form in compared.sides.values()], comparisons
            )
            if values or self.outside:
                bench.delete_backlogs()  # both were written while the brokers served side A
            self._until_decided(comparisons, time.monotonic() + budget_s, dict.fromkeys(SIDES, bench), switch)
            switch.to("A")
            bench.delete_backlogs()
        if self.outside is not None:
            self._stuck = switch.back()  # after a failure it may still be applied

    def _rehearse(self, switch: Switch, outside: OutsideChange) -> None:
        """Apply and revert the change before anything is measured. Raises ConfigurationError when that fails."""
        self.setup.say("applying and reverting the change before anything is measured", None)
        try:
            switch.rehearse(outside, (), times=outside.rehearsals)
        except TargetError as error:
            self._stuck = switch.back()
            raise ConfigurationError(f"{self.change.name}: {error}") from error
        if outside.rehearsals:
            self.setup.say.note(f"{self.change.name}: applied and reverted, {switch.slowest_s:.1f} s at the longest")

    def _until_decided(
        self, comparisons: Sequence[Compared], deadline: float, benches: Mapping[str, Bench], switch: Switch
    ) -> None:
        """Measure units of every undecided scenario, in random order, until all are decided or the time is over."""
        undecided = list(comparisons)
        share = (deadline - time.monotonic()) / len(comparisons)
        for compared in comparisons:
            self._lengthened(compared, share)

        while undecided:
            for compared in self._random.sample(undecided, len(undecided)):
                begin = time.monotonic()
                if begin + compared.unit_s > deadline:
                    return
                order = next_order(compared.orders, self._random, compared.orders_of_a_part)
                order = measure_part(compared, benches, switch, deadline - begin, order)
                compared.seconds += time.monotonic() - begin
                if not order:
                    return
                compared.orders.append(order)
                if self._lengthened(compared, share):
                    continue
                compared.planned = compared.planned or self._planned(share, compared.part_s, compared)
                freed = (deadline - time.monotonic()) / len(undecided) if len(undecided) < len(comparisons) else 0.0
                if self._decided(compared, int(freed / compared.part_s)):
                    undecided.remove(compared)

    # --- each side on a cluster that exists

    def _on_two(self, comparisons: Sequence[Compared], budget_s: float) -> None:
        clusters = dict[str, Cluster]()
        with unhealthy_ends(comparisons, lambda: failing(clusters, SIDES), dedicated=self.setup.target.dedicated):
            benches = self._both(clusters, SIDES, comparisons)
            declared_ms, other_ms = (comparisons[0].series[side].rtt_ms for side in SIDES)
            for link, rtt_ms in declared_ms.items():
                if link in other_ms:  # or the change is of the link
                    both = f"{rtt_ms:.2f} ms as declared, {other_ms[link]:.2f} ms to the other cluster"
                    self.setup.say.note(f"round trip, {link}: {both}")
            self._until_decided(comparisons, time.monotonic() + budget_s, benches, Switch())
            for bench in benches.values():
                bench.delete_backlogs()

    # --- a pair of clusters for each unit

    def _pairs(self, comparisons: Sequence[Compared], budget_s: float) -> None:
        deadline = time.monotonic() + budget_s
        undecided, longest, first, lost = list(comparisons), 0.0, "", 0
        for compared in comparisons:
            known = self.recorded.get(compared.name, ())
            if known and not any(_of_the_same(pairs, compared) for pairs in known):
                self.setup.say.note(
                    f"{compared.name}: its recorded A/A pairs do not count: they are of another declaration of it, or "
                    f"do not say of which; {command_line('pairs', '--accept')} stores those of runs of this one"
                )
        while undecided:
            begin, count, units = time.monotonic(), len(undecided), undecided[0].units
            needed = max(self.stop.fewest_units(self._comparison(compared)) for compared in undecided)
            if units == 1 and (few := too_short(budget_s, longest, needed)):
                self.setup.say.note(few)
            if begin + longest > deadline + (OVERRUN * longest if units == needed - 1 else 0.0):
                return
            # Of two pairs each side starts first once.
            first = first[::-1] if units % 2 else self._random.choice(("AB", "BA"))
            self._pair(undecided, first, deadline)
            lost = 0 if undecided[0].units > units else lost + 1
            longest = max(longest, pair_s := time.monotonic() - begin)
            freed = int((deadline - time.monotonic()) / pair_s) if count < len(comparisons) else 0
            for compared in list(undecided):
                compared.seconds += pair_s / count
                compared.planned = compared.planned or self._planned(budget_s, pair_s, compared)
                if self._decided(compared, freed):
                    undecided.remove(compared)
            if lost == PAIRS_LOST:
                return

    def _pair(self, comparisons: Sequence[Compared], first: str, deadline: float) -> None:
        """Measure a unit of every scenario on two new clusters in turns: a machine that drifts hits both alike."""
        target, clusters = self.setup.target, dict[str, Cluster]()
        target.close()
        with unhealthy_ends(comparisons, lambda: failing(clusters, first), dedicated=target.dedicated):
            benches = self._both(clusters, first, comparisons)
            orders: dict[str, list[str]] = {compared.name: [] for compared in comparisons}
            for compared in comparisons:
                compared.may_warm = WARMING_PARTS
                self._lengthened(compared, deadline - time.monotonic())

            while left := [compared for compared in comparisons if len(orders[compared.name]) < compared.parts]:
                for compared in self._random.sample(left, len(left)):
                    own = orders[compared.name]
                    order = next_order(own, self._random)
                    own.append(measure_part(compared, benches, Switch(), deadline - time.monotonic(), order))
                    if self._lengthened(compared, deadline - time.monotonic()):
                        own.clear()
            for compared in comparisons:
                compared.orders.append(" ".join(orders[compared.name]))
            for side, bench in benches.items():
                comparisons[0].log_tail = clusters[side].log_tail()
                bench.delete_backlogs()

    def _both(self, clusters: dict[str, Cluster], order: str, comparisons: Sequence[Compared]) -> dict[str, Bench]:
        """Start each side's cluster, or reach it, in this order, and warm both up. Raises as `Setup.cluster` does."""
        stated = self.change.settings("broker")
        with self.setup.ledger.during("start"):
            for side, start in zip(order, (self.setup.cluster, self.setup.target.beside), strict=True):
                try:
                    clusters[side] = start(comparisons[0].sides[side].cluster)
                except StartRefusedError as error:
                    if side == "A":
                        raise
                    raise BrokersFailedError(str(error)) from error  # with the change they do not start
        if stated and not self.against:
            clusters["B"].live_settings().fixed([name for name, _ in stated])  # Kafka ignores unknown ones
        return {
            side: self._warm(cluster, [compared.sides[side] for compared in comparisons], comparisons, side)
            for side, cluster in clusters.items()
        }

    def _lengthened(self, compared: Compared, budget_s: float) -> bool:
        """Whether the scenario is begun anew, with longer windows: the brokers' usage decides and needs them."""
        window_s = self.setup.usage_window_s
        comparison = self._comparison(compared)
        if compared.unsound:
            return False  # a result, which longer windows would forget
        if compared.window_s >= window_s or not any(n.startswith("broker_") for n in self.stop.may_decide(comparison)):
            return False
        compared.lengthen(window_s, BLOCKS_PER_PAIR)
        unit_s = compared.parts * len(compared.orders_of_a_part[0]) * window_s
        needed = self.stop.fewest_units(comparison)
        short = f"; {needed} units, which a decision needs, take longer than the budget: raise --budget"
        self.setup.say.note(
            f"{compared.name}: brokers' CPU decides, which takes windows of {window_s:g} s to tell: "
            f"a unit takes {unit_s / 60:.1f} min or more{short if needed * unit_s > budget_s else ''}"
        )
        return True

    def _planned(self, seconds: float, unit_s: float, compared: Compared) -> int:
        """Number of units of `unit_s` that the time affords; the planned looks follow from it."""
        return max(self.stop.fewest_units(self._comparison(compared)), int(seconds / unit_s))

    def _decided(self, compared: Compared, freed: int) -> bool:
        """Whether nothing more is measured of the scenario; others left it time for `freed` more units."""
        compared.grow(freed)
        comparison = self._comparison(compared)
        recording = self.change.records_pairs  # ending when A/A pairs are alike would hide their scatter
        over = compared.done(self.stop.fewest_units(comparison))
        compared.decided = over or (not recording and self.stop.decided(comparison))
        return compared.decided

    def _warm(
        self, cluster: Cluster, forms: Sequence[Scenario], comparisons: Sequence[Compared], sides: str = SIDES
    ) -> Bench:
        self._benches += 1
        run_id = f"{self.setup.run_id}-{self._benches}" if self._benches > 1 else self.setup.run_id
        factor = len(forms) / len(comparisons)  # both forms of a scenario take as long as two scenarios
        candidate = cluster.spec != comparisons[0].sides["A"].cluster
        with of_side(sides if len(sides) == 1 else ""):
            bench = self.setup.warm_bench(cluster, forms, run_id, factor, candidate=candidate)
            rtt = bench.round_trips(forms)
        for series in (compared.series[side] for compared in comparisons for side in sides):
            series.rtt_ms = {**series.rtt_ms, **rtt}
        return bench

    def _comparison(self, compared: Compared) -> Comparison:
        forms = {
            side: replace(
                measurement_of(self.setup.driver, series, log_tail=compared.log_tail),
                scenario=replace(series.arm.scenario, name=compared.name),
            )
            for side, series in compared.series.items()
        }
        size = compared.per_part * compared.parts
        recorded = self.recorded.get(compared.name, ()) if compared.method == "pairs" else ()
        return Comparison(
            change=self.change.name,
            baseline=forms["A"],
            candidate=forms["B"],
            method=compared.method,  # type: ignore[arg-type]  # of the three that _begun gives
            rounds_per_unit=size,
            planned_units=max(compared.planned, compared.units, 1),
            orders=tuple(compared.orders),
            minutes=compared.seconds / 60,
            decides=self.decides,
            two_clusters=self.against,
            recorded=tuple(pairs for pairs in recorded if self._alike(pairs, compared)),
            former_plans=tuple(compared.former),
        )

    def _alike(self, pairs: RecordedPairs, compared: Compared) -> bool:
        """Whether pairs were recorded of the same load, by as many rounds of the same length."""
        if pairs.rounds_per_unit != compared.per_part * compared.parts or not _of_the_same(pairs, compared):
            return False
        windows_s = [r.window_s for r in compared.rounds["A"]] if compared.per_part > 1 else []
        window_s = median(windows_s) if windows_s else self.setup.tier.window_s
        return pairs.window_s is not None and math.isclose(pairs.window_s, window_s, rel_tol=SAME_WINDOW)
