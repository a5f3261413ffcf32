"""Rounds with a fault: all those of a scenario, each from its topic to the final read."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
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
from perfgate.measure.assembly import measured_by, sends_failed, unmeasured
from perfgate.measure.faults.analysis import analyse, recovered, without_integrity
from perfgate.measure.faults.flaws import (
    brokers_served_too_little,
    failed_before,
    late_before,
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
from perfgate.model.doubt import Doubt
from perfgate.model.errors import BrokersFailedError, TargetError, TopicRefusedError
from perfgate.model.faults import BEFORE_S, Scene
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

if TYPE_CHECKING:  # its bench makes these rounds
    from perfgate.measure.setup import Setup

AFTER_S, AFTER_MOST_S = 15.0, 30.0
"""The load goes on for this time once everything is back: ten good seconds have to be seen, and are waited for."""
LOOK_EVERY_S = 2.0
SETTLED_S, SETTLED_WITHIN_S = 1.0, 30.0
WARM_UP = 0.5
"""Of the tier's warm-up: what a fault costs does not depend on the last percent of what the brokers can do."""


def measure_faults(
    setup: Setup, rows: Sequence[FaultScenario], run_id: str, done: Callable[[str, Measurement], None]
) -> dict[str, Measurement]:
    """Return the measurement of every scenario. A cluster that does not get well again is replaced.

    `done` is called with the name and measurement of each before the next one begins.
    """
    measured: dict[str, Measurement] = {}
    for number, row in enumerate(rows, start=1):
        rounds: list[Round] = []
        rtt: dict[str, float] = {}
        log_tail = ""
        times = row.rounds(setup.tier)
        cluster: Cluster | None = None
        try:
            cluster = setup.cluster(row.cluster)
            facts = setup.begun(cluster, [row])
            bench = setup.bench(cluster, f"{run_id}-{number}", WARM_UP)
            bench.warm_up([row])
            facts["warm_up"] = bench.warm_up_facts
            rtt = bench.round_trips([row])
            for index in range(1, times + 1):
                doing = f"scenario {number}/{len(rows)}, fault {index}/{times}"
                rounds.append(bench.fault_round(row, index, doing))
            log_tail = cluster.log_tail()
        except TargetError as error:
            failed = isinstance(error, BrokersFailedError) and setup.target.dedicated
            late = isinstance(error, BrokersFailedError) and error.perhaps_late
            reason = f"target unhealthy: {error}"
            # A command of [faults] that fails is no sick target: what it stops is this scenario alone.
            stopped = cluster is not None and bool(cluster.meter.stopped) and not cluster.meter.by_limit
            rounds.append(unmeasured(len(rounds) + 1, reason, broken=failed, perhaps_late=late, unhealthy=stopped))
            setup.target.close()
        except Exception:  # whatever it is, no broker stays away while the next test goes on
            setup.target.close()
            raise
        measured |= measured_by(setup.engine, [row], {row.name: rounds}, {}, rtt, log_tail)
        done(row.name, measured[row.name])
    return measured


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
    flaws = [
        *flaws,
        *unknown,
        *fault_host_flaws(load.hosts),
        *stayed(row, metrics),
        *not_redelivered(row, written, metrics),
        *late_before(schedule_delay_s(written)),
    ]
    early = failed_before(row, written)
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
