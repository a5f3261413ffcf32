"""One round with a fault, from its topic to the final read."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from perfgate.experiment.assembly import sends_failed, unmeasured
from perfgate.experiment.faults.accepting import had_no_effect
from perfgate.experiment.faults.analysis import (
    AT_ONCE_S,
    analyse,
    recovered,
    schedule_delay_s,
    spoilt_latencies,
)
from perfgate.experiment.faults.failing import failed_before
from perfgate.experiment.faults.reading import stayed
from perfgate.experiment.faults.recording import history_path, keep
from perfgate.experiment.faults.scripts import SCRIPTS, Scene
from perfgate.experiment.faults.written import BEFORE_S, Written
from perfgate.experiment.host_validity import fault_host_flaws, spoilt_by_clocks
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
from perfgate.metrics.usage import UsageWatch
from perfgate.model import FaultScenario, Round, Scenario
from perfgate.model.errors import BrokersFailedError, TargetError, TopicRefusedError
from perfgate.model.load import Engine, JournaledLoad, LoadError, LoadSpec, Observer, SendsFailedError
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
            edge = observer.edge if row.fault.kind == "time" else _nothing
            edge(time.monotonic())
            SCRIPTS[row.fault.kind](scene)
            edge(time.monotonic())
            over = True
            back = time.monotonic()
            load.follow_until(back + AFTER_S, "after the fault")
            while time.monotonic() < back + AFTER_MOST_S and not _recovered(spec, load, scene, journals):
                load.follow_until(time.monotonic() + LOOK_EVERY_S, "until rate and p99 are as before")
            flaws = load.finish()
        cluster.check()
        ends = _settled_ends(topics, spec)
        log = engine.read_everything(spec, journals / "log", ends, observer)
        written = _written(spec, load, scene, journals, log, ends, faults.changes(spec.topic), usage)
        keep(history_path(folder, row.name, index), written)
        shutil.rmtree(journals)
        failover, metrics, accounting = analyse(written)
        failover = replace(failover, session_s=faults.session_s())
        flaws += fault_host_flaws(load.hosts)
        flaws += filter(None, (stayed(row, metrics), had_no_effect(row, metrics)))
        failed = failed_before(row, written)
        flaws += [failed.reason] if failed else []
        if (late := schedule_delay_s(written)) > AT_ONCE_S:
            # Less only widens the resolution of the outage; with so much no send can succeed "at once".
            flaws.append(f"the generator was late before the fault already: p99 of the schedule delay is {late:.3f} s")
    except (LoadError, TopicRefusedError, ValueError) as error:
        if not over:
            raise TargetError(f"round {index} of {row.name} was broken off in its fault: {error}") from error
        if isinstance(error, SendsFailedError):
            return sends_failed(index, error, own_brokers=cluster.dedicated)
        return unmeasured(index, str(error))
    except BrokersFailedError as error:
        where = f"round {index} of {row.name}: {error}"
        raise BrokersFailedError(where, perhaps_late=error.perhaps_late) from error
    except TargetError as error:
        raise TargetError(f"round {index} of {row.name}: {error}") from error
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
        invalid=tuple(flaws),
        broken=(failed.reason,) if failed and cluster.dedicated else (),
        perhaps_late=(failed.reason,) if failed and failed.perhaps_late else (),
        invalid_metrics=spoilt_latencies(written, metrics) | spoilt_by_clocks(load.hosts, metrics),
    )


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
