"""The history of a round with a fault: its recording, kept in a compressed file, and the fate of each record."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from perfgate.load.history import Rows
from perfgate.measure.faults.integrity import ACKED, UNKNOWN, UNSENT, Log, Sends
from perfgate.measure.faults.outage import Times
from perfgate.model.errors import ConfigurationError
from perfgate.model.faults import BEFORE_S, JOINS, LEAVES, NOTHING_DONE, READ_AGAIN
from perfgate.model.target import LoggedChange, State

ROWS = ("sends", "outcomes", "receipts", "accepts")
PLACE = ("offset", "producer", "sequence")
"""Fields of a row of the final read: its position in the partition, and the record there."""
FACTS = ("start", "rate", "partitions", "end", "groups", "system", "end_offsets", "marks", "cpu", "memory")


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """The recording of a round. Times in s on the monotonic clock; `start`: when the first record was due.

    `sends` and `outcomes` of each producer; `receipts` of each consumer, group by group; `accepts` of each member of a
    share group; `log` of the fresh consumer. `changes`: of the controllers' log, None where out of reach; `cpu`:
    seconds used by each broker at a moment, `memory`: bytes. `system`: whose clients' codes the outcomes have.
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
    system: str = "kafka"

    @property
    def fault(self) -> float:
        return self.marks[0][0]

    @property
    def begin(self) -> float:
        """Moment from which, until the fault, the load shows what is normal."""
        return self.fault - BEFORE_S

    @property
    def endured(self) -> tuple[float, float] | None:
        """Start and end of a load to which nothing was done; None where something was."""
        begin, words = self.marks[0]
        return (begin, self.marks[-1][0]) if words == NOTHING_DONE else None

    @property
    def rebalanced(self) -> bool:
        """Whether members of the consumer group came or went, and nothing was done to brokers."""
        return self.marks[0][1].endswith((LEAVES, JOINS))

    @property
    def read_again(self) -> float | None:
        """Moment at which consumers that stayed away came back; None where none did."""
        return next((at for at, words in self.marks if words == READ_AGAIN), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """Every record that was handed over, of all producers: arrays of one length."""

    due: Times
    partition: npt.NDArray[np.int64]
    acknowledged: npt.NDArray[np.bool_]
    heard: Times

    @property
    def latency(self) -> Times:
        """Time from when each was due until its outcome was heard, in s."""
        return self.heard - self.due


def cores(cpu: Sequence[tuple[float, Mapping[str, float]]], begin: float, end: float) -> float | None:
    """CPU seconds per second of all brokers; None without two readings. One that was started again counts from 0."""
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
    """A producer's knowledge of its records: those handed over without an outcome are UNKNOWN."""
    count = int(max((sends["first"] + sends["count"]).max(initial=0), outcomes["sequence"].max(initial=-1) + 1))
    outcome = np.full(count, UNSENT, np.int8)
    partition, offset = np.full(count, -1, np.int16), np.full(count, -1, np.int64)
    sizes = sends["count"].astype(np.int64)
    handed_over = np.arange(sizes.sum()) + np.repeat(sends["first"].astype(np.int64) - (sizes.cumsum() - sizes), sizes)
    outcome[handed_over], partition[handed_over] = UNKNOWN, np.repeat(sends["partition"], sizes)
    heard = outcomes["sequence"]
    outcome[heard] = np.where(outcomes["error"] == 0, ACKED, UNKNOWN)
    partition[heard] = outcomes["partition"]
    offset[heard] = np.where(outcomes["error"] == 0, outcomes["offset"], -1)
    return Sends(outcome=outcome, partition=partition, offset=offset)


def logs_of(log: Rows, partitions: int) -> dict[int, Log]:
    """The final read's records by partition, in the order of the offsets, or where these are unknown (-1) of the read.
    What a reader received twice, as it had to connect again, is there once: a copy has another offset."""
    by_number = {number: log[log["partition"] == number] for number in range(partitions)}
    for number, rows in by_number.items():
        if (np.diff(rows["offset"]) <= 0).any() and rows["offset"].min() >= 0:
            by_number[number] = np.unique(rows[list(PLACE)])
    return {
        number: Log(offset=rows["offset"], producer=rows["producer"], sequence=rows["sequence"])
        for number, rows in by_number.items()
    }


def records_of(start: float, rate: float, producers: Sequence[Sends], heard_of: Sequence[Rows]) -> Record:
    """Every record that was handed over; record i of producer p of n was due at start + (i n + p) / rate."""
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


def positions(*tables: Rows) -> list[npt.NDArray[np.int64]]:
    """One number for the partition and offset of each row of each table, rising with the offset within a partition. An
    offset may be any int64: of Pulsar it holds ledger and entry."""
    offsets, ranks = np.unique(np.concatenate([rows["offset"] for rows in tables]), return_inverse=True)
    places = np.concatenate([rows["partition"] for rows in tables]).astype(np.int64) * len(offsets) + ranks
    return np.split(places, np.cumsum([len(rows) for rows in tables])[:-1])


def by_partition(times: Times, partition: npt.NDArray[np.integer[Any]], written: Written) -> dict[int, Times]:
    return {number: times[partition == number] for number in range(written.partitions)}


def history_path(folder: Path, scenario: str, index: int) -> Path:
    return folder / f"{scenario}-{index}.npz"


def keep(path: Path, written: Written) -> None:
    facts = {
        **{name: getattr(written, name) for name in FACTS},
        "end_offsets": list(written.end_offsets),
        "states": [asdict(state) for state in written.states],
        "changes": None if written.changes is None else [asdict(change) for change in written.changes],
        **{name: len(getattr(written, name)) for name in ROWS},
    }
    arrays = {f"{name}-{n}": rows for name in ROWS for n, rows in enumerate(getattr(written, name))}
    np.savez_compressed(path, facts=np.array(json.dumps(facts)), log=written.log, **arrays)


def recall(path: Path) -> Written:
    """A history that was kept. Raises ConfigurationError when the file is none."""
    try:
        with path.open("rb") as file, np.load(file) as kept:
            facts = json.loads(str(kept["facts"]))
            rows = {name: [kept[f"{name}-{n}"] for n in range(facts.pop(name, 0))] for name in ROWS}
            log = kept["log"]
        pairs = {name: list(map(tuple, facts[name])) for name in ("marks", "cpu", "memory") if name in facts}
        states = [_state(state) for state in facts["states"]]
        changes = facts["changes"] and [LoggedChange(**change) for change in facts["changes"]]
        return Written(**{**facts, **pairs, **rows, "states": states, "changes": changes, "log": log})
    except (OSError, EOFError, KeyError, TypeError, ValueError, BadZipFile, zlib.error) as error:
        raise ConfigurationError(f"{path}: not the history of a round ({error})") from error


def _state(entry: dict[str, object]) -> State:
    def tuples(value: object) -> object:
        return tuple(tuples(item) for item in value) if isinstance(value, list) else value

    return State(**{name: tuples(value) for name, value in entry.items()})  # type: ignore[arg-type]  # as asdict wrote it
