"""A round with a fault, from its topic to the final read."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

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
from perfgate.measure.assembly import sends_failed, unmeasured
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
from perfgate.model import FaultScenario, Round, Scenario
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
from perfgate.model.target import Cluster, Faults, LoggedChange, TopicKeeper

AFTER_S, AFTER_MOST_S = 15.0, 60.0
"""The load goes on for this time once everything is back: ten good seconds have to be seen, and are waited for. Clients
of Pulsar may look for a broker 26 s after it is back, and of 30 s too few were good ones on a busy machine."""
LOOK_EVERY_S = 2.0
SETTLED_S, SETTLED_WITHIN_S = 1.0, 30.0


def fault_round(
    scenario: FaultScenario,
    cluster: Cluster,
    topics: TopicKeeper,
    engine: Engine,
    spec: LoadSpec,
    index: int,
    observer: Observer,
    usage: UsageWatch,
    folder: Path,
) -> Round:
    """The round; its history is kept in `folder`. Raises TargetError when the cluster did not get well again."""
    faults, journals = cluster.faults, folder / f"{scenario.name}-{index}"
    assert faults is not None, "the target could not run it"
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
            # Sources that report a window afterwards are asked for the growth of a load that only goes on, too.
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
        try:
            failover, metrics, accounting = analyse(written)
        except ValueError as error:
            broken = cluster.dedicated and brokers_served_too_little(written)
            return unmeasured(index, str(error), broken=broken, perhaps_late=True)
        if unread:  # records that were not read are not known to be lost
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
    finally:
        shutil.rmtree(journals, ignore_errors=True)
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
    """All records, read by a fresh consumer, and the flaw of a read that did not get them all."""
    try:
        return engine.read_everything(spec, folder, ends, observer), []
    except LogUnreadError as error:
        return error.rows, [of_brokers(str(error), late=True, kind=FAILED)]


def _changes(faults: Faults, topic: str) -> tuple[Sequence[LoggedChange] | None, list[Doubt]]:
    """The controllers' log, or the doubt about a round without it; outages need no log."""
    try:
        return faults.changes(topic), []
    except BrokersFailedError:
        raise
    except TargetError as error:
        text = f"the controllers' log cannot be read: {error}"
        return None, [Doubt(kind="controllers' log", whose="unknown", text=text)]


def _settled_ends(topics: TopicKeeper, spec: LoadSpec) -> Sequence[int]:
    """The topic's end offsets once they stand still: followers may still copy what acks=1 acknowledged."""
    partitions, deadline = spec.scenario.topic.partitions, time.monotonic() + SETTLED_WITHIN_S
    before: Sequence[int] = ()
    while (ends := topics.end_offsets(spec.topic, partitions)) != before and time.monotonic() < deadline:
        before = ends
        time.sleep(SETTLED_S)
    return ends


def _recovered(spec: LoadSpec, load: JournaledLoad, scene: Scene, journals: Path) -> bool:
    """Whether the load is as before already, or never will be."""
    if scene.scenario.fault.about.ends_load:
        return True
    load.collect()
    sends, outcomes = _producers(spec.scenario, journals)
    back = scene.marks[-1 if scene.scenario.fault.about.leaves_unread else 0][0]
    fault, until = scene.marks[0][0], time.monotonic()
    return recovered(load.start, spec.scenario.load.rate, sends, outcomes, fault, until, since=back)


def _producers(scenario: Scenario, journals: Path) -> tuple[list[Rows], list[Rows]]:
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
