"""Rounds with a fault: all those of a scenario, each from its topic to the final read."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from perfgate.load.history import (
    ACCEPT,
    OUTCOME,
    RECEIPT,
    SEND,
    Rows,
    accepts_path,
    outcomes_path,
    read_journal,
    receipts_path,
    sends_path,
)
from perfgate.measure.assembly import blame, measurement_of, sends_failed, unmeasured
from perfgate.measure.faults.analysis import analyse, recovered, without_integrity
from perfgate.measure.faults.flaws import (
    brokers_served_too_little,
    failed_before,
    late_before,
    never_served,
    not_given,
    not_redelivered,
    schedule_delay_s,
    spoilt_latencies,
    stayed,
)
from perfgate.measure.faults.history import Written, history_path, keep
from perfgate.measure.flaw import of_brokers
from perfgate.measure.host_validity import fault_host_flaws, spoilt_by_clocks
from perfgate.metrics.usage import UsageWatch
from perfgate.model import FaultScenario, Measurement, Round, Scenario
from perfgate.model.errors import BrokersFailedError, TargetError, TopicRefusedError
from perfgate.model.faults import BEFORE_S, Scene
from perfgate.model.flaw import Doubt, Flaw, from_doubts
from perfgate.model.load import (
    FAILED,
    Engine,
    JournaledLoad,
    LoadError,
    LoadSpec,
    LogUnreadError,
    Observer,
    SendsFailedError,
)
from perfgate.model.series import Arm, Series
from perfgate.model.target import Cluster, Faults, LoggedChange, TopicKeeper

if TYPE_CHECKING:  # its bench makes these rounds
    from perfgate.measure.bench import Bench
    from perfgate.measure.setup import Setup

AFTER_S, AFTER_MOST_S = 15.0, 60.0
"""The load goes on for this time once everything is back: ten good seconds have to be seen, and are waited for. Clients
of Pulsar may look for a broker 26 s after it is back, and of 30 s too few were good ones on a busy machine."""
LOOK_EVERY_S = 2.0
SETTLED_S, SETTLED_WITHIN_S = 1.0, 30.0
WARM_UP = 0.5
"""Of the tier's warm-up: what a fault costs does not depend on the last percent of what the brokers can do."""


