"""Histories of rounds with a fault, whose answer is known, and measurements of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest

from perfgate.load.history import OUTCOME, RECEIPT, SEND
from perfgate.measure.assembly import unmeasured
from perfgate.measure.faults import fault_round
from perfgate.measure.faults.analysis import analyse
from perfgate.measure.faults.history import Written
from perfgate.model import FAULTS, Fault, FaultScenario, Measurement, Round, Scenario, settings
from perfgate.model.faults import Scene
from perfgate.model.flaw import Doubt
from perfgate.model.target import State
from tests.harness.build.generators import SPEC
from tests.harness.build.rounds import flawed, scenario


def round_that_left(
    written: Written,
    folder: Path,
    patch: pytest.MonkeyPatch,
    *,
    row: FaultScenario,
    own: bool = True,
    finish: Sequence[Doubt] = (),
    read: Exception | None = None,
    script: Callable[[Scene], None] = lambda _scene: None,
) -> Round:
    """Return what a round comes to that left this history, on stand-ins for load and brokers.

    `finish`: doubts of its load; `read`: the end of reading its topic; `script`: what its fault does.
    """
    patch.setattr(fault_round, "_written", lambda *_: written)
    patch.setattr(fault_round, "_recovered", lambda *_: True)
    does(patch, row.fault.kind, script)
    load = MagicMock(hosts=(), start=0.0, end=1.0)
    load.finish.return_value = list(finish)
    loading, usage, cluster = MagicMock(), MagicMock(), MagicMock(own=own, dedicated=own)
    loading.__enter__.return_value = load
    for entered in (loading, cluster.watch.return_value, usage):
        entered.__exit__.return_value = None

    def journaled(_spec: object, journals: Path, _observer: object) -> MagicMock:
        journals.mkdir(parents=True)
        return loading

    engine = MagicMock(journaled=journaled, read_everything=Mock(side_effect=read))
    cluster.faults, topics = Mock(session_s=lambda: None), Mock(end_offsets=lambda *_: ())
    spec = replace(SPEC, scenario=row)
    return fault_round.fault_round(row, cluster, topics, engine, spec, 1, Mock(), usage, folder)


def does(patch: pytest.MonkeyPatch, kind: str, act: Callable[[Scene], None]) -> None:
    """Have this kind of fault do this instead."""
    patch.setattr(f"perfgate.faults.{kind.replace('-', '_')}.FAULT", replace(FAULTS[kind], act=act))


RATE, PARTITIONS, START, FAULT, END = 200.0, 2, 100.0, 120.0, 160.0
OUTAGE = 8.0
LATENCY = 0.004
SAFE = settings({"acks": "all", "enable.idempotence": "true"})


def state(at: float, leader: int, in_sync: tuple[int, ...], brokers: tuple[int, ...]) -> State:
    both = (in_sync, (1, 2, 3))
    return State(at, (leader, 2), both, ((1, 2, 3), (2, 3, 1)), brokers)


def history(*, lose: int = 0, again: int = 0, down: bool = True) -> Written:
    """Two partitions at 100 records/s each; the first takes none from the fault on for 8 s, then all that waited."""
    count = int((END - START) * RATE)
    sequence = np.arange(count)
    due, partition = START + sequence / RATE, sequence % PARTITIONS
    waiting = down & (partition == 0) & (due + LATENCY >= FAULT) & (due < FAULT + OUTAGE)
    at = np.where(waiting, FAULT + OUTAGE + LATENCY, due + LATENCY)
    offset = sequence // PARTITIONS
    sends, outcomes = np.zeros(count, SEND), np.zeros(count, OUTCOME)
    sends["at"], sends["first"], sends["count"], sends["partition"] = due, sequence, 1, partition
    for name, values in (("at", at), ("sequence", sequence), ("partition", partition), ("offset", offset)):
        outcomes[name] = values
    receipts, log = np.zeros(count, RECEIPT), np.zeros(count, RECEIPT)
    for rows in (receipts, log):
        for name, values in (("at", at + 0.001), ("sequence", sequence), ("partition", partition), ("offset", offset)):
            rows[name] = values
    extra = log[len(log) - again * PARTITIONS :: PARTITIONS].copy()
    extra["offset"] += 10_000
    log = np.concatenate((log[: count - lose], extra))
    return Written(
        start=START,
        rate=RATE,
        partitions=PARTITIONS,
        sends=[sends],
        outcomes=[outcomes],
        receipts=[receipts],
        log=log,
        end_offsets=[count // 2, count // 2],
        marks=[(FAULT, "kill broker 1"), (FAULT + 15, "start node 1")],
        states=[
            state(START, 1, (1, 2, 3), (1, 2, 3)),
            state(FAULT + 7.9, 3, (2, 3), (2, 3)),
            state(FAULT + 20, 3, (1, 2, 3), (1, 2, 3)),
            state(FAULT + 24, 1, (1, 2, 3), (1, 2, 3)),
        ],
        changes=None,
        cpu=[
            (second, {"1": 0.5 * (second - START), "2": 0.5 * (second - START)})
            for second in np.arange(START, END, 0.5).tolist()
        ],
        end=END,
    )


def faulty(producer: Mapping[str, str] = MappingProxyType({}), kind: str = "kill-leader") -> FaultScenario:
    row = replace(scenario("kill-leader"), producer=settings({**dict(SAFE), **producer}))
    return FaultScenario.of(row, Fault(kind=kind))


def one_fault(written: Written, index: int = 1) -> Round:
    failover, metrics, accounting = analyse(written)
    return flawed(unmeasured(index, ""), invalid=(), metrics=metrics, accounting=accounting, failover=failover)


def measured(row: Scenario, *histories: Written) -> Measurement:
    rounds = tuple(one_fault(written, index) for index, written in enumerate(histories, start=1))
    return Measurement(scenario=row, rounds=rounds, rtt_ms={})
