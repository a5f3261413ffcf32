"""One round with a fault, from its topic to the final read."""

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
from perfgate.measure.faults.accepting import had_no_effect
from perfgate.measure.faults.analysis import AT_ONCE_S, analyse, recovered, without_integrity
from perfgate.measure.faults.failing import failed_before
from perfgate.measure.faults.late import brokers_served_too_little, schedule_delay_s, spoilt_latencies
from perfgate.measure.faults.reading import stayed
from perfgate.measure.faults.recording import history_path, keep
from perfgate.measure.faults.written import Written
from perfgate.measure.flaw import of_brokers
from perfgate.measure.host_validity import fault_host_flaws, spoilt_by_clocks
from perfgate.metrics.usage import UsageWatch
from perfgate.model import FaultScenario, Round, Scenario
from perfgate.model.doubt import Doubt
from perfgate.model.errors import BrokersFailedError, TargetError, TopicRefusedError
from perfgate.model.faults import BEFORE_S, LATE, Scene, but_outages
from perfgate.model.flaw import Flaw, from_doubts
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
from perfgate.model.nodes import Faults, LoggedChange
from perfgate.model.target import Cluster, TopicKeeper

AFTER_S, AFTER_MOST_S = 15.0, 30.0
"""So long the load goes on once everything is back: ten good seconds have to be seen, and are waited for."""
LOOK_EVERY_S = 2.0
SETTLED_S, SETTLED_WITHIN_S = 1.0, 30.0


def fault_round(
    row: FaultScenario,
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
    """Return the round. What kept it from being measured is a reason in it; its history is kept in `folder`.

    Raises TargetError when the cluster did not get well again, for the next round needs another one then.
    """
    journals = folder / f"{row.name}-{index}"
    shutil.rmtree(journals, ignore_errors=True)  # writers append
    over = True
    try:
        with (
            cluster.watch(spec.topic, row.link) as watch,
            engine.journaled(spec, journals, observer) as load,
            usage,
        ):
            load.begin()
            scene = Scene(row, faults, load, watch)
            observer.edge(begin := time.monotonic())
            load.follow_until(begin + BEFORE_S, "before the fault")
            observer.edge(begin + BEFORE_S)
            over = False
            # What time alone does is asked of its own window too, by sources that tell it afterwards.
            edge = observer.edge if row.fault.about.harmless else _nothing
            edge(time.monotonic())
            row.fault.about.act(scene)
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
        keep(history_path(folder, row.name, index), written)
        shutil.rmtree(journals)
        try:
            failover, metrics, accounting = analyse(written)
        except ValueError as error:
            failed = cluster.dedicated and brokers_served_too_little(written)
            return unmeasured(index, str(error), broken=failed, perhaps_late=True)
        if unread:  # what was not read is not known to be lost
            failover, metrics = without_integrity(failover, metrics)
        failover = replace(failover, session_s=faults.session_s())
    except (LoadError, TopicRefusedError) as error:
        if isinstance(error, SendsFailedError):
            failed_round = sends_failed(index, error, own_brokers=cluster.dedicated)
            if not over:
                where = f"round {index} of {row.name} was broken off in its fault: {error}"
                raise BrokersFailedError(where, perhaps_late=failed_round.only_late) from error
            return failed_round
        if not over:
            raise TargetError(f"round {index} of {row.name} was broken off in its fault: {error}") from error
        return unmeasured(index, str(error))
    except BrokersFailedError as error:
        where = f"round {index} of {row.name}: {error}"
        raise BrokersFailedError(where, perhaps_late=error.perhaps_late) from error
    except TargetError as error:
        raise TargetError(f"round {index} of {row.name}: {error}") from error
    flaws = [*flaws, *unknown, *fault_host_flaws(load.hosts)]
    flaws += (*stayed(row, metrics), *had_no_effect(row, written, metrics))
    early = failed_before(row, written)
    if (late := schedule_delay_s(written)) > AT_ONCE_S:
        # Less only widens the resolution of the outage; with so much no send can succeed "at once".
        text = f"the generator was late before the fault already: p99 of the schedule delay is {late:.3f} s"
        flaws += but_outages(LATE, "load", text, late)
    spoilt = [*spoilt_latencies(written, metrics), *spoilt_by_clocks(load.hosts, metrics)]
    found = [*from_doubts(flaws), *unread, *([early] if early else [])]
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
            *(replace(flaw, broken=cluster.dedicated) if flaw.kind == FAILED else flaw for flaw in found),
            *from_doubts(spoilt, whole=False),
        ),
    )


def _everything(
    engine: Engine, spec: LoadSpec, folder: Path, ends: Sequence[int], observer: Observer
) -> tuple[Rows, list[Flaw]]:
    """Return what a fresh consumer is given, and that it is not all; nothing where it is."""
    try:
        return engine.read_everything(spec, folder, ends, observer), []
    except LogUnreadError as error:
        return error.rows, [of_brokers(str(error), late=True, kind=FAILED)]


def _changes(faults: Faults, topic: str) -> tuple[Sequence[LoggedChange] | None, list[Doubt]]:
    """Return what the controllers' log says, and why it says nothing: an outage is one whatever they elected."""
    try:
        return faults.changes(topic), []
    except BrokersFailedError:
        raise
    except TargetError as error:
        text = f"the controllers' log cannot be read: {error}"
        return None, [Doubt(kind="controllers' log", whose="unknown", text=text)]


def _nothing(_at: float) -> None:
    """Mark no window."""


def _settled_ends(topics: TopicKeeper, spec: LoadSpec) -> Sequence[int]:
    """Return the topic's end offsets once they no longer move: followers may still copy what acks=1 acknowledged."""
    partitions, deadline = spec.scenario.topic.partitions, time.monotonic() + SETTLED_WITHIN_S
    before: Sequence[int] = ()
    while (ends := topics.end_offsets(spec.topic, partitions)) != before and time.monotonic() < deadline:
        before = ends
        time.sleep(SETTLED_S)
    return ends


def _recovered(spec: LoadSpec, load: JournaledLoad, scene: Scene, journals: Path) -> bool:
    """Return whether the load is as before already, or never will be."""
    if scene.row.fault.about.ends_load:
        return True
    load.collect()
    sends, outcomes = _producers(spec.scenario, journals)
    back = scene.marks[-1 if scene.row.fault.about.leaves_unread else 0][0]
    fault, until = scene.marks[0][0], time.monotonic()
    return recovered(load.start, spec.scenario.load.rate, sends, outcomes, fault, until, since=back)


def _producers(row: Scenario, journals: Path) -> tuple[list[Rows], list[Rows]]:
    """Return what every producer has written down so far: sends and outcomes."""
    numbers = range(row.producers * row.threads)
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
    row = spec.scenario
    sends, outcomes = _producers(row, journals)
    each = row.consumers.processes * row.consumers.threads if row.consumers else 0
    return Written(
        start=load.start,
        rate=row.load.rate,
        partitions=row.topic.partitions,
        sends=sends,
        outcomes=outcomes,
        receipts=[read_journal(receipts_path(journals, number), RECEIPT) for number in range(row.groups * each)],
        log=log,
        end_offsets=ends,
        marks=scene.marks,
        states=scene.watch.states,
        changes=changed,
        cpu=usage.cpu,
        end=load.end,
        groups=max(1, row.groups),
        memory=usage.memory,
        accepts=[read_journal(accepts_path(journals, number), ACCEPT) for number in range(row.groups * each)],
    )