def fault_round(
    scenario: FaultScenario,
    cluster: Cluster,
    faults: Faults,
    topics: TopicKeeper,
    engine: Engine,
    spec: LoadSpec,
    index: int,
    observer: Observer,
    usage: UsageWatch,
    folder: Path,
) -> Round:
    """Return the round, with the reason in it where it was not measured; its history is kept in `folder`.

    Raises TargetError when the cluster did not get well again: the next round needs another one then.
    """
    journals = folder / f"{scenario.name}-{index}"
    shutil.rmtree(journals, ignore_errors=True)  # writers append
    over = True
    try:
        with (
            cluster.watch(spec.topic, scenario.link) as watch,
            engine.journaled(spec, journals, observer) as load,
            usage,
        ):
            load.begin()
            scene = Scene(scenario, faults, load, watch)
            observer.edge(begin := time.monotonic())
            load.follow_until(begin + BEFORE_S, "before the fault")
            observer.edge(begin + BEFORE_S)
            over = False
            # Sources that report a window afterwards are asked for what time alone does, too.
            edge = observer.edge if scenario.fault.about.harmless else lambda _at: None
            edge(time.monotonic())
            scenario.fault.about.act(scene)
            edge(time.monotonic())
            over = True
            back = time.monotonic()
            load.follow_until(back + AFTER_S, "after the fault")
            while time.monotonic() < back + AFTER_MOST_S and not _recovered(spec, load, scene, journals):
                load.follow_until(time.monotonic() + LOOK_EVERY_S, "until rate and p99 are as before")
            flaws = load.finish()
        cluster.check()
        ends = _settled_ends(topics, spec)
        log, unread = _everything(engine, spec, journals / "log", ends, observer)
        changed, unknown = _changes(faults, spec.topic)
        written = _written(spec, load, scene, journals, log, ends, changed, usage)
        keep(history_path(folder, scenario.name, index), written)
        shutil.rmtree(journals)
        try:
            failover, metrics, accounting = analyse(written)
        except ValueError as error:
            broken = cluster.dedicated and brokers_served_too_little(written)
            return unmeasured(index, str(error), broken=broken, perhaps_late=True)
        if unread:  # what was not read is not known to be lost
            failover, metrics = without_integrity(failover, metrics)
        failover = replace(failover, session_s=faults.session_s())
    except (LoadError, TopicRefusedError) as error:
        own = cluster.dedicated
        failed = sends_failed(index, error, own_brokers=own) if isinstance(error, SendsFailedError) else None
        if over:
            return failed or unmeasured(index, str(error))
        where = f"round {index} of {scenario.name} was broken off in its fault: {error}"
        if failed:
            raise BrokersFailedError(where, perhaps_late=failed.only_late) from error
        raise TargetError(where) from error
    except BrokersFailedError as error:
        where = f"round {index} of {scenario.name}: {error}"
        raise BrokersFailedError(where, perhaps_late=error.perhaps_late) from error
    except TargetError as error:
        raise TargetError(f"round {index} of {scenario.name}: {error}") from error
    flaws = [
        *flaws,
        *unknown,
        *fault_host_flaws(load.hosts),
        *stayed(scenario, metrics),
        *not_redelivered(scenario, written, metrics),
        *not_given(scenario, metrics),
        *never_served(scenario, written),
        *late_before(schedule_delay_s(written)),
    ]
    early = failed_before(scenario, written)
    spoilt = [*spoilt_latencies(written, metrics), *spoilt_by_clocks(load.hosts, metrics)]
    whole = [*from_doubts(flaws), *unread, *([early] if early else [])]
    return Round(
        index=index,
        window_s=load.end - load.start,
        warmup_s=0.0,
        steady=True,
        metrics=metrics,
        accounting=accounting,
        generator=None,
        latency_histogram="",
        failover=failover,
        hosts=load.hosts,
        flaws=(
            *(replace(flaw, broken=cluster.dedicated) if flaw.kind == FAILED else flaw for flaw in whole),
            *from_doubts(spoilt, whole=False),
        ),
    )


def _everything(
    engine: Engine, spec: LoadSpec, folder: Path, ends: Sequence[int], observer: Observer
) -> tuple[Rows, list[Flaw]]:
    """What a fresh consumer is given, and the flaw that it is not all."""
    try:
        return engine.read_everything(spec, folder, ends, observer), []
    except LogUnreadError as error:
        return error.rows, [of_brokers(str(error), late=True, kind=FAILED)]


def _changes(faults: Faults, topic: str) -> tuple[Sequence[LoggedChange] | None, list[Doubt]]:
    """Return the controllers' log, or the doubt of a round without it: an outage is one whatever they elected."""
    try:
        return faults.changes(topic), []
    except BrokersFailedError:
        raise
    except TargetError as error:
        text = f"the controllers' log cannot be read: {error}"
        return None, [Doubt(kind="controllers' log", whose="unknown", text=text)]


def _settled_ends(topics: TopicKeeper, spec: LoadSpec) -> Sequence[int]:
    """Return the topic's end offsets once they stand still: followers may still copy what acks=1 acknowledged."""
    partitions, deadline = spec.scenario.topic.partitions, time.monotonic() + SETTLED_WITHIN_S
    before: Sequence[int] = ()
    while (ends := topics.end_offsets(spec.topic, partitions)) != before and time.monotonic() < deadline:
        before = ends
        time.sleep(SETTLED_S)
    return ends


def _recovered(spec: LoadSpec, load: JournaledLoad, scene: Scene, journals: Path) -> bool:
    """Return whether the load is as before already, or never will be."""
    if scene.scenario.fault.about.ends_load:
        return True
    load.collect()
    sends, outcomes = _producers(spec.scenario, journals)
    back = scene.marks[-1 if scene.scenario.fault.about.leaves_unread else 0][0]
    fault, until = scene.marks[0][0], time.monotonic()
    return recovered(load.start, spec.scenario.load.rate, sends, outcomes, fault, until, since=back)


