"""One cluster with a driver, ready to be loaded: warm-up and single rounds. Target, load and metrics meet here."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

from perfgate.measure.assembly import (
    Finished,
    done_in_window,
    hottest,
    round_of,
    sends_failed,
    timed_out_share,
    unmeasured,
)
from perfgate.measure.beside import Beside, client_ids, ended, loads_beside
from perfgate.measure.faults.fault_round import fault_round
from perfgate.measure.faults.growth import grown
from perfgate.measure.flaw import of_parts
from perfgate.measure.ledger import Ledger
from perfgate.measure.load_watch import LoadWatch, Say
from perfgate.measure.ramp import UNKNOWN, Known, known_after, ramp_round
from perfgate.measure.round_topics import RoundTopics, latency_by_topic, refusal_round, slowest, that_differ
from perfgate.measure.shaped import with_shape
from perfgate.measure.validity import accounted, not_sustained, throttled
from perfgate.measure.warm_up import Slice, bound_s, warm_up
from perfgate.metrics.usage import Sampler, UsageWatch, missing_figures
from perfgate.model import SAME_ZONE, FaultScenario, Link, Round, Scenario, Tier
from perfgate.model.errors import TargetError, TopicRefusedError
from perfgate.model.flaw import Flaw
from perfgate.model.load import Driver, Engine, LoadError, LoadResult, LoadSpec, Observer, Progress, SendsFailedError
from perfgate.model.metrics import HOTTEST, SLOWEST_TOPIC
from perfgate.model.target import Cluster

LINK_SHARE = 0.5
"""An emulated link that adds less than this share of what was asked for is not as declared."""
WARM_SLICE_S = 1.5
WARM_TOPICS = 10
"""Brokers compile the same code for more, and each slice makes its topics anew."""
WARM_RAMP_S = 10.0
"""One scenario is loaded this long before its slice: brokers that compile its code gain by it."""


@dataclass(kw_only=True)
class Means:
    """Tools to load and watch clusters."""

    tier: Tier
    driver: Driver
    engine: Engine
    """The suite's own driver: writes backlogs, takes turns and journals records, whatever `driver` is."""
    sampler: Callable[[Cluster], Sampler]
    say: Say
    histories: Path
    """Folder of the histories of rounds with a fault."""
    ledger: Ledger = field(default_factory=Ledger)
    shares_cores: bool = True
    """Whether the brokers are on the machine of the run."""


