"""The set-up of a measurement: a target, a driver, the tier and the scenarios."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from perfgate.measure.bench import Bench, Means
from perfgate.model import Change, ClusterSpec, changed
from perfgate.model.declared import POLL_AT_ONCE, Consumers, Scenario
from perfgate.model.errors import BrokersFailedError, ConfigurationError, TargetError
from perfgate.model.measured import Arm
from perfgate.model.target import Cluster, Target

MOST_POLL_MS = 300_000.0
"""Kafka's default of max.poll.interval.ms."""


@dataclass(kw_only=True)
class Setup(Means):
    """Set-up shared by campaigns and comparisons."""

    target: Target
    scenarios: Sequence[Scenario]
    run_id: str
    limited: Callable[[Scenario], Scenario] = lambda scenario: scenario
    """Limits a scenario to the load that the target allows."""
    usage_window_s: float = 0.0
    """Shortest window in which usage of brokers can be known; 0: it can be read at any moment, or has no source."""
    fewer: Callable[[Scenario], Arm | None] = lambda scenario: None
    """Gives the arm on one load host fewer; None: not asked for, or nothing to confirm."""
    target_facts: dict[str, object] = field(default_factory=dict)
    """Facts of the target as a whole for run.json: those known before the start, and of the first cluster."""
    clusters: list[dict[str, object]] = field(default_factory=list)
    """Facts of every cluster that was measured, in order."""
    _whole: bool = False
    _started: bool = False

    def form(self, scenario: Scenario, change: Change) -> Scenario:
        """The scenario with the change, within what the target allows: the candidate of a comparison."""
        return self.limited(changed(scenario, change))

    def cannot(self, scenario: Scenario) -> str | None:
        if reason := scenario.unfit_for_fault:
            return reason
        loads = (scenario, *scenario.parts)
        links = {load.link.name for load in loads if load.link.crosses_zones}
        if len(links) > 1 and self.target.own:
            return f"links are emulated one at a time, and its loads have {' and '.join(sorted(links))}"
        work = next(filter(None, map(cannot_work, loads)), "")
        return work or scenario.load.no_rate or self.driver.cannot(scenario) or self.target.cannot(scenario)

    def cluster(self, spec: ClusterSpec) -> Cluster:
        """The cluster of this spec, started unless it is alive. Raises TargetError, or ConfigurationError where the
        first does not start and its brokers did not fail: no other could."""
        try:
            with self.ledger.during("start"):
                cluster = self.target.cluster(spec)
        except TargetError as error:
            if self._started or not self.target.own or isinstance(error, BrokersFailedError):
                raise
            raise ConfigurationError(f"no cluster could be started: {error}") from error
        self._started = True
        return cluster

    def begun(
        self, cluster: Cluster, scenarios: Sequence[Scenario], *, again: bool = False, candidate: bool = False
    ) -> dict[str, object]:
        """Note a cluster that scenarios are measured on, `again` to confirm; return its facts, to be added to. The
        first that is no `candidate` stands for the run."""
        known, names = cluster.facts(), sorted({scenario.name for scenario in scenarios})
        if not candidate and not self._whole:
            self._whole = True
            self.target_facts.update(known)
        self.target_facts["clusters"] = self.clusters
        facts: dict[str, object] = {"scenarios": names, "second_look": again, **known}
        self.clusters.append(facts)
        return facts

    def bench(self, cluster: Cluster, run_id: str, warmup_factor: float = 1.0) -> Bench:
        return Bench(self, cluster, run_id, warmup_factor=warmup_factor)

    def warm_bench(
        self,
        cluster: Cluster,
        scenarios: Sequence[Scenario],
        run_id: str,
        factor: float = 1.0,
        *,
        candidate: bool = False,
    ) -> Bench:
        """A noted cluster (see `begun`), warmed up for `factor` times the tier's time. Raises TargetError."""
        facts = self.begun(cluster, scenarios, candidate=candidate)
        bench = self.bench(cluster, run_id, factor)
        facts["warm_up"] = bench.warm_up(scenarios)
        return bench


def cannot_work(scenario: Scenario) -> str:
    """Why the scenario's consumers cannot work as declared; empty where they can, or do not."""
    consumers = scenario.consumers
    if consumers is None or not (consumers.work_ms or consumers.pauses or consumers.commit_records):
        return "" if consumers is None or not consumers.work_sigma else "consumers.work-sigma needs consumers.work-ms"
    if scenario.cluster.system != "kafka":
        return "consumers that work, pause and commit are Kafka's: a subscription of Pulsar acknowledges each message"
    if consumers.commit_records and consumers.membership != "group":
        return "consumers.commit-records needs consumers.membership=group: no others commit"
    if not consumers.work_ms:
        return "consumers.pauses needs consumers.work-ms: nothing takes long otherwise" if consumers.pauses else ""
    return _cannot_keep_schedule(scenario, consumers)


def _cannot_keep_schedule(scenario: Scenario, consumers: Consumers) -> str:
    if not scenario.load.fixed_rate:
        return f"consumers.work-ms needs a paced load, whose lag is known; this one is {scenario.load.kind}"
    if consumers.membership not in ("group", "assigned"):
        return f"consumers.work-ms needs consumers.membership=group or assigned, not {consumers.membership}"
    if scenario.has_fault and scenario.falls_behind_per_s:
        return "a round with a fault asks whether consumers catch up, and these fall behind by declaration"
    poll_ms = consumers.work_ms * (POLL_AT_ONCE if consumers.work_per == "record" else 1)
    most_ms = float(dict(consumers.config).get("max.poll.interval.ms", MOST_POLL_MS))
    if poll_ms >= most_ms and not consumers.pauses:
        return (
            f"{POLL_AT_ONCE} records may take {poll_ms / 1e3:,.0f} s, longer than max.poll.interval.ms allows "
            f"({most_ms / 1e3:,.0f} s): set consumers.pauses=true, or less work"
        )
    return ""