def _producers(scenario: Scenario, journals: Path) -> tuple[list[Rows], list[Rows]]:
    """Return the sends and outcomes that every producer has recorded so far."""
    numbers = range(scenario.producers * scenario.threads)
    return (
        [read_journal(sends_path(journals, number), SEND) for number in numbers],
        [read_journal(outcomes_path(journals, number), OUTCOME) for number in numbers],
    )


def _written(
    spec: LoadSpec,
    load: JournaledLoad,
    scene: Scene,
    journals: Path,
    log: Rows,
    ends: Sequence[int],
    changed: Sequence[LoggedChange] | None,
    usage: UsageWatch,
) -> Written:
    scenario = spec.scenario
    sends, outcomes = _producers(scenario, journals)
    consumers = scenario.consumers
    each = (consumers.processes + len(scenario.joining)) * consumers.threads if consumers else 0
    return Written(
        start=load.start,
        rate=scenario.load.rate,
        partitions=scenario.topic.partitions,
        sends=sends,
        outcomes=outcomes,
        receipts=[read_journal(receipts_path(journals, number), RECEIPT) for number in range(scenario.groups * each)],
        log=log,
        end_offsets=ends,
        marks=scene.marks,
        states=scene.watch.states,
        changes=changed,
        cpu=usage.cpu,
        end=load.end,
        groups=max(1, scenario.groups),
        memory=usage.memory,
        accepts=[read_journal(accepts_path(journals, number), ACCEPT) for number in range(scenario.groups * each)],
        system=scenario.cluster.system,
    )


def measure_faults(
    setup: Setup, scenarios: Sequence[FaultScenario], run_id: str, done: Callable[[str, Measurement], None]
) -> dict[str, Measurement]:
    """Return the measurement of every scenario. A cluster that does not get well again is replaced.

    `done` is called with the name and measurement of each as soon as its last round is over.
    """
    measured: dict[str, Measurement] = {}
    for turns in _in_turns(scenarios):
        for one in _measured_in_turns(setup, turns, f"{run_id}-{len(measured) + 1}", scenarios):
            measured[one.scenario.name] = one
            done(one.scenario.name, one)
    return measured


def _in_turns(scenarios: Sequence[FaultScenario]) -> list[list[FaultScenario]]:
    """Return the scenarios in groups whose rounds are interleaved, so that none has the warmer brokers.

    What is done to brokers themselves changes those of the next round: such a scenario is measured whole.
    """
    groups: dict[object, list[FaultScenario]] = {}
    for scenario in scenarios:
        leaves_brokers_alone = scenario.fault.about.brokers_down == 0
        key = (scenario.measured_with, scenario.cluster) if leaves_brokers_alone else scenario.name
        groups.setdefault(key, []).append(scenario)
    return list(groups.values())


def _measured_in_turns(
    setup: Setup, scenarios: Sequence[FaultScenario], run_id: str, every: Sequence[FaultScenario]
) -> Iterator[Measurement]:
    """Yield each scenario's measurement once its rounds are over; every second pass is in the other order.

    `every`: all that have a fault, for the progress.
    """
    times = {scenario.name: scenario.rounds(setup.tier) for scenario in scenarios}
    series = {scenario.name: Series(Arm(scenario=scenario)) for scenario in scenarios}
    left = list(scenarios)
    cluster: Cluster | None = None
    bench: Bench | None = None
    index = 0
    while left:
        index += 1
        for scenario in left if index % 2 else left[::-1]:
            rounds, log_tail = series[scenario.name].rounds, ""
            over = False
            try:
                if cluster is None or bench is None:
                    cluster = setup.cluster(scenario.cluster)
                    bench = setup.warm_bench(cluster, left, run_id, warmup_factor=WARM_UP)
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
                left = [one for one in left if one is not scenario]
                yield measurement_of(setup.engine, series[scenario.name], log_tail=log_tail)