class Bench:
    """Loads a cluster."""

    def __init__(self, means: Means, cluster: Cluster, run_id: str, *, warmup_factor: float = 1.0) -> None:
        """`run_id` begins the name of every topic and marks every record; the tier's warm-up is times the factor."""
        self._means, self._cluster, self._run_id = means, cluster, run_id
        self._warmup_s = means.tier.broker_warmup_s * warmup_factor
        self.engine, self.ledger, self.dedicated = means.engine, means.ledger, cluster.dedicated
        self.topics = RoundTopics(cluster.topics(), run_id, cluster.prefix)
        self.watch = LoadWatch(cluster, means.ledger, means.say)
        self._begins = f"{cluster.prefix}{run_id}"
        self._quotas: dict[str, int] = {}
        """Quotas that were set, in bytes/s, by client id."""
        self._knees: dict[str, Known] = {}
        self._slices: dict[str, list[Slice]] = {}

    def new_sampler(self) -> Sampler:
        return self._means.sampler(self._cluster)

    def round_trips(self, scenarios: Sequence[Scenario]) -> dict[str, float]:
        """Round trips of the driver's clients by link, in ms. Raises TargetError for a link that is not as declared."""
        links = list(dict.fromkeys([SAME_ZONE, *(scenario.link for scenario in scenarios)]))
        rtt = {link.name: self._rtt_ms(link) for link in links}
        for link in links:
            added = rtt[link.name] - rtt[SAME_ZONE.name]
            if self._cluster.own and added < LINK_SHARE * link.added_rtt_ms:
                raise TargetError(
                    f"the {link.name} link should add {link.added_rtt_ms} ms to the round trip of "
                    f"{rtt[SAME_ZONE.name]:.2f} ms, but adds {added:.2f} ms"
                )
        return rtt

    def _rtt_ms(self, link: Link) -> float:
        cluster = self._cluster
        if cluster.own:  # its brokers are on this machine, and so are all clients
            return cluster.rtt_ms(link)
        try:
            there = self._means.driver.rtt_ms(link, cluster.bootstrap(link), cluster.client_settings())
        except LoadError as error:
            raise TargetError(str(error)) from error
        return cluster.rtt_ms(link) if there is None else there

    def warm_up(self, scenarios: Sequence[Scenario]) -> dict[str, list[dict[str, float | None]]]:
        """Load a new cluster until every scenario is warm, within a bound; return each one's slices, for run.json."""
        own = self._cluster.own
        scenarios = [_warming(scenario, own=own) for scenario in scenarios if not scenario.refusal]
        started = self._cluster.facts().get("ready_s")
        within_s = bound_s(self._warmup_s, float(str(started)) if started else None)
        with self.ledger.during("warm-up"):
            self._slices.update(warm_up(scenarios, self._warm_slice, within_s))
        return {name: [asdict(slice_) for slice_ in slices] for name, slices in self._slices.items()}

    def _warm_slice(self, scenario: Scenario, left_s: float) -> Slice | None:
        """A slice of load after the brokers have settled; None when the scenario cannot be loaded."""
        ends = time.monotonic() + left_s

        def progress(_phase: str, last: Progress | None) -> None:
            self.watch.report(f"warming the brokers up with {scenario.name}", last, ends - time.monotonic())

        sampler = self.new_sampler()
        observer = self.watch.observer(scenario, sampler, progress)
        try:
            with self.topic(scenario, observer) as topic:
                ramp_s = max(1.0, min(WARM_RAMP_S, left_s - WARM_SLICE_S))
                spec = replace(self.load_spec(scenario, topic), window_s=WARM_SLICE_S, warmup_max_s=ramp_s)
                result = self._means.driver.run(spec, replace(observer, written=self._written(scenario, topic)))
                self.watch.hold_outcome(scenario, result)
        except (LoadError, TopicRefusedError) as error:
            if isinstance(error, SendsFailedError):
                self.watch.hold_outcome(scenario, error)
            return None  # its rounds fail in the same way, and say so
        if reason := throttled(result):  # it explains flaws of the rounds too
            self.note(f"warming the brokers up with {scenario.name}: {reason}")
        rate = done_in_window(result) / result.window_s
        # A Prometheus has no two scrapes in so short a window.
        metrics = sampler.metrics(rate, [-1]) if sampler.read else {}
        return Slice(
            records_per_s=rate,
            us_per_record=metrics.get("broker_cpu_us_per_record", 0.0),
            compile_share=metrics.get("broker_compile_share.max"),
        )

    def brokers_cpu_s(self) -> float:
        """CPU in s of the suite's own brokers so far; 0.0 where it cannot be read."""
        sampler = self.new_sampler()
        if not (self._cluster.own and sampler.read):
            return 0.0
        return sum(usage.cpu_s for usage in sampler.read().values())

    def rate_of(self, scenario: Scenario) -> float:
        """Approximate rate at which the warm brokers take the scenario's records, in records/s."""
        slices = self._slices.get(scenario.name)
        last = slices[-1] if slices else self._warm_slice(scenario, WARM_SLICE_S)
        return last.records_per_s if last else 0.0

    def round(
        self, scenario: Scenario, index: int, left: float | None, doing: str, *, least_s: float = 0.0, hosts: int = 0
    ) -> Finished:
        """Measure a round, which holds the reason where it failed, for `least_s` or longer, on so many load hosts (0:
        all). Raises TargetError when the target is unhealthy."""
        progress = self.watch.progress(f"{doing} {scenario.name}", left)
        progress("creating its topic", None)
        if scenario.refusal:
            refused = refusal_round(self.topics, scenario, index, own_brokers=self.dedicated)
            return Finished(round=refused, repeatable=False)
        if scenario.load.searches:
            return self._ramp_round(scenario, index, left, doing)
        sampler = self.new_sampler()
        observer = self.watch.observer(scenario, sampler, progress, measured=True)
        try:
            with (
                self.ledger.during("topics"),
                self.topic(scenario, observer) as topic,
                loads_beside(scenario, self.topics, lambda words: progress(words, None)) as beside,
            ):
                before = self.topics.ends(topic, scenario)
                observer = replace(observer, written=self._written(scenario, topic))
                self._limit(scenario)
                with self.ledger.during("load start"):
                    spec = self.load_spec(scenario, topic)
                    window_s = scenario.load.window_s or max(spec.window_s, least_s)
                    spec = replace(spec, window_s=window_s, hosts=hosts)
                    if beside:
                        others = tuple(self._spec_beside(spec, load, scenario) for load in beside)
                        spec = replace(spec, most_rate=self._share(spec, scenario), beside=others)
                    result = self._means.driver.run(spec, observer)
                self.watch.hold_outcome(scenario, result)
                after = self.topics.ends_after(topic, scenario, before, result)
                afters = [
                    self.topics.ends_after(load.topic, load.scenario, load.before, part)
                    for load, part in zip(beside, result.beside, strict=True)
                ]
                leaders = self.topics.leaders(topic, result, scenario.topic.count)
        except SendsFailedError as error:
            self.watch.hold_outcome(scenario, error)
            return Finished(round=sends_failed(index, error, own_brokers=self.dedicated), repeatable=False)
        except (LoadError, TopicRefusedError) as error:
            return Finished(round=unmeasured(index, str(error)), repeatable=False)
        others_ends = [*zip(beside, afters, strict=True)]
        done = self.finished(scenario, index, result, before, after, [-1], sampler, leaders=leaders, beside=others_ends)
        whole = with_shape(replace(done.round, broker_cpu_over_time=sampler.over_time()), scenario.load, result)
        if scenario.load.shape:
            done = replace(done, repeatable=bool(whole.flaws) and all(flaw.again for flaw in whole.flaws))
        return replace(done, round=whole)

    def _ramp_round(self, scenario: Scenario, index: int, left: float | None, doing: str) -> Finished:
        def measure(paced: Scenario, step: str) -> Finished:
            return self.round(paced, index, left, f"{doing}, {step}")

        known = self._knees.get(scenario.name, UNKNOWN)
        done = ramp_round(measure, scenario, index, known, own_brokers=self.dedicated)
        self._knees[scenario.name] = known_after(done.round, known)
        return done

    def fault_round(self, scenario: FaultScenario, index: int, doing: str) -> Round:
        """Measure a round with the fault. Raises TargetError when the cluster did not recover."""
        sampler = self.new_sampler()
        observer = self.watch.observer(scenario, sampler, self.watch.progress(f"{doing} {scenario.name}", None))
        try:
            with self.ledger.during("fault rounds"), self.topic(scenario, observer) as topic:
                spec = self.load_spec(scenario, topic)
                usage, keeper, folder = UsageWatch(sampler.read), self.topics.keeper, self._means.histories
                done = fault_round(scenario, self._cluster, keeper, self.engine, spec, index, observer, usage, folder)
        except TopicRefusedError as error:
            return unmeasured(index, str(error))
        if done.failover is None:
            return done
        metrics = {**done.metrics, **sampler.metrics(done.metrics["records_per_s"], [0]), **grown(scenario, sampler)}
        # Figures that a source never gives are only `untold`.
        unavailable = sampler.unavailable if sampler.gives else ""
        return replace(done, metrics=metrics, usage_unavailable=unavailable, untold=missing_figures(metrics, sampler))

    def finished(
        self,
        scenario: Scenario,
        index: int,
        result: LoadResult,
        before: Sequence[int],
        after: Sequence[int],
        windows: Sequence[int],
        sampler: Sampler,
        flaws: Sequence[Flaw] = (),
        leaders: Sequence[int] = (),
        beside: Sequence[tuple[Beside, Sequence[int]]] = (),
    ) -> Finished:
        """The round of a load that has ended; `beside`: loads at the same time, with their partitions' end offsets."""
        # The brokers' usage is that of all loads together.
        loads = (result, *result.beside)
        broker_metrics = sampler.metrics(sum(map(done_in_window, loads)) / result.window_s, windows)
        account = partial(
            accounted,
            brokers=broker_metrics,
            clients_cores=sum(load_result.cpu_cores for load_result in loads),
            shares_cores=self._means.shares_cores,
        )
        accounting, own = account(scenario, result, before, after)
        flaws = (*flaws, *own)
        if scenario.keys.kind != "none":
            flaws = tuple(of_parts(flaw, [HOTTEST]) for flaw in flaws)
        if scenario.topic.count > 1:  # a topic may have the very records that waited longest
            flaws = tuple(of_parts(flaw, [SLOWEST_TOPIC], by="max") for flaw in flaws)
        short = not_sustained(scenario.load, result)
        by_topic = latency_by_topic(scenario.topic, result)
        parts = [
            ended(load, load_result, *account(load.scenario, load_result, load.before, ends))
            for (load, ends), load_result in zip(beside, result.beside, strict=True)
        ]
        part_metrics = {name: value for _, metrics, _ in parts for name, value in metrics.items()}
        flaws = (*flaws, *(flaw for _, _, part_flaws in parts for flaw in part_flaws))
        return Finished(
            round=round_of(
                index,
                result,
                accounting,
                {
                    **broker_metrics,
                    **timed_out_share(scenario.load, result.sent),
                    **hottest(scenario, result.sent),
                    **slowest(by_topic),
                    **part_metrics,
                },
                flaws,
                short,
                sampler.unavailable,
                missing_figures(broker_metrics, sampler),
                own_brokers=self.dedicated,
                leaders=leaders,
                topics=that_differ(by_topic, result.window_s),
                beside=tuple(figures for figures, _, _ in parts),
            ),
            # Records that brokers did not take, beside a flaw of the generator, are a result and no bad luck.
            repeatable=bool(flaws) and all(flaw.again for flaw in flaws) and not short,
        )

    def _limit(self, scenario: Scenario) -> None:
        """Set the quotas of the loads beside this one, once for the cluster. Raises TargetError."""
        for client_id, bytes_per_s in client_ids(scenario, self._begins).items():
            if self._quotas.get(client_id) != bytes_per_s:
                self._cluster.limit(client_id, bytes_per_s)
                self._quotas[client_id] = bytes_per_s

    def _spec_beside(self, spec: LoadSpec, load: Beside, together: Scenario) -> LoadSpec:
        """Specification of a load beside that of `spec`, both of the scenario `together`."""
        own = self.load_spec(load.scenario, load.topic)
        own = replace(own, window_s=spec.window_s, warmup_max_s=spec.warmup_max_s)
        client_id = f"{self._begins}-{load.scenario.name}" if load.limited else ""
        return replace(own, most_rate=self._share(own, together), client_id=client_id)

    def _share(self, spec: LoadSpec, together: Scenario) -> float:
        """The records/s that the target allows this load: each of `together` as many times what it offers."""
        times = self._cluster.most_bytes_per_s / together.offered_bytes_per_s
        if together.read_bytes_per_s:
            times = min(times, self._cluster.most_read_bytes_per_s / together.read_bytes_per_s)
        return min(spec.most_rate, times * spec.scenario.load.most_rate)

    def topic(self, scenario: Scenario, observer: Observer) -> AbstractContextManager[str]:
        self._cluster.meter.begin()
        if not scenario.load.sends:
            return nullcontext(self._backlog(scenario, observer))
        return self.topics.fresh(scenario, lambda words: observer.progress(words, None))

    def _backlog(self, scenario: Scenario, observer: Observer) -> str:
        meter = self._cluster.meter

        def sends(last: Progress) -> None:
            meter.under_way(last.done * scenario.stored_bytes)
            observer.sends(last)

        def fill(topic: str) -> None:
            self.engine.fill(self.load_spec(scenario, topic), replace(observer, sends=sends))
            meter.under_way(scenario.load.records * scenario.stored_bytes)  # no progress reports the last records
            meter.begin()

        return self.topics.backlog(scenario, fill, lambda words: observer.progress(words, None))

    def _written(self, scenario: Scenario, topic: str) -> Callable[[], int]:
        return lambda: sum(self.topics.ends(topic, scenario))

    def delete_backlogs(self) -> None:
        self.topics.delete_backlogs()

    def load_spec(self, scenario: Scenario, topic: str) -> LoadSpec:
        most_rate = self._cluster.most_bytes_per_s / scenario.stored_bytes
        if scenario.consumers:  # after a stall what is owed is sent, and read, as fast as allowed
            read = scenario.logged_bytes * scenario.groups
            most_rate = min(most_rate, self._cluster.most_read_bytes_per_s / read)
        if most_rate < math.inf and scenario.load.capped:
            most_rate = min(most_rate, scenario.load.rate)
        return LoadSpec(
            scenario=scenario,
            bootstrap=self._cluster.bootstrap(scenario.link),
            security=self._cluster.client_settings(),
            topic=topic,
            run_id=self._run_id,
            prefix=self._cluster.prefix,
            seed=self.topics.created,
            window_s=scenario.load.window_s or self._means.tier.window_s,
            warmup_max_s=self._means.tier.warmup_max_s,
            most_rate=most_rate,
        )

    def note(self, text: str) -> None:
        self._means.say.note(text)


def _warming(scenario: Scenario, *, own: bool) -> Scenario:
    """The scenario as brokers are warmed up with it: the suite's `own` harder, for at a paced rate they compile for
    minutes; a backlog is that of its rounds."""
    topic = scenario.topic
    few = replace(topic, count=min(topic.count, WARM_TOPICS)) if scenario.load.sends else topic
    return replace(scenario, load=scenario.load.warm_up(own=own), topic=few)
