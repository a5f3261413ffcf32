"""The history of a round with a fault as it was written down, and the fate of each record by it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfgate.load.history import Rows
from perfgate.measure.faults.integrity import ACKED, UNKNOWN, UNSENT, Log, Sends
from perfgate.measure.faults.outage import Times
from perfgate.model.faults import NOTHING_DONE, READ_AGAIN
from perfgate.model.nodes import LoggedChange, State


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What was written down. Times in s on the monotonic clock; `start`: when the first record was due.

    `sends` and `outcomes` of every producer; `receipts` of the consumers that read along; `log` of the fresh one.
    `changes`: by the controllers' log, None where it was out of reach; `cpu`: seconds of CPU that every broker had
    used at a moment, by its id, as long as it was there; `memory`: bytes that it held then. `groups` of consumers,
    whose receipts follow one another. `accepts`: what became of the acceptances of a share group, by member.
    """

    start: float
    rate: float
    partitions: int
    sends: Sequence[Rows]
    outcomes: Sequence[Rows]
    receipts: Sequence[Rows]
    log: Rows
    end_offsets: Sequence[int]
    marks: Sequence[tuple[float, str]]
    states: Sequence[State]
    changes: Sequence[LoggedChange] | None
    cpu: Sequence[tuple[float, Mapping[str, float]]]
    end: float
    groups: int = 1
    memory: Sequence[tuple[float, Mapping[str, float]]] = ()
    accepts: Sequence[Rows] = ()

    @property
    def endured(self) -> tuple[float, float] | None:
        """From when to when the load only went on; None where something was done to it."""
        begin, words = self.marks[0]
        return (begin, self.marks[-1][0]) if words == NOTHING_DONE else None

    def cores(self, begin: float, end: float) -> float | None:
        """Return the CPU seconds per second of all brokers together; see :func:`cores`."""
        return cores(self.cpu, begin, end)

    @property
    def read_again(self) -> float | None:
        """When consumers that stayed away came back; None where none did."""
        return next((at for at, words in self.marks if words == READ_AGAIN), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """Every record that was handed over, of all producers: arrays of one length."""

    due: Times
    partition: npt.NDArray[np.int64]
    acknowledged: npt.NDArray[np.bool_]
    heard: Times


def cores(cpu: Sequence[tuple[float, Mapping[str, float]]], begin: float, end: float) -> float | None:
    """Return the CPU seconds per second of all brokers together; None without two looks in that time.

    A broker counts from the last look at which its counter was read; that of one that was started again begins anew.
    """
    times = [at for at, _ in cpu if begin <= at <= end]
    if len(times) < 2:
        return None
    spent, known = 0.0, dict[str, float]()
    for at, used in cpu:
        if times[0] < at <= end:
            spent += sum(now - last if now >= (last := known.get(broker, now)) else now for broker, now in used.items())
        known.update(used)
    return spent / (times[-1] - times[0])


def sends_of(sends: Rows, outcomes: Rows) -> Sends:
    """Return what a producer knows of its records: those handed over without an outcome are UNKNOWN."""
    count = int(max((sends["first"] + sends["count"]).max(initial=0), outcomes["sequence"].max(initial=-1) + 1))
    outcome = np.full(count, UNSENT, np.int8)
    partition, offset = np.full(count, -1, np.int16), np.full(count, -1, np.int64)
    for row in sends:
        chunk = slice(int(row["first"]), int(row["first"] + row["count"]))
        outcome[chunk], partition[chunk] = UNKNOWN, row["partition"]
    heard = outcomes["sequence"]
    outcome[heard] = np.where(outcomes["error"] == 0, ACKED, UNKNOWN)
    partition[heard] = outcomes["partition"]
    offset[heard] = np.where(outcomes["error"] == 0, outcomes["offset"], -1)
    return Sends(outcome=outcome, partition=partition, offset=offset)


def logs_of(log: Rows, partitions: int) -> dict[int, Log]:
    """Return what the final read found, by partition."""
    return {
        number: Log(
            offset=log["offset"][here],
            producer=log["producer"][here],
            sequence=log["sequence"][here],
        )
        for number in range(partitions)
        for here in [np.flatnonzero(log["partition"] == number)]
    }


def records_of(start: float, rate: float, producers: Sequence[Sends], heard_of: Sequence[Rows]) -> Record:
    """Return every record that was handed over; record i of producer p of n was due at start + (i n + p) / rate."""
    due, partition, acknowledged, heard = [], [], [], []
    for number, (sends, outcomes) in enumerate(zip(producers, heard_of, strict=True)):
        known = np.flatnonzero(sends.outcome != UNSENT)
        due.append(start + (known * len(producers) + number) / rate)
        partition.append(sends.partition[known].astype(np.int64))
        acknowledged.append(sends.outcome[known] == ACKED)
        times = np.full(len(sends.outcome), np.inf)
        times[outcomes["sequence"]] = outcomes["at"]
        heard.append(times[known])
    return Record(
        due=np.concatenate(due),
        partition=np.concatenate(partition),
        acknowledged=np.concatenate(acknowledged),
        heard=np.concatenate(heard),
    )


def positions(rows: Rows) -> npt.NDArray[np.int64]:
    """Return one number for the partition and offset of each row."""
    found: npt.NDArray[np.int64] = rows["partition"].astype(np.int64) << 48 | rows["offset"]
    return found


def by_partition(times: Times, partition: npt.NDArray[np.int64], written: Written) -> dict[int, Times]:
    return {number: times[partition == number] for number in range(written.partitions)}
