"""A scenario measured with and without a change, and what decides between the two."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, Protocol

from perfgate.model.declared import Scenario
from perfgate.model.measured import Measurement, Round
from perfgate.model.metrics import METRICS

OUTLASTED = "its records were still under way when the other side was measured"
WAITED = "the other side's records were still under way when this one was measured"
"""Of a side whose turns ran into those of the other."""
SENT_LATE = "sent late"
"""Of a load that was sent later than a latency allows."""
SATURATED, STOOD_STILL, HEARD_LATE = (
    "generator saturated",
    "the generators stood still",
    "a generator heard of its window",
)
"""Of a load that was not sent, or not counted, in full: the beginnings of the reasons."""
SAME_WITHIN = 0.05
"""Differences within a factor of 1.05, up or down, count as the same unless a run is asked otherwise."""
MAY_DECIDE = tuple(
    name
    for name in METRICS
    if name.startswith(
        (
            "records_per_s",
            "mib_per_s",
            "received_",
            "fetch_latency_ms.",
            "latency_ms.",
            "end_to_end_latency_ms.",
            "broker_cpu_cores.",
            "broker_cpu_us_per_record",
            "broker_rss_mib.",
            "broker_disk_",
            "client_cpu_",
        )
    )
)
"""Metrics by which a comparison can be decided: those of a plain round that are never 0 while something is sent."""


OF_A_PROCESS = "broker_rss_mib."
"""What brokers' processes have by now, whoever loads them: both sides of a comparison on the same brokers read it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Deciding:
    """What decides a comparison: these metrics (none: the load's own), and the `margin` within which they are the same.

    All of them have to be the same, or better; one that is worse is enough. They share the chance of a wrong verdict.
    """

    metrics: tuple[str, ...] = ()
    margin: float = SAME_WITHIN

    def cannot(self, scenario: Scenario) -> str | None:
        """Return the reason why these metrics cannot decide about the scenario; None where they can."""
        for name in self.metrics:
            if why := scenario.load.cannot_decide(name):
                return f"{name} cannot decide: {why}"
            if name.startswith(("received_", "fetch_", "end_to_end_")) and scenario.consumers is None:
                return f"{name} cannot decide: this scenario has no consumers"
        return None


AS_USUAL = Deciding()


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedPairs:
    """By what pairs of clusters of the same kind differed in a metric: A/A pairs, recorded on one class of machine.

    `effects`: of each pair, the logarithm of one side over the other. `rounds_per_unit`: rounds of each side in a pair,
    of `window_s` each; None: the window of their tier. `declared`: a digest of the scenario as it was declared; empty:
    not known.
    """

    metric: str
    rounds_per_unit: int
    effects: tuple[float, ...]
    window_s: float | None = None
    declared: str = ""


OF_NO_LOAD = ("name", "summary", "families", "factor", "tier", "version", "image", "home", "knee")
"""Fields that are words, or of the release that is measured."""


def declared_digest(scenario: Scenario) -> str:
    """Return a digest of the load and the brokers that a scenario declares, whatever it is called."""
    if scenario.load.share_of_knee:  # its rate is another with each knee that is measured
        scenario = replace(scenario, load=replace(scenario.load, rate=0.0))
    stated = json.dumps(_stated(scenario), sort_keys=True, default=str)
    return hashlib.sha256(stated.encode()).hexdigest()[:12]


def _stated(value: Any) -> Any:
    """Return the fields that differ from their defaults, so that a field which a later release adds changes nothing."""
    if is_dataclass(value):
        kept = (field for field in fields(value) if field.name not in OF_NO_LOAD)
        given = {field.name: (_stated(getattr(value, field.name)), _stated(field.default)) for field in kept}
        return {type(value).__name__: {name: own for name, (own, usual) in given.items() if own != usual}}
    if isinstance(value, tuple):
        return [_stated(inner) for inner in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """A scenario as declared (baseline) and with the change (candidate), measured in turn; `minutes` were spent.

    `method`: `turns` (of a second, within a burst), `rounds` (whole rounds alternate on the same brokers) or `pairs`
    (of clusters, a new one for each unit). Rounds of both sides with the same numbers form units.
    """

    change: str
    baseline: Measurement
    candidate: Measurement
    method: Literal["turns", "rounds", "pairs"]
    rounds_per_unit: int
    planned_units: int
    """How many units the budget affords; with `former_plans` it decides when the comparison is judged."""
    orders: tuple[str, ...]
    """The order of the sides in each unit: ABBA or BAAB, several in a pair."""
    minutes: float
    decides: Deciding = AS_USUAL
    two_clusters: bool = False
    """Whether each side has an existing cluster of its own, measured by turns or rounds."""
    recorded: tuple[RecordedPairs, ...] = ()
    """Recorded scatter between pairs, by metric, besides the measured scatter; method `pairs` only."""
    former_plans: tuple[int, ...] = ()
    """Smaller plans, rising, that ended undecided before other scenarios left time over."""

    def recorded_of(self, metric: str) -> RecordedPairs | None:
        return next((pairs for pairs in self.recorded if pairs.metric == metric), None)

    @property
    def scenario(self) -> Scenario:
        return self.baseline.scenario

    @property
    def sides(self) -> tuple[Measurement, Measurement]:
        return self.baseline, self.candidate

    def turned(self) -> Comparison:
        swapped = str.maketrans("AB", "BA")
        orders = tuple(order.translate(swapped) for order in self.orders)
        return replace(self, baseline=self.candidate, candidate=self.baseline, orders=orders)


class StopRule(Protocol):
    """When interleaved rounds may end, or have to go on; the judge's answer to the measuring."""

    def hopeless(self, scenario: Scenario, rounds: Sequence[Round]) -> bool:
        """Whether these rounds scatter so much that more of them could not be judged either."""

    def sure(self, scenario: Scenario, block: Mapping[str, Measurement]) -> bool:
        """Whether more rounds would change nothing: all that is claimed of the scenario is kept by far.

        `block`: the scenarios that are measured beside it, and itself, as far as they were measured.
        """

    def still_warming(self, by_scenario: Mapping[str, Sequence[Round]]) -> dict[str, str]:
        """Return the scenarios of a block whose brokers were still warming up, with the figures."""


class ComparisonStopRule(Protocol):
    """The same for a comparison's units."""

    def fewest_units(self, comparison: Comparison) -> int:
        """Return the least number of units that can decide."""

    def may_decide(self, comparison: Comparison) -> Sequence[str]:
        """Return the metrics that may be needed to decide, as far as its rounds show."""

    def decided(self, comparison: Comparison) -> bool:
        """Whether what was measured so far decides; asked after every unit, true at planned moments only."""
